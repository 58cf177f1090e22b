//! What the members of a window on one node synchronise by: a block of words for each of them, in
//! memory that all have mapped.
//!
//! # Accumulates
//! Elements of 1, 2, 4 or 8 bytes at their natural alignment are changed one by one by the
//! processor's atomic operations. That is slow for many elements, where a vector kernel that loads,
//! computes and stores takes a twentieth of the time, but is not atomic. Both are used on the same
//! memory, and kept apart by two words, as in Dekker's algorithm:
//!
//! - Who is about to use atomic operations says so in its own block (`acting`), then looks whether the
//!   target's memory is `busy`. If not, it goes on; its word is in a cache line that it owns, so the
//!   price is one uncontended exchange. If it is busy, it takes its word back and waits for its turn
//!   to have the memory alone.
//! - Who is about to run a kernel takes the target's `busy`, then waits until nobody in the window
//!   is acting. From then on the memory is its own until it lets go of `busy`.
//!
//! Each writes its word before it reads the other's, in the one order of sequentially consistent
//! operations, so at least one of two sees the other. Nobody waits while it is acting, so who has
//! `busy` waits for some instructions only (or for the scheduler, if such a process was stopped
//! between them). Kernels let go of `busy` every [`CHUNK`] bytes, so that a short operation doesn't
//! wait for the whole of a long one.
//!
//! Other elements (`long double`, pairs, misaligned ones) are changed under `busy` always.
//!
//! # Deaths
//! Any member may die at any instruction. `busy` says who has it, and what a dead member is acting on
//! counts for nothing; [`crate::locks::repair`] says what becomes of locks. Members are processes of one node,
//! so whoever waits for long looks whether they exist.

use std::sync::Arc;
use std::sync::atomic;
use std::time::{Duration, Instant};

use netmod::Peer;

use crate::copied::request_slot::RequestSlot;
use crate::copied::rings::Ring;
use crate::copied::rings::mapped::{self, Mapped};
use crate::locks::access_guard::{Acting, Busy, Held};
use crate::locks::word::LockWord;
use crate::primitives::{AtomicU32, Ordering};
use mpi_core::process::Process;
use mpi_core::process::notes::Awaited;
use mpi_core::pt2pt::lost_peer;
use mpi_types::error::{Error, Result};
use mpi_types::local::is_alone;

/// Bytes that one accumulate changes without letting others in between.
pub(crate) const CHUNK: usize = 32 << 10;

/// Words that processors write to often stand in cache lines of their own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// Before all blocks.
#[repr(C)]
pub(crate) struct Head {
    /// Those who hold all locks, and those who hold an exclusive one somewhere that its word alone does not tell. With
    /// nobody who wants all locks it is read only.
    pub(crate) all: Line<LockWord>,
}

/// One member's block; behind it stand a count of posts for each member and its records for locks:
/// for that of each member, for the one of all as it has it for an exclusive lock of each, and for that
/// one as it has it for all.
#[repr(C)]
pub(crate) struct Block {
    /// The member's process; 0 before it is known.
    pid: Line<atomic::AtomicU32>,
    pub(crate) lock: Line<LockWord>,
    busy: Line<Busy>,
    /// How many operations of this member's are changing others' memory by atomic operations.
    acting: Line<AtomicU32>,
    /// How many origins have completed their access to this member's exposure.
    completions: Line<atomic::AtomicU32>,
    /// How many fences the member has come to, where these have words of their own.
    fences: Line<atomic::AtomicU32>,
    slot: RequestSlot,
}

/// The blocks of all members.
#[derive(Clone)]
pub(crate) struct Control {
    base: *mut u8,
    stride: usize,
    me: usize,
    pub(crate) members: usize,
    /// The members' numbers as processes of the job, for messages.
    peers: Arc<[Peer]>,
    /// Whether there are rings behind the blocks.
    has_rings: bool,
}

// SAFETY: blocks are made of atomics.
unsafe impl Send for Control {}

