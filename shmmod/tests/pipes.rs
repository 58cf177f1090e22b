//! Long messages through pipelines, between two lanes of one process: from 0 to 1.

mod book;

use netmod::{Lane, Pipe, PipeReader, PullProgress, PushProgress, Source};
use shmmod::SingleCopy;

use book::lanes as pair;

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

const UNIT: usize = 16 << 10;
const ROOM: usize = 2 << 20;

fn open(lane: &mut dyn Lane, len: usize, whole: bool) -> Option<Pipe> {
    let pipes = lane.node().unwrap().pipes().unwrap();
    if !whole {
        return pipes.open(1, 0, len, true);
    }
    let (pipe, is_written) = pipes.begin(1, 0, len, Source::Bytes(&[]), false)?;
    assert!(!is_written);
    Some(pipe)
}

fn push(lane: &mut dyn Lane, pipe: Pipe, data: &[u8], moved: &mut usize) -> PushProgress {
    let pipes = lane.node().unwrap().pipes().unwrap();
    pipes.push(pipe, moved, Source::Bytes(data)).unwrap()
}

fn reading(pipe: Pipe, len: usize) -> PipeReader {
    PipeReader::new(0, 0, pipe, (len, len))
}

fn pull(lane: &mut dyn Lane, reading: &mut PipeReader, to: &mut [u8]) -> PullProgress {
    let mut take = |at: usize, data: &[u8]| to[at..at + data.len()].copy_from_slice(data);
    let pipes = lane.node().unwrap().pipes().unwrap();
    let PipeReader {
        from, vci, pipe, ..
    } = *reading;
    let lengths = (reading.len, reading.total);
    match pipes.take_written(from, vci, pipe, lengths, &mut take) {
        Ok(true) => PullProgress::Whole,
        taken => {
            assert_eq!(taken, Ok(false));
            pipes.pull(reading, &mut take).unwrap()
        }
    }
}

fn is_taken(sender: &mut dyn Lane) -> bool {
    sender.node().unwrap().pipes().unwrap().is_drained()
}

#[test]
fn messages_without_a_waiting_receiver_are_written_at_once() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    // Wrap-arounds of the units, and scattered ones.
    let mut last: Option<(Pipe, Vec<u8>)> = None;
    for turn in 0..300 {
        let len = 1 + (turn * 7919) % (300 << 10);
        let sent = data(len + turn)[turn..].to_vec();
        let mut parts = |at: usize, out: &mut [u8]| out.copy_from_slice(&sent[at..at + out.len()]);
        let source = match turn % 3 {
            0 => Source::Parts(&mut parts),
            _ => Source::Bytes(&sent),
        };
        let pipes = sender.node().unwrap().pipes().unwrap();
        let (pipe, is_written) = pipes.begin(1, 0, len, source, true).unwrap();
        assert_eq!(is_written, len <= 256 << 10);
        if !is_written {
            let pushed = pipes.push(pipe, &mut 0, Source::Bytes(&sent));
            assert_eq!(pushed, Ok(PushProgress::Whole));
        }
        // Some messages are read after the next one.
        let mut due = vec![(pipe, sent)];
        due.extend(last.take());
        if turn % 5 == 4 {
            last = Some(due.remove(0));
        }
        for (pipe, sent) in due {
            let mut got = vec![0; sent.len()];
            let mut reading = reading(pipe, sent.len());
            let mut pulled = PullProgress::Part(true);
            while pulled == PullProgress::Part(true) {
                pulled = pull(&mut *receiver, &mut reading, &mut got);
            }
            assert_eq!(pulled, PullProgress::Whole);
            assert!(got == sent, "message {turn}");
        }
    }
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    for len in [
        1,
        8192,
        UNIT,
        UNIT + 1,
        100_000,
        1 << 20,
        (1 << 20) + 1,
        5_000_001,
    ] {
        for _ in 0..5 {
            let whole = len <= 1 << 20;
            let pipe = open(&mut *sender, len, whole).unwrap();
            let (sent, mut got) = (data(len), vec![0; len]);
            let mut moved = 0;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while push(&mut *sender, pipe, &sent, &mut moved) != PushProgress::Whole {
                        assert!(!whole);
                        std::thread::yield_now();
                    }
                });
                let mut reading = reading(pipe, len);
                while pull(&mut *receiver, &mut reading, &mut got) != PullProgress::Whole {
                    std::thread::yield_now();
                }
            });
            assert!(got == sent, "{len} bytes");
            assert!(is_taken(&mut *sender));
        }
    }
}

