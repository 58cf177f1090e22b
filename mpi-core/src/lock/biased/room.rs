//! Where threads wait for a lock that another one keeps, out of its way.

use std::sync::OnceLock;
use std::thread::available_parallelism;

use crate::lock::Lock;
use crate::sync::{AtomicU32, Ordering};

/// Looks at the place in front before a thread sleeps for it: some 0.2 ms, while there are cores for all that wait.
const SPINS: u32 = if cfg!(loom) { 1 } else { 4000 };
/// The same otherwise.
const SPINS_CROWDED: u32 = if cfg!(loom) { 1 } else { 100 };
/// Looks of a thread that has just had the lock for long whether another one has it now.
const DEFERS: u32 = if cfg!(loom) { 1 } else { 100 };

pub(super) struct Room {
    /// How many are here.
    waiting: AtomicU32,
    /// Changes when the lock is to be had.
    calls: AtomicU32,
    /// How many have left.
    left: AtomicU32,
    /// Who has this is in front, and looks at the lock. The others keep away from that. Whoever comes first when it is free gets
    /// it: one that waits for its turn, and for a core, would hold up all others.
    front: Lock,
}

/// The cores that this process may use, as it was when this was first asked.
pub(super) fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, |cores| cores.get() as u32))
}

impl Room {
    pub fn new() -> Room {
        Room {
            waiting: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            left: AtomicU32::new(0),
            front: Lock::new(),
        }
    }

    /// Whether somebody waits.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Comes in and waits to be in front. A thread that has had the lock (`had_it`) lets one that waits go first.
    pub fn enter(&self, had_it: bool) {
        if had_it && self.is_used() {
            let left = self.left.load(Ordering::Relaxed);
            for _ in 0..DEFERS {
                if self.left.load(Ordering::Relaxed) != left {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        if !self.front.try_lock() {
            // One more has the lock.
            let crowded = before + 2 > cores();
            self.front
                .lock_after(if crowded { SPINS_CROWDED } else { SPINS });
        }
    }

    /// Leaves, with the lock.
    ///
    /// # Safety
    /// The calling thread is in front.
    pub unsafe fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // Nobody else leaves at the same time.
        let left = self.left.load(Ordering::Relaxed).wrapping_add(1);
        self.left.store(left, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.front.unlock() };
    }

    /// Lets the one in front know that the lock is to be had.
    pub fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes with each call.
    #[inline(always)]
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}
