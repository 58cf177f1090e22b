//! The slot in shared memory for an origin's request to a target on its node.

use mpi_types::op::PredefinedOp;

use crate::primitives::{AtomicU32, Ordering};
use crate::window::apply::LONGEST_COMPARED;

/// Maximum bytes of data.
pub(crate) const ROOM: usize = 40;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const ASKED: u32 = 2;
const TAKEN: u32 = 3;
const DONE: u32 = 4;

/// State of a slot, which decides to whom its words belong: to an origin that fills it, to the target
/// that has taken the request, to that origin again when it is done, and otherwise to none.
#[repr(transparent)]
pub(crate) struct Turn(AtomicU32);

impl Turn {
    fn advance(&self, from: u32, to: u32) -> bool {
        // Acquire suffices: an origin that takes a request back has published its words by `ask`, and
        // this exchange continues that release sequence.
        let changed = self
            .0
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Acquires a free slot for an origin.
    pub fn fill(&self) -> bool {
        self.advance(FREE, FILLING)
    }

    /// Publishes the origin's request.
    pub fn ask(&self) {
        self.0.store(ASKED, Ordering::Release);
    }

    /// Takes back a request that the target has not taken, and frees the slot.
    pub fn take_back(&self) -> bool {
        self.advance(ASKED, FREE)
    }

    /// Takes the request for the target, if there is one.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASKED && self.advance(ASKED, TAKEN)
    }

    /// Publishes the target's result.
    pub fn finish(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    /// Whether the target has published its result, so that the words belong to the origin.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Frees the slot after the origin has read the result.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// A member's slot, a cache line.
#[repr(C, align(64))]
pub(crate) struct RequestSlot {
    pub(crate) turn: Turn,
    /// [`SmallAccess`] as a number.
    pub(crate) what: AtomicU32,
    pub(crate) words: std::cell::UnsafeCell<Words>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Offset in the target's memory.
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

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SmallAccess {
    Put,
    Get,
    Accumulate(PredefinedOp, u8),
    /// The data is the compared value and the new value, [`LONGEST_COMPARED`] bytes each.
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

    /// The target's result minus the origin's number.
    const SERVED: u32 = 100;

    struct Slot {
        turn: Turn,
        words: UnsafeCell<u32>,
        /// The origins whose requests were carried out, as bits.
        carried_out: AtomicU32,
    }

    // SAFETY: threads access the words only as the turn allows, which loom checks.
    unsafe impl Sync for Slot {}
    // SAFETY: threads access the words only as the turn allows, which loom checks.
    unsafe impl Send for Slot {}

    impl Slot {
        fn new() -> Arc<Slot> {
            Arc::new(Slot {
                turn: Turn(AtomicU32::new(FREE)),
                words: UnsafeCell::new(0),
                carried_out: AtomicU32::new(0),
            })
        }

        /// Models `target_requests::ask`, with one poll before the request is taken back. Returns
        /// whether the target carried it out.
        fn ask(&self, origin: u32) -> bool {
            if !self.turn.fill() {
                return false;
            }
            // SAFETY: the words belong to this thread from `fill` to `ask`.
            self.words.with_mut(|words| unsafe { *words = origin });
            self.turn.ask();
            if !self.turn.is_done() && self.turn.take_back() {
                return false;
            }
            while !self.turn.is_done() {
                thread::yield_now();
            }
            // SAFETY: the words belong to the origin again when the request is done.
            let found = self.words.with(|words| unsafe { *words });
            assert_eq!(found, origin + SERVED);
            self.turn.release();
            true
        }

        /// Models `ServedSlot::serve`.
        fn serve(&self) {
            if !self.turn.take() {
                return;
            }
            let origin = self.words.with_mut(|words| {
                // SAFETY: the words belong to this thread from `take` to `finish`.
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
            // Exactly the requests that origins report as served were carried out.
            let served = origins.map(|origin| origin.join().unwrap());
            let [first, second] = served;
            assert_eq!(slot.carried_out.load(Ordering::Relaxed), first | second);
        });
    }
}
