//! Long messages through pipes, between two lanes of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use netmod::{
    Lane, OpenError, Opened, Peer, Pipe, Pulled, Pushed, Resolver, Transport, VciId, Wish,
};
use shmmod::{Config, Shm, SingleCopy};

#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<Peer, Vec<u8>>>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&peer).cloned();
        found.ok_or_else(|| OpenError(format!("there is no process {peer}")))
    }
}

/// The lanes of processes 0 and 1, and what they belong to.
fn pair(single_copy: SingleCopy) -> ([Box<dyn Lane>; 2], [Shm; 2]) {
    let book = Book::default();
    let open = |me| {
        let shm = Shm::open(Config { me, single_copy }, Arc::new(book.clone()));
        let lane = shm.open_lane(0).unwrap();
        book.0.lock().unwrap().insert(me, shm.address(0));
        (lane, shm)
    };
    let ((first, one), (second, other)) = (open(0), open(1));
    ([first, second], [one, other])
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn open(lane: &mut dyn Lane, len: usize, wish: Wish) -> Opened {
    lane.pipes().unwrap().open(0, 0, len, wish)
}

fn push(lane: &mut dyn Lane, pipe: Pipe, data: &[u8], moved: &mut usize) -> Pushed {
    let mut fill = |at: usize, out: &mut [u8]| out.copy_from_slice(&data[at..at + out.len()]);
    let pipes = lane.pipes().unwrap();
    pipes
        .push(1, 0, pipe, data.len(), moved, &mut fill)
        .unwrap()
}

fn pull(lane: &mut dyn Lane, pipe: Pipe, to: &mut [u8]) -> Pulled {
    let mut take = |at: usize, data: &[u8]| to[at..at + data.len()].copy_from_slice(data);
    lane.pipes().unwrap().pull(pipe, &mut take)
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    for len in [1, 8192, 8193, 100_000, 1 << 20, (1 << 20) + 1, 5_000_001] {
        let Opened::Open(pipe) = open(&mut *receiver, len, Wish::Needed) else {
            panic!("no pipe for {len} bytes");
        };
        let (sent, mut got) = (data(len), vec![0; len]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut moved = 0;
                while push(&mut *sender, pipe, &sent, &mut moved) != Pushed::Whole {
                    std::thread::yield_now();
                }
            });
            while pull(&mut *receiver, pipe, &mut got) != Pulled::Whole {
                std::thread::yield_now();
            }
        });
        assert!(got == sent, "{len} bytes");
    }
}

/// There is no room, and it will come; only who asks more than 20 µs after the pipe was opened, since this thread
/// has lost its core, may hear that nobody waits for its sender any more.
fn is_full(next: Opened, begun: Instant) {
    let patient = begun.elapsed() < Duration::from_micros(20);
    assert!(
        next == Opened::Later || (!patient && next == Opened::Other),
        "{next:?}"
    );
}

#[test]
fn a_full_pipe_says_so_and_goes_on() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let len = 3 << 20;
    let begun = Instant::now();
    let Opened::Open(pipe) = open(&mut *receiver, len, Wish::Needed) else {
        panic!("no pipe");
    };
    // All of the room is taken.
    is_full(open(&mut *receiver, 9000, Wish::Needed), begun);
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        Pushed::Part(true)
    );
    assert_eq!(moved, 2 << 20);
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        Pushed::Part(false)
    );
    assert_eq!(pull(&mut *receiver, pipe, &mut got), Pulled::Part(true));
    assert_eq!(pull(&mut *receiver, pipe, &mut got), Pulled::Part(false));
    assert_eq!(push(&mut *sender, pipe, &sent, &mut moved), Pushed::Whole);
    assert_eq!(pull(&mut *receiver, pipe, &mut got), Pulled::Whole);
    assert!(got == sent);
    let begun = Instant::now();
    assert!(matches!(
        open(&mut *receiver, 9000, Wish::Promised),
        Opened::Open(_)
    ));
    // Those before it have had their time.
    is_full(open(&mut *receiver, len, Wish::Needed), begun);
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(open(&mut *receiver, len, Wish::Promised), Opened::Other);
}

/// A pipe for a message whose sender could be read from: both ways are tried by turns.
fn trial(receiver: &mut dyn Lane, len: usize) -> Pipe {
    for _ in 0..4 {
        if let Opened::Open(pipe) = open(receiver, len, Wish::Better) {
            return pipe;
        }
    }
    panic!("no pipe is tried");
}

fn until_stalled(receiver: &mut dyn Lane, pipe: Pipe, got: &mut [u8]) -> usize {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if let Pulled::Stalled(done) = pull(receiver, pipe, got) {
            return done;
        }
    }
    panic!("the sender is waited for");
}

#[test]
fn a_sender_that_does_not_come_is_not_waited_for() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Measured);
    let len = 100_000;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = trial(&mut *receiver, len);
    assert_eq!(until_stalled(&mut *receiver, pipe, &mut got), 0);
    assert_eq!(push(&mut *sender, pipe, &sent, &mut moved), Pushed::Revoked);
    assert_eq!(moved, 0);
    // It has begun, and does not go on.
    let len = 3 << 20;
    let (sent, mut got, mut moved) = (data(len), vec![0; len], 0);
    let pipe = trial(&mut *receiver, len);
    assert_eq!(
        push(&mut *sender, pipe, &sent, &mut moved),
        Pushed::Part(true)
    );
    let done = until_stalled(&mut *receiver, pipe, &mut got);
    assert_eq!((done, moved), (2 << 20, 2 << 20));
    assert!(got[..done] == sent[..done]);
    assert_eq!(push(&mut *sender, pipe, &sent, &mut moved), Pushed::Revoked);
    // The room is free again.
    assert!(matches!(
        open(&mut *receiver, len, Wish::Promised),
        Opened::Open(_)
    ));
}

#[test]
fn the_variable_decides_where_it_is_set() {
    let ([_, mut receiver], _transports) = pair(SingleCopy::Always);
    for _ in 0..10 {
        assert_eq!(open(&mut *receiver, 1 << 20, Wish::Better), Opened::Other);
        assert_eq!(open(&mut *receiver, 1 << 20, Wish::Needed), Opened::Other);
    }
}

#[test]
fn names_of_no_pipe_are_refused() {
    let ([mut sender, mut receiver], _transports) = pair(SingleCopy::Never);
    let opened = open(&mut *receiver, 9000, Wish::Needed);
    assert!(matches!(opened, Opened::Open(_)));
    let mut fill = |_: usize, _: &mut [u8]| panic!("there is no such place");
    for name in [0, u64::MAX, 0xffff_000d] {
        let pipes = sender.pipes().unwrap();
        let pushed = pipes.push(1, 0, Pipe(name), 9000, &mut 0, &mut fill);
        assert!(pushed.is_err(), "{name:#x}");
    }
}
