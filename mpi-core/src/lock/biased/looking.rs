//! Looking: threads that wait look again and again whether there is something to do.
//!
//! All that is behind the lock goes from core to core with it, so where several wait one looks for all. As long as a lock has an
//! owner that comes for it, that one does. Who only sees that somebody looks reads what changes seldom, and loads the owner's
//! count of turns, which changes with each, every few microseconds.

use std::cell::Cell;

use super::lease::gone;
use super::{BiasedLock, CALLED, COUNT, IDLE, Way, everywhere, moments, thread_of};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Moments until who has found the lock taken, or another thread looking, looks again.
const LOOK_AGAIN: u32 = 6;
/// Who looks says so once in so many looks; a power of two.
const TELL_EVERY: u32 = 8;
/// How often a thread that has seen another one look goes by that.
const TRUST: u32 = 8;
/// An owner that comes but doesn't look is called after so many microseconds: what a thread waits for may need a look.
const CALL_AFTER: u32 = 100;
/// Locks of which a thread remembers what it has seen. A power of two.
const REMEMBERED: usize = 8;

pub(super) struct Looking {
    /// Who has looked last.
    looker: AtomicUsize,
    /// How often somebody has, as far as it was told.
    told: AtomicU32,
    /// How often. Changed under the word.
    looks: AtomicU32,
}

impl Looking {
    pub fn new() -> Looking {
        Looking {
            looker: AtomicUsize::new(0),
            told: AtomicU32::new(0),
            looks: AtomicU32::new(0),
        }
    }
}

/// What a thread has seen of a lock that others look after.
#[derive(Clone, Copy)]
struct Seen {
    lock: usize,
    /// Its owner, or 0.
    owner: usize,
    /// The owner's turns, or the looks that were told of.
    count: u32,
    /// Of an owner: when, in microseconds. Otherwise how often this thread has gone by it.
    at: u32,
    /// When it saw this owner first.
    since: u32,
}

thread_local! {
    static SEEN: [Cell<Seen>; REMEMBERED] = const {
        [const {
            Cell::new(Seen {
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
    /// What the calling thread remembers of this lock; of another one if it has looked at many.
    fn with_seen<T>(&self, act: impl FnOnce(&Cell<Seen>, usize) -> T) -> T {
        let lock = std::ptr::from_ref(self) as usize;
        let place = (lock >> 7 ^ lock >> 12) % REMEMBERED;
        SEEN.with(|seen| act(&seen[place], lock))
    }

    /// Takes it if it is free, to see whether there is something to do: such turns don't count,
    /// and an owner is not disturbed in its own. Of several threads that look again and again one does it for all.
    #[inline(always)]
    pub fn try_look(&self) -> Option<Way> {
        let me = everywhere::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
        }
        self.try_look_beside(me, owner)
    }

    #[inline(never)]
    fn try_look_beside(&self, me: usize, owner: usize) -> Option<Way> {
        if owner != 0 && thread_of(owner) == me {
            if owner & CALLED != 0 {
                self.hand_over(me);
                return None;
            }
            return self.try_beside_owner(owner);
        }
        if owner != 0 && self.is_kept(owner & !CALLED) {
            return None;
        }
        let looking = &self.looking;
        let looker = looking.looker.load(Ordering::Relaxed);
        let is_looker = looker == me;
        // Nobody has looked at a new lock, whatever this thread remembers of one that was there before.
        if !is_looker && looker != 0 && self.is_looked_after() {
            return None;
        }
        if self.room.is_used() {
            moments(LOOK_AGAIN); // They come first.
        }
        let way = self.try_visit()?;
        // Only who has the word changes these.
        if !is_looker {
            looking.looker.store(me, Ordering::Relaxed);
        }
        let looks = looking.looks.load(Ordering::Relaxed).wrapping_add(1);
        looking.looks.store(looks, Ordering::Relaxed);
        if looks.is_multiple_of(TELL_EVERY) {
            looking.told.store(looks, Ordering::Relaxed);
        }
        Some(way)
    }

    /// As [`BiasedLock::try_look`], for one who passes by.
    #[inline]
    pub fn try_visit(&self) -> Option<Way> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            if owner & !COUNT == everywhere::this_thread() {
                return self.try_as_owner(owner);
            }
            if self.turns[owner & COUNT].load(Ordering::Relaxed) & 1 != 0 {
                return None;
            }
        }
        // Loads first: an exchange takes the line away from who has the lock.
        if self.word.is_taken() || !self.word.try_lock() {
            moments(LOOK_AGAIN);
            return None;
        }
        // Acquire: as in `have_word`.
        if self.owner.load(Ordering::Acquire) != 0 {
            self.end_owner();
        }
        Some(Way::WORD)
    }

    /// Whether the owner, another thread, comes for the lock, as far as the calling one can tell.
    #[cold]
    fn is_kept(&self, owner: usize) -> bool {
        if cfg!(loom) {
            return false;
        }
        let now = everywhere::microseconds();
        let kept = self.with_seen(|seen, lock| {
            let before = seen.get();
            let known = before.lock == lock && before.owner == owner;
            if known && u128::from(now.wrapping_sub(before.at)) < gone().as_micros() {
                return true;
            }
            let count = self.turns[owner & COUNT].load(Ordering::Relaxed);
            let mut since = if known { before.since } else { now };
            if now.wrapping_sub(since) > CALL_AFTER {
                self.call(owner);
                since = now;
            }
            seen.set(Seen {
                lock,
                owner,
                count,
                at: now,
                since,
            });
            // Who looks at many locks can't tell of one that it does not remember.
            let forgotten = before.lock != lock && before.lock != 0;
            let idle = known && count == before.count && count & 1 == 0;
            !(forgotten || idle)
        });
        if kept {
            moments(LOOK_AGAIN);
        }
        kept
    }

    /// Whether the thread that looked last has looked once more since this one last asked. After a while without any, this
    /// one takes its place; also one that has asked about another lock in between, which would ask in vain for ever.
    #[cold]
    fn is_looked_after(&self) -> bool {
        if cfg!(loom) {
            return false;
        }
        let is = self.with_seen(|seen, lock| {
            let before = seen.get();
            let known = before.lock == lock && before.owner == 0;
            if known && before.at < TRUST {
                let at = before.at + 1;
                seen.set(Seen { at, ..before });
                return true;
            }
            let count = self.looking.told.load(Ordering::Relaxed);
            seen.set(Seen {
                lock,
                owner: 0,
                count,
                at: 0,
                since: 0,
            });
            known && before.count != count
        });
        if is {
            moments(LOOK_AGAIN);
        }
        is
    }

    /// Whether another thread owns the lock and comes for it: who only passes by has no business here then.
    #[inline]
    pub fn is_served(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner != 0 && thread_of(owner) != everywhere::this_thread() && self.comes(owner)
    }

    fn comes(&self, owner: usize) -> bool {
        let turns = self.turns[owner & COUNT].load(Ordering::Relaxed);
        let now = everywhere::microseconds();
        // Passers-by that look at once may each take the other's time for its own, which are about the same.
        if turns & 1 != 0 || self.seen.load(Ordering::Relaxed) != turns {
            self.seen.store(turns, Ordering::Relaxed);
            self.seen_at.store(now, Ordering::Relaxed);
            return true;
        }
        let since = now.wrapping_sub(self.seen_at.load(Ordering::Relaxed));
        u128::from(since) < IDLE.as_micros()
    }
}
