//! Rings under loom, in memory that loom watches.
//!
//! Not covered: the layout of [`Mapped`](super::mapped::Mapped); data written plainly over states,
//! for which [`Watched::write_behind`] stores the worst value; and that one line must always be free,
//! since a target finds the first line taken if all are in use. [`Outbox`] and
//! [`Windows`](crate::window::registry::Windows) lock out further threads that publish, settle or
//! serve.
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
/// Bytes of data of an entry with one line.
const SHORT: u16 = 1;
/// Bytes of data of an entry with two lines.
const LONG: u16 = (LINE - DATA + 1) as u16;
/// Number of the first line; numbers overflow during the tests, at a line where the ring does not
/// wrap.
const FIRST: u32 = u32::MAX - 1;
/// The target's result minus the data of the request.
const SERVED: u8 = 100;

/// All of a line but its first word.
#[derive(Clone, Copy)]
struct Rest {
    lines: u32,
    request: EntryRequest,
    data: u8,
}

/// The content of a line in which no entry begins: a request that no test makes.
const NO_HEAD: Rest = Rest {
    lines: 1,
    request: EntryRequest {
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
    /// The requests carried out, in order.
    done: UnsafeCell<Vec<u64>>,
}

// SAFETY: threads access cells only as the states and the count allow, which loom checks.
unsafe impl Sync for Watched {}
// SAFETY: threads access cells only as the states and the count allow, which loom checks.
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

    /// Overwrites the lines behind the first of an entry, states included, with the worst data.
    fn write_behind(&self, number: u32, lines: u32) {
        for line in (1..lines).map(|line| self.line(number.wrapping_add(line))) {
            // SAFETY: the lines belong to the side that writes the entry; loom checks that.
            line.rest.with_mut(|rest| unsafe { *rest = NO_HEAD });
            line.state.store(PUBLISHED, Ordering::Relaxed);
        }
    }

    /// Carries out an entry on the target's memory.
    fn carry_out(&self, value: u64) {
        // SAFETY: the two sides carry out entries one after the other; loom checks that.
        self.done.with_mut(|done| unsafe { (*done).push(value) });
    }

    fn done(&self) -> Vec<u64> {
        // SAFETY: both threads have ended.
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

    unsafe fn write(
        self,
        number: u32,
        lines: u32,
        request: EntryRequest,
        input: *const u8,
        len: usize,
    ) {
        // SAFETY: `input` is valid for `len` bytes (contract of `write`).
        let data = if len > 0 { unsafe { *input } } else { 0 };
        let new = Rest {
            lines,
            request,
            data,
        };
        // SAFETY: the lines belong to the caller (contract of `write`); loom checks that.
        self.line(number)
            .rest
            .with_mut(|rest| unsafe { *rest = new });
        self.write_behind(number, lines);
    }

    unsafe fn lines_of(self, number: u32) -> u32 {
        // SAFETY: the entry belongs to the caller (this function's contract); loom checks that.
        self.line(number).rest.with(|rest| unsafe { (*rest).lines })
    }

    unsafe fn request(self, number: u32) -> EntryRequest {
        // SAFETY: the entry belongs to the caller (this function's contract); loom checks that.
        self.line(number)
            .rest
            .with(|rest| unsafe { (*rest).request })
    }

    unsafe fn refuse(self, number: u32) {
        // SAFETY: the entry belongs to the caller (this function's contract); loom checks that.
        self.line(number)
            .rest
            .with_mut(|rest| unsafe { (*rest).request.refused = true });
    }

    /// Counts as a write to the whole entry now; callers use the data immediately.
    fn data(self, number: u32) -> *mut u8 {
        // SAFETY: the entry belongs to the caller; loom checks that.
        let lines = unsafe { self.lines_of(number) };
        self.write_behind(number, lines);
        // SAFETY: the entry belongs to the caller; loom checks that.
        let first = &self.line(number).rest;
        first.with_mut(|rest| unsafe { &raw mut (*rest).data })
    }
}

/// Returns the data of an entry whose data is its own number.
fn data<'a>(ring: Ring<&'a Watched>, number: u32) -> &'a mut u8 {
    // SAFETY: the entry belongs to the caller, which uses the data only immediately.
    unsafe { &mut *ring.data(number) }
}

/// Runs the target: carries out all entries but the one for `refused`.
fn serve(watched: &Watched, next: &mut u32, refused: u64) {
    let ring = Ring(watched);
    ring.serve(next, |number| {
        let request = ring.request(number);
        if request.kind == kind::FILLER {
            return true;
        }
        let data = data(ring, number);
        assert_eq!(
            u64::from(*data),
            request.at,
            "the data is not the request's"
        );
        if request.at == refused {
            return false;
        }
        *data += SERVED;
        watched.carry_out(request.at);
        true
    });
}

/// Runs the origin: completes an entry that was served or taken back.
fn settle(watched: &Watched, entry: Entry, side: Side) {
    let ring = Ring(watched);
    let request = ring.request(entry.number);
    if request.kind == kind::FILLER {
        return;
    }
    let found = u64::from(*data(ring, entry.number));
    if side == Side::Target && !request.refused {
        assert_eq!(
            found,
            request.at + u64::from(SERVED),
            "not the target's answer"
        );
    } else {
        assert_eq!(found, request.at, "the data is not the request's");
        watched.carry_out(request.at);
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

/// Publishes an entry. Returns false if the ring has no space.
fn push(watched: &Watched, published: &mut Published, (at, len): (u64, u16)) -> bool {
    let request = EntryRequest {
        at,
        len,
        kind: kind::PUT,
        ..EntryRequest::default()
    };
    let input = (&raw const at as *const u8, 1);
    // SAFETY: the ring is the same for all; the input is a variable's first byte.
    unsafe { published.push(Ring(watched), request, input, ptr::null_mut()) }
}

/// Runs both threads, in both orders of their start, since loom explores different interleavings for
/// each.
fn run_both<A: 'static, B: 'static>(
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    let second = thread::spawn(second);
    (first(), second.join().unwrap())
}

/// An origin publishes entries and takes back those that the target does not take. Each is carried
/// out once and in order, visibly to the other side. In the end the target expects the next entry
/// where the origin will publish it.
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

/// An origin that takes nothing back fills the ring beyond its end, and reuses served lines.
#[test]
fn lines_are_written_again_when_they_are_served() {
    const ENTRIES: [(u64, u16); 4] = [(1, SHORT), (2, LONG), (3, SHORT), (4, LONG)];
    loom::model(|| {
        let watched = Arc::new(Watched::new(FIRST));
        let theirs = watched.clone();
        let target = thread::spawn(move || {
            let mut next = FIRST;
            // Two fillers count, too: both long entries would wrap around the end.
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

/// The origin carries out entries that the target refuses.
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

/// Two threads of an origin settle accesses to two targets that do not serve. A thread that finds
/// nothing deferred sees the results.
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

/// An entry that a target had taken when it died is never settled, nor reported as settled.
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
