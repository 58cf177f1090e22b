//! The slot in shared memory by which an origin asks a target of its node for a small access.

use mpi_types::op::PredefinedOp;

use crate::primitives::{AtomicU32, Ordering};
use crate::window::apply::LONGEST_COMPARED;

/// Bytes of data that fit.
pub(crate) const ROOM: usize = 40;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const ASKED: u32 = 2;
const TAKEN: u32 = 3;
const DONE: u32 = 4;

/// Whose a slot's words are: of an origin that fills it, of the owner that has taken what was asked for, of the
/// same origin again when it is done, and of nobody in between.
#[repr(transparent)]
pub(crate) struct Turn(AtomicU32);

impl Turn {
    fn advance(&self, from: u32, to: u32) -> bool {
        // Who takes a request back publishes nothing: what it wrote is published by `ask`, of which the
        // exchange is a part (a release sequence).
        let changed = self
            .0
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        changed.is_ok()
    }

    /// An origin makes the words its own, if they are nobody's.
    pub fn fill(&self) -> bool {
        self.advance(FREE, FILLING)
    }

    /// The origin has filled them.
    pub fn ask(&self) {
        self.0.store(ASKED, Ordering::Release);
    }

    /// The origin takes back what the owner has not taken; the words are nobody's then.
    pub fn take_back(&self) -> bool {
        self.advance(ASKED, FREE)
    }

    /// The owner makes what was asked for its own, if there is something.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASKED && self.advance(ASKED, TAKEN)
    }

    /// The owner has done it.
    pub fn finish(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    /// Whether the words are the origin's again.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// The origin has read what came back.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// A member's slot, a cache line.
#[repr(C, align(64))]
pub(crate) struct RequestSlot {
    pub(crate) turn: Turn,
    /// [`SmallAccess`], below.
    pub(crate) what: AtomicU32,
    pub(crate) words: std::cell::UnsafeCell<Words>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Where in the owner's memory.
    pub(crate) at: u64,
    /// Bytes or elements.
    pub(crate) count: u16,
    pub(crate) op: u8,
    pub(crate) element: u8,
    pub(crate) data: [u8; ROOM],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RequestSlot>() == 64);
const _: () = assert!(2 * LONGEST_COMPARED <= ROOM);

/// What an origin asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SmallAccess {
    Put,
    Get,
    Accumulate(PredefinedOp, u8),
    /// The data is what is compared, then what replaces it, [`LONGEST_COMPARED`] bytes each.
    CompareAndSwap,
}

impl SmallAccess {
    pub(crate) fn numbers(self) -> (u32, u8, u8) {
        match self {
            SmallAccess::Put => (0, 0, 0),
            SmallAccess::Get => (1, 0, 0),
            SmallAccess::Accumulate(op, element) => (2, op as u8, element),
            SmallAccess::CompareAndSwap => (3, 0, 0),
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-rma --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// What the owner adds to what it is asked with.
    const SERVED: u32 = 100;

    struct Slot {
        turn: Turn,
        words: UnsafeCell<u32>,
        /// What was carried out, each origin one bit.
        carried_out: AtomicU32,
    }

    // SAFETY: the words are reached as the turn allows, which loom checks.
    unsafe impl Sync for Slot {}
    // SAFETY: as above.
    unsafe impl Send for Slot {}

    impl Slot {
        fn new() -> Arc<Slot> {
            Arc::new(Slot {
                turn: Turn(AtomicU32::new(FREE)),
                words: UnsafeCell::new(0),
                carried_out: AtomicU32::new(0),
            })
        }

        /// As `target_requests::ask` does, with one look before it takes back. Whether the owner has done it.
        fn ask(&self, origin: u32) -> bool {
            if !self.turn.fill() {
                return false;
            }
            // SAFETY: the words are this thread's.
            self.words.with_mut(|words| unsafe { *words = origin });
            self.turn.ask();
            if !self.turn.is_done() && self.turn.take_back() {
                return false;
            }
            while !self.turn.is_done() {
                thread::yield_now();
            }
            // SAFETY: the words are this thread's again.
            let found = self.words.with(|words| unsafe { *words });
            assert_eq!(found, origin + SERVED);
            self.turn.release();
            true
        }

        /// As `ServedSlot::serve` does.
        fn serve(&self) {
            if !self.turn.take() {
                return;
            }
            let origin = self.words.with_mut(|words| {
                // SAFETY: the words are this thread's.
                unsafe {
                    *words += SERVED;
                    *words - SERVED
                }
            });
            self.carried_out.fetch_or(origin, Ordering::Relaxed);
            self.turn.finish();
        }
    }

    #[test]
    fn what_is_asked_for_is_done_by_the_owner_or_taken_back() {
        loom::model(|| {
            let slot = Slot::new();
            let origins = [1, 2].map(|origin| {
                let slot = slot.clone();
                thread::spawn(move || if slot.ask(origin) { origin } else { 0 })
            });
            slot.serve();
            slot.serve();
            // Who was served has seen it, and nobody else was.
            let served = origins.map(|origin| origin.join().unwrap());
            let [first, second] = served;
            assert_eq!(slot.carried_out.load(Ordering::Relaxed), first | second);
        });
    }
}
