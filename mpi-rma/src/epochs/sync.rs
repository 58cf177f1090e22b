//! Synchronization (section 11.5): how epochs begin and end.

use std::sync::atomic::Ordering;

use crate::copied::deferred::TargetProgress;
use crate::epochs::{
    DIRTY, EPOCHS, EXCLUSIVE, FENCE, FenceAssert, LOCK_ALL, LOCK_ALL_UNCHECKED, OF_ALL, SHARED,
    UNCHECKED, sync_error,
};
use crate::locks::control::full_fence;
use crate::messages::lock_queue::GRANTED;
use crate::messages::message::{Kind, Layout};
use crate::messages::service::Service;
use crate::network::lock_protocol::LockMode;
use crate::network::{FEW, Passive};
use crate::window::{AccessMode, Window};
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::process::notes::AwaitedEvent;
use mpi_types::error::{Class, Error, Result};
use netmod_kit::event;

impl Window {
    /// Checks that `target` may be accessed, and acquires its lock if that was deferred.
    #[inline(always)]
    pub(crate) fn enter(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check(target as usize)?;
        self.check_failures(process, Some(target))?;
        if self.mode == AccessMode::Messages && self.epochs.all() & LOCK_ALL != 0 {
            self.lock_deferred(process, target, true)?;
        }
        Ok(())
    }

