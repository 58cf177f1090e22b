//! The queue of threads that wait for a lock which another thread keeps.

use std::sync::OnceLock;
use std::thread::available_parallelism;

use crate::lock::Lock;
use crate::sync::{AtomicU32, Ordering};

/// Polls before a thread that is not in front sleeps, about 0.2 ms, if there are cores for all
/// waiting threads.
const SPINS: u32 = if cfg!(loom) { 1 } else { 4000 };
/// Polls before it sleeps otherwise.
const SPINS_CROWDED: u32 = if cfg!(loom) { 1 } else { 100 };
/// Polls by a thread that just gave up a lease, to let a waiter acquire the lock first.
const DEFERS: u32 = if cfg!(loom) { 1 } else { 100 };

pub(super) struct WaitQueue {
    /// Number of threads in the queue.
    waiting: AtomicU32,
    /// Changes when an owner hands over.
    calls: AtomicU32,
    /// Number of threads that have left the queue.
    left: AtomicU32,
    /// Held by the front thread, which alone polls the lock. Goes to the first thread that asks,
    /// not in order of arrival: a thread without a core would hold up all others.
    front: Lock,
}

/// Returns the number of cores that this process could use at the first call.
pub(super) fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, |cores| cores.get() as u32))
}

impl WaitQueue {
    pub fn new() -> WaitQueue {
        WaitQueue {
            waiting: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            left: AtomicU32::new(0),
            front: Lock::new(),
        }
    }

    /// Whether threads wait.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Enters the queue and waits to be in front. A previous owner (`had_it`) lets a waiting thread
    /// go first.
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
            // Two more: this thread and the one that holds the lock.
            let crowded = before + 2 > cores();
            self.front
                .lock_after(if crowded { SPINS_CROWDED } else { SPINS });
        }
    }

    /// Leaves the queue with the lock.
    ///
    /// # Safety
    /// The calling thread is in front.
    pub unsafe fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // Only the front thread leaves.
        let left = self.left.load(Ordering::Relaxed).wrapping_add(1);
        self.left.store(left, Ordering::Relaxed);
        // SAFETY: this thread is in front, and so holds `front` (# Safety).
        unsafe { self.front.unlock() };
    }

    /// Tells the front thread that the lock was handed over.
    pub fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that changes with each handover.
    #[inline(always)]
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}
