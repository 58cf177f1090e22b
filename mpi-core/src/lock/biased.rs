//! The lock of a VCI: biased towards the thread that uses it, which takes it by plain stores and
//! loads.
//!
//! *Bias.* An atomic exchange waits until all earlier stores of its core are visible, including
//! those of a message to another core, which costs a short send noticeably
//! (docs/decisions/vci-lock.md). A thread that takes the lock often enough in a row therefore
//! becomes its *owner*. The owner makes its turn counter odd, checks that it still is the owner,
//! and is inside. Another thread *revokes* the ownership: it takes the word lock, clears the owner,
//! makes the kernel put a fence into all threads of the process (`membarrier`), and waits until the
//! counter is even. Either the owner sees that it has lost the ownership, or the other thread sees
//! that the owner is inside.
//!
//! *Leases* (`lease.rs`, `queue.rs`). Threads that share the lock own it in turn, each for as long
//! as it has work.
//!
//! *Polls* (`polling.rs`). Threads that wait for messages take the lock to poll; one thread polls
//! for all.

use std::num::NonZeroU8;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::Lock;
use super::fences;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, yield_now};

mod lease;
mod polling;
mod queue;

use lease::Leases;
use polling::Polling;
use queue::WaitQueue;

/// Initial number of turns in a row that make a thread the owner; doubles with each revocation.
const BIAS_TURNS: u32 = if cfg!(loom) { 1 } else { 64 };
/// Upper bound of [`BIAS_TURNS`] after revocations.
const BIAS_TURNS_MAX: u32 = 1 << 20;
/// Turns in a row if no thread may own the lock.
const NEVER: u32 = u32::MAX;
/// Threads that can own a lock in its lifetime. Each has its own counter, since a thread that
/// notices a revocation late still changes it. A power of two.
const OWNERS: usize = if cfg!(loom) { 2 } else { 32 };
/// Bits of an owner's word that hold the index of its counter, below those of the thread number.
const COUNT: usize = OWNERS - 1;
/// Flag of an owner's word: the owner is asked to hand over. Not part of any thread's number, nor
/// is [`BY_WORD`].
const CALLED: usize = 1 << (usize::BITS - 1);
/// Flag of an owner's word: the owner takes its turns under the word lock and is revoked without a
/// fence.
const BY_WORD: usize = 1 << (usize::BITS - 2);
/// Time after which an owner without turns counts as idle.
const IDLE: Duration = Duration::from_micros(100);
/// Polls of a revoking thread before it yields the core, which the owner may need.
const YIELD_EVERY: u32 = 64;

/// How a thread has acquired the lock: as its owner (index of the counter plus one), or by the word
/// lock. One byte, so that a guard without a lock costs nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquired(NonZeroU8);

impl Acquired {
    /// By the word lock.
    const WORD: Acquired = Acquired(NonZeroU8::MAX);
    /// By the word lock; the thread becomes the owner when it unlocks.
    const BECOMING_OWNER: Acquired = Acquired(NonZeroU8::MIN.saturating_add(OWNERS as u8));

    /// By the word lock; the thread becomes an owner by the word ([`BY_WORD`]) when it unlocks.
    const BECOMING_OWNER_BY_WORD: Acquired =
        Acquired(NonZeroU8::MIN.saturating_add(OWNERS as u8 + 1));

    #[inline(always)]
    fn owner(number: usize) -> Acquired {
        Acquired(NonZeroU8::MIN.saturating_add(number as u8))
    }

    /// Returns the index of the owner's counter, or a number from [`OWNERS`] on.
    #[inline(always)]
    fn number(self) -> usize {
        usize::from(self.0.get()) - 1
    }

    /// Returns whether it is a turn of the owner, which [`BiasedLock::owner_turns`] counts.
    #[inline(always)]
    pub fn is_owners(self) -> bool {
        self.number() < OWNERS
    }
}

/// A turn of the owner: the index of its counter.
#[derive(Clone, Copy)]
pub(crate) struct OwnersTurn(usize);

impl From<OwnersTurn> for Acquired {
    #[inline(always)]
    fn from(OwnersTurn(number): OwnersTurn) -> Acquired {
        Acquired::owner(number)
    }
}

/// Result of an owner's attempt to begin a turn.
enum Begun {
    /// The thread holds the lock.
    In(OwnersTurn),
    /// The thread held the lock already.
    Already,
    /// The ownership was revoked; the thread does not hold the lock.
    NoLonger,
}

