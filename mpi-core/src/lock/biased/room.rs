//! Where threads wait for a lock that another one keeps, out of its way: one after the other, as they have come.

use std::sync::OnceLock;
use std::thread::available_parallelism;

use crate::sync::{AtomicU32, Ordering};

/// Looks of a thread whether it is in front before it sleeps: some 1 ms, while there are cores for all that wait.
const SPINS: u32 = if cfg!(loom) { 1 } else { 20_000 };
/// The same otherwise.
const SPINS_CROWDED: u32 = if cfg!(loom) { 1 } else { 100 };

pub(super) struct Room {
    /// How many are here.
    waiting: AtomicU32,
    /// Changes when the lock is to be had.
    calls: AtomicU32,
    /// The number of the next that comes.
    next: AtomicU32,
    /// The number of the one in front, who looks at the lock. The others keep away from that.
    front: AtomicU32,
    /// How many may sleep.
    sleepers: AtomicU32,
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
            next: AtomicU32::new(0),
            front: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
        }
    }

    /// Whether somebody waits.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Comes in and waits to be in front.
    pub fn enter(&self) {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // One more has the lock.
        let spins = match before + 2 > cores() {
            true => SPINS_CROWDED,
            false => SPINS,
        };
        for _ in 0..spins {
            if self.front.load(Ordering::Acquire) == number {
                return;
            }
            std::hint::spin_loop();
        }
        // Before the next look: either this thread sees that it is in front, or who leaves sees that it may sleep.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let front = self.front.load(Ordering::SeqCst);
            if front == number {
                break;
            }
            self.sleep(front, number);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Leaves, and lets the next one be in front. Who calls is in front.
    pub fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let next = self.front.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake(next);
        }
    }

    /// Sleeps until `front` is not in front any more, or somebody wakes `number`.
    #[cfg(not(loom))]
    fn sleep(&self, front: u32, number: u32) {
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let none = std::ptr::null::<u32>();
        // SAFETY: the word is valid; the kernel reads it only, and comes back if it has changed. Null is no time limit.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const self.front,
                operation,
                front,
                none,
                none,
                bit(number),
            )
        };
    }

    #[cfg(not(loom))]
    #[cold]
    fn wake(&self, number: u32) {
        let operation = libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let none = std::ptr::null::<u32>();
        // SAFETY: waking reads nothing.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const self.front,
                operation,
                i32::MAX,
                none,
                none,
                bit(number),
            )
        };
    }

    #[cfg(loom)]
    fn sleep(&self, _: u32, _: u32) {
        loom::thread::yield_now();
    }

    #[cfg(loom)]
    fn wake(&self, _: u32) {}

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

/// Of the 32 that a sleeper can wait for, so that only one in 32 is woken in vain.
#[cfg(not(loom))]
fn bit(number: u32) -> u32 {
    1 << (number % u32::BITS)
}
