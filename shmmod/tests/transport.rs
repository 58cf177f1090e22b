//! Properties of shared memory alone, between two ends in one process. Everything else is in the
//! conformance suite (`conformance.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use netmod::{
    Header, Issued, Lane, LaneError, OpenError, Payload, Peer, RemoteAccess, RemoteAddr, RemoteKey,
    Resolver, Sink, Token, Transport, VciId, WakeUp,
};
use shmmod::{Config, Shm};

const LIMIT: Duration = Duration::from_secs(100);

/// Aborts the test program if a test does not end.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new(test: &'static str) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(100));
                if seen.load(Ordering::Relaxed) {
                    return;
                }
            }
            eprintln!("{test} does not end");
            std::process::abort();
        });
        Watchdog(ended)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Addresses = HashMap<(Peer, VciId), Vec<u8>>;

/// Addresses that the test publishes.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Addresses>>);

impl Book {
    fn enter(&self, peer: Peer, vci: VciId, address: Vec<u8>) {
        self.0.lock().unwrap().insert((peer, vci), address);
    }
}

impl Resolver for Book {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

fn open(book: &Book, me: Peer, single_copy: bool) -> Shm {
    let single_copy = single_copy.into();
    Shm::open(Config { me, single_copy }, Arc::new(book.clone()))
}

/// One end: a transport with VCI 0 open and published.
fn end(book: &Book, me: Peer) -> (Shm, Box<dyn Lane>) {
    let shm = open(book, me, true);
    let lane = shm.open_lane(0).unwrap();
    book.enter(me, 0, shm.address(0));
    (shm, lane)
}

/// A sink that counts and checks messages without keeping them.
#[derive(Default)]
struct Counted {
    next: HashMap<Peer, u64>,
    count: u64,
}

impl Sink for Counted {
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        let next = self.next.entry(from).or_default();
        let [number, a, b] = header.0;
        assert_eq!(
            (number, a, b),
            (*next, !number, u64::from(from)),
            "order from {from}"
        );
        assert!(payload.iter().all(|&byte| byte == number as u8));
        *next += 1;
        self.count += 1;
    }
    fn complete(&mut self, _token: Token, _result: Result<(), LaneError>) {}
    fn peer_lost(&mut self, peer: Peer, why: String) {
        panic!("process {peer} is lost: {why}");
    }
}

fn header(number: u64, from: Peer) -> Header {
    Header([number, !number, u64::from(from)])
}