pub(crate) struct BiasedLock {
    word: Lock,
    /// The last thread that held the word lock. Written under the word lock, as is `run_length`.
    last_holder: AtomicUsize,
    /// Turns in a row of that thread.
    run_length: AtomicU32,
    /// Turns in a row that make an owner.
    bias_turns: AtomicU32,
    /// Thread of each counter, or 0. Written under the word lock.
    owners: [AtomicUsize; OWNERS],
    /// Ownerships so far, each of which moved a counter by 2. Written under the word lock.
    ownerships: AtomicU32,
    leases: Leases,
    /// The owner's counter as a visiting thread last saw it, and the time of its last change in
    /// microseconds.
    visited_turns: AtomicU32,
    visited_at: AtomicU32,
    // On separate cache lines: waiting threads read `owner`, which changes seldom, and not `turns`,
    // which changes with each turn.
    /// The owner with the index of its counter and flags; 0 if there is none.
    owner: CachePadded<AtomicUsize>,
    /// Counter of each owner: odd while it holds the lock as the owner.
    turns: CachePadded<[AtomicU32; OWNERS]>,
    queue: CachePadded<WaitQueue>,
    polling: CachePadded<Polling>,
}

/// Returns the thread number in an owner's word.
#[inline(always)]
fn thread_of(owner: usize) -> usize {
    owner & !(COUNT | BY_WORD | CALLED)
}

impl BiasedLock {
    /// Creates a lock. It has owners if several threads use it and the kernel supports asymmetric
    /// fences.
    pub fn new(threaded: bool) -> BiasedLock {
        BiasedLock {
            word: Lock::new(),
            last_holder: AtomicUsize::new(0),
            run_length: AtomicU32::new(0),
            bias_turns: AtomicU32::new(if threaded { first_bias_turns() } else { NEVER }),
            owners: std::array::from_fn(|_| AtomicUsize::new(0)),
            ownerships: AtomicU32::new(0),
            leases: Leases::new(),
            visited_turns: AtomicU32::new(0),
            visited_at: AtomicU32::new(0),
            owner: CachePadded::new(AtomicUsize::new(0)),
            turns: CachePadded::new(std::array::from_fn(|_| AtomicU32::new(0))),
            queue: CachePadded::new(WaitQueue::new()),
            polling: CachePadded::new(Polling::new()),
        }
    }

    /// Lets the lock become biased from now on: several threads are going to use it.
    pub fn enable_bias(&self) {
        self.bias_turns.store(first_bias_turns(), Ordering::Relaxed);
    }

