//! Polls: acquisitions of a lock by threads that wait for messages.
//!
//! The data behind the lock moves from core to core with it, so that of several waiting threads
//! only one polls for all; if the lock has an active owner, the owner does. The others only check
//! whether some thread polls: they read words that change seldom, and the owner's turn counter,
//! which changes with each turn, only every few microseconds.

use std::cell::Cell;

use super::lease::absence_limit;
use super::{Acquired, BiasedLock, CALLED, COUNT, IDLE, fences, spin, thread_of};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Spins before a thread that found the lock taken, or another thread polling, tries again.
const POLL_BACKOFF: u32 = 6;
/// Polls between two publications of their count; a power of two.
const PUBLISH_EVERY: u32 = 8;
/// Tries that a thread skips after it has seen another thread poll.
const SKIPS: u32 = 8;
/// Microseconds after which an active owner that does not poll is asked to hand over, since others
/// may need a poll.
const CALL_AFTER: u32 = 100;
/// Number of locks of which a thread remembers its observations. A power of two.
const REMEMBERED: usize = 8;

pub(super) struct Polling {
    /// The thread that has polled last.
    poller: AtomicUsize,
    /// The published count of polls.
    published: AtomicU32,
    /// The count of polls. Written under the word lock.
    polls: AtomicU32,
}

impl Polling {
    pub fn new() -> Polling {
        Polling {
            poller: AtomicUsize::new(0),
            published: AtomicU32::new(0),
            polls: AtomicU32::new(0),
        }
    }
}

/// What a thread has last observed of a lock that other threads poll.
#[derive(Clone, Copy)]
struct Observation {
    lock: usize,
    /// The lock's owner, or 0.
    owner: usize,
    /// The owner's turn counter, or the published count of polls.
    count: u32,
    /// With an owner, the time of the observation in microseconds; otherwise the number of skipped
    /// tries.
    at: u32,
    /// Time of the first observation of this owner, in microseconds.
    since: u32,
}

thread_local! {
    static OBSERVATIONS: [Cell<Observation>; REMEMBERED] = const {
        [const {
            Cell::new(Observation {
                lock: 0,
                owner: 0,
                count: 0,
                at: 0,
                since: 0,
            })
        }; REMEMBERED]
    };
}

impl BiasedLock {
    /// Calls `act` with the thread's observation for this lock, which may be of another lock with
    /// the same hash.
    fn with_observation<T>(&self, act: impl FnOnce(&Cell<Observation>, usize) -> T) -> T {
        let lock = std::ptr::from_ref(self) as usize;
        let place = (lock >> 7 ^ lock >> 12) % REMEMBERED;
        OBSERVATIONS.with(|seen| act(&seen[place], lock))
    }

