//! Locks of windows whose members do without each other's processors: [`crate::network::lock_protocol`] carried out, with
//! waiting and the loss of those who are waited for.
//!
//! Who waits looks at the word again and again, less often the longer it takes, and makes progress meanwhile.
//! It looks after those who may have the lock: by name if the word says who, otherwise after all members of a
//! small window, and after some of a large one at a time.
//!
//! When a member is lost, who waits at a word takes out what the lost one has there. If that was in the way,
//! it first counts up the word's count of the fallen, and gets `MPIX_ERR_PROC_FAILED`; so does whoever else
//! has waited for some time and sees that count changed. Later the lock is as good as any. In windows of more than
//! 21 members words count members and don't name them, but for who has an exclusive lock; then whoever waits
//! for others gets the error as soon as any member is lost.

use std::time::{Duration, Instant};

use netmod::AtomicOp;

use crate::locks::control::full_fence;
use crate::messages::service::Service;
use crate::network::lock_protocol::{Acquire, Layout, Place, Step, Wish, writer_of};
use crate::network::{FEW, HOME, Passive, Word};
use crate::window::Window;
use mpi_core::process::Process;
use mpi_core::process::notes::{AwaitedEvent, WaitNote};
use mpi_types::error::{Class, Error, Result};

/// Before who waits takes note of the count of the fallen: nobody is found to be lost earlier.
const SOON: Duration = Duration::from_millis(2);

/// Where a place's words are.
fn words(place: Place, target: u32) -> ((u32, Word), (u32, Word)) {
    match place {
        Place::Home => ((HOME, Word::ALL), (HOME, Word::ALL_FALLEN)),
        Place::Lock => ((target, Word::LOCK), (target, Word::LOCK_FALLEN)),
    }
}

impl Window {
    /// Takes a lock; for [`Wish::All`] `target` means nothing. `held`: the process has other locks of the
    /// window.
    pub(crate) fn take_remote_lock(
        &self,
        process: &Process,
        passive: &Passive,
        (target, wish): (u32, Wish),
        held: bool,
    ) -> Result<()> {
        let service = self.service()?;
        // One note at home is for all exclusive locks of the process: who makes it keeps others from that
        // meanwhile, and waits for those who have all locks only.
        let mut home = (wish == Wish::Exclusive).then(|| passive.exclusive.lock());
        let writes = home.as_ref().is_some_and(|count| **count > 0);
        let mut acquire = Acquire::new(passive.layout, self.rank(), wish, held, writes);
        let mut wait = Wait::new(self, process, (target, wish));
        let taken = loop {
            if acquire.is_past_home()
                && let Some(mut count) = home.take()
            {
                *count += 1;
            }
            match acquire.next() {
                Step::Granted => break wait.check_fallen(service),
                Step::Do {
                    place,
                    op,
                    operand,
                    compare,
                } => match service.atomic(process, words(place, target).0, op, operand, compare) {
                    Ok(found) => acquire.found(found),
                    Err(error) => break Err(error),
                },
                Step::Pause(place, word) => {
                    match wait.look_for_lost(service, passive.layout, &acquire, place, word) {
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    }
                    if let Err(error) = wait.pause(service, place, word) {
                        break Err(error);
                    }
                    acquire.go_on();
                }
            }
        };
        if let Err(error) = taken {
            drop(home.take());
            let counted = wish == Wish::Exclusive && acquire.is_past_home();
            let [at_home, at_lock] = acquire.undo();
            let at_home = if wish == Wish::Exclusive { 0 } else { at_home };
            // Whose words these are may be lost, too.
            let _ = self.leave_remote_lock(process, passive, target, [at_home, at_lock], counted);
            return Err(error);
        }
        full_fence();
        Ok(())
    }

    /// Gives a lock back; everything that this process has begun is complete at its targets.
    pub(crate) fn give_remote_lock(
        &self,
        process: &Process,
        passive: &Passive,
        (target, wish): (u32, Wish),
    ) -> Result<()> {
        full_fence();
        let (layout, me) = (passive.layout, self.rank());
        let less = match wish {
            Wish::All => [layout.has_all(me), 0],
            Wish::Shared => [0, layout.reader(me)],
            Wish::Exclusive => [0, layout.writer(me)],
        };
        let less = less.map(u64::wrapping_neg);
        self.leave_remote_lock(process, passive, target, less, wish == Wish::Exclusive)
    }

    /// Adds to the words of a lock what takes this process out of it; `exclusive`: it counts as one for that
    /// the process has a note at home.
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
            // Nobody can want that word any more.
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
    wish: Wish,
    pauses: Pauses<'a>,
    /// The places where this has waited for some time, and what their counts of the fallen were.
    fallen: Vec<(Place, u64)>,
}