    /// Fails if a target's process has failed.
    ///
    /// Without a target, fails if the process of any target in an epoch has failed, unless that was
    /// raised on the window or known before the epoch: accesses to other targets go on.
    #[inline(always)]
    fn check_failures(&self, process: &Process, target: Option<u32>) -> Result<()> {
        match process.may_have_losses() {
            true => self.find_failures(process, target),
            false => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_failures(&self, process: &Process, target: Option<u32>) -> Result<()> {
        process.check_suspects()?;
        let members = self.comm.local();
        let lost = match target {
            Some(rank) => process.loss_among(|peer| peer == members.peer(rank)),
            None if process.losses() <= self.raised_losses.load(Ordering::Relaxed) => None,
            None => process.loss_among(|peer| {
                let rank = members.rank_of(peer);
                rank.is_some_and(|rank| self.is_locked(rank as i32))
            }),
        };
        lost.map_or(Ok(()), Err)
    }

    /// Marks all known failures as raised: calls that complete accesses to several targets don't
    /// raise them again.
    #[cold]
    pub fn mark_failures_raised(&self, process: &Process) {
        self.raised_losses
            .store(process.losses(), Ordering::Relaxed);
    }

    /// Opens or closes an epoch between two fences (`MPI_Win_fence`).
    pub fn fence(&self, process: &Process, assert: FenceAssert) -> Result<()> {
        {
            let state = self.epochs.state.lock();
            if self.epochs.locks() > 0 || self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "a target is locked; unlock it before MPI_Win_fence",
                ));
            }
            if state.started.is_some() || state.posted.is_some() {
                return Err(sync_error(
                    "an epoch of MPI_Win_start or MPI_Win_post is open; end it before MPI_Win_fence",
                ));
            }
            if assert.no_precede && self.epochs.fence_used.load(Ordering::Relaxed) {
                return Err(Error::new(
                    Class::Assert,
                    "assert has MPI_MODE_NOPRECEDE, but there were accesses since the last fence; leave it out",
                ));
            }
            self.epochs.fence_used.store(false, Ordering::Relaxed);
            self.epochs
                .all
                .store(if assert.no_succeed { 0 } else { FENCE }, Ordering::Relaxed);
        }
        event!(Rma, Debug, "fence, {:?}", self.mode);
        let flushed = match self.outbox {
            Some(_) => self.settle(process, None, TargetProgress::Expected),
            None => self.flush_dirty(process),
        };
        full_fence();
        // Even if accesses have failed: the others wait.
        mpi_coll::barrier(process, &self.comm)?;
        full_fence();
        flushed
    }

    /// Locks a target (`MPI_Win_lock`).
    pub fn lock(
        &self,
        process: &Process,
        target: u32,
        exclusive: bool,
        unchecked: bool,
    ) -> Result<()> {
        let held;
        {
            let state = self.epochs.state.lock();
            if self.epochs.one(target as usize) & (SHARED | EXCLUSIVE) != 0 {
                return Err(sync_error(format!(
                    "rank {target} is locked already; call MPI_Win_unlock first"
                )));
            }
            if self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "all targets are locked by MPI_Win_lock_all; call MPI_Win_unlock_all first",
                ));
            }
            if state.started.is_some() {
                return Err(sync_error(
                    "an access epoch of MPI_Win_start is open; call MPI_Win_complete first",
                ));
            }
            self.epochs.leave_fence()?;
            let kind = if exclusive { EXCLUSIVE } else { SHARED };
            let note = if unchecked { UNCHECKED } else { 0 };
            self.epochs.targets.change(target, EPOCHS, kind | note);
            held = self.epochs.locks() > 0;
            self.epochs.count_locks(1);
        }
        if unchecked {
            return Ok(());
        }
        let taken = self.acquire_lock(process, target, exclusive, held);
        if taken.is_err() {
            let _state = self.epochs.state.lock();
            self.epochs.count_locks(-1);
            self.epochs.targets.change(target, EPOCHS, 0);
        }
        taken
    }

    /// Acquires a target's lock. `held`: this process holds other locks of the window.
    fn acquire_lock(
        &self,
        process: &Process,
        target: u32,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let kind = if exclusive { "exclusive" } else { "shared" };
        event!(
            Rma,
            Debug,
            "{kind} lock of rank {target} requested, {:?}",
            self.mode
        );
        let taken = match self.mode {
            AccessMode::Mapped | AccessMode::Copied => {
                let (control, vci) = (self.control()?, self.comm.vci());
                control.lock(process, vci, target as usize, exclusive, held)
            }
            AccessMode::Network => {
                let mode = lock_mode(exclusive);
                self.take_remote_lock(process, self.network()?, (target, mode), held)
            }
            AccessMode::Messages => self.request_lock(process, target, exclusive, held),
        };
        event!(
            Rma,
            Debug,
            "{kind} lock of rank {target}: {}",
            if taken.is_ok() { "acquired" } else { "failed" }
        );
        taken
    }

    /// Asks a target for its lock by a message, and waits for it.
    fn request_lock(
        &self,
        process: &Process,
        target: u32,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let how = u64::from(exclusive) | u64::from(held) << 1;
        let what = match self.epochs.all() & LOCK_ALL {
            0 => AwaitedEvent::Lock { target, exclusive },
            _ => AwaitedEvent::LockAll,
        };
        let _note = process.note(what, self.comm.vci(), std::iter::empty());
        match self.request(process, target, Kind::Lock, how)? {
            GRANTED => Ok(()),
            dead => Err(self.holder_failure(process, target, dead - 1)),
        }
    }

    #[cold]
    fn holder_failure(&self, process: &Process, target: u32, dead: u64) -> Error {
        let rank = u32::try_from(dead).ok().filter(|rank| *rank < self.size());
        let known = rank.and_then(|rank| self.check_member(process, rank).err());
        known.unwrap_or_else(|| {
            Error::new(
                Class::ProcFailed,
                format!(
                    "rank {dead} failed while holding the lock of rank {target}; the lock has been \
                     released"
                ),
            )
        })
    }

    fn release_lock(&self, process: &Process, target: u32, exclusive: bool) -> Result<()> {
        event!(Rma, Debug, "lock of rank {target} is released");
        match self.mode {
            AccessMode::Mapped | AccessMode::Copied => {
                let settled = self.complete_on_node(process, Some(target));
                self.control()?.unlock(target as usize, exclusive);
                settled
            }
            AccessMode::Network => {
                // Even if the target has failed: the lock may be stored elsewhere, and others need it.
                let flushed = self.flush_one(process, target);
                let to = (target, lock_mode(exclusive));
                flushed.and(self.give_remote_lock(process, self.network()?, to))
            }
            AccessMode::Messages => {
                let completed = self.complete_here(process, Some(target), true);
                let flushed = self.flush_lanes(process, Some(target));
                self.epochs.take_dirty(target);
                // Even if operations have failed: others may wait for the lock.
                let released = self.request(process, target, Kind::Unlock, u64::from(exclusive));
                completed.and(flushed)?;
                report(target, released?)
            }
        }
    }

    /// The state of network mode.
    fn network(&self) -> Result<&Passive> {
        let lacks = || {
            Error::new(
                Class::Intern,
                "internal error: the window's members need each other's processors",
            )
        };
        self.passive().ok_or_else(lacks)
    }

    /// The state of passive mode, if the window is in it.
    #[inline]
    pub(crate) fn passive(&self) -> Option<&Passive> {
        self.service.as_ref()?.passive()
    }

    /// Unlocks a target, where all accesses are complete then (`MPI_Win_unlock`).
    pub fn unlock(&self, process: &Process, target: u32) -> Result<()> {
        let held = {
            let _state = self.epochs.state.lock();
            let held = self.epochs.one(target as usize);
            if held & (SHARED | EXCLUSIVE) == 0 || held & OF_ALL != 0 {
                return Err(sync_error(format!(
                    "rank {target} is not locked by MPI_Win_lock; call that first"
                )));
            }
            self.epochs.targets.change(target, EPOCHS, 0);
            self.epochs.count_locks(-1);
            held
        };
        if held & UNCHECKED != 0 {
            self.flush_one(process, target)?;
        } else {
            self.release_lock(process, target, held & EXCLUSIVE != 0)?;
        }
        self.check_failures(process, Some(target))
    }

    /// Locks all targets (`MPI_Win_lock_all`).
    ///
    /// In message mode each target but this process itself is locked at its first access.
    pub fn lock_all(&self, process: &Process, unchecked: bool) -> Result<()> {
        {
            let state = self.epochs.state.lock();
            if self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "all targets are locked already; call MPI_Win_unlock_all first",
                ));
            }
            if self.epochs.locks() > 0 || state.started.is_some() {
                return Err(sync_error(
                    "an epoch of MPI_Win_lock or MPI_Win_start is open; end it before \
                     MPI_Win_lock_all",
                ));
            }
            self.epochs.leave_fence()?;
            let note = if unchecked { LOCK_ALL_UNCHECKED } else { 0 };
            self.epochs.all.fetch_or(LOCK_ALL | note, Ordering::Relaxed);
        }
        if unchecked {
            return Ok(());
        }
        let locked = match self.mode {
            AccessMode::Mapped | AccessMode::Copied => {
                self.control()?.lock_all(process, self.comm.vci())
            }
            AccessMode::Network => {
                self.take_remote_lock(process, self.network()?, (0, LockMode::All), false)
            }
            AccessMode::Messages => self.lock_deferred(process, self.rank(), false),
        };
        event!(
            Rma,
            Debug,
            "locks of all ranks: {}",
            if locked.is_ok() { "acquired" } else { "failed" }
        );
        match &locked {
            Ok(()) => self.mark_failures_raised(process),
            Err(_) => {
                self.epochs.all.fetch_and(!LOCK_ALL, Ordering::Relaxed);
            }
        }
        locked
    }

    /// Acquires a lock for `MPI_Win_lock_all`: the first, or a deferred one (`held`: others are
    /// held).
    fn lock_deferred(&self, process: &Process, target: u32, held: bool) -> Result<()> {
        if self.epochs.all() & LOCK_ALL_UNCHECKED != 0 {
            return Ok(());
        }
        let targets = &self.epochs.targets;
        if targets.get(target) & OF_ALL == 0 {
            // Other threads wait here until it is granted.
            let _one_at_a_time = self.epochs.deferred.lock();
            if targets.get(target) & OF_ALL == 0 {
                self.acquire_lock(process, target, false, held)?;
                targets.change(target, 0, OF_ALL | SHARED);
            }
        }
        Ok(())
    }

    /// Unlocks all targets (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// A member has failed. The epoch is over nevertheless.
    pub fn unlock_all(&self, process: &Process) -> Result<()> {
        // Before targets leave the epoch. In message mode the requests to targets that were
        // accessed fail.
        let living = match self.epochs.all() & LOCK_ALL {
            0 => Ok(()),
            _ => match self.mode {
                AccessMode::Mapped | AccessMode::Copied => self.check_failures(process, None),
                AccessMode::Network | AccessMode::Messages => Ok(()),
            },
        };
        self.release_all_locks(process).and(living)
    }

    fn release_all_locks(&self, process: &Process) -> Result<()> {
        let unchecked = {
            let _state = self.epochs.state.lock();
            let all = self.epochs.all();
            if all & LOCK_ALL == 0 {
                return Err(sync_error(
                    "the targets are not locked by MPI_Win_lock_all; call that first",
                ));
            }
            let bits = LOCK_ALL | LOCK_ALL_UNCHECKED;
            self.epochs.all.fetch_and(!bits, Ordering::Relaxed);
            all & LOCK_ALL_UNCHECKED != 0
        };
        if unchecked {
            return self.flush_dirty(process);
        }
        match self.mode {
            AccessMode::Mapped | AccessMode::Copied => {
                let settled = self.complete_on_node(process, None);
                self.control()?.unlock_all();
                settled
            }
            AccessMode::Network => {
                let flushed = self.flush_dirty(process);
                flushed.and(self.give_remote_lock(process, self.network()?, (0, LockMode::All)))
            }
            AccessMode::Messages => {
                // Completes all targets together; then none has anything left when its turn comes.
                let mut result = self.complete_native(process, None, true).map(drop);
                for target in self.epochs.targets.with(OF_ALL) {
                    self.epochs.targets.change(target, OF_ALL | SHARED, 0);
                    result = result.and(self.release_lock(process, target, false));
                }
                result
            }
        }
    }

    /// Completes all operations at a target (`MPI_Win_flush`).
    #[inline]
    pub fn flush(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check_passive(target as usize)?;
        self.flush_one(process, target)?;
        self.check_failures(process, Some(target))
    }

    #[inline]
    pub(crate) fn flush_one(&self, process: &Process, target: u32) -> Result<()> {
        match self.mode {
            AccessMode::Mapped | AccessMode::Copied => self.complete_on_node(process, Some(target)),
            AccessMode::Network => {
                let noted = self.carry_out_noted(process, Some(target));
                self.flush_sent(process, target).and(noted)
            }
            AccessMode::Messages => self.flush_sent(process, target),
        }
    }

    /// Completes what was left to a target, or to all, where accesses are loads, stores and copies.
    #[inline]
    fn complete_on_node(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let settled = self.settle(process, target, TargetProgress::Unknown);
        full_fence();
        settled.and(self.make_progress(process))
    }

    /// Flushes a target, but for the accesses that are noted and not sent yet.
    #[inline]
    pub(crate) fn flush_sent(&self, process: &Process, target: u32) -> Result<()> {
        let waited = self.complete_here(process, Some(target), true)?;
        self.flush_lanes(process, Some(target))?;
        let lane = self.service()?.lanes.get(0);
        if !lane.begin_flush(target, || self.epochs.take_dirty(target)) {
            return self.make_progress_unless(process, waited, Some(target));
        }
        let answered = self.request(process, target, Kind::Flush, 0);
        lane.end_flush(target);
        report(target, answered?)
    }

    /// Completes all operations at all targets (`MPI_Win_flush_all`).
    pub fn flush_all(&self, process: &Process) -> Result<()> {
        self.epochs.check_any_passive()?;
        self.flush_dirty(process)?;
        self.check_failures(process, None)
    }

    /// Completes all pending operations; asks all targets before it waits for the first.
    pub(crate) fn flush_dirty(&self, process: &Process) -> Result<()> {
        match self.mode {
            AccessMode::Mapped | AccessMode::Copied => self.complete_on_node(process, None),
            AccessMode::Network => {
                let noted = self.carry_out_noted(process, None);
                self.flush_all_sent(process).and(noted)
            }
            AccessMode::Messages => self.flush_all_sent(process),
        }
    }

    fn flush_all_sent(&self, process: &Process) -> Result<()> {
        let waited = self.complete_here(process, None, true)?;
        self.flush_lanes(process, None)?;
        let lane = self.service()?.lanes.get(0);
        let mut targets = self.epochs.targets.with(DIRTY);
        targets.extend(lane.asked());
        targets.retain(|target| lane.begin_flush(*target, || self.epochs.take_dirty(*target)));
        if targets.is_empty() {
            return self.make_progress_unless(process, waited, None);
        }
        self.confirm(process, &[(0, targets)])
    }

    /// Asks targets to confirm the operations of some lanes, all of them before it waits for the
    /// first.
    fn confirm(&self, process: &Process, flushes: &[(usize, Vec<u32>)]) -> Result<()> {
        let service = self.service()?;
        let (mut answers, mut result) = (Vec::new(), Ok(()));
        let all = flushes
            .iter()
            .flat_map(|(lane, targets)| targets.iter().map(move |target| (*target, *lane)));
        for to in all.clone() {
            match self.request_to(process, to, Kind::Flush, 0) {
                Ok(answer) => answers.push((to.0, answer)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let answered = await_all(service, process, answers);
        all.for_each(|(target, lane)| service.lanes.get(lane).end_flush(target));
        answered.and(result)
    }

    /// Calls [`Window::make_progress`], unless this call has made progress while it waited.
    #[inline]
    fn make_progress_unless(
        &self,
        process: &Process,
        waited: bool,
        target: Option<u32>,
    ) -> Result<()> {
        match waited {
            true => Ok(()),
            false => {
                self.check_completed_targets(process, target);
                self.make_progress(process)
            }
        }
    }

    /// Checks whether a target, or the targets of all epochs, are alive, in a call that has found
    /// all operations complete: a program that repeats the call gets the loss of a target only so.
    ///
    /// The ends of processes whose memory is mapped are watched (`window::peer_watch`).
    #[inline]
    fn check_completed_targets(&self, process: &Process, target: Option<u32>) {
        if matches!(self.mode, AccessMode::Network | AccessMode::Messages) {
            let members = self.comm.local();
            process.check_polled_peers(self.comm.vci(), || {
                let targets = target.map_or_else(|| self.targets_to_check(), |one| vec![one]);
                targets.into_iter().map(move |rank| members.peer(rank))
            });
        }
    }

    /// Returns the targets of open epochs that this process has accessed. If that is unknown, returns
    /// up to [`FEW`] members, others at each call.
    #[cold]
    fn targets_to_check(&self) -> Vec<u32> {
        let mut targets = self.epochs.targets.with(SHARED | EXCLUSIVE);
        let all = self.epochs.all();
        let defers_locks = self.mode == AccessMode::Messages && all & LOCK_ALL_UNCHECKED == 0;
        if all & LOCK_ALL != 0
            && !defers_locks
            && let Some(service) = &self.service
        {
            let size = self.size();
            let count = size.min(FEW);
            let first = service.next_checked.fetch_add(count, Ordering::Relaxed) % size;
            targets.extend((first..first + count).map(|rank| rank % size));
        }
        targets
    }

    /// Makes progress in a call that waits for nothing: a process that polls mapped memory for
    /// another's accesses must let these in.
    #[inline]
    pub(crate) fn make_progress(&self, process: &Process) -> Result<()> {
        match self.mode {
            AccessMode::Mapped | AccessMode::Copied => process.poll_sometimes(),
            AccessMode::Network | AccessMode::Messages => process.poll(self.comm.vci()).map(drop),
        }
    }

    /// Completes all operations on this side (`MPI_Win_flush_local`); data to be sent was copied.
    #[inline]
    pub fn flush_local(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check_passive(target as usize)?;
        self.settle(process, Some(target), TargetProgress::Unknown)?;
        let waited = self.complete_here(process, Some(target), false)?;
        self.make_progress_unless(process, waited, Some(target))?;
        self.check_failures(process, Some(target))
    }

    /// Completes the operations at all targets on this side (`MPI_Win_flush_local_all`).
    pub fn flush_local_all(&self, process: &Process) -> Result<()> {
        self.epochs.check_any_passive()?;
        self.settle(process, None, TargetProgress::Unknown)?;
        let waited = self.complete_here(process, None, false)?;
        self.make_progress_unless(process, waited, None)?;
        self.check_failures(process, None)
    }

    /// Synchronizes the private and the public copy of the window (`MPI_Win_sync`).
    pub fn sync(&self, process: &Process) -> Result<()> {
        full_fence();
        self.make_progress(process)
    }

    /// Completes operations by the network at a target, or all, and waits for pending answers.
    ///
    /// Completes on this side and, with `there`, also at the targets. Afterwards nothing writes to
    /// the program's memory any more, even on an error. Returns whether it waited, and so has made
    /// progress.
    #[inline]
    pub(crate) fn complete_here(
        &self,
        process: &Process,
        target: Option<u32>,
        there: bool,
    ) -> Result<bool> {
        let native = self.complete_native(process, target, there);
        let answers = self.await_answers(process, target);
        Ok(native? | answers?)
    }

    /// Waits for the answers of a target, or of all, that are pending now. Returns whether it
    /// waited.
    ///
    /// Ignores what other threads ask for meanwhile.
    #[inline]
    pub(crate) fn await_answers(&self, process: &Process, target: Option<u32>) -> Result<bool> {
        let Some(service) = &self.service else {
            return Ok(false);
        };
        let (mut waited, mut result) = (false, Ok(()));
        for lane in service.lanes.iter() {
            let until = {
                let origin = lane.origin.lock();
                if origin.fetches.is_empty() && !origin.has_losses() {
                    continue;
                }
                origin.mark()
            };
            // Answers of failed processes end with an error.
            process.wait_ignoring_loss(lane.vci, || {
                let over = !lane.origin.lock().awaits(target, until);
                waited |= !over;
                Ok(over.then_some(()))
            })?;
            result = result.and(lane.origin.lock().raise_loss(target));
        }
        result.map(|()| waited)
    }

    /// Completes operations of lanes other than the first, which synchronization messages don't
    /// follow; and those of the first that came back from the network and are noted nowhere else.
    #[inline]
    pub(crate) fn flush_lanes(&self, process: &Process, target: Option<u32>) -> Result<()> {
        match &self.service {
            Some(service) if service.lanes.len() > 1 || service.keys.on => {
                self.flush_other_lanes(process, target)
            }
            _ => Ok(()),
        }
    }

    fn flush_other_lanes(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let lanes = self.service()?.lanes.iter().enumerate();
        let flushes: Vec<_> = lanes
            .map(|(number, lane)| (number, lane.begin_flushes(target)))
            .filter(|(_, targets)| !targets.is_empty())
            .collect();
        match flushes.is_empty() {
            true => Ok(()),
            false => self.confirm(process, &flushes),
        }
    }

    /// Sends `target` a request that it answers by a word, and waits for the answer.
    fn request(&self, process: &Process, target: u32, kind: Kind, a: u64) -> Result<u64> {
        let answer = self.request_to(process, (target, 0), kind, a)?;
        await_word(self.service()?, process, answer)
    }

    /// Sends a request that a target answers by a word.
    fn request_to(
        &self,
        process: &Process,
        to: (u32, usize),
        kind: Kind,
        a: u64,
    ) -> Result<Answer> {
        let service = self.service()?;
        let tag = service.lanes.get(to.1).tag();
        let post = |buffer| service.expect(process, to, tag, buffer);
        let answer = Loan::new(service.word(0), post)?;
        let message = service.message(kind, tag, [a, 0], Layout::NONE);
        match service.ask(process, to, message) {
            Ok(()) => Ok(answer),
            Err(error) => {
                answer.abort(process)?;
                Err(error)
            }
        }
    }
}

fn lock_mode(exclusive: bool) -> LockMode {
    match exclusive {
        true => LockMode::Exclusive,
        false => LockMode::Shared,
    }
}

/// The buffer of a target's answer, one word.
type Answer = Loan<Vec<u8>>;

fn await_word(service: &Service, process: &Process, answer: Answer) -> Result<u64> {
    let bytes = answer.wait(process)?;
    let word = bytes
        .first_chunk()
        .map_or(0, |word| u64::from_ne_bytes(*word));
    service.give_back(bytes);
    Ok(word)
}

/// Waits for the answers of several targets, all of them; returns the first error.
fn await_all(service: &Service, process: &Process, answers: Vec<(u32, Answer)>) -> Result<()> {
    let mut result = Ok(());
    for (target, answer) in answers {
        let failed = await_word(service, process, answer);
        result = result.and(failed.and_then(|failed| report(target, failed)));
    }
    result
}

fn report(target: u32, failed: u64) -> Result<()> {
    if failed == 0 {
        return Ok(());
    }
    Err(Error::new(
        Class::RmaRange,
        format!(
            "{failed} operations on rank {target} went beyond the memory of its window; check \
             displacements and what is attached there"
        ),
    ))
}
