//! Leases: threads that share a lock own it by turns.
//!
//! All that is behind a VCI's lock goes from core to core with it, which takes as long as a dozen short messages. So a thread that
//! has waited for the lock while another one came for it becomes its owner with its first turn, and stays that until
//!
//! - it has looked in vain whether there is something to do ([`BiasedLock::vacate`]), or
//! - has had the lock for long and is *called*: who waits in front marks the owner's word, which is not what the owner expects
//!   to find there then, and hands over where it comes next, or
//! - does not come: then it is ended by force.
//!
//! To hand over takes no barrier, since the owner does it itself. Force takes one, and so, for a while after it, owners take their
//! turns by the word: those are slower and ended without.

use std::time::{Duration, Instant};

use super::room::cores;
use super::{BY_WORD, BiasedLock, CALLED, COUNT, NEVER, Way, everywhere, thread_of};
use crate::sync::{AtomicU32, Ordering, yield_now};

/// For how long a thread may have a lock that another one waits for. Measured with 2 to 8 threads on a core each: half of it is
/// a quarter slower.
const LEASE: Duration = Duration::from_micros(40);
/// An owner that others wait for and that has not come for so long is ended by force, if it runs on another core. What stops a
/// thread for 1 or 2 µs (an interrupt, a few lines from other cores) is not that.
const GONE: Duration = Duration::from_micros(4);
/// After so long who waits in front sleeps.
const PATIENCE: Duration = Duration::from_micros(60);
/// For how long owners take their turns by the word, in microseconds: after the first force, and at most.
const PAUSE: (u32, u32) = (16, 1024);

/// [`GONE`]; or nothing, where an owner can't come as long as another thread looks.
pub(super) fn gone() -> Duration {
    match cores() {
        1 => Duration::ZERO,
        _ => GONE,
    }
}

pub(super) struct Leases {
    /// When owners need no word again, in microseconds.
    from: AtomicU32,
    /// How long from the next force on.
    pause: AtomicU32,
}

/// How the wait for a lock has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Others come for it.
    Shared,
    /// Nobody does.
    Alone,
}

impl Leases {
    pub fn new() -> Leases {
        Leases {
            from: AtomicU32::new(everywhere::microseconds()),
            pause: AtomicU32::new(PAUSE.0),
        }
    }

    /// An owner was ended by force. Who calls has the word.
    pub fn pause(&self) {
        let pause = self.pause.load(Ordering::Relaxed);
        let from = everywhere::microseconds().wrapping_add(pause);
        self.from.store(from, Ordering::Relaxed);
        self.pause
            .store((pause * 2).min(PAUSE.1), Ordering::Relaxed);
    }

    /// Whether a new owner needs no word, as after some time without force. Who calls has the word.
    pub fn begin(&self) -> bool {
        let left = (self.from.load(Ordering::Relaxed)).wrapping_sub(everywhere::microseconds());
        if (1..=PAUSE.1).contains(&left) {
            return false;
        }
        let pause = self.pause.load(Ordering::Relaxed);
        self.pause
            .store((pause / 2).max(PAUSE.0), Ordering::Relaxed);
        true
    }
}

/// The time since a wait began. Loom's passes by looks.
struct Waited {
    #[cfg(not(loom))]
    start: Instant,
    #[cfg(loom)]
    looks: std::cell::Cell<u32>,
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
        let looks = std::cell::Cell::new(0);
        Waited { looks }
    }

    fn time(&self) -> Duration {
        self.looks.set(self.looks.get() + 1);
        LEASE / 2 * self.looks.get()
    }
}

impl BiasedLock {
    /// Waits for it.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) -> Way {
        let me = everywhere::this_thread();
        // An owner that was called, or is to wait for visitors.
        let had_it = self.hand_over(me);
        self.room.enter(had_it);
        let ended = self.wait_in_front();
        let way = self.have_word(me);
        // SAFETY: entered above.
        unsafe { self.room.leave() };
        match ended {
            Ended::Alone => way,
            Ended::Shared if self.lean.load(Ordering::Relaxed) != NEVER && self.leases.begin() => {
                Way::LEANING
            }
            Ended::Shared => Way::KEEPING,
        }
    }

    /// As [`BiasedLock::lock`], by the word: nobody is the owner while the calling thread has it, nor when it has given it back.
    pub fn lock_by_word(&self) -> Way {
        self.lock();
        Way::WORD
    }

    /// Waits for the word, and has it.
    fn wait_in_front(&self) -> Ended {
        let waited = Waited::new();
        let gone = gone();
        let patience = if gone.is_zero() { GONE } else { PATIENCE };
        let mut now = Duration::ZERO;
        let mut called_at = None;
        // The owner's word and count at the last look.
        let mut seen = (0, 0);
        let mut ended = Ended::Alone;
        loop {
            let calls = self.room.calls();
            let owner = self.owner.load(Ordering::Relaxed) & !CALLED;
            let mut force = false;
            if owner != 0 {
                ended = Ended::Shared;
                let turns = self.turns[owner & COUNT].load(Ordering::Relaxed);
                force = turns & 1 == 0 && (gone.is_zero() || seen == (owner, turns));
                seen = (owner, turns);
                if let Some(at) = called_at {
                    force |= now > at + GONE;
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
                // Another one has become the owner meanwhile.
                // SAFETY: taken just now.
                unsafe { self.word.unlock() };
            }
            if now > patience {
                // What an owner does takes long, or this thread is not in time.
                self.word.lock_after(1);
                return Ended::Alone;
            }
            let due = now + GONE;
            loop {
                std::hint::spin_loop();
                if cfg!(loom) {
                    yield_now();
                }
                now = waited.time();
                if owner == 0 || now >= due || self.room.calls() != calls {
                    break;
                }
            }
        }
    }

    /// Asks the owner to hand over, if it is that still.
    pub(super) fn call(&self, owner: usize) {
        let called = owner | CALLED;
        let relaxed = Ordering::Relaxed;
        // If it fails there is another one, or none.
        let _ = self.owner.compare_exchange(owner, called, relaxed, relaxed);
    }

    /// Lets others that wait have the lock: the calling thread, which does not have it just now, has found nothing to do.
    #[inline(always)]
    pub fn vacate(&self) {
        if self.room.is_used() {
            self.hand_over(everywhere::this_thread());
        }
    }

    /// Ends the ownership of the calling thread, `me`, if it is the owner and not in. Returns whether it is.
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
            // Release: who takes the lock sees what this thread has done. If both fail, somebody else has ended it.
            let ended = self.owner.compare_exchange(word, 0, release, relaxed);
            if ended.is_ok() {
                break;
            }
        }
        self.room.call();
        true
    }

    /// Takes it while there is an owner that takes its turns by the word, if the calling thread is that and not called.
    #[cold]
    #[inline(never)]
    pub(super) fn try_beside_owner(&self, owner: usize) -> Option<Way> {
        let me = everywhere::this_thread();
        if thread_of(owner) != me {
            return None;
        }
        // Who is called hands over when it waits.
        if owner & CALLED != 0 || owner & BY_WORD == 0 || !self.word.try_lock() {
            return None;
        }
        // Acquire: as in `have_word`.
        let now = self.owner.load(Ordering::Acquire);
        if now & !CALLED == owner {
            let own = &self.turns[owner & COUNT];
            let turns = own.load(Ordering::Relaxed);
            own.store(turns.wrapping_add(2), Ordering::Relaxed);
            return Some(Way::WORD);
        }
        if now == 0 {
            return Some(self.have_word(me));
        }
        // SAFETY: taken above.
        unsafe { self.word.unlock() };
        None
    }
}
