//! The flag of a shared slot: whether its data is there, and of which call.

use crate::agreement::signature::CallSignature;
use crate::sync::{AtomicU64, Ordering};

/// The beginning of a slot: the flag, and the signature of the call whose data it marks.
#[repr(C)]
pub(crate) struct SlotFlag {
    flag: AtomicU64,
    signature: AtomicU64,
}

impl SlotFlag {
    /// Sets the flag to phase `number` of no call, before other ranks read the slot.
    pub fn reset(&self, number: u64) {
        let none = word(number, CallSignature::default());
        self.flag.store(none, Ordering::Release);
    }

    /// Marks the slot's data as that of phase `number` of a call with this signature.
    ///
    /// The slot may be written again when all ranks have raised their flags of the phase after the
    /// one in which they read it.
    #[inline(always)]
    pub fn raise(&self, number: u64, signature: CallSignature) {
        self.raise_to(word(number, signature), signature);
    }

    /// Raises the flag to a precomputed word.
    #[inline(always)]
    pub fn raise_to(&self, word: u64, signature: CallSignature) {
        self.signature.store(signature.word(), Ordering::Relaxed);
        // Release: a rank that sees the flag sees data and signature too.
        self.flag.store(word, Ordering::Release);
    }

    /// Whether the flag is exactly this word, and not of a later phase.
    #[inline(always)]
    pub fn is(&self, word: u64) -> bool {
        self.flag.load(Ordering::Acquire) == word
    }

    /// Returns how many phases the flag is ahead of `number`, and with 0 the mark under it. `None`:
    /// the flag has not reached `number`.
    #[inline(always)]
    pub fn poll(&self, number: u64) -> Option<(u64, u64)> {
        let ahead = self.flag.load(Ordering::Acquire).wrapping_sub(number << 32);
        (ahead as i64 >= 0).then_some((ahead >> 32, ahead))
    }

    /// Whether the flag has reached a phase. Relaxed: the caller reads data only after
    /// [`SlotFlag::poll`].
    #[inline(always)]
    pub fn has_come_to(&self, number: u64) -> bool {
        let flag = self.flag.load(Ordering::Relaxed);
        flag.wrapping_sub(number << 32) as i64 >= 0
    }

    /// The signature of the call whose flag was seen.
    pub fn signature(&self) -> CallSignature {
        CallSignature::from_word(self.signature.load(Ordering::Relaxed))
    }
}

/// Combines a number with the mark of a signature.
#[inline(always)]
pub(crate) fn word(number: u64, signature: CallSignature) -> u64 {
    number << 32 | u64::from(signature.mark())
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-coll --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Slots of a rank: phases take them in turn, as a ring.
    const DEPTH: u64 = 2;
    /// Numbers that wrap within the test, in 32 bits and in 64.
    const FIRST: u64 = u64::MAX - 1;
    const PHASES: u64 = 4;

    struct Slot {
        flag: SlotFlag,
        data: UnsafeCell<u64>,
    }

    // SAFETY: the data is accessed as the flags allow, which loom checks.
    unsafe impl Sync for Slot {}
    // SAFETY: the data is accessed as the flags allow, which loom checks.
    unsafe impl Send for Slot {}

    fn slot() -> Slot {
        let flag = SlotFlag {
            flag: AtomicU64::new(0),
            signature: AtomicU64::new(0),
        };
        flag.reset(FIRST.wrapping_sub(1));
        Slot {
            flag,
            data: UnsafeCell::new(0),
        }
    }

    /// Runs one of two ranks that exchange data: writes its own slot, and reads the other's.
    fn exchange(own: &[Slot], other: &[Slot]) {
        let signature = CallSignature::from_word(7);
        for phase in 0..PHASES {
            let number = FIRST.wrapping_add(phase);
            let place = (number % DEPTH) as usize;
            // SAFETY: the other rank has raised the flag of the phase before, so it has read the
            // old value.
            own[place].data.with_mut(|data| unsafe { *data = number });
            own[place].flag.raise(number, signature);
            let (ahead, mark) = loop {
                match other[place].flag.poll(number) {
                    Some(found) => break found,
                    None => thread::yield_now(),
                }
            };
            // The slot isn't written again before this rank has read it.
            assert_eq!((ahead, mark), (0, u64::from(signature.mark())));
            assert_eq!(other[place].flag.signature().word(), signature.word());
            // SAFETY: its flag is up.
            let found = other[place].data.with(|data| unsafe { *data });
            assert_eq!(found, number);
        }
    }

    #[test]
    fn a_flag_that_is_up_shows_the_data_of_its_phase() {
        loom::model(|| {
            let slots = Arc::new([[slot(), slot()], [slot(), slot()]]);
            let theirs = slots.clone();
            let thread = thread::spawn(move || exchange(&theirs[1], &theirs[0]));
            exchange(&slots[0], &slots[1]);
            thread.join().unwrap();
        });
    }
}
