//! Locks in shared memory that admit two kinds of users, never both kinds at once.
//!
//! A lock is one word that counts who is inside and who queues. In the free case entering is one
//! atomic operation on it, and so is leaving. Who finds it taken queues up; those who come later
//! queue behind, so that nobody waits for ever.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::control::wait;
use crate::error::Result;
use crate::process::Process;

/// One user of the first kind is inside.
const FIRST: u64 = 1;
/// One user of the second kind is inside.
const SECOND: u64 = 1 << 24;
/// One user queues.
const QUEUED: u64 = 1 << 48;
const FIRSTS: u64 = SECOND - FIRST;
const SECONDS: u64 = QUEUED - SECOND;

/// As whom a lock is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum As {
    /// One of many readers.
    Reader,
    /// The only writer.
    Writer,
    /// One of many writers, who exclude only readers here, and each other elsewhere.
    AnyWriter,
}

impl As {
    fn one(self) -> u64 {
        match self {
            As::Reader => FIRST,
            As::Writer | As::AnyWriter => SECOND,
        }
    }

    /// Who must not be inside.
    fn excluded(self) -> u64 {
        match self {
            As::Reader => SECONDS,
            As::Writer => FIRSTS | SECONDS,
            As::AnyWriter => FIRSTS,
        }
    }
}

/// The lock. All zeros is free.
#[repr(C)]
#[derive(Default)]
pub(super) struct Rooms {
    word: AtomicU64,
    /// The next number in the queue, and the number whose turn it is.
    next: AtomicU32,
    turn: AtomicU32,
}

impl Rooms {
    /// Enters. `at_once`: past the queue. That is for those who are inside of another lock already,
    /// since somebody in this queue may wait for them.
    pub fn enter(&self, process: &Process, vci: u16, who: As, at_once: bool) -> Result<()> {
        let barred = match at_once {
            true => who.excluded(),
            false => who.excluded() | !(FIRSTS | SECONDS),
        };
        // Acquire: pairs with the release in `leave`; who enters sees what those before have done.
        match who {
            As::Writer => {
                let inside = self.word.load(Ordering::Relaxed);
                if inside & barred == 0 && self.replace(inside, inside + SECOND) {
                    return Ok(());
                }
            }
            As::Reader | As::AnyWriter => {
                let found = self.word.fetch_add(who.one(), Ordering::Acquire);
                if found & barred == 0 {
                    return Ok(());
                }
                self.word.fetch_sub(who.one(), Ordering::Relaxed);
            }
        }
        self.queue(process, vci, who, at_once)
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        self.word
            .compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn queue(&self, process: &Process, vci: u16, who: As, at_once: bool) -> Result<()> {
        let mut change = who.one();
        let mut ticket = None;
        if !at_once {
            // From now on newcomers queue behind. In the queue, the one in front alone looks for
            // room, and takes others of its kind in by going on.
            self.word.fetch_add(QUEUED, Ordering::Relaxed);
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            wait(process, vci, || self.turn.load(Ordering::Acquire) == number)?;
            change = change.wrapping_sub(QUEUED);
            ticket = Some(number);
        }
        wait(process, vci, || {
            let inside = self.word.load(Ordering::Relaxed);
            inside & who.excluded() == 0 && self.replace(inside, inside.wrapping_add(change))
        })?;
        if let Some(number) = ticket {
            self.turn.store(number.wrapping_add(1), Ordering::Release);
        }
        Ok(())
    }

    /// Leaves.
    pub fn leave(&self, who: As) {
        self.word.fetch_sub(who.one(), Ordering::Release);
    }
}
