//! Epochs of groups of origins and targets (section 11.5.2): start, complete, post, wait.

use std::sync::atomic::Ordering;

use netmod::Peer;

use crate::copied::deferred::TargetProgress;
use crate::epochs::{FENCE, LOCK_ALL, STARTED, STARTS, sync_error};
use crate::locks::control::Waiter;
use crate::locks::control::full_fence;
use crate::messages::message::{Kind, Layout};
use crate::network::Word;
use crate::window::Window;
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::process::notes::AwaitedEvent;
use mpi_types::error::{Class, Error, Result};

impl Window {
    /// Returns the ranks in the window of the members of `group`.
    fn ranks(&self, group: &Group) -> Result<Vec<u32>> {
        self.comm.check_groups()?;
        let mine = self.comm.local();
        let rank = |(rank, peer): (usize, u32)| {
            mine.rank_of(peer).ok_or_else(|| {
                Error::new(
                    Class::Group,
                    format!("member {rank} of the group is not in the window's group; take a subset of that"),
                )
            })
        };
        group.peers().enumerate().map(rank).collect()
    }

    /// Begins an access epoch to the members of `group` (`MPI_Win_start`): waits until they have
    /// posted.
    pub fn start(&self, process: &Process, group: &Group) -> Result<()> {
        let targets = self.ranks(group)?;
        {
            let mut state = self.epochs.state.lock();
            if state.started.is_some() {
                return Err(sync_error(
                    "MPI_Win_start has begun an access epoch already; call MPI_Win_complete first",
                ));
            }
            if self.epochs.locks() > 0 || self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "a target is locked; unlock it before MPI_Win_start",
                ));
            }
            self.epochs.leave_fence()?;
            for &target in &targets {
                self.epochs.targets.change(target, 0, STARTED);
            }
            state.started = Some(targets.clone());
            self.epochs.all.fetch_or(STARTS, Ordering::Relaxed);
        }
        // Posts that the program asserts (`MPI_MODE_NOCHECK`) are counted like others.
        let posted = targets
            .iter()
            .try_for_each(|target| self.await_post(process, *target));
        if posted.is_err() {
            // A target has failed: there is no epoch, not even to the targets that have posted.
            self.epochs.state.lock().started = None;
            self.end_started(&targets);
        }
        posted
    }

    fn await_post(&self, process: &Process, target: u32) -> Result<()> {
        let (me, vci) = (self.rank(), self.comm.vci());
        let Some(service) = &self.service else {
            let control = self.control()?;
            return control.await_post(process, vci, me as usize, target as usize);
        };
        if let Some(passive) = service.passive() {
            let mut note = None;
            return process.wait_for_stores(vci, || {
                if self.take_remote_post(process, passive, target)? {
                    return Ok(Some(()));
                }
                let what = AwaitedEvent::Post { target };
                note.get_or_insert_with(|| process.note(what, vci, self.peers(&[target])));
                self.check_member(process, target).map(|()| None)
            });
        }
        if service.take_post(target) {
            return Ok(());
        }
        let _note = process.note(AwaitedEvent::Post { target }, vci, self.peers(&[target]));
        process.wait_ignoring_loss(vci, || {
            if service.take_post(target) {
                return Ok(Some(()));
            }
            self.check_member(process, target).map(|()| None)
        })
    }

    fn peers(&self, ranks: &[u32]) -> impl Iterator<Item = Peer> {
        ranks.iter().map(|rank| self.comm.local().peer(*rank))
    }

    /// Fails if a member is known to have failed.
    pub(crate) fn check_member(&self, process: &Process, rank: u32) -> Result<()> {
        let peer = self.comm.local().peer(rank);
        match process.loss_among(|lost| lost == peer) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Ends the epoch of [`Window::start`] (`MPI_Win_complete`).
    pub fn complete(&self, process: &Process) -> Result<()> {
        let targets = self.epochs.state.lock().started.take().ok_or_else(|| {
            sync_error("no access epoch of MPI_Win_start is open; call MPI_Win_start first")
        })?;
        self.end_started(&targets);
        let settled = self.settle(process, None, TargetProgress::Expected);
        full_fence();
        // Completes all targets together; there are few. After a failure the other targets are
        // signalled nevertheless: each waits for this process in MPI_Win_wait.
        let noted = self.carry_out_noted(process, None);
        let here = self.complete_here(process, None, true).map(drop);
        let mut result = settled.and(here).and(noted);
        let mut words = Vec::new();
        for target in targets {
            match self.passive().filter(|passive| passive.knows(target)) {
                Some(_) => {
                    result = result.and(self.flush_one(process, target));
                    words.push((target, Word::COMPLETIONS, 1));
                }
                None => result = result.and(self.complete_one(process, target)),
            }
        }
        if let Some(service) = &self.service {
            result = result.and(service.add_all(process, &words));
        }
        result
    }

    fn end_started(&self, targets: &[u32]) {
        for &target in targets {
            self.epochs.targets.change(target, STARTED, 0);
        }
        self.epochs.all.fetch_and(!STARTS, Ordering::Relaxed);
    }

    fn complete_one(&self, process: &Process, target: u32) -> Result<()> {
        let Some(service) = &self.service else {
            self.control()?.complete(target as usize);
            return Ok(());
        };
        self.flush_lanes(process, Some(target))?;
        let message = service.message(Kind::Complete, 0, [0; 2], Layout::NONE);
        service.ask(process, (target, 0), message)?;
        Ok(())
    }

    /// Exposes this process's memory to the members of `group` (`MPI_Win_post`).
    pub fn post(&self, process: &Process, group: &Group) -> Result<()> {
        let origins = self.ranks(group)?;
        {
            let mut state = self.epochs.state.lock();
            if state.posted.is_some() {
                return Err(sync_error(
                    "MPI_Win_post has begun an exposure epoch already; call MPI_Win_wait first",
                ));
            }
            if self.epochs.all() & FENCE != 0 && self.epochs.fence_used.load(Ordering::Relaxed) {
                return Err(sync_error(
                    "an epoch of MPI_Win_fence with accesses is open; end it by MPI_Win_fence with \
                     MPI_MODE_NOSUCCEED first",
                ));
            }
            state.posted = Some(origins.clone());
        }
        full_fence();
        let me = self.rank();
        for origin in origins {
            match &self.service {
                Some(service) => {
                    if let Some(passive) = service.passive()
                        && self.post_remotely(process, passive, origin)?
                    {
                        continue;
                    }
                    let message = service.message(Kind::Post, 0, [0; 2], Layout::NONE);
                    service.ask(process, (origin, 0), message)?;
                }
                None => self.control()?.post(origin as usize, me as usize),
            }
        }
        Ok(())
    }

    /// Ends the exposure if all origins have completed (`MPI_Win_test`). Returns whether it did.
    ///
    /// # Errors
    /// `MPIX_ERR_PROC_FAILED` if an origin fails first; the epoch is over then.
    pub fn test(&self, process: &Process) -> Result<bool> {
        let look = || -> Result<bool> {
            let mut state = self.epochs.state.lock();
            let origins = state.posted.as_ref().map(Vec::len).ok_or_else(|| {
                sync_error("no exposure epoch of MPI_Win_post is open; call MPI_Win_post first")
            })? as u32;
            let over = match &self.service {
                Some(service) => match service.passive() {
                    Some(passive) => passive.is_complete(service, origins),
                    None => service.is_complete(origins),
                },
                None => self.control()?.is_complete(self.rank() as usize, origins),
            };
            if over {
                state.posted = None;
                full_fence();
            }
            Ok(over)
        };
        if look()? {
            return Ok(true);
        }
        // Only a check finds the loss of an origin, since no operation with it is pending here.
        process.check_polled_peers(self.comm.vci(), || {
            let origins = self.epochs.state.lock().posted.clone().unwrap_or_default();
            let members = self.comm.local();
            origins.into_iter().map(move |origin| members.peer(origin))
        });
        process.poll(self.comm.vci())?;
        if look()? {
            return Ok(true);
        }
        match process.may_have_losses() {
            true => self.check_origins(process).map(|()| false),
            false => Ok(false),
        }
    }

    /// Ends the exposure with an error if an origin has failed.
    #[cold]
    fn check_origins(&self, process: &Process) -> Result<()> {
        process.check_suspects()?;
        let mut state = self.epochs.state.lock();
        let mut origins = state.posted.iter().flatten();
        let checked = origins.try_for_each(|origin| self.check_member(process, *origin));
        if checked.is_err() {
            state.posted = None;
        }
        checked
    }

    /// Waits until all origins have completed (`MPI_Win_wait`).
    ///
    /// # Errors
    /// `MPIX_ERR_PROC_FAILED` if an origin fails first; the epoch is over then.
    pub fn wait(&self, process: &Process) -> Result<()> {
        if self.test(process)? {
            return Ok(());
        }
        let origins = self.epochs.state.lock().posted.clone().unwrap_or_default();
        let what = AwaitedEvent::Complete {
            origins: origins.len() as u32,
        };
        let vci = self.comm.vci();
        let waited = match &self.control {
            Some(control) if self.service.is_none() => Waiter { process, vci, what }.wait(
                || control.check(process, origins.iter().map(|origin| *origin as usize)),
                || self.test(process),
            ),
            _ => {
                let _note = process.note(what, vci, self.peers(&origins));
                let done = || {
                    if self.test(process)? {
                        return Ok(Some(()));
                    }
                    let mut origins = origins.iter();
                    origins.try_for_each(|origin| self.check_member(process, *origin))?;
                    Ok(None)
                };
                match self.passive() {
                    // Remote writes by the network give no wakeup.
                    Some(_) => process.wait_for_stores(vci, done),
                    None => process.wait_ignoring_loss(vci, done),
                }
            }
        };
        if waited.is_err() {
            self.epochs.state.lock().posted = None;
        }
        waited
    }
}