// SAFETY: as above.
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

    /// Bytes of all blocks, with rings behind them for windows that have some.
    pub fn len_with_rings(members: usize) -> usize {
        Control::len(members) + mapped::all_bytes(members)
    }

    /// The blocks at `base`, of the members that are these processes of the job, of which this one is
    /// number `me`.
    ///
    /// # Safety
    /// `base` is the address, a multiple of 64, of [`Control::len`] bytes that were zero at first
    /// and are used by nothing but `Control`s, which they outlive.
    pub unsafe fn at(base: *mut u8, me: usize, peers: Arc<[Peer]>) -> Control {
        let control = Control {
            base,
            stride: Control::stride(peers.len()),
            me,
            members: peers.len(),
            peers,
            has_rings: false,
        };
        let pid = &control.block(me).pid.0;
        pid.store(std::process::id(), Ordering::Relaxed);
        control
    }

    /// The same where there are rings behind the blocks, if so many members can have some.
    ///
    /// # Safety
    /// As for [`Control::at`], of [`Control::len_with_rings`] bytes.
    pub unsafe fn with_rings(mut self) -> Control {
        self.has_rings = mapped::all_bytes(self.members) > 0;
        self
    }

    /// Whether there are rings.
    pub fn has_rings(&self) -> bool {
        self.has_rings
    }

    /// The ring from a member to another.
    #[inline]
    pub fn ring(&self, origin: usize, target: usize) -> Option<Ring<Mapped<'_>>> {
        if !self.has_rings {
            return None;
        }
        let rings = self.base.wrapping_add(Control::len(self.members));
        // SAFETY: by the promise to `with_rings`; blocks take a multiple of 64 bytes.
        unsafe { Mapped::of(rings, self.members, origin, target) }.map(Ring)
    }

    /// How many bytes from the beginning may have been written to, where there are rings, which few windows use. To be asked
    /// when nobody leaves anything in them any more.
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
        let pid = self.block(member).pid.0.load(Ordering::Relaxed);
        let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid != 0) else {
            return false;
        };
        // SAFETY: no signal is sent and no memory is passed.
        let there = unsafe { libc::kill(pid, 0) } == 0;
        !there && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    /// The error of who waited for a member that is dead, or for what it held.
    #[cold]
    pub fn lost(&self, process: &Process, member: usize) -> Error {
        let peer = self.peers[member];
        let known = process.loss_among(|lost| lost == peer);
        known.unwrap_or_else(|| {
            let why = "its process has ended without MPI_Finalize, inside an epoch of a window; locks \
                       that it held are free again";
            lost_peer(peer, why)
        })
    }

    /// An error if one of these members is dead.
    pub fn check(&self, process: &Process, mut members: impl Iterator<Item = usize>) -> Result<()> {
        match members.find(|member| self.is_dead(*member)) {
            Some(member) => Err(self.lost(process, member)),
            None => Ok(()),
        }
    }

    /// A record of a member's for a lock.
    #[inline(always)]
    pub fn record(&self, member: usize, place: usize) -> &AtomicU32 {
        self.count(member, self.members + place)
    }

    #[inline(always)]
    fn count(&self, member: usize, place: usize) -> &AtomicU32 {
        let block = size_of::<Head>() + member * self.stride;
        let at = block + size_of::<Block>() + place * size_of::<AtomicU32>();
        // SAFETY: as for `block`; behind it are 3 counts for each member, and one.
        unsafe { &*self.base.add(at).cast() }
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: by the promise to `at`.
        unsafe { &*self.base.cast() }
    }

    #[inline(always)]
    pub(crate) fn block(&self, member: usize) -> &Block {
        // SAFETY: by the promise to `at`; members are counted from 0 to their number.
        unsafe {
            &*self
                .base
                .add(size_of::<Head>() + member * self.stride)
                .cast()
        }
    }

    /// A member's slot for requests.
    pub fn slot(&self, member: usize) -> &RequestSlot {
        &self.block(member).slot
    }

    /// Whether both are of the same window.
    pub fn is_same(&self, other: &Control) -> bool {
        self.base == other.base
    }

    /// As if a member's process were another.
    #[cfg(test)]
    pub fn set_pid(&self, member: usize, pid: u32) {
        self.block(member).pid.0.store(pid, Ordering::Relaxed);
    }

    /// As if this one died while it had `member`'s memory alone and was changing it by atomic
    /// operations.
    #[cfg(test)]
    pub fn leave_behind(&self, member: usize) {
        std::mem::forget(self.hold(member));
        self.block(self.me).acting.0.store(1, Ordering::Relaxed);
    }

    /// Puts words that loom watches in the place of zeros: those of locks, counts and records.
    ///
    /// # Safety
    /// Nobody uses the blocks yet.
    #[cfg(all(test, loom))]
    pub unsafe fn begin_watched(&self) {
        let at = |word: &LockWord| std::ptr::from_ref(word).cast_mut();
        let locks = (0..self.members).map(|member| at(&self.block(member).lock.0));
        for lock in locks.chain([at(&self.head().all.0)]) {
            // SAFETY: by the promises to this and to `Control::at`.
            unsafe { lock.write(LockWord::default()) };
        }
        for member in 0..self.members {
            for place in 0..3 * self.members + 1 {
                let count = std::ptr::from_ref(self.count(member, place)).cast_mut();
                // SAFETY: as above.
                unsafe { count.write(AtomicU32::new(0)) };
            }
        }
    }

    fn posts(&self, member: usize, by: usize) -> &AtomicU32 {
        self.count(member, by)
    }

    /// Runs `act`, which changes `member`'s memory by atomic operations only and waits for nobody,
    /// for `me`.
    #[inline(always)]
    pub fn acting<T>(&self, member: usize, me: usize, act: impl FnOnce() -> T) -> T {
        if self.words(member, me).begin() {
            let result = act();
            self.words(member, me).end();
            return result;
        }
        self.alone(member, act)
    }

    /// The words for atomic operations by `me` on `member`'s memory.
    #[inline(always)]
    pub fn words(&self, member: usize, me: usize) -> Acting<'_> {
        Acting {
            mine: &self.block(me).acting.0,
            busy: self.block(member).busy.0.word(),
            threaded: !is_alone(),
        }
    }

    /// Keeps all others who do this from `member`'s memory while `act` runs.
    pub fn alone<T>(&self, member: usize, act: impl FnOnce() -> T) -> T {
        let _held = self.hold(member);
        act()
    }

    /// As [`Control::alone`], and keeps atomic operations from it too.
    pub fn all_alone<T>(&self, member: usize, act: impl FnOnce() -> T) -> T {
        let held = self.hold(member);
        for other in 0..self.members {
            let acting = &self.block(other).acting.0;
            held.await_idle(acting, |tries| self.has_died(other, tries));
        }
        act()
    }

    /// Now and then while one waits for a member in the middle of some instructions: whether it is dead.
    #[inline]
    fn has_died(&self, member: usize, tries: u32) -> bool {
        const OFTEN: u32 = 1 << 14;
        tries % OFTEN == OFTEN - 1 && self.is_dead(member)
    }

    fn hold(&self, member: usize) -> Held<'_> {
        let died = |by: u32, tries| self.has_died(by as usize - 1, tries);
        self.block(member).busy.0.hold(self.me as u32 + 1, died)
    }

    /// Between two pieces of a long accumulate: lets somebody else in who waits.
    pub fn give_way(&self, member: usize) {
        self.block(member).busy.0.give_way();
    }

    /// Tells `member` that `by` has posted its memory.
    pub fn post(&self, member: usize, by: usize) {
        self.posts(member, by).fetch_add(1, Ordering::Release);
    }

    /// Waits until `by` has posted its memory to `member`, and takes note of that.
    pub fn await_post(&self, process: &Process, vci: u16, member: usize, by: usize) -> Result<()> {
        let posts = self.posts(member, by);
        let what = Awaited::Post { target: by as u32 };
        Waiter { process, vci, what }.wait(
            || self.check(process, std::iter::once(by)),
            || Ok(posts.load(Ordering::Acquire) > 0),
        )?;
        posts.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Comes to fence number `number`, counted from 1, and waits until all others have.
    ///
    /// # Errors
    /// One of them has died.
    pub fn fence(&self, process: &Process, vci: u16, number: u32) -> Result<()> {
        let fences = |member: usize| &self.block(member).fences.0;
        fences(self.me).store(number, Ordering::Release);
        let mut next = 0;
        let what = Awaited::Fence;
        Waiter { process, vci, what }.wait(
            || self.check(process, 0..self.members),
            || {
                // Others may have come to the next one already.
                while next < self.members
                    && fences(next).load(Ordering::Acquire).wrapping_sub(number) as i32 >= 0
                {
                    next += 1;
                }
                Ok(next == self.members)
            },
        )
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

/// Who waits for a word in shared memory, which rings no bell when it changes: with progress, and naps
/// that are short.
pub(crate) struct Waiter<'a> {
    pub process: &'a Process,
    pub vci: u16,
    pub what: Awaited,
}

impl Waiter<'_> {
    /// Waits until `done` says so. In between, now and then, `check` looks whether it still can.
    pub fn wait(
        &self,
        mut check: impl FnMut() -> Result<()>,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        const NAP: Duration = Duration::from_micros(50);
        const CHECK_EVERY: Duration = Duration::from_millis(50);
        let process = self.process;
        let mut fruitless = 0u32;
        let (mut note, mut rounds, mut last) = (None, 0u32, None);
        loop {
            // Once around without a poll, for what is there already.
            if done()? {
                return Ok(());
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(256) {
                note.get_or_insert_with(|| process.note(self.what, self.vci, std::iter::empty()));
                process.report_if_wanted();
                if last.get_or_insert_with(Instant::now).elapsed() > CHECK_EVERY {
                    check()?;
                    last = None;
                }
            }
            if process.poll(self.vci)? {
                fruitless = 0;
                continue;
            }
            fruitless = fruitless.saturating_add(1);
            match fruitless {
                0..100 => std::hint::spin_loop(),
                100..2_000 => process.give_up_core(),
                _ => std::thread::sleep(NAP),
            }
        }
    }
}

/// Makes everything before visible everywhere before anything after happens.
#[inline(always)]
pub(crate) fn full_fence() {
    // A locked instruction orders all loads and stores as `mfence` does, at half the price. (Streaming
    // stores of long copies end with their own fence, in the C library.)
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds 0 to a word of this function's own stack; no stack pointer moves, and memory that
    // the compiler keeps in registers is written back, since `asm` may read and write memory.
    unsafe {
        let mut own = 0u32;
        std::arch::asm!("lock or dword ptr [{}], 0", in(reg) &raw mut own, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
