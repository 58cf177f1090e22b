//! Locks of passive-target windows: runs [`crate::network::lock_protocol`], waits, and handles the
//! loss of lock holders.
//!
//! A waiting member polls the word with growing pauses and makes progress meanwhile. It checks that
//! possible holders are alive: the writer if the word names one, otherwise all members of a small
//! window, or a part of a large one at a time.
//!
//! A waiting member subtracts a lost member's part from the word. If that part excluded it, it first
//! increments the word's failure count, and fails with `MPIX_ERR_PROC_FAILED`. So do other members
//! that have waited for some time and find the count changed. Afterwards the lock is usable again.
//! In windows of more than 21 members, words count members and name only an exclusive holder. A
//! member that waits for unnamed holders there fails as soon as any member of the window is lost.

use std::time::{Duration, Instant};

use netmod::AtomicOp;

use crate::locks::control::full_fence;
use crate::messages::service::Service;
use crate::network::lock_protocol::{Acquire, Layout, LockMode, LockWord, Step, writer_of};
use crate::network::{FEW, HOME, Passive, Word};
use crate::window::Window;
use mpi_core::process::Process;
use mpi_core::process::notes::{AwaitedEvent, WaitNote};
use mpi_types::error::{Class, Error, Result};

/// Time of waiting after which the failure count is read first. No loss is detected earlier.
const COUNT_AFTER: Duration = Duration::from_millis(2);

/// Returns the locations of a word and of its failure count.
fn locations(lock_word: LockWord, target: u32) -> ((u32, Word), (u32, Word)) {
    match lock_word {
        LockWord::Home => ((HOME, Word::ALL), (HOME, Word::ALL_FAILURES)),
        LockWord::Lock => ((target, Word::LOCK), (target, Word::LOCK_FAILURES)),
    }
}

impl Window {
    /// Acquires a lock. `target` is ignored for [`LockMode::All`]. `held`: the process holds other
    /// locks of the window.
    pub(crate) fn take_remote_lock(
        &self,
        process: &Process,
        passive: &Passive,
        (target, mode): (u32, LockMode),
        held: bool,
    ) -> Result<()> {
        let service = self.service()?;
        // One registration at home covers all exclusive locks of the process. Other threads wait for
        // the mutex meanwhile; this thread waits only for holders of all locks.
        let mut home = (mode == LockMode::Exclusive).then(|| passive.exclusive.lock());
        let writes = home.as_ref().is_some_and(|count| **count > 0);
        let mut acquire = Acquire::new(passive.layout, self.rank(), mode, held, writes);
        let mut wait = Wait::new(self, process, (target, mode));
        let taken = loop {
            if acquire.has_passed_home()
                && let Some(mut count) = home.take()
            {
                *count += 1;
            }
            match acquire.next() {
                Step::Granted => break wait.check_failure_counts(service),
                Step::Atomic {
                    lock_word,
                    op,
                    operand,
                    compare,
                } => match service.atomic(
                    process,
                    locations(lock_word, target).0,
                    op,
                    operand,
                    compare,
                ) {
                    Ok(found) => acquire.handle_result(found),
                    Err(error) => break Err(error),
                },
                Step::Pause(lock_word, word) => {
                    match wait.clear_lost(service, passive.layout, &acquire, lock_word, word) {
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    }
                    if let Err(error) = wait.pause(service, lock_word, word) {
                        break Err(error);
                    }
                    acquire.resume();
                }
            }
        };
        if let Err(error) = taken {
            drop(home.take());
            let counted = mode == LockMode::Exclusive && acquire.has_passed_home();
            let [at_home, at_lock] = acquire.undo();
            let at_home = if mode == LockMode::Exclusive {
                0
            } else {
                at_home
            };
            // The owners of these words may be lost, too; the first error counts.
            let _ = self.leave_remote_lock(process, passive, target, [at_home, at_lock], counted);
            return Err(error);
        }
        full_fence();
        Ok(())
    }

    /// Releases a lock. The caller has completed this process's operations at their targets.
    pub(crate) fn give_remote_lock(
        &self,
        process: &Process,
        passive: &Passive,
        (target, mode): (u32, LockMode),
    ) -> Result<()> {
        full_fence();
        let (layout, me) = (passive.layout, self.rank());
        let less = match mode {
            LockMode::All => [layout.has_all(me), 0],
            LockMode::Shared => [0, layout.reader(me)],
            LockMode::Exclusive => [0, layout.writer(me)],
        };
        let less = less.map(u64::wrapping_neg);
        self.leave_remote_lock(process, passive, target, less, mode == LockMode::Exclusive)
    }

