//! Leases: threads that share a lock own it in turn.
//!
//! The data behind a VCI's lock moves from core to core with the lock, which costs as much as a
//! dozen short messages. A thread that has waited for a contended lock therefore becomes its owner
//! with its first turn, and stays the owner until
//!
//! - it has polled in vain ([`BiasedLock::vacate`]),
//! - its lease is over and the front waiter *calls* it, by a flag in the owner's word: the owner
//!   then fails its next fast acquisition and hands over, or
//! - it takes no turns: then the front waiter revokes the ownership.
//!
//! Handing over takes no fence, since the owner itself does it. A revocation takes one; for a while
//! after it new owners take their turns under the word lock, which is slower, but can be ended
//! without a fence.

use std::time::{Duration, Instant};

use super::queue::cores;
use super::{Acquired, BY_WORD, BiasedLock, CALLED, COUNT, NEVER, fences, thread_of};
use crate::sync::{AtomicU32, Ordering, yield_now};

/// Longest time that a thread may own a lock that another thread waits for
/// (docs/decisions/vci-lock.md).
const LEASE: Duration = Duration::from_micros(40);
/// An owner without a turn for this long is revoked while others wait, if it runs on another core.
/// Longer than what delays a running thread by 1 or 2 µs, such as an interrupt.
const ABSENCE_LIMIT: Duration = Duration::from_micros(4);
/// Time after which the front waiter sleeps.
const PATIENCE: Duration = Duration::from_micros(60);
/// Microseconds during which owners take their turns under the word lock: after the first
/// revocation, and at most.
const PAUSE: (u32, u32) = (16, 1024);

/// Returns [`ABSENCE_LIMIT`], or zero on one core, where the owner cannot run while another thread
/// polls.
pub(super) fn absence_limit() -> Duration {
    match cores() {
        1 => Duration::ZERO,
        _ => ABSENCE_LIMIT,
    }
}

pub(super) struct Leases {
    /// Time in microseconds from which owners need no word lock again.
    from: AtomicU32,
    /// Length of the pause after the next revocation, in microseconds.
    pause: AtomicU32,
}

/// How the wait for a lock has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Other threads use the lock.
    Shared,
    /// No other thread uses the lock.
    Alone,
}

impl Leases {
    pub fn new() -> Leases {
        Leases {
            from: AtomicU32::new(fences::microseconds()),
            pause: AtomicU32::new(PAUSE.0),
        }
    }

    /// Starts a pause after a revocation. The caller holds the word lock.
    pub fn pause(&self) {
        let pause = self.pause.load(Ordering::Relaxed);
        let from = fences::microseconds().wrapping_add(pause);
        self.from.store(from, Ordering::Relaxed);
        self.pause
            .store((pause * 2).min(PAUSE.1), Ordering::Relaxed);
    }

    /// Whether a new owner needs no word lock: the last pause is over. The caller holds the word
    /// lock.
    pub fn begin(&self) -> bool {
        let left = (self.from.load(Ordering::Relaxed)).wrapping_sub(fences::microseconds());
        if (1..=PAUSE.1).contains(&left) {
            return false;
        }
        let pause = self.pause.load(Ordering::Relaxed);
        self.pause
            .store((pause / 2).max(PAUSE.0), Ordering::Relaxed);
        true
    }
}

/// Time since a wait began. Under loom it advances with each poll.
struct Waited {
    #[cfg(not(loom))]
    start: Instant,
    #[cfg(loom)]
    polls: std::cell::Cell<u32>,
}

#[cfg(not(loom))]
impl Waited {
    fn new() -> Waited {
        let start = Instant::now();
        Waited { start }
    }

    fn time(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(loom)]
impl Waited {
    fn new() -> Waited {
        let polls = std::cell::Cell::new(0);
        Waited { polls }
    }

    fn time(&self) -> Duration {
        self.polls.set(self.polls.get() + 1);
        LEASE / 2 * self.polls.get()
    }
}

impl BiasedLock {
    /// Waits for the lock.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) -> Acquired {
        let me = fences::this_thread();
        // The calling thread may be an owner that was called, or an owner by the word.
        let had_it = self.hand_over(me);
        self.queue.enter(had_it);
        let ended = self.wait_in_front();
        let acquired = self.finish_word_lock(me);
        // SAFETY: `enter` has put this thread in front.
        unsafe { self.queue.leave() };
        match ended {
            Ended::Alone => acquired,
            Ended::Shared
                if self.bias_turns.load(Ordering::Relaxed) != NEVER && self.leases.begin() =>
            {
                Acquired::BECOMING_OWNER
            }
            Ended::Shared => Acquired::BECOMING_OWNER_BY_WORD,
        }
    }