#[test]
fn messages_with_gaps_arrive() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let len = 100_000;
    let (sent, mut got) = (data(len), vec![0; len]);
    let pipe = open(&mut *sender, len, true).unwrap();
    let mut parts = |at: usize, out: &mut [u8]| out.copy_from_slice(&sent[at..at + out.len()]);
    let pipes = sender.node().unwrap().pipes().unwrap();
    let pushed = pipes.push(pipe, &mut 0, Source::Parts(&mut parts));
    assert_eq!(pushed, Ok(PushProgress::Whole));
    let mut reading = reading(pipe, len);
    assert_eq!(
        pull(&mut *receiver, &mut reading, &mut got),
        PullProgress::Whole
    );
    assert!(got == sent);
}

#[test]
fn a_busy_receiver_holds_up_only_its_own_messages() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let mut waiting = Vec::new();
    // All units but one are in use.
    for len in [1 << 20, (1 << 20) - UNIT] {
        let pipe = open(&mut *sender, len, true).unwrap();
        assert_eq!(
            push(&mut *sender, pipe, &data(len), &mut 0),
            PushProgress::Whole
        );
        waiting.push((pipe, len));
    }
    assert!(!is_taken(&mut *sender));
    assert_eq!(open(&mut *sender, 2 * UNIT, true), None);
    let len = 3 << 20;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = open(&mut *sender, len, false).unwrap();
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(true)
    );
    assert_eq!(moved, UNIT);
    // The message keeps that unit, whatever others do. Without one it could wait forever, as it
    // cannot be read by CMA.
    assert_eq!(open(&mut *sender, 9000, false), None);
    assert_eq!(open(&mut *sender, 9000, false), None);
    let mut through = reading(pipe, len);
    while pull(&mut *receiver, &mut through, &mut got) != PullProgress::Whole {
        let _ = push(&mut *sender, pipe, &sent, &mut moved);
        assert_eq!(open(&mut *sender, 9000, false), None);
    }
    assert!(got == sent);
    // The earlier messages are still intact.
    for (pipe, len) in waiting {
        let mut whole = reading(pipe, len);
        assert_eq!(
            pull(&mut *receiver, &mut whole, &mut got[..len]),
            PullProgress::Whole
        );
        assert!(got[..len] == data(len));
    }
    assert!(is_taken(&mut *sender));
    assert!(open(&mut *sender, 1 << 20, true).is_some());
}

#[test]
fn a_full_pipe_recovers() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let len = 3 << 20;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = open(&mut *sender, len, false).unwrap();
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(true)
    );
    assert_eq!(moved, ROOM / 2);
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(false)
    );
    let mut reading = reading(pipe, len);
    assert_eq!(
        pull(&mut *receiver, &mut reading, &mut got),
        PullProgress::Part(true)
    );
    assert_eq!(
        pull(&mut *receiver, &mut reading, &mut got),
        PullProgress::Part(false)
    );
    while push(&mut *sender, pipe, &sent, &mut moved) != PushProgress::Whole {
        assert_eq!(
            pull(&mut *receiver, &mut reading, &mut got),
            PullProgress::Part(true)
        );
    }
    assert_eq!(
        pull(&mut *receiver, &mut reading, &mut got),
        PullProgress::Whole
    );
    assert!(got == sent);
}

