//! Control blocks: the words by which members of a window on one node synchronize, in memory that
//! all have mapped.
//!
//! # Accumulates
//! Elements of 1, 2, 4 or 8 bytes at their natural alignment are changed one by one by the
//! processor's atomic operations. For many elements a vector kernel that loads, computes and stores
//! is much faster, but not atomic. Both are used on the same memory, and exclude each other by two
//! words, as in Dekker's algorithm:
//!
//! - Before atomic operations a member sets its own `acting` word, then reads the target's `busy`.
//!   If that is 0 it goes on; `acting` is in a cache line that the member owns, so the cost is one
//!   uncontended exchange. Otherwise it resets `acting` and acquires `busy` instead.
//! - Before a kernel a member acquires the target's `busy`, then waits until no member of the
//!   window is `acting`. It has the memory alone until it releases `busy`.
//!
//! Each side writes its word before it reads the other's, in the single order of sequentially
//! consistent operations, so at least one of two sees the other. No member waits while it is
//! `acting`, so the holder of `busy` waits for a few instructions only (or for the scheduler, if
//! such a process was preempted among them). Kernels release `busy` every [`CHUNK`] bytes, so that
//! a short operation doesn't wait for all of a long one.
//!
//! Other elements (`long double`, pairs, misaligned ones) are always changed under `busy`.
//!
//! # Failures
//! A member may die at any instruction. `busy` names its holder, and the `acting` word of a dead
//! member is ignored; [`crate::locks::repair`] repairs locks. Members are processes of one node, so
//! a member that waits for long checks whether the others exist.

use std::sync::Arc;
use std::sync::atomic;
use std::time::{Duration, Instant};

use netmod::Peer;

use crate::copied::rings::Ring;
use crate::copied::rings::mapped::{self, Mapped};
use crate::locks::access_guard::{AtomicAccess, Busy, BusyGuard};
use crate::locks::word::LockWord;
use crate::primitives::{AtomicU32, Ordering};
use mpi_core::process::Process;
use mpi_core::process::notes::AwaitedEvent;
use mpi_core::pt2pt::lost_peer;
use mpi_types::error::{Error, Result};
use mpi_types::local::calls_never_overlap;
use netmod_kit::process_number::{has_ended, own_number};

/// Bytes that an accumulate changes before it lets other members in.
pub(crate) const CHUNK: usize = 32 << 10;

/// Gives a word that is written often its own cache line.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// The header before all blocks.
#[repr(C)]
pub(crate) struct Head {
    /// Processes that hold all locks, and exclusive holders that are counted. Only read while no
    /// process locks all.
    pub(crate) all: Line<LockWord>,
}

/// One member's block.
///
/// Behind it are a count of posts from each member and the member's lock records: for each member's
/// lock, for the lock of all as used by an exclusive lock of each member, and for the lock of all.
#[repr(C)]
pub(crate) struct Block {
    /// The number of the member's process; 0 until it is set.
    process: Line<atomic::AtomicU32>,
    pub(crate) lock: Line<LockWord>,
    busy: Line<Busy>,
    /// Operations of this member that are changing memory atomically.
    acting: Line<AtomicU32>,
    /// Origins that have completed their access to this member's exposure.
    completions: Line<atomic::AtomicU32>,
}

/// The control blocks of all members.
#[derive(Clone)]
pub(crate) struct Control {
    base: *mut u8,
    stride: usize,
    me: usize,
    pub(crate) members: usize,
    /// The members' process numbers in the job, for error messages.
    peers: Arc<[Peer]>,
    /// Whether the blocks are followed by rings.
    has_rings: bool,
}

// SAFETY: the blocks consist of atomics, and live as long as any `Control` (`Control::at`).
unsafe impl Send for Control {}

// SAFETY: the blocks consist of atomics, and live as long as any `Control` (`Control::at`).
unsafe impl Sync for Control {}

impl Control {
    /// Bytes of one member's block.
    fn stride(members: usize) -> usize {
        let counts = (3 * members + 1) * size_of::<AtomicU32>();
        size_of::<Block>() + counts.next_multiple_of(64)
    }

    /// Bytes of all blocks.
    pub fn len(members: usize) -> usize {
        size_of::<Head>() + members * Control::stride(members)
    }

    /// Bytes of all blocks and of the rings behind them.
    pub fn len_with_rings(members: usize) -> usize {
        Control::len(members) + mapped::all_bytes(members)
    }

    /// Uses the blocks at `base`. `peers`: the members' process numbers; `me`: this member's index.
    ///
    /// # Safety
    /// `base` is a multiple of 64 and the address of [`Control::len`] bytes that were zero at
    /// first, are used by `Control`s only, and outlive them.
    pub unsafe fn at(base: *mut u8, me: usize, peers: Arc<[Peer]>) -> Control {
        let control = Control {
            base,
            stride: Control::stride(peers.len()),
            me,
            members: peers.len(),
            peers,
            has_rings: false,
        };
        let process = &control.block(me).process.0;
        process.store(own_number(), Ordering::Relaxed);
        control
    }