    /// Waits for the lock without becoming its owner: the lock has no owner while the thread holds
    /// it, nor after it unlocks.
    pub fn lock_by_word(&self) -> Acquired {
        self.lock();
        Acquired::WORD
    }

    /// Waits for the word lock and takes it. The calling thread is in front.
    fn wait_in_front(&self) -> Ended {
        let waited = Waited::new();
        let limit = absence_limit();
        let patience = if limit.is_zero() {
            ABSENCE_LIMIT
        } else {
            PATIENCE
        };
        let mut now = Duration::ZERO;
        let mut called_at = None;
        // The owner's word and counter at the last poll.
        let mut seen = (0, 0);
        let mut ended = Ended::Alone;
        loop {
            let calls = self.queue.calls();
            let owner = self.owner.load(Ordering::Relaxed) & !CALLED;
            let mut force = false;
            if owner != 0 {
                ended = Ended::Shared;
                let turns = self.turns[owner & COUNT].load(Ordering::Relaxed);
                force = turns & 1 == 0 && (limit.is_zero() || seen == (owner, turns));
                seen = (owner, turns);
                if let Some(at) = called_at {
                    force |= now > at + ABSENCE_LIMIT;
                } else if now >= LEASE {
                    self.call(owner);
                    called_at = Some(now);
                }
            } else if self.word.is_taken() {
                ended = Ended::Shared;
            }
            if (owner == 0 || force) && !self.word.is_taken() && self.word.try_lock() {
                if force {
                    return Ended::Alone;
                }
                if self.owner.load(Ordering::Relaxed) == 0 {
                    return ended;
                }
                // Another thread has become the owner meanwhile.
                // SAFETY: `try_lock` above has taken the word lock.
                unsafe { self.word.unlock() };
            }
            if now > patience {
                // The owner's turn is long, or this thread was descheduled.
                self.word.lock_after(1);
                return Ended::Alone;
            }
            let due = now + ABSENCE_LIMIT;
            loop {
                std::hint::spin_loop();
                if cfg!(loom) {
                    yield_now();
                }
                now = waited.time();
                if owner == 0 || now >= due || self.queue.calls() != calls {
                    break;
                }
            }
        }
    }

    /// Asks the owner to hand over, if `owner` is still its word.
    pub(super) fn call(&self, owner: usize) {
        let called = owner | CALLED;
        let relaxed = Ordering::Relaxed;
        // The exchange fails if the owner has changed or handed over.
        let _ = self.owner.compare_exchange(owner, called, relaxed, relaxed);
    }

    /// Hands over to waiting threads: the calling thread, which does not hold the lock, has polled
    /// in vain.
    #[inline(always)]
    pub fn vacate(&self) {
        if self.queue.is_used() {
            self.hand_over(fences::this_thread());
        }
    }

    /// Hands over the lock if the calling thread `me` owns it and is outside. Returns whether it
    /// was the owner.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&self, me: usize) -> bool {
        let owner = self.owner.load(Ordering::Relaxed) & !CALLED;
        let is_in = || self.turns[owner & COUNT].load(Ordering::Relaxed) & 1 != 0;
        if owner == 0 || thread_of(owner) != me || is_in() {
            return false;
        }
        for word in [owner, owner | CALLED] {
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            // Release: the next holder sees this thread's writes. If both exchanges fail, another
            // thread has revoked the ownership.
            let ended = self.owner.compare_exchange(word, 0, release, relaxed);
            if ended.is_ok() {
                break;
            }
        }
        self.queue.call();
        true
    }

    /// Takes the lock under the word lock, if the calling thread is an owner by the word and not
    /// called.
    #[cold]
    #[inline(never)]
    pub(super) fn try_beside_owner(&self, owner: usize) -> Option<Acquired> {
        let me = fences::this_thread();
        if thread_of(owner) != me {
            return None;
        }
        // A called owner hands over in its next wait instead.
        if owner & CALLED != 0 || owner & BY_WORD == 0 || !self.word.try_lock() {
            return None;
        }
        // Acquire: sees the writes of an owner that handed over.
        let now = self.owner.load(Ordering::Acquire);
        if now & !CALLED == owner {
            let own = &self.turns[owner & COUNT];
            let turns = own.load(Ordering::Relaxed);
            own.store(turns.wrapping_add(2), Ordering::Relaxed);
            return Some(Acquired::WORD);
        }
        if now == 0 {
            return Some(self.finish_word_lock(me));
        }
        // SAFETY: `try_lock` above has taken the word lock.
        unsafe { self.word.unlock() };
        None
    }
}
