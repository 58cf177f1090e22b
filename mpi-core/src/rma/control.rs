//! What the members of a window on one node synchronise by: a block of words for each of them, in
//! memory that all have mapped.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Result;
use crate::process::Process;

/// Words that processors write to often stand in cache lines of their own.
#[repr(C, align(64))]
struct Line<T>(T);

/// One member's block; behind it stands a count of posts for each member.
#[repr(C)]
struct Block {
    lock: Line<Lock>,
    /// Held while an accumulate changes this member's memory by other means than the processor's
    /// atomic operations.
    busy: Line<AtomicU32>,
    /// How many origins have completed their access to this member's exposure.
    completions: Line<AtomicU32>,
}

/// The lock of passive target epochs: readers and writers get it in the order in which they asked,
/// so that nobody waits for ever.
#[repr(C)]
struct Lock {
    next: AtomicU32,
    /// Whose turn it is to read: all before have begun to read, or have written.
    read: AtomicU32,
    /// Whose turn it is to write: all before are done.
    write: AtomicU32,
}

/// The blocks of all members.
pub(super) struct Control {
    base: *mut u8,
    stride: usize,
}

// SAFETY: blocks are made of atomics.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// Bytes of one member's block.
    fn stride(members: usize) -> usize {
        size_of::<Block>() + (members * 4).next_multiple_of(64)
    }

    /// Bytes of all blocks.
    pub fn len(members: usize) -> usize {
        members * Control::stride(members)
    }

    /// The blocks at `base`.
    ///
    /// # Safety
    /// `base` is the address, a multiple of 64, of [`Control::len`] bytes that were zero at first
    /// and are used by nothing but `Control`s, which they outlive.
    pub unsafe fn at(base: *mut u8, members: usize) -> Control {
        Control {
            base,
            stride: Control::stride(members),
        }
    }

    #[inline(always)]
    fn block(&self, member: usize) -> &Block {
        // SAFETY: by the promise to `at`; members are counted from 0 to their number.
        unsafe { &*self.base.add(member * self.stride).cast() }
    }

    fn posts(&self, member: usize, by: usize) -> &AtomicU32 {
        let at = member * self.stride + size_of::<Block>() + by * 4;
        // SAFETY: as for `block`.
        unsafe { &*self.base.add(at).cast() }
    }

    /// Takes the lock of `member`.
    pub fn lock(&self, process: &Process, vci: u16, member: usize, exclusive: bool) -> Result<()> {
        let lock = &self.block(member).lock.0;
        let ticket = lock.next.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the releases below; who enters sees what those before have done.
        if exclusive {
            wait(process, vci, || {
                lock.write.load(Ordering::Acquire) == ticket
            })
        } else {
            wait(process, vci, || lock.read.load(Ordering::Acquire) == ticket)?;
            lock.read.fetch_add(1, Ordering::AcqRel);
            Ok(())
        }
    }

    /// Gives the lock of `member` back.
    pub fn unlock(&self, member: usize, exclusive: bool) {
        let lock = &self.block(member).lock.0;
        if exclusive {
            lock.read.fetch_add(1, Ordering::Release);
        }
        lock.write.fetch_add(1, Ordering::Release);
    }

    /// Keeps all other accumulates by such means from `member`'s memory while `act` runs.
    pub fn alone<T>(&self, member: usize, act: impl FnOnce() -> T) -> T {
        struct Held<'a>(&'a AtomicU32);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Release);
            }
        }
        let busy = &self.block(member).busy.0;
        let mut tries = 0u32;
        while busy
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            // Whoever holds it is in the middle of a copy, and needs nobody's progress.
            tries += 1;
            if tries.is_multiple_of(32) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        let _held = Held(busy);
        act()
    }

    /// Tells `member` that `by` has posted its memory.
    pub fn post(&self, member: usize, by: usize) {
        self.posts(member, by).fetch_add(1, Ordering::Release);
    }

    /// Waits until `by` has posted its memory to `member`, and takes note of that.
    pub fn await_post(&self, process: &Process, vci: u16, member: usize, by: usize) -> Result<()> {
        let posts = self.posts(member, by);
        wait(process, vci, || posts.load(Ordering::Acquire) > 0)?;
        posts.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Tells `member` that an access to its memory is complete.
    pub fn complete(&self, member: usize) {
        let completions = &self.block(member).completions.0;
        completions.fetch_add(1, Ordering::Release);
    }

    /// Whether `origins` accesses to `member`'s memory are complete; if so, takes note of that.
    pub fn is_complete(&self, member: usize, origins: u32) -> bool {
        let completions = &self.block(member).completions.0;
        let all = completions.load(Ordering::Acquire) >= origins;
        if all {
            completions.fetch_sub(origins, Ordering::Relaxed);
        }
        all
    }
}

/// Waits for a word in shared memory, which rings no bell when it changes: with progress, and naps
/// that are short.
pub(super) fn wait(process: &Process, vci: u16, mut done: impl FnMut() -> bool) -> Result<()> {
    const NAP: std::time::Duration = std::time::Duration::from_micros(50);
    let mut fruitless = 0u32;
    loop {
        // Once around without a poll, for what is there already.
        if done() {
            return Ok(());
        }
        if process.poll(vci)? {
            fruitless = 0;
            continue;
        }
        fruitless = fruitless.saturating_add(1);
        match fruitless {
            0..100 => std::hint::spin_loop(),
            100..2_000 => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}