#[test]
fn unwanted_messages_free_their_units() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    for who in [0, 1, 2] {
        let len = 1 << 20;
        let mut pipes = Vec::new();
        while let Some(pipe) = open(&mut *sender, len, true) {
            assert_eq!(
                push(&mut *sender, pipe, &data(len), &mut 0),
                PushProgress::Whole
            );
            pipes.push(pipe);
        }
        assert_eq!((pipes.len(), is_taken(&mut *sender)), (2, false));
        for pipe in pipes {
            let mut got = vec![0; 100];
            match who {
                0 => sender.node().unwrap().pipes().unwrap().abandon(pipe),
                1 => receiver
                    .node()
                    .unwrap()
                    .pipes()
                    .unwrap()
                    .release(0, 0, pipe),
                // The receive is shorter than the message.
                _ => {
                    let mut reading = PipeReader {
                        total: len,
                        ..reading(pipe, 100)
                    };
                    assert_eq!(
                        pull(&mut *receiver, &mut reading, &mut got),
                        PullProgress::Whole
                    );
                    assert!(got == data(100));
                }
            }
        }
        assert!(is_taken(&mut *sender), "{who}");
    }
}

#[test]
fn messages_that_are_read_by_their_receivers_take_no_pipe() {
    let ([mut sender, _], _transports) = pair(SingleCopy::Always);
    for is_contiguous in [false, true] {
        let pipes = sender.node().unwrap().pipes().unwrap();
        assert!(!pipes.carries(1, 0, 1 << 20, is_contiguous));
        assert_eq!(pipes.open(1, 0, 1 << 20, is_contiguous), None);
    }
    assert_eq!(open(&mut *sender, 1 << 20, true), None);
}

#[test]
fn messages_without_space_wait_only_if_they_cannot_be_read() {
    let ([mut sender, _], _transports) = pair(SingleCopy::Auto);
    let pipes = sender.node().unwrap().pipes().unwrap();
    assert!(pipes.carries(1, 0, 9000, true) && pipes.carries(1, 0, 3 << 20, false));
    for _ in 1..ROOM / UNIT {
        assert!(pipes.open(1, 0, 9000, true).is_some());
    }
    assert_eq!(pipes.open(1, 0, 2 * UNIT, true), None);
    // Data with gaps proceeds with the last unit.
    assert!(pipes.open(1, 0, 2 * UNIT, false).is_some());
    assert_eq!(pipes.open(1, 0, 2 * UNIT, false), None);
}

#[test]
fn invalid_pipe_names_are_refused() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let pipe = open(&mut *sender, 9000, true).unwrap();
    let mut take = |_: usize, _: &[u8]| panic!("there is no such place");
    // The last name announces a whole message in the last unit.
    let row = 1 << 30 | 127 << 8;
    for name in [
        0,
        u64::MAX,
        1,
        1 << 32 | 128,
        1 << 32 | 1 << 28,
        1 << 32 | 7 << 8,
        1 << 32 | row,
    ] {
        let pipes = receiver.node().unwrap().pipes().unwrap();
        let pulled = pipes.pull(&mut reading(Pipe(name), UNIT + 1), &mut take);
        assert!(pulled.is_err(), "{name:#x}");
        let lengths = (UNIT + 1, UNIT + 1);
        let taken = pipes.take_written(0, 0, Pipe(name), lengths, &mut take);
        assert!(taken.is_err(), "{name:#x}");
        pipes.release(0, 0, Pipe(name));
    }
    // The name of an earlier use brings no data, and takes none from the current message.
    let old = Pipe((pipe.0 & 0xffff_ffff) | 77 << 32);
    let pipes = receiver.node().unwrap().pipes().unwrap();
    let pulled = pipes.pull(&mut reading(old, 9000), &mut take);
    assert_eq!(pulled, Ok(PullProgress::Part(false)));
    pipes.release(0, 0, old);
    assert!(!is_taken(&mut *sender));
    let pushed = sender
        .node()
        .unwrap()
        .pipes()
        .unwrap()
        .push(old, &mut 0, Source::Bytes(&[]));
    assert_eq!(pushed, Ok(PushProgress::Released));
}