    /// Takes the lock if it is free and no other thread owns it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Acquired> {
        let me = fences::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
        }
        if owner != 0 {
            return self.try_beside_owner(owner);
        }
        self.word.try_lock().then(|| self.finish_word_lock(me))
    }

    /// Begins a turn if the calling thread is the owner and does not hold the lock.
    #[inline(always)]
    pub fn try_owner(&self) -> Option<OwnersTurn> {
        let owner = self.owner.load(Ordering::Relaxed);
        // An owner's word exceeds its thread's number by the index of the counter; flags make it
        // larger by far.
        let number = fences::above_this_thread(owner);
        if number >= OWNERS {
            return None;
        }
        match self.begin_turn(owner, number) {
            Begun::In(turn) => Some(turn),
            Begun::Already | Begun::NoLonger => None,
        }
    }

    /// Ends a turn of the owner.
    ///
    /// # Safety
    /// The turn was begun by the calling thread on this lock and has not been ended.
    #[inline(always)]
    pub unsafe fn end_turn(&self, OwnersTurn(number): OwnersTurn) {
        let own = &self.turns[number & COUNT];
        let turns = own.load(Ordering::Relaxed);
        // Release: a revoking thread sees this thread's writes.
        own.store(turns.wrapping_add(1), Ordering::Release);
    }

    /// Returns the turns that owners have taken, modulo 2^31. The caller holds the lock.
    pub fn owner_turns(&self) -> u32 {
        let moved = self.turns.iter();
        let turns = moved.map(|own| own.load(Ordering::Relaxed) / 2);
        let all = turns.fold(0, u32::wrapping_add);
        all.wrapping_sub(self.ownerships.load(Ordering::Relaxed)) & (u32::MAX >> 1)
    }

    /// Begins a turn of the owner; `owner` is its word as just read, `number` the index in it.
    #[inline(always)]
    fn begin_turn(&self, owner: usize, number: usize) -> Begun {
        let own = &self.turns[number];
        // Only this thread changes its counter.
        let turns = own.load(Ordering::Relaxed);
        if turns & 1 != 0 {
            return Begun::Already;
        }
        own.store(turns.wrapping_add(1), Ordering::Relaxed);
        fences::light();
        if self.owner.load(Ordering::Relaxed) == owner {
            return Begun::In(OwnersTurn(number));
        }
        self.abandon_turn(number);
        Begun::NoLonger
    }

    /// Ends a turn that was begun after the ownership was revoked.
    #[cold]
    #[inline(never)]
    fn abandon_turn(&self, number: usize) {
        // SAFETY: the caller has just begun the turn.
        unsafe { self.end_turn(OwnersTurn(number)) };
    }

    /// Takes the lock as the owner, or without ownership if it was just revoked.
    #[inline(always)]
    fn try_as_owner(&self, owner: usize) -> Option<Acquired> {
        match self.begin_turn(owner, owner & COUNT) {
            Begun::In(OwnersTurn(number)) => Some(Acquired::owner(number)),
            Begun::Already => None,
            Begun::NoLonger => self.try_as_others(),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_as_others(&self) -> Option<Acquired> {
        let me = fences::this_thread();
        if self.owner.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.word.try_lock().then(|| self.finish_word_lock(me))
    }

    /// Finishes an acquisition of the word lock, which excludes an owner from now on.
    #[inline(always)]
    fn finish_word_lock(&self, me: usize) -> Acquired {
        // Acquire: sees the writes of an owner that handed over.
        if self.owner.load(Ordering::Acquire) != 0 {
            self.end_owner();
        }
        // Only the holder of the word lock changes `run_length` and `last_holder`.
        let run = self.run_length.load(Ordering::Relaxed);
        if self.last_holder.load(Ordering::Relaxed) != me {
            self.last_holder.store(me, Ordering::Relaxed);
            self.run_length.store(1, Ordering::Relaxed);
            return Acquired::WORD;
        }
        let run = run.saturating_add(1);
        self.run_length.store(run, Ordering::Relaxed);
        match run < self.bias_turns.load(Ordering::Relaxed) {
            true => Acquired::WORD,
            false => self.bias(),
        }
    }

    #[cold]
    #[inline(never)]
    fn bias(&self) -> Acquired {
        match self.bias_turns.load(Ordering::Relaxed) {
            NEVER => Acquired::WORD,
            _ => Acquired::BECOMING_OWNER,
        }
    }

    /// Revokes the ownership and waits until the owner is outside. The caller holds the word lock.
    #[cold]
    #[inline(never)]
    fn end_owner(&self) {
        // Acquire: the owner may have handed over since the caller's load; sees its writes.
        let owner = self.owner.load(Ordering::Acquire);
        self.owner.store(0, Ordering::Relaxed);
        if owner == 0 || owner & BY_WORD != 0 {
            return;
        }
        fences::heavy();
        self.leases.pause();
        let bias_turns = self.bias_turns.load(Ordering::Relaxed);
        if bias_turns < BIAS_TURNS_MAX {
            self.bias_turns.store(bias_turns * 2, Ordering::Relaxed);
        }
        self.run_length.store(0, Ordering::Relaxed);
        let mut polls = 0_u32;
        // Acquire: sees the owner's writes.
        while self.turns[owner & COUNT].load(Ordering::Acquire) & 1 != 0 {
            spin(1);
            polls += 1;
            if cfg!(loom) || polls.is_multiple_of(YIELD_EVERY) {
                yield_now();
            }
        }
    }

    /// Unlocks.
    ///
    /// # Safety
    /// The calling thread holds the lock, and acquired it as `acquired` says.
    #[inline(always)]
    pub unsafe fn unlock(&self, acquired: Acquired) {
        if acquired.number() < OWNERS {
            // SAFETY: `acquired` names the turn that this thread has begun (# Safety).
            unsafe { self.end_turn(OwnersTurn(acquired.number())) };
        } else if acquired == Acquired::WORD {
            // SAFETY: `acquired` says that this thread holds the word lock (# Safety).
            unsafe { self.word.unlock() };
        } else {
            // SAFETY: `acquired` says that this thread holds the word lock (# Safety).
            unsafe { self.make_owner(acquired) };
        }
    }

    /// Unlocks and makes the calling thread the owner, or an owner by the word.
    ///
    /// # Safety
    /// The calling thread holds the word lock.
    #[cold]
    #[inline(never)]
    unsafe fn make_owner(&self, acquired: Acquired) {
        let me = fences::this_thread();
        // Only the holder of the word lock changes `owners`. A thread that has ended may have had
        // the same number.
        let mine = self.owners.iter().position(|of| {
            let of = of.load(Ordering::Relaxed);
            of == 0 || of == me
        });
        if let Some(number) = mine {
            self.owners[number].store(me, Ordering::Relaxed);
            // A waiting thread that remembers the counter from an earlier ownership sees that it
            // moves.
            let own = &self.turns[number];
            own.store(
                own.load(Ordering::Relaxed).wrapping_add(2),
                Ordering::Relaxed,
            );
            let ownerships = self.ownerships.load(Ordering::Relaxed);
            self.ownerships
                .store(ownerships.wrapping_add(1), Ordering::Relaxed);
            let by_word = if acquired == Acquired::BECOMING_OWNER_BY_WORD {
                BY_WORD
            } else {
                0
            };
            self.owner.store(me | number | by_word, Ordering::Relaxed);
        } else {
            self.bias_turns.store(NEVER, Ordering::Relaxed);
        }
        // SAFETY: this thread holds the word lock (# Safety).
        unsafe { self.word.unlock() };
    }
}

/// Returns the turns in succession that bias a lock no thread has owned yet; `NEVER` without barriers.
fn first_bias_turns() -> u32 {
    match fences::is_ready() {
        true => BIAS_TURNS,
        false => NEVER,
    }
}

/// Spins `count` times, some 10 to 50 ns each.
fn spin(count: u32) {
    for _ in 0..count {
        std::hint::spin_loop();
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