impl<'a> Wait<'a> {
    fn new(window: &'a Window, process: &'a Process, (target, wish): (u32, Wish)) -> Wait<'a> {
        let what = match wish {
            Wish::All => AwaitedEvent::LockAll,
            _ => AwaitedEvent::Lock {
                target,
                exclusive: wish == Wish::Exclusive,
            },
        };
        Wait {
            window,
            process,
            target,
            wish,
            pauses: Pauses::new(window, process, what),
            fallen: Vec::new(),
        }
    }

    /// Takes lost members out of a word. An error if one of them was in the way, or may be.
    fn look_for_lost(
        &self,
        service: &Service,
        layout: Layout,
        acquire: &Acquire,
        place: Place,
        word: u64,
    ) -> Result<()> {
        if self.process.losses() == 0 {
            return Ok(());
        }
        let named = writer_of(word).filter(|_| place == Place::Lock);
        let members = match layout {
            Layout::Few => 0..self.window.size(),
            // One who is known by name, or whoever is lost.
            Layout::Many => match named {
                Some(rank) => rank..rank + 1,
                None => 0..0,
            },
        };
        for rank in members.filter(|rank| service.is_lost(self.process, *rank)) {
            let Some(part) = layout.part_of(place, word, rank) else {
                return Err(self.lost(rank));
            };
            if part == 0 {
                continue;
            }
            let (at, fallen) = words(place, self.target);
            let blocked = acquire.is_blocked_by(place, part);
            // Before it is taken out: who then finds the lock free has waited for it, too, and is to see that.
            if blocked {
                self.count_fallen(service, fallen, rank)?;
            }
            let (less, swap) = (word.wrapping_sub(part), AtomicOp::CompareSwap);
            let taken = service.atomic(self.process, at, swap, less, word)? == word;
            if taken && blocked {
                return Err(self.lost(rank));
            }
            // The word is another now. What else is there is seen at the next look.
            return Ok(());
        }
        match layout {
            Layout::Many if named.is_none() => service.loss(self.process, None).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    fn count_fallen(&self, service: &Service, at: (u32, Word), rank: u32) -> Result<()> {
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

    fn lost(&self, rank: u32) -> Error {
        let known = self.window.check_member(self.process, rank).err();
        known.unwrap_or_else(|| {
            let what = match self.wish {
                Wish::All => "locks of the window".to_string(),
                _ => format!("the lock of rank {}", self.target),
            };
            Error::new(
                Class::ProcFailed,
                format!(
                    "rank {rank} is lost, which had {what} when this process waited; it is free again"
                ),
            )
        })
    }

    /// One pause before the next look at a word.
    fn pause(&mut self, service: &Service, place: Place, word: u64) -> Result<()> {
        let known = self.fallen.iter().any(|one| one.0 == place);
        if !known && self.pauses.waited() > SOON {
            let (_, at) = words(place, self.target);
            let count = service.atomic(self.process, at, AtomicOp::Load, 0, 0)?;
            self.fallen.push((place, count));
            return Ok(());
        }
        let holder = writer_of(word).filter(|_| place == Place::Lock);
        self.pauses.pause(holder)
    }

    /// The lock is had: unless one died who was in the way while this waited.
    fn check_fallen(&self, service: &Service) -> Result<()> {
        for &(place, count) in &self.fallen {
            let (_, at) = words(place, self.target);
            let now = service.atomic(self.process, at, AtomicOp::Load, 0, 0)?;
            if now != count {
                return Err(self.lost(now as u32));
            }
        }
        Ok(())
    }
}

/// Pauses between looks at words of others, with progress, that grow with how long it takes.
pub(crate) struct Pauses<'a> {
    window: &'a Window,
    process: &'a Process,
    what: AwaitedEvent,
    since: Option<Instant>,
    rounds: u32,
    /// Who is looked after, and since when.
    note: Option<(WaitNote<'a>, Instant)>,
    /// The first member of a large window that is looked after next.
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

    /// How long it has taken so far.
    pub fn waited(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits a little, for something that `holder`, or whoever, has.
    pub fn pause(&mut self, holder: Option<u32>) -> Result<()> {
        /// The longest pause, as a power of two in microseconds.
        const LONGEST: u32 = 8;
        /// Later they are such a part of what it has taken, up to this.
        const SHARE: u32 = 8;
        const MOST: Duration = Duration::from_millis(2);
        /// From then on the core is given up in between.
        const LONG: Duration = Duration::from_millis(10);
        let (process, vci) = (self.process, self.window.comm.vci());
        let began = Instant::now();
        let waited = began - *self.since.get_or_insert(began);
        self.rounds = self.rounds.saturating_add(1);
        // Those who wait for the same are not to look in step.
        let own = self.window.rank().wrapping_mul(0x9e37_79b9) >> 16;
        let scatter = (own ^ self.rounds.wrapping_mul(37)) % 64;
        let most = 1u64 << self.rounds.min(LONGEST);
        let time = Duration::from_nanos(most * (700 + 10 * u64::from(scatter)));
        // Each look costs the adapter at the word as much as what it is waited for.
        let time = time.max((waited / SHARE).min(MOST));
        if waited > LONG {
            self.look_after(holder);
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

    /// Has the process look whether those who may be in the way still live.
    fn look_after(&mut self, holder: Option<u32>) {
        const ANEW: Duration = Duration::from_millis(250);
        let noted = self.note.as_ref();
        if noted.is_none_or(|(_, since)| since.elapsed() > ANEW) {
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
