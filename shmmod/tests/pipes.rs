//! Long messages through pipelines, between two lanes of one process: from 0 to 1.

mod book;

use std::time::{Duration, Instant};

use netmod::{Lane, Pipe, PipeReader, PipeRequest, PullProgress, PushProgress, Source};
use shmmod::SingleCopy;

use book::lanes as pair;

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

const UNIT: usize = 16 << 10;
const ROOM: usize = 2 << 20;

fn open(lane: &mut dyn Lane, len: usize, request: PipeRequest, whole: bool) -> Option<Pipe> {
    let pipes = lane.node().unwrap().pipes().unwrap();
    if !whole {
        return pipes.open(1, 0, len, request);
    }
    let begun = pipes.begin(1, 0, len, request, Source::Bytes(&[]), false);
    let (pipe, is_written) = begun.ok()?;
    assert!(!is_written);
    Some(pipe)
}

fn push(lane: &mut dyn Lane, pipe: Pipe, data: &[u8], moved: &mut usize) -> PushProgress {
    let pipes = lane.node().unwrap().pipes().unwrap();
    pipes.push(pipe, moved, Source::Bytes(data)).unwrap()
}

fn reading(pipe: Pipe, len: usize, replaceable: bool) -> PipeReader {
    PipeReader::new(0, 0, pipe, (len, len), replaceable)
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
        let (pipe, is_written) = pipes
            .begin(1, 0, len, PipeRequest::IfFaster, source, true)
            .unwrap();
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
            let mut reading = reading(pipe, sent.len(), false);
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
            let pipe = open(&mut *sender, len, PipeRequest::IfFaster, whole).unwrap();
            let (sent, mut got) = (data(len), vec![0; len]);
            let mut moved = 0;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while push(&mut *sender, pipe, &sent, &mut moved) != PushProgress::Whole {
                        assert!(!whole);
                        std::thread::yield_now();
                    }
                });
                let mut reading = reading(pipe, len, false);
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
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Measured);
    let len = 100_000;
    let (sent, mut got) = (data(len), vec![0; len]);
    let pipe = open(&mut *sender, len, PipeRequest::Required, true).unwrap();
    let mut parts = |at: usize, out: &mut [u8]| out.copy_from_slice(&sent[at..at + out.len()]);
    let pipes = sender.node().unwrap().pipes().unwrap();
    let pushed = pipes.push(pipe, &mut 0, Source::Parts(&mut parts));
    assert_eq!(pushed, Ok(PushProgress::Whole));
    let mut reading = reading(pipe, len, false);
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
        let pipe = open(&mut *sender, len, PipeRequest::IfFaster, true).unwrap();
        assert_eq!(
            push(&mut *sender, pipe, &data(len), &mut 0),
            PushProgress::Whole
        );
        waiting.push((pipe, len));
    }
    assert!(!is_taken(&mut *sender));
    assert_eq!(
        open(&mut *sender, 2 * UNIT, PipeRequest::IfFaster, true),
        None
    );
    let len = 3 << 20;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = open(&mut *sender, len, PipeRequest::Required, false).unwrap();
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(true)
    );
    assert_eq!(moved, UNIT);
    // The message keeps that unit, whatever others do. Without one it could wait forever, as it
    // cannot be read by CMA.
    assert_eq!(open(&mut *sender, 9000, PipeRequest::IfFaster, false), None);
    assert_eq!(open(&mut *sender, 9000, PipeRequest::Required, false), None);
    let mut through = reading(pipe, len, false);
    while pull(&mut *receiver, &mut through, &mut got) != PullProgress::Whole {
        let _ = push(&mut *sender, pipe, &sent, &mut moved);
        assert_eq!(open(&mut *sender, 9000, PipeRequest::Required, false), None);
    }
    assert!(got == sent);
    // The earlier messages are still intact.
    for (pipe, len) in waiting {
        let mut whole = reading(pipe, len, false);
        assert_eq!(
            pull(&mut *receiver, &mut whole, &mut got[..len]),
            PullProgress::Whole
        );
        assert!(got[..len] == data(len));
    }
    assert!(is_taken(&mut *sender));
    assert!(open(&mut *sender, 1 << 20, PipeRequest::IfFaster, true).is_some());
}

#[test]
fn a_full_pipe_recovers() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let len = 3 << 20;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = open(&mut *sender, len, PipeRequest::IfFaster, false).unwrap();
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(true)
    );
    assert_eq!(moved, ROOM / 2);
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        PushProgress::Part(false)
    );
    let mut reading = reading(pipe, len, false);
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

fn until_stalled(receiver: &mut dyn Lane, reading: &mut PipeReader, got: &mut [u8]) -> usize {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if let PullProgress::Stalled(done) = pull(receiver, reading, got) {
            return done;
        }
    }
    panic!("the sender is waited for");
}

#[test]
fn a_busy_sender_is_not_waited_for() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    for begins in [false, true] {
        let len = 3 << 20;
        let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
        let pipe = open(&mut *sender, len, PipeRequest::IfFaster, false).unwrap();
        if begins {
            let pushed = push(&mut *sender, pipe, &sent, &mut moved);
            assert_eq!(pushed, PushProgress::Part(true));
        }
        let mut reading = reading(pipe, len, true);
        let done = until_stalled(&mut *receiver, &mut reading, &mut got);
        assert_eq!((done, moved), (if begins { ROOM / 2 } else { 0 }, done));
        assert!(got[..done] == sent[..done]);
        assert_eq!(
            push(&mut *sender, pipe, &sent, &mut moved),
            PushProgress::Revoked
        );
        assert_eq!(moved, done);
        assert!(is_taken(&mut *sender));
    }
}

#[test]
fn unwanted_messages_free_their_units() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    for who in [0, 1, 2] {
        let len = 1 << 20;
        let mut pipes = Vec::new();
        while let Some(pipe) = open(&mut *sender, len, PipeRequest::IfFaster, true) {
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
                        ..reading(pipe, 100, false)
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
fn the_control_variable_overrides_the_measurement() {
    let ([mut sender, _], _transports) = pair(SingleCopy::Always);
    for request in [PipeRequest::IfFaster, PipeRequest::Required] {
        assert_eq!(open(&mut *sender, 1 << 20, request, true), None);
        assert_eq!(open(&mut *sender, 1 << 20, request, false), None);
    }
}

#[test]
fn invalid_pipe_names_are_refused() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let pipe = open(&mut *sender, 9000, PipeRequest::Required, true).unwrap();
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
        let pulled = pipes.pull(&mut reading(Pipe(name), UNIT + 1, true), &mut take);
        assert!(pulled.is_err(), "{name:#x}");
        let lengths = (UNIT + 1, UNIT + 1);
        let taken = pipes.take_written(0, 0, Pipe(name), lengths, &mut take);
        assert!(taken.is_err(), "{name:#x}");
        pipes.release(0, 0, Pipe(name));
    }
    // The name of an earlier use brings no data, and takes none from the current message.
    let old = Pipe((pipe.0 & 0xffff_ffff) | 77 << 32);
    let pipes = receiver.node().unwrap().pipes().unwrap();
    let pulled = pipes.pull(&mut reading(old, 9000, false), &mut take);
    assert_eq!(pulled, Ok(PullProgress::Part(false)));
    pipes.release(0, 0, old);
    assert!(!is_taken(&mut *sender));
    let pushed = sender
        .node()
        .unwrap()
        .pipes()
        .unwrap()
        .push(old, &mut 0, Source::Bytes(&[]));
    assert_eq!(pushed, Ok(PushProgress::Revoked));
}
