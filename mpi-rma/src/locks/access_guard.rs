//! The words by which atomic operations and vector kernels exclude each other: each side writes its
//! own word before it reads the other's (see [`control`](crate::locks::control)).

use crate::primitives::{AtomicU32, Ordering, one_order};

/// Exclusive use of a member's memory.
#[repr(C)]
pub(crate) struct Busy {
    /// The holder, counted from 1; 0 if there is none.
    holder: AtomicU32,
    /// Members that wait for it.
    waiting: AtomicU32,
}

impl Busy {
    /// Acquires the memory for `mine`. `died(holder, tries)` returns whether the holder is dead.
    pub fn acquire(&self, mine: u32, died: impl Fn(u32, u32) -> bool) -> BusyGuard<'_> {
        let take = |from: u32| {
            self.holder
                .compare_exchange(from, mine, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        if !take(0) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let mut tries = 0;
            loop {
                let by = self.holder.load(Ordering::Relaxed);
                // The holder is in the middle of a copy, and needs no progress here.
                if (by == 0 || died(by, tries)) && take(by) {
                    break;
                }
                pause(&mut tries);
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        BusyGuard(self)
    }

    /// Lets a waiting member in between two chunks of a long accumulate.
    pub fn give_way(&self) {
        let before = self.waiting.load(Ordering::Relaxed);
        let mut tries = 0;
        while tries < 64 && before != 0 && self.waiting.load(Ordering::Relaxed) >= before {
            pause(&mut tries);
        }
    }

    /// The word that [`AtomicAccess`] reads.
    pub fn word(&self) -> &AtomicU32 {
        &self.holder
    }
}

/// Exclusive use of a member's memory, until it is dropped.
pub(crate) struct BusyGuard<'a>(&'a Busy);

impl BusyGuard<'_> {
    /// Waits until a member isn't acting, or `died(tries)` returns that it is dead.
    pub fn await_idle(&self, acting: &AtomicU32, died: impl Fn(u32) -> bool) {
        one_order();
        let mut tries = 0;
        // Acquire: sees what the member has done.
        while acting.load(Ordering::SeqCst) != 0 && !died(tries) {
            pause(&mut tries);
        }
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

/// A member's own word, and the `busy` word of the memory that it is about to change atomically.
#[derive(Clone, Copy)]
pub(crate) struct AtomicAccess<'a> {
    pub mine: &'a AtomicU32,
    pub busy: &'a AtomicU32,
    /// Whether several threads of this process may act at the same time.
    pub threaded: bool,
}

impl AtomicAccess<'_> {
    /// Returns whether atomic operations may go on. If so, the caller must call
    /// [`AtomicAccess::end`].
    #[inline(always)]
    pub fn begin(self) -> bool {
        // Added, not set: other threads of this process may be acting.
        self.mine.fetch_add(1, Ordering::SeqCst);
        one_order();
        if self.busy.load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.end();
        false
    }

    #[inline(always)]
    pub fn end(self) {
        // Release: a member that reads 0 sees what the operations have done.
        match self.threaded {
            true => {
                self.mine.fetch_sub(1, Ordering::Release);
            }
            false => self.mine.store(0, Ordering::Release),
        }
    }
}

/// Spins, and yields now and then.
fn pause(tries: &mut u32) {
    *tries += 1;
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if tries.is_multiple_of(32) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-rma --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A member's memory with its words, and the word of another member.
    struct Memory {
        busy: Busy,
        acting: AtomicU32,
        data: UnsafeCell<u32>,
    }

    // SAFETY: the data is accessed under the words' protocol, which loom checks.
    unsafe impl Sync for Memory {}
    // SAFETY: the data is accessed under the words' protocol, which loom checks.
    unsafe impl Send for Memory {}

    impl Memory {
        fn new() -> Arc<Memory> {
            Arc::new(Memory {
                busy: Busy {
                    holder: AtomicU32::new(0),
                    waiting: AtomicU32::new(0),
                },
                acting: AtomicU32::new(0),
                data: UnsafeCell::new(0),
            })
        }

        fn add(&self) {
            // SAFETY: callers follow the words' protocol.
            self.data.with_mut(|data| unsafe { *data += 1 });
        }

        fn get(&self) -> u32 {
            // SAFETY: all other threads have ended.
            self.data.with(|data| unsafe { *data })
        }

        /// Adds as an atomic operation.
        fn act(&self, threaded: bool) {
            let words = AtomicAccess {
                mine: &self.acting,
                busy: self.busy.word(),
                threaded,
            };
            if words.begin() {
                self.add();
                words.end();
            } else {
                let _held = self.busy.acquire(1, |_, _| false);
                self.add();
            }
        }

        /// Adds as a kernel.
        fn copy(&self, as_whom: u32) {
            let held = self.busy.acquire(as_whom, |_, _| false);
            held.await_idle(&self.acting, |_| false);
            self.add();
        }
    }

    #[test]
    fn atomic_operations_and_kernels_exclude_each_other() {
        for threaded in [false, true] {
            loom::model(move || {
                let memory = Memory::new();
                let theirs = memory.clone();
                let thread = thread::spawn(move || theirs.copy(2));
                memory.act(threaded);
                memory.act(threaded);
                thread.join().unwrap();
                assert_eq!(memory.get(), 3);
            });
        }
    }

    #[test]
    fn kernels_exclude_each_other() {
        loom::model(|| {
            let memory = Memory::new();
            let theirs = memory.clone();
            let thread = thread::spawn(move || theirs.copy(2));
            memory.copy(1);
            thread.join().unwrap();
            assert_eq!(memory.get(), 2);
        });
    }

    /// The memory of a dead holder goes to exactly one of the members that find out.
    #[test]
    fn memory_of_a_dead_holder_goes_to_one_member() {
        loom::model(|| {
            let memory = Memory::new();
            std::mem::forget(memory.busy.acquire(9, |_, _| false));
            let take = |memory: &Memory, mine: u32| {
                let _held = memory.busy.acquire(mine, |by, _| by == 9);
                memory.add();
            };
            let theirs = memory.clone();
            let thread = thread::spawn(move || take(&theirs, 2));
            take(&memory, 1);
            thread.join().unwrap();
            assert_eq!(memory.get(), 2);
        });
    }
}