fn send(lane: &mut dyn Lane, to: Peer, number: u64, from: Peer, len: usize) {
    let payload = vec![number as u8; len];
    loop {
        match lane.send(to, 0, &header(number, from), Payload::Bytes(&payload)) {
            Ok(_) => return,
            Err(LaneError::Again) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Lengths: 0, the most that fits into a cell, one more, the most of all.
const SIZES: [usize; 7] = [0, 1, 87, 88, 89, 4096, 8320];

#[test]
fn a_full_queue_refuses_and_recovers() {
    let book = Book::default();
    let (_one, mut sender) = end(&book, 0);
    let (_two, mut receiver) = end(&book, 1);
    let (mut sent, mut got) = (0, Counted::default());
    for round in 0..50 {
        let before = sent;
        loop {
            let len = SIZES[sent as usize % SIZES.len()];
            let mut filled = false;
            let mut fill = |out: &mut [u8]| {
                filled = true;
                out.fill(sent as u8);
            };
            match sender.send(1, 0, &header(sent, 0), Payload::Fill(len, &mut fill)) {
                Ok(_) => sent += 1,
                Err(LaneError::Again) => {
                    assert!(!filled, "a message that is not sent is not asked for");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(sent > before, "round {round}: the queue has recovered");
        // Sometimes more is read, sometimes less; an emptied ring accepts most of its length.
        let budget = [7, 70, 1000][round % 3];
        let emptied = budget == 1000;
        receiver.poll(&mut got, budget);
        while emptied && receiver.poll(&mut got, budget) {}
        if got.count < sent && sent - got.count > 192 {
            receiver.poll(&mut got, 64); // room is told of in quarters
        }
    }
    while receiver.poll(&mut got, 64) {}
    assert_eq!(got.count, sent);
}

#[test]
fn cma_copies_memory_or_is_refused() {
    for allowed in [true, false] {
        let book = Book::default();
        let shm = open(&book, 0, allowed);
        let mut lane = shm.open_lane(0).unwrap();
        assert_eq!(shm.limits().get, allowed);
        let (other, _lane) = end(&book, 1);
        let mut theirs: Vec<u8> = (0..100_000).map(|i| i as u8).collect();
        let mut mine = vec![0u8; 5000];
        // SAFETY: `theirs` outlives the exposure.
        let key = unsafe { other.expose(theirs.as_mut_ptr(), theirs.len()) }.unwrap();
        let remote = RemoteAddr {
            key,
            offset: 90_001,
        };
        // SAFETY: `mine` has this length.
        let get = unsafe {
            lane.access(
                1,
                0,
                RemoteAccess::get(mine.as_mut_ptr(), 5000, remote),
                Token(1),
            )
        };
        if !allowed {
            assert_eq!(get, Err(LaneError::Unsupported));
            assert_eq!(mine, vec![0; 5000]);
            continue;
        }
        assert_eq!(get, Ok(Issued::Complete));
        assert_eq!(mine, theirs[90_001..95_001]);
        mine.fill(0xee);
        // SAFETY: `mine` has this length, and `theirs` outlives the exposure.
        let put = unsafe {
            lane.access(
                1,
                0,
                RemoteAccess::put(mine.as_ptr(), 5000, remote),
                Token(2),
            )
        };
        assert_eq!(put, Ok(Issued::Complete));
        assert_eq!(lane.flush(1, Token(3)), Ok(Issued::Complete));
        assert!(theirs[90_001..95_001] == [0xee; 5000]);
        assert_eq!(
            (theirs[90_000], theirs[95_001]),
            (90_000u32 as u8, 95_001u32 as u8)
        );
        other.withdraw(&key);
        // A read of unmapped memory fails and names it.
        let nowhere = RemoteKey {
            address: 4096,
            words: [0; 2],
        };
        let remote = RemoteAddr {
            key: nowhere,
            offset: 0,
        };
        // SAFETY: `mine` has this length; the kernel checks the peer's address.
        let get = unsafe {
            lane.access(
                1,
                0,
                RemoteAccess::get(mine.as_mut_ptr(), 8, remote),
                Token(4),
            )
        };
        assert!(
            matches!(get, Err(LaneError::BadMemory(bad)) if !bad.is_local && bad.address == 0x1000)
        );
    }
}

/// Sleeps on a lane's wake-up until something has arrived. Returns whether it slept.
fn sleep(lane: &mut dyn Lane, ring_within: Duration) -> bool {
    let WakeUp::Futex(word) = lane.wake_up() else {
        panic!("no futex")
    };
    let quiet = lane.arm();
    if quiet {
        let start = Instant::now();
        let timeout = libc::timespec {
            tv_sec: ring_within.as_secs() as i64,
            tv_nsec: 0,
        };
        // SAFETY: the word lives as long as the lane; the kernel reads it and the timeout.
        while unsafe { (*word).load(Ordering::Acquire) } == 1 {
            // SAFETY: the kernel wakes sleepers of the word, which lives as long as the lane.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1u32, &timeout) };
            assert!(start.elapsed() < ring_within, "no wake-up has come");
        }
    }
    lane.disarm();
    quiet
}

/// Receives message `number`, asleep if it does not come within `spins` polls.
fn await_number(lane: &mut dyn Lane, got: &mut Counted, number: u64, spins: u32) -> bool {
    let mut slept = false;
    let mut fruitless = 0;
    while got.count <= number {
        if lane.poll(got, 64) {
            continue;
        }
        fruitless += 1;
        if fruitless > spins {
            slept |= sleep(lane, Duration::from_secs(30));
        }
    }
    slept
}

/// A million rounds, or as many as fit into the time. A thread that is about to sleep when the
/// message comes must be woken; a lost wake-up shows as one that does not come for 30 seconds.
#[test]
fn sleepers_are_woken() {
    let _watchdog = Watchdog::new("sleepers_are_woken");
    let book = Book::default();
    let (_one, mut ping) = end(&book, 0);
    let (_two, mut pong) = end(&book, 1);
    let deadline = Instant::now() + Duration::from_secs(8);
    let last = Arc::new(AtomicBool::new(false));
    let seen = last.clone();
    let other = thread::spawn(move || {
        let mut got = Counted::default();
        for number in 0.. {
            await_number(&mut *pong, &mut got, number, (number % 3) as u32);
            let ended = seen.load(Ordering::Relaxed);
            send(&mut *pong, 0, number, 1, 8);
            if ended {
                break;
            }
        }
    });
    let (mut got, mut slept) = (Counted::default(), 0u64);
    for number in 0..1_000_000 {
        let ends = number == 999_999 || number % 64 == 0 && Instant::now() > deadline;
        last.store(ends, Ordering::Relaxed);
        send(&mut *ping, 1, number, 0, 0);
        // The time between sending and sleeping varies, to hit the moment that matters.
        for _ in 0..number % 50 * 4 {
            std::hint::spin_loop();
        }
        slept += u64::from(await_number(
            &mut *ping,
            &mut got,
            number,
            (number % 7) as u32,
        ));
        if ends {
            eprintln!("{} rounds, asleep in {slept} of them", number + 1);
            break;
        }
    }
    other.join().unwrap();
    assert!(slept > 0, "nobody slept, so nothing was tried");
}

/// A sink that records lost peers.
#[derive(Default)]
struct Losses(Vec<Peer>);

impl Sink for Losses {
    fn message(&mut self, _: Peer, _: &Header, _: &[u8]) {}

    fn complete(&mut self, _: Token, _: Result<(), LaneError>) {}

    fn peer_lost(&mut self, peer: Peer, _: String) {
        self.0.push(peer);
    }
}

/// Messages of a dead process may still be unread; there is time to read them between two checks.
#[test]
fn a_process_is_lost_when_a_second_check_finds_it_dead() {
    let book = Book::default();
    let (shm, mut lane) = end(&book, 0);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let mut address = shm.address(0);
    // The process's number lies behind the memory's and the descriptor's.
    address[12..16].copy_from_slice(&child.id().to_le_bytes());
    book.enter(1, 0, address);
    child.wait().unwrap();

    let mut losses = Losses::default();
    lane.check_peers(&[1], &mut losses);
    assert!(losses.0.is_empty());
    lane.check_peers(&[1], &mut losses);
    lane.check_peers(&[1], &mut losses);
    assert_eq!(losses.0, [1]);
}

/// Starts a process that dies as peer `me` while it writes a message of `len` bytes to peer 0.
fn die_in_a_send(book: &Book, me: Peer, len: usize) {
    // SAFETY: the child uses the allocator, which the C library makes usable after a fork, and no
    // lock that another thread may hold: the book is this test's own.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (_shm, mut lane) = end(book, me);
        let mut die = |_: &mut [u8]| {
            // SAFETY: no memory is passed; the signal ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        };
        let _ = lane.send(0, 0, &header(0, me), Payload::Fill(len, &mut die));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the call writes to `status`, a local.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFSIGNALED(status), "it did not die in the send");
}

/// A message of a process that died while it wrote it holds up nobody else's.
#[test]
fn messages_arrive_behind_those_of_processes_that_died_in_a_send() {
    let _watchdog = Watchdog::new("messages_arrive_behind_those_of_processes_that_died_in_a_send");
    let book = Book::default();
    let (_shm, mut lane) = end(&book, 0);
    let (_other_shm, mut other) = end(&book, 1);
    let mut got = Counted::default();
    for (round, len) in SIZES.into_iter().enumerate() {
        let first = 2 * round as u64;
        send(&mut *other, 0, first, 1, len);
        // Two die one after the other.
        die_in_a_send(&book, 2, len);
        die_in_a_send(&book, 3, len);
        send(&mut *other, 0, first + 1, 1, len);
        while got.count < first + 2 {
            lane.poll(&mut got, 8);
            lane.check_peers(&[], &mut got);
        }
    }
    assert!(!lane.poll(&mut got, 8));
}