    /// Takes the lock to poll if it is free. Such turns make no owner and do not disturb an active
    /// one; of several polling threads one polls for all.
    #[inline(always)]
    pub fn try_poll(&self) -> Option<Acquired> {
        let me = fences::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
        }
        self.try_poll_beside(me, owner)
    }

    #[inline(never)]
    fn try_poll_beside(&self, me: usize, owner: usize) -> Option<Acquired> {
        if owner != 0 && thread_of(owner) == me {
            if owner & CALLED != 0 {
                self.hand_over(me);
                return None;
            }
            return self.try_beside_owner(owner);
        }
        if owner != 0 && self.has_taken_turns(owner & !CALLED) {
            return None;
        }
        let polling = &self.polling;
        let poller = polling.poller.load(Ordering::Relaxed);
        let is_poller = poller == me;
        // A new lock has no poller, whatever this thread remembers of an earlier lock at its
        // address.
        if !is_poller && poller != 0 && self.is_polled() {
            return None;
        }
        if self.queue.is_used() {
            spin(POLL_BACKOFF); // Waiting threads come first.
        }
        let acquired = self.try_poll_once()?;
        // Only the holder of the word lock changes these.
        if !is_poller {
            polling.poller.store(me, Ordering::Relaxed);
        }
        let polls = polling.polls.load(Ordering::Relaxed).wrapping_add(1);
        polling.polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(PUBLISH_EVERY) {
            polling.published.store(polls, Ordering::Relaxed);
        }
        Some(acquired)
    }

    /// Takes the lock for a single poll if it is free.
    #[inline]
    pub fn try_poll_once(&self) -> Option<Acquired> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            if owner & !COUNT == fences::this_thread() {
                return self.try_as_owner(owner);
            }
            if self.turns[owner & COUNT].load(Ordering::Relaxed) & 1 != 0 {
                return None;
            }
        }
        // Loads first: a failed exchange would take the cache line from the holder.
        if self.word.is_taken() || !self.word.try_lock() {
            spin(POLL_BACKOFF);
            return None;
        }
        // Acquire: sees the writes of an owner that handed over.
        if self.owner.load(Ordering::Acquire) != 0 {
            self.end_owner();
        }
        Some(Acquired::WORD)
    }

    /// Whether the owner, another thread, takes turns, as far as the calling thread has observed.
    #[cold]
    fn has_taken_turns(&self, owner: usize) -> bool {
        if cfg!(loom) {
            return false;
        }
        let now = fences::microseconds();
        let kept = self.with_observation(|seen, lock| {
            let before = seen.get();
            let known = before.lock == lock && before.owner == owner;
            if known && u128::from(now.wrapping_sub(before.at)) < absence_limit().as_micros() {
                return true;
            }
            let count = self.turns[owner & COUNT].load(Ordering::Relaxed);
            let mut since = if known { before.since } else { now };
            if now.wrapping_sub(since) > CALL_AFTER {
                self.call(owner);
                since = now;
            }
            seen.set(Observation {
                lock,
                owner,
                count,
                at: now,
                since,
            });
            // A forgotten observation counts as active: a thread that polls many locks cannot
            // compare.
            let forgotten = before.lock != lock && before.lock != 0;
            let idle = known && count == before.count && count & 1 == 0;
            !(forgotten || idle)
        });
        if kept {
            spin(POLL_BACKOFF);
        }
        kept
    }

    /// Whether the last poller has polled again since this thread last checked. If not, this thread
    /// takes its place; also if it has forgotten its observation, since it would wait forever
    /// otherwise.
    #[cold]
    fn is_polled(&self) -> bool {
        if cfg!(loom) {
            return false;
        }
        let is = self.with_observation(|seen, lock| {
            let before = seen.get();
            let known = before.lock == lock && before.owner == 0;
            if known && before.at < SKIPS {
                let at = before.at + 1;
                seen.set(Observation { at, ..before });
                return true;
            }
            let count = self.polling.published.load(Ordering::Relaxed);
            seen.set(Observation {
                lock,
                owner: 0,
                count,
                at: 0,
                since: 0,
            });
            known && before.count != count
        });
        if is {
            spin(POLL_BACKOFF);
        }
        is
    }

    /// Whether another thread owns the lock and takes turns, so that a visit is not needed.
    #[inline]
    pub fn has_active_owner(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner != 0 && thread_of(owner) != fences::this_thread() && self.is_owner_active(owner)
    }

    fn is_owner_active(&self, owner: usize) -> bool {
        let turns = self.turns[owner & COUNT].load(Ordering::Relaxed);
        let now = fences::microseconds();
        // Concurrent visitors may swap their times, which are about the same.
        if turns & 1 != 0 || self.visited_turns.load(Ordering::Relaxed) != turns {
            self.visited_turns.store(turns, Ordering::Relaxed);
            self.visited_at.store(now, Ordering::Relaxed);
            return true;
        }
        let since = now.wrapping_sub(self.visited_at.load(Ordering::Relaxed));
        u128::from(since) < IDLE.as_micros()
    }
}