    /// Uses the rings behind the blocks, if this number of members can have rings.
    ///
    /// # Safety
    /// That of [`Control::at`], for [`Control::len_with_rings`] bytes.
    pub unsafe fn with_rings(mut self) -> Control {
        self.has_rings = mapped::all_bytes(self.members) > 0;
        self
    }

    /// Whether the blocks are followed by rings.
    pub fn has_rings(&self) -> bool {
        self.has_rings
    }

    /// Returns the ring from one member to another.
    #[inline]
    pub fn ring(&self, origin: usize, target: usize) -> Option<Ring<Mapped<'_>>> {
        if !self.has_rings {
            return None;
        }
        let rings = self.base.wrapping_add(Control::len(self.members));
        // SAFETY: `with_rings`' caller has provided the rings' bytes behind the blocks, which take
        // a multiple of 64 bytes.
        unsafe { Mapped::of(rings, self.members, origin, target) }.map(Ring)
    }

    /// Returns the bytes from the beginning that may have been written to.
    ///
    /// Few windows use their rings. May be called only when no member uses them any more.
    pub fn used(&self) -> usize {
        let mut rings = (0..self.members * self.members)
            .filter_map(|pair| self.ring(pair / self.members, pair % self.members));
        match rings.any(Ring::is_used) {
            true => Control::len_with_rings(self.members),
            false => Control::len(self.members),
        }
    }

    pub fn me(&self) -> usize {
        self.me
    }

    pub fn members(&self) -> usize {
        self.members
    }

    /// Whether the process of a member has ended.
    #[cold]
    pub fn is_dead(&self, member: usize) -> bool {
        has_ended(self.block(member).process.0.load(Ordering::Relaxed))
    }

    /// Returns the error for a process that waited for a dead member, or for a lock of it.
    #[cold]
    pub fn failure(&self, process: &Process, member: usize) -> Error {
        let peer = self.peers[member];
        let known = process.loss_among(|lost| lost == peer);
        known.unwrap_or_else(|| {
            let why = "its process has ended without MPI_Finalize, inside an epoch of a window; locks \
                       that it held have been released";
            lost_peer(peer, why)
        })
    }

    /// Fails if one of these members is dead.
    pub fn check(&self, process: &Process, mut members: impl Iterator<Item = usize>) -> Result<()> {
        match members.find(|member| self.is_dead(*member)) {
            Some(member) => Err(self.failure(process, member)),
            None => Ok(()),
        }
    }

    /// Returns a member's record for a lock.
    #[inline(always)]
    pub fn record(&self, member: usize, place: usize) -> &AtomicU32 {
        self.count(member, self.members + place)
    }

    #[inline(always)]
    fn count(&self, member: usize, place: usize) -> &AtomicU32 {
        let block = size_of::<Head>() + member * self.stride;
        let at = block + size_of::<Block>() + place * size_of::<AtomicU32>();
        // SAFETY: each block is followed by 3 counts per member and one more (`stride`), within the
        // memory that `at`'s caller has provided.
        unsafe { &*self.base.add(at).cast() }
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: `at`'s caller has provided the memory, which begins with a `Head`.
        unsafe { &*self.base.cast() }
    }

    #[inline(always)]
    pub(crate) fn block(&self, member: usize) -> &Block {
        // SAFETY: `at`'s caller has provided a block for each member, and `member` is one.
        unsafe {
            &*self
                .base
                .add(size_of::<Head>() + member * self.stride)
                .cast()
        }
    }

    /// Whether both belong to the same window.
    pub fn is_same(&self, other: &Control) -> bool {
        self.base == other.base
    }

    /// Makes a member's process look like another one.
    #[cfg(test)]
    pub fn set_process(&self, member: usize, process: u32) {
        self.block(member)
            .process
            .0
            .store(process, Ordering::Relaxed);
    }

    /// Leaves the state of a process that died as the holder of `member`'s memory and while acting.
    #[cfg(test)]
    pub fn leave_behind(&self, member: usize) {
        std::mem::forget(self.acquire(member));
        self.block(self.me).acting.0.store(1, Ordering::Relaxed);
    }

    /// Replaces zeroed words of locks, counts and records by ones that loom tracks.
    ///
    /// # Safety
    /// The blocks are not in use yet.
    #[cfg(all(test, loom))]
    pub unsafe fn begin_watched(&self) {
        let at = |word: &LockWord| std::ptr::from_ref(word).cast_mut();
        let locks = (0..self.members).map(|member| at(&self.block(member).lock.0));
        for lock in locks.chain([at(&self.head().all.0)]) {
            // SAFETY: the memory is provided by `Control::at`'s caller, and not in use yet (this
            // function's contract).
            unsafe { lock.write(LockWord::default()) };
        }
        for member in 0..self.members {
            for place in 0..3 * self.members + 1 {
                let count = std::ptr::from_ref(self.count(member, place)).cast_mut();
                // SAFETY: the memory is provided by `Control::at`'s caller, and not in use yet
                // (this function's contract).
                unsafe { count.write(AtomicU32::new(0)) };
            }
        }
    }

    fn posts(&self, member: usize, by: usize) -> &AtomicU32 {
        self.count(member, by)
    }

    /// Runs `act`, which changes `member`'s memory by atomic operations only and waits for nothing.
    #[inline(always)]
    pub fn with_atomics<T>(&self, member: usize, me: usize, act: impl FnOnce() -> T) -> T {
        if self.atomic_access(member, me).begin() {
            let result = act();
            self.atomic_access(member, me).end();
            return result;
        }
        self.with_busy(member, act)
    }

    /// Returns the words that guard atomic operations of `me` on `member`'s memory.
    #[inline(always)]
    pub fn atomic_access(&self, member: usize, me: usize) -> AtomicAccess<'_> {
        AtomicAccess {
            mine: &self.block(me).acting.0,
            busy: self.block(member).busy.0.word(),
            threaded: !calls_never_overlap(),
        }
    }

    /// Runs `act` as the holder of `member`'s `busy`.
    pub fn with_busy<T>(&self, member: usize, act: impl FnOnce() -> T) -> T {
        let _held = self.acquire(member);
        act()
    }

    /// Runs `act` as the holder of `member`'s `busy`, with atomic operations kept out too.
    pub fn with_exclusive<T>(&self, member: usize, act: impl FnOnce() -> T) -> T {
        let held = self.acquire(member);
        for other in 0..self.members {
            let acting = &self.block(other).acting.0;
            held.await_idle(acting, |tries| self.has_died(other, tries));
        }
        act()
    }

    /// Returns whether a member that others spin for is dead; checked once in a number of tries
    /// only.
    #[inline]
    fn has_died(&self, member: usize, tries: u32) -> bool {
        const TRIES_PER_CHECK: u32 = 1 << 14;
        tries % TRIES_PER_CHECK == TRIES_PER_CHECK - 1 && self.is_dead(member)
    }

    fn acquire(&self, member: usize) -> BusyGuard<'_> {
        let died = |by: u32, tries| self.has_died(by as usize - 1, tries);
        self.block(member).busy.0.acquire(self.me as u32 + 1, died)
    }

    /// Lets a waiting member in between two chunks of a long accumulate.
    pub fn give_way(&self, member: usize) {
        self.block(member).busy.0.give_way();
    }

    /// Signals to `member` that `by` has posted its memory.
    pub fn post(&self, member: usize, by: usize) {
        self.posts(member, by).fetch_add(1, Ordering::Release);
    }

    /// Waits until `by` has posted its memory to `member`, and consumes the post.
    pub fn await_post(&self, process: &Process, vci: u16, member: usize, by: usize) -> Result<()> {
        let posts = self.posts(member, by);
        let what = AwaitedEvent::Post { target: by as u32 };
        Waiter { process, vci, what }.wait(
            || self.check(process, std::iter::once(by)),
            || Ok(posts.load(Ordering::Acquire) > 0),
        )?;
        posts.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Signals to `member` that an access to its memory is complete.
    pub fn complete(&self, member: usize) {
        let completions = &self.block(member).completions.0;
        completions.fetch_add(1, Ordering::Release);
    }

    /// Returns whether `origins` accesses to `member`'s memory are complete; if so, consumes them.
    pub fn is_complete(&self, member: usize, origins: u32) -> bool {
        let completions = &self.block(member).completions.0;
        let all = completions.load(Ordering::Acquire) >= origins;
        if all {
            completions.fetch_sub(origins, Ordering::Relaxed);
        }
        all
    }
}