    /// Adds the given numbers to the words of a lock. `exclusive`: the lock is one of those that the
    /// process's registration at home covers.
    fn leave_remote_lock(
        &self,
        process: &Process,
        passive: &Passive,
        target: u32,
        [mut at_home, at_lock]: [u64; 2],
        exclusive: bool,
    ) -> Result<()> {
        let service = self.service()?;
        let mut count = exclusive.then(|| passive.exclusive.lock());
        if let Some(count) = &mut count {
            **count -= 1;
            if **count == 0 {
                at_home = passive.layout.writes(self.rank()).wrapping_neg();
            }
        }
        let changes = [(target, Word::LOCK, at_lock), (HOME, Word::ALL, at_home)];
        match at_home != 0 && HOME != target && service.is_lost(process, HOME) {
            // No member can use the lost member's home word.
            true => service.add_all(process, &changes[..1]),
            false => service.add_all(process, &changes),
        }
    }
}

/// A wait for a lock.
struct Wait<'a> {
    window: &'a Window,
    process: &'a Process,
    target: u32,
    mode: LockMode,
    pauses: Pauses<'a>,
    /// The words awaited for longer than [`COUNT_AFTER`], and their failure counts then.
    failure_counts: Vec<(LockWord, u64)>,
}

impl<'a> Wait<'a> {
    fn new(window: &'a Window, process: &'a Process, (target, mode): (u32, LockMode)) -> Wait<'a> {
        let what = match mode {
            LockMode::All => AwaitedEvent::LockAll,
            _ => AwaitedEvent::Lock {
                target,
                exclusive: mode == LockMode::Exclusive,
            },
        };
        Wait {
            window,
            process,
            target,
            mode,
            pauses: Pauses::new(window, process, what),
            failure_counts: Vec::new(),
        }
    }

    /// Clears lost members from a word. Fails if one of them held, or may have held, the lock.
    fn clear_lost(
        &self,
        service: &Service,
        layout: Layout,
        acquire: &Acquire,
        lock_word: LockWord,
        word: u64,
    ) -> Result<()> {
        if self.process.losses() == 0 {
            return Ok(());
        }
        let named = writer_of(word).filter(|_| lock_word == LockWord::Lock);
        let members = match layout {
            Layout::Few => 0..self.window.size(),
            // Only the writer has a name; unnamed holders are handled below.
            Layout::Many => match named {
                Some(rank) => rank..rank + 1,
                None => 0..0,
            },
        };
        for rank in members.filter(|rank| service.is_lost(self.process, *rank)) {
            let Some(part) = layout.share_of(lock_word, word, rank) else {
                return Err(self.lost(rank));
            };
            if part == 0 {
                continue;
            }
            let (at, failures) = locations(lock_word, self.target);
            let blocked = acquire.is_blocked_by(lock_word, part);
            // Counted before its part is removed: another member that waits must see the new count
            // when it finds the lock free.
            if blocked {
                self.count_failure(service, failures, rank)?;
            }
            let (less, swap) = (word.wrapping_sub(part), AtomicOp::CompareSwap);
            let taken = service.atomic(self.process, at, swap, less, word)? == word;
            if taken && blocked {
                return Err(self.lost(rank));
            }
            // The word has changed; the next round examines it.
            return Ok(());
        }
        match layout {
            Layout::Many if named.is_none() => service.loss(self.process, None).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    fn count_failure(&self, service: &Service, at: (u32, Word), rank: u32) -> Result<()> {
        let mut old = service.atomic(self.process, at, AtomicOp::Load, 0, 0)?;
        loop {
            let new = ((old >> 32) + 1) << 32 | u64::from(rank);
            let found = service.atomic(self.process, at, AtomicOp::CompareSwap, new, old)?;
            if found == old {
                return Ok(());
            }
            old = found;
        }
    }

    /// Makes the error of a lock whose holder is lost.
    fn lost(&self, rank: u32) -> Error {
        let known = self.window.check_member(self.process, rank).err();
        known.unwrap_or_else(|| {
            let what = match self.mode {
                LockMode::All => "locks of the window".to_string(),
                _ => format!("the lock of rank {}", self.target),
            };
            Error::new(
                Class::ProcFailed,
                format!("rank {rank}, which held {what}, has failed; the lock is free again"),
            )
        })
    }

    /// Pauses before the next poll of a word.
    fn pause(&mut self, service: &Service, lock_word: LockWord, word: u64) -> Result<()> {
        let known = self.failure_counts.iter().any(|one| one.0 == lock_word);
        if !known && self.pauses.waited() > COUNT_AFTER {
            let (_, at) = locations(lock_word, self.target);
            let count = service.atomic(self.process, at, AtomicOp::Load, 0, 0)?;
            self.failure_counts.push((lock_word, count));
            return Ok(());
        }
        let holder = writer_of(word).filter(|_| lock_word == LockWord::Lock);
        self.pauses.pause(holder)
    }

    /// Fails if a member that held the lock has failed while this one waited.
    fn check_failure_counts(&self, service: &Service) -> Result<()> {
        for &(lock_word, count) in &self.failure_counts {
            let (_, at) = locations(lock_word, self.target);
            let now = service.atomic(self.process, at, AtomicOp::Load, 0, 0)?;
            if now != count {
                return Err(self.lost(now as u32));
            }
        }
        Ok(())
    }
}

/// Growing pauses between polls of remote words, with progress.
pub(crate) struct Pauses<'a> {
    window: &'a Window,
    process: &'a Process,
    what: AwaitedEvent,
    since: Option<Instant>,
    rounds: u32,
    /// The peers that are checked for failure, and since when.
    note: Option<(WaitNote<'a>, Instant)>,
    /// The member of a large window that the next check begins with.
    next: u32,
}

impl<'a> Pauses<'a> {
    pub fn new(window: &'a Window, process: &'a Process, what: AwaitedEvent) -> Pauses<'a> {
        Pauses {
            window,
            process,
            what,
            since: None,
            rounds: 0,
            note: None,
            next: 0,
        }
    }

    /// Time since the first pause.
    pub fn waited(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Pauses once. The wait is for `holder`, or for an unknown member.
    pub fn pause(&mut self, holder: Option<u32>) -> Result<()> {
        /// Base-2 logarithm of the longest early pause in microseconds.
        const LONGEST: u32 = 8;
        /// Ratio of the time waited to a later pause.
        const SHARE: u32 = 8;
        /// The longest pause.
        const MOST: Duration = Duration::from_millis(2);
        /// Time waited after which pauses sleep.
        const LONG: Duration = Duration::from_millis(10);
        let (process, vci) = (self.process, self.window.comm.vci());
        let began = Instant::now();
        let waited = began - *self.since.get_or_insert(began);
        self.rounds = self.rounds.saturating_add(1);
        // Members that wait for the same word poll at different times.
        let own = self.window.rank().wrapping_mul(0x9e37_79b9) >> 16;
        let scatter = (own ^ self.rounds.wrapping_mul(37)) % 64;
        let most = 1u64 << self.rounds.min(LONGEST);
        let time = Duration::from_nanos(most * (700 + 10 * u64::from(scatter)));
        // A poll costs the word's adapter as much as the operations that the holder issues.
        let time = time.max((waited / SHARE).min(MOST));
        if waited > LONG {
            self.check_holders(holder);
            process.report_if_wanted();
            process.poll(vci)?;
            std::thread::sleep(time);
            process.poll(vci)?;
            return Ok(());
        }
        loop {
            process.poll(vci)?;
            if began.elapsed() >= time {
                return Ok(());
            }
            match self.rounds < 4 && !process.is_oversubscribed() {
                true => std::hint::spin_loop(),
                false => process.yield_or_nap(),
            }
        }
    }

    /// Checks whether the members that may block this one are alive.
    fn check_holders(&mut self, holder: Option<u32>) {
        /// Time after which other members are checked.
        const ROTATE: Duration = Duration::from_millis(250);
        let noted = self.note.as_ref();
        if noted.is_none_or(|(_, since)| since.elapsed() > ROTATE) {
            let size = self.window.size();
            let (first, count) = match holder {
                Some(rank) => (rank, 1),
                None => (self.next, size.min(FEW)),
            };
            self.next = (first + count) % size;
            let members = self.window.comm.local();
            let peers = (first..first + count).map(|rank| members.peer(rank % size));
            let note = self.process.note(self.what, self.window.comm.vci(), peers);
            self.note = Some((note, Instant::now()));
        }
        self.process.check_awaited_peers();
    }
}
