//! Rings under loom, in memory that loom watches.
//!
//! Loom does not see where [`Mapped`](super::mapped::Mapped) puts words and data, nor data that is written plainly over states:
//! [`Watched::write_behind`] stores the worst there instead. It does not see either that one line need always be free: where
//! all are in use the target finds the first of them taken, and goes no further. A second thread that publishes, settles or
//! serves is kept out by a lock, in [`Outbox`] and in [`Windows`](crate::window::registry::Windows).
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-rma --lib loom_tests`.

use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use mpi_types::error::{Class, Error, Result};

use super::mapped::{DATA, LINE};
use super::published::{Entry, Published, Side};
use super::*;
use crate::copied::outbox::Outbox;

/// Lines of a ring: as many as the shortest have.
const LINES: u32 = 4;
/// Of so much data an entry has one line, and of so much two.
const SHORT: u16 = 1;
const LONG: u16 = (LINE - DATA + 1) as u16;
/// The number of the first line; the numbers wrap around on the way, where the ring does not.
const FIRST: u32 = u32::MAX - 1;
/// What the target adds to what it has found.
const SERVED: u8 = 100;

/// All of a line but its first word.
#[derive(Clone, Copy)]
struct Rest {
    lines: u32,
    wish: Wish,
    data: u8,
}

/// What is in a line that no entry begins in: it is no entry that anybody has asked for.
const NO_HEAD: Rest = Rest {
    lines: 1,
    wish: Wish {
        at: u64::MAX,
        count: 0,
        len: 0,
        kind: kind::PUT,
        op: 0,
        element: 0,
        refused: false,
    },
    data: 0,
};

struct Line {
    state: AtomicU32,
    rest: UnsafeCell<Rest>,
}

/// A ring's memory, and that of its target.
struct Watched {
    count: AtomicU32,
    lines: [Line; LINES as usize],
    /// What has been carried out, in this order.
    done: UnsafeCell<Vec<u64>>,
}

// SAFETY: cells are reached as the states and the count allow, which loom checks.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new(first: u32) -> Watched {
        let line = || Line {
            state: AtomicU32::new(EMPTY),
            rest: UnsafeCell::new(NO_HEAD),
        };
        Watched {
            count: AtomicU32::new(first),
            lines: [line(), line(), line(), line()],
            done: UnsafeCell::default(),
        }
    }

    fn line(&self, number: u32) -> &Line {
        &self.lines[(number & (LINES - 1)) as usize]
    }

    /// Writes to lines behind the first of an entry, over their states too: as bad as data can be.
    fn write_behind(&self, number: u32, lines: u32) {
        for line in (1..lines).map(|line| self.line(number.wrapping_add(line))) {
            // SAFETY: who writes an entry has its lines.
            line.rest.with_mut(|rest| unsafe { *rest = NO_HEAD });
            line.state.store(PUBLISHED, Ordering::Relaxed);
        }
    }

    /// Carries an entry out in the target's memory.
    fn carry_out(&self, value: u64) {
        // SAFETY: what is carried out by one side comes before what is by the other, as loom checks.
        self.done.with_mut(|done| unsafe { (*done).push(value) });
    }

    fn done(&self) -> Vec<u64> {
        // SAFETY: all is settled.
        self.done.with(|done| unsafe { (*done).clone() })
    }
}

impl Memory for &Watched {
    fn lines(self) -> u32 {
        LINES
    }

    fn count(&self) -> &AtomicU32 {
        &self.count
    }

    fn state(&self, number: u32) -> &AtomicU32 {
        &self.line(number).state
    }

    unsafe fn write(self, number: u32, lines: u32, wish: Wish, input: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        let data = if len > 0 { unsafe { *input } } else { 0 };
        let new = Rest { lines, wish, data };
        // SAFETY: as above.
        self.line(number)
            .rest
            .with_mut(|rest| unsafe { *rest = new });
        self.write_behind(number, lines);
    }

    unsafe fn lines_of(self, number: u32) -> u32 {
        // SAFETY: the caller's promise.
        self.line(number).rest.with(|rest| unsafe { (*rest).lines })
    }

    unsafe fn wish(self, number: u32) -> Wish {
        // SAFETY: the caller's promise.
        self.line(number).rest.with(|rest| unsafe { (*rest).wish })
    }

    unsafe fn refuse(self, number: u32) {
        // SAFETY: the caller's promise.
        self.line(number)
            .rest
            .with_mut(|rest| unsafe { (*rest).wish.refused = true });
    }

    /// Counts as a write to all of the entry at this moment; the data is used at once.
    fn data(self, number: u32) -> *mut u8 {
        // SAFETY: who asks for the data has the entry.
        let lines = unsafe { self.lines_of(number) };
        self.write_behind(number, lines);
        // SAFETY: as above.
        let first = &self.line(number).rest;
        first.with_mut(|rest| unsafe { &raw mut (*rest).data })
    }
}

/// The data of an entry that is to be what is written to the place of its number.
fn data<'a>(ring: Ring<&'a Watched>, number: u32) -> &'a mut u8 {
    // SAFETY: the caller has the entry, and keeps the data for no longer than it looks at it.
    unsafe { &mut *ring.data(number) }
}

/// The target carries out what there is, but what is to go to the place `refused`.
fn serve(watched: &Watched, next: &mut u32, refused: u64) {
    let ring = Ring(watched);
    ring.serve(next, |number| {
        let wish = ring.wish(number);
        if wish.kind == kind::FILLER {
            return true;
        }
        let data = data(ring, number);
        assert_eq!(u64::from(*data), wish.at, "the data is not the wish's");
        if wish.at == refused {
            return false;
        }
        *data += SERVED;
        watched.carry_out(wish.at);
        true
    });
}

/// The origin takes in an entry that has been served or taken back.
fn settle(watched: &Watched, entry: Entry, side: Side) {
    let ring = Ring(watched);
    let wish = ring.wish(entry.number);
    if wish.kind == kind::FILLER {
        return;
    }
    let found = u64::from(*data(ring, entry.number));
    if side == Side::Target && !wish.refused {
        assert_eq!(
            found,
            wish.at + u64::from(SERVED),
            "not the target's answer"
        );
    } else {
        assert_eq!(found, wish.at, "the data is not the wish's");
        watched.carry_out(wish.at);
    }
}

fn wait(_tries: u32) -> Result<()> {
    thread::yield_now();
    Ok(())
}

fn settle_all(watched: &Watched, published: &mut Published) {
    let settle = |entry, side| settle(watched, entry, side);
    published.end_all(Ring(watched), settle, wait).unwrap();
}

/// Publishes an entry, if there is room.
fn push(watched: &Watched, published: &mut Published, (at, len): (u64, u16)) -> bool {
    let wish = Wish {
        at,
        len,
        kind: kind::PUT,
        ..Wish::default()
    };
    let input = (&raw const at as *const u8, 1);
    // SAFETY: the ring is the same for all; the input is a variable's first byte.
    unsafe { published.push(Ring(watched), wish, input, ptr::null_mut()) }
}

/// Runs both, the first one on and on at first, if the scheduler lets it: what loom tries of what one sees of the other
/// depends on which that is.
fn run_both<A: 'static, B: 'static>(
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    let second = thread::spawn(second);
    (first(), second.join().unwrap())
}

/// An origin publishes and takes back what the target does not take: each entry is carried out once, in order, as it was
/// published, and by a side that lets the other see it. In the end the target looks where the origin goes on.
#[test]
fn entries_taken_back_are_carried_out_once_and_in_order() {
    for (first, second) in [([SHORT, SHORT], LONG), ([LONG, SHORT], SHORT)] {
        for target_is_first in [false, true] {
            loom::model(move || {
                let watched = Arc::new(Watched::new(FIRST));
                let (ours, theirs) = (watched.clone(), watched.clone());
                let origin = move || {
                    let mut published = Published::at(FIRST);
                    assert!(push(&ours, &mut published, (1, first[0])));
                    assert!(push(&ours, &mut published, (2, first[1])));
                    settle_all(&ours, &mut published);
                    assert_eq!(ours.done(), [1, 2]);
                    assert!(push(&ours, &mut published, (3, second)));
                    settle_all(&ours, &mut published);
                    assert_eq!(ours.done(), [1, 2, 3]);
                    published
                };
                let target = move || {
                    let mut next = FIRST;
                    for _ in 0..3 {
                        serve(&theirs, &mut next, 0);
                        thread::yield_now();
                    }
                    next
                };
                let (mut published, mut next) = if target_is_first {
                    let (next, published) = run_both(target, origin);
                    (published, next)
                } else {
                    run_both(origin, target)
                };
                assert!(push(&watched, &mut published, (4, SHORT)));
                serve(&watched, &mut next, 0);
                let take_in = |entry| settle(&watched, entry, Side::Target);
                assert!(published.end_served(Ring(&*watched), take_in));
                assert_eq!(watched.done(), [1, 2, 3, 4]);
            });
        }
    }
}

/// An origin that takes nothing back fills the ring, around its end: lines are written again when they have been served.
#[test]
fn lines_are_written_again_when_they_are_served() {
    const ENTRIES: [(u64, u16); 4] = [(1, SHORT), (2, LONG), (3, SHORT), (4, LONG)];
    loom::model(|| {
        let watched = Arc::new(Watched::new(FIRST));
        let theirs = watched.clone();
        let target = thread::spawn(move || {
            let mut next = FIRST;
            // Two fillers are counted, too: both long entries would go around the end.
            while next.wrapping_sub(FIRST) < 8 {
                serve(&theirs, &mut next, 0);
                thread::yield_now();
            }
        });
        let mut published = Published::at(FIRST);
        let take_in = |entry| settle(&watched, entry, Side::Target);
        for entry in ENTRIES {
            while !push(&watched, &mut published, entry) {
                thread::yield_now();
                published.end_served(Ring(&*watched), take_in);
            }
        }
        while !published.end_served(Ring(&*watched), take_in) {
            thread::yield_now();
        }
        assert_eq!(watched.done(), [1, 2, 3, 4]);
        target.join().unwrap();
    });
}

/// What the target refuses the origin carries out.
#[test]
fn what_is_refused_is_carried_out_by_the_origin() {
    loom::model(|| {
        let watched = Arc::new(Watched::new(FIRST));
        let theirs = watched.clone();
        let target = thread::spawn(move || serve(&theirs, &mut { FIRST }, 2));
        let mut published = Published::at(FIRST);
        assert!(push(&watched, &mut published, (1, SHORT)));
        assert!(push(&watched, &mut published, (2, SHORT)));
        settle_all(&watched, &mut published);
        assert_eq!(watched.done(), [1, 2]);
        target.join().unwrap();
    });
}

/// Two threads of an origin settle what was left to two targets, which don't come: who finds that there is nothing (more)
/// to do finds it done.
#[test]
fn who_finds_it_settled_sees_what_came_of_it() {
    for targets in [[Some(0), Some(0)], [None, Some(0)], [None, None]] {
        loom::model(move || {
            let shared = Arc::new((Outbox::new(2), [Watched::new(0), Watched::new(0)]));
            for target in 0..2 {
                let leave = |published: &mut Published| {
                    assert!(push(&shared.1[target as usize], published, (1, SHORT)));
                    Ok(())
                };
                shared.0.leave(target, leave).unwrap();
            }
            let settle = |shared: &(Outbox, [Watched; 2]), which: Option<u32>| {
                let (outbox, watched) = shared;
                let settle = |target: u32, published: &mut Published| {
                    settle_all(&watched[target as usize], published);
                    Ok(())
                };
                if !outbox.is_empty() {
                    outbox.settle(which, settle).unwrap();
                }
                for target in which.map_or(0..2, |target| target..target + 1) {
                    assert_eq!(watched[target as usize].done(), [1]);
                }
            };
            let theirs = shared.clone();
            let thread = thread::spawn(move || settle(&theirs, targets[1]));
            settle(&shared, targets[0]);
            thread.join().unwrap();
        });
    }
}

/// What a target had taken when it died is never settled, and nobody takes it for settled.
#[test]
fn what_a_dead_target_had_taken_stays_left() {
    loom::model(|| {
        let (outbox, watched) = (Outbox::new(1), Watched::new(0));
        let leave = |published: &mut Published| {
            assert!(push(&watched, published, (1, SHORT)));
            Ok(())
        };
        outbox.leave(0, leave).unwrap();
        assert_eq!(Ring(&watched).take(0), Some(1));
        for _ in 0..2 {
            let settled = outbox.settle(None, |_, published| {
                let died = |_| Err(Error::new(Class::Other, "the target has died"));
                published.end_all(Ring(&watched), |_, _| panic!("not served"), died)
            });
            assert!(settled.is_err() && outbox.has_left(0));
        }
    });
}