/// Waits for a word in shared memory that members of the window write.
pub(crate) struct Waiter<'a> {
    pub process: &'a Process,
    pub vci: u16,
    pub what: AwaitedEvent,
}

impl Waiter<'_> {
    /// Waits until `done` returns true. Calls `check` now and then in between.
    pub fn wait(
        &self,
        mut check: impl FnMut() -> Result<()>,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        const CHECK_EVERY: Duration = Duration::from_millis(50);
        let Waiter { process, vci, what } = *self;
        let (mut note, mut polls, mut last) = (None, 0u32, None);
        process.wait_for_stores(vci, || {
            if done()? {
                return Ok(Some(()));
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(64) {
                note.get_or_insert_with(|| process.note(what, vci, std::iter::empty()));
                if last.get_or_insert_with(Instant::now).elapsed() > CHECK_EVERY {
                    check()?;
                    // The holder may be waiting for a message that lies in this process's inbox
                    // behind that of a dead sender.
                    process.check_awaited_peers();
                    last = None;
                }
            }
            Ok(None)
        })
    }
}

/// Orders all loads and stores before it against all after it.
#[inline(always)]
pub(crate) fn full_fence() {
    // A locked instruction orders all loads and stores as `mfence` does, and is cheaper. (Streaming
    // stores of long copies end with a fence of their own, in the C library.)
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds 0 to a local word; the stack pointer doesn't move, and the compiler assumes that
    // `asm` reads and writes memory.
    unsafe {
        let mut own = 0u32;
        std::arch::asm!("lock or dword ptr [{}], 0", in(reg) &raw mut own, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
