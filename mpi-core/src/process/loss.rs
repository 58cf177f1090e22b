//! Processes that are lost: how that is noticed, noted and told.

#![deny(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{Peer, VciId};

use super::doubts::Doubts;
use super::source::ProgressSource;
use super::{CHECK_EVERY, Process, Source};
use crate::error::{Class, Error, Result};
use crate::pt2pt::NOBODY;
use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::lost_peer;
use crate::pt2pt::letter::Letter;
use crate::pt2pt::request::{RequestId, Role};
use crate::vci::{Vci, VciGuard};

/// Between two looks passes so many times what the first has taken, at least.
const CHECK_SHARE: u64 = 20;

impl Process {
    /// Takes note of what a VCI has heard: of lost processes, on all VCIs, since what waits for them ends with
    /// an error; letters go to those whom they are for.
    #[cold]
    pub(super) fn handle_news(&self, mut state: VciGuard<'_>) {
        let vci = state.engine.vci;
        let (news, letters) = state.take_news();
        // With the lock, which who ends a connection takes: so long these numbers are not given to others.
        let news: Vec<_> = news
            .into_iter()
            .map(|(peer, why)| (peer, why, self.foreign.connection_of(peer)))
            .collect();
        drop(state);
        for letter in &letters {
            self.sources
                .iter()
                .for_each(|source| source.read_letter(self, vci, letter));
        }
        for (peer, why, connection) in news.into_iter().filter(|(peer, ..)| *peer != self.me) {
            self.note_loss(peer, &why, connection);
        }
    }

    /// Takes note of the loss of a process, which has its number from a connection if it is of another job.
    pub(super) fn note_loss(&self, peer: Peer, why: &str, connection: Option<ContextId>) {
        // Another thread may have parted from it and ended the connection meanwhile. Then whoever has the number next is
        // not the one that is lost.
        let _no_end = self.foreign.is_foreign(peer).then(|| self.opening.lock());
        if self.foreign.connection_of(peer) != connection {
            return;
        }
        let is_new = {
            let mut lost = self.lost.lock();
            let is_new = !lost.iter().any(|(known, _)| *known == peer);
            if is_new {
                lost.push((peer, why.to_string()));
                self.count_losses(&lost);
            }
            is_new
        };
        let owners = self.foreign.owners(peer);
        let spares = self.judge().is_some();
        for vci in self.open_vcis() {
            let state = self.vci(vci).ok().and_then(Vci::visit_blocking);
            if let Some(mut state) = state {
                state.handle_lost_peer(peer, why, owners.as_deref(), spares);
                if is_new {
                    state.announce_loss(peer, |peer| self.foreign.is_foreign(peer));
                }
            }
        }
    }

    /// Takes note of lost processes and revoked communicators on a VCI that the calling thread has for itself, so that others
    /// could not.
    #[cold]
    pub(super) fn handle_losses_on(&self, vci: VciId) -> Result<()> {
        let spares = self.judge().is_some();
        let lost = self.lost.lock();
        let mut state = self.lock(vci)?;
        for (peer, why) in lost.iter() {
            if !state.engine.lost.iter().any(|(known, _)| known == peer) {
                let owners = self.foreign.owners(*peer);
                state.handle_lost_peer(*peer, why, owners.as_deref(), spares);
            }
        }
        for (context, error) in self.revoked.lock().iter() {
            state.end_messages(*context, error);
        }
        Ok(())
    }

    fn count_losses(&self, lost: &[(Peer, String)]) {
        let all = lost.len() + self.revoked.lock().len();
        self.losses.store(all as u32, Ordering::Release);
    }

    /// A communicator was revoked: ends the program's messages there, as far as they go without harm.
    pub(crate) fn end_messages(&self, context: ContextId, error: &Error) {
        {
            let lost = self.lost.lock();
            self.revoked.lock().push((context, error.clone()));
            self.count_losses(&lost);
        }
        for vci in self.open_vcis() {
            if let Some(mut state) = self.vci(vci).ok().and_then(Vci::visit_blocking) {
                state.end_messages(context, error);
            }
        }
        self.wakeup.notify();
    }

    /// How many processes have been found lost, and communicators revoked.
    #[inline]
    pub fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// Forgets losses of processes whose numbers others may get.
    pub(super) fn forget_losses(&self, of: std::ops::Range<Peer>) {
        let mut lost = self.lost.lock();
        lost.retain(|(peer, _)| !of.contains(peer));
        self.count_losses(&lost);
    }

    /// Whether a process was found lost.
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.loss_among(|lost| lost == peer).is_some()
    }

    /// The first lost process of the own job and why, if there is one. (What has members of other jobs asks
    /// for theirs.)
    pub fn first_loss(&self) -> Option<Error> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lost = self.lost.lock();
        let own = lost
            .iter()
            .find(|(peer, _)| !self.foreign.is_foreign(*peer));
        own.map(|(peer, why)| lost_peer(*peer, why))
    }

    /// The lost processes that are `wanted`, in the order in which they were found so.
    pub fn lost_among(&self, wanted: impl Fn(Peer) -> bool) -> Vec<Peer> {
        let lost = self.lost.lock();
        let lost = lost.iter().map(|(peer, _)| *peer);
        lost.filter(|peer| wanted(*peer)).collect()
    }

    /// Takes note of the loss of a process that others have found lost.
    pub fn learn_of_loss(&self, peer: Peer, why: &str) {
        if !self.is_lost(peer) {
            self.note_loss(peer, why, self.foreign.connection_of(peer));
        }
    }

    /// The loss of a process that `is_member`.
    pub fn loss_among(&self, is_member: impl Fn(Peer) -> bool) -> Option<Error> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lost = self.lost.lock();
        let found = lost.iter().find(|(peer, _)| is_member(*peer));
        found.map(|(peer, why)| lost_peer(*peer, why))
    }

    /// An error if what `from` names can't come any more, or perhaps can't.
    pub(super) fn check_not_lost(&self, from: &Source) -> Result<()> {
        if from.peer == NOBODY {
            self.probed.store(from.owner, Ordering::Relaxed);
        }
        if self.losses.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        if from.peer == NOBODY
            && Purpose::PointToPoint.is_of(from.context)
            && let Some(judge) = self.judge()
        {
            return judge.loss_for_any(self, from.owner).map_or(Ok(()), Err);
        }
        let lost = self.lost.lock();
        match lost.iter().find(|(peer, _)| match from.peer {
            NOBODY => self.foreign.concerns(*peer, from.owner),
            one => one == *peer,
        }) {
            Some((peer, why)) => Err(lost_peer(*peer, why)),
            None => Ok(()),
        }
    }

    /// What knows for whom a loss matters among receives from any source, if there is somebody.
    fn judge(&self) -> Option<&dyn ProgressSource> {
        self.sources.iter().find(|source| source.is_judge())
    }

    /// An error of class [`Class::ProcFailedPending`] if a request is a receive from any source, nothing has come for
    /// it, and a member is lost whose loss the program has not acknowledged. It stays posted.
    #[cold]
    pub fn interruption(&self, id: RequestId) -> Option<Error> {
        let request = self.requests.get(id)?;
        let owner = {
            let mut state = self.lock(request.vci()).ok()?;
            let record = state.engine.records.get(id)?;
            let from_any = matches!(record.role, Role::Posted(_)) && record.peer == NOBODY;
            if !from_any || !Purpose::PointToPoint.is_of(record.key.context) {
                return None;
            }
            request.owner()
        };
        let loss = self.judge()?.loss_for_any(self, owner)?;
        let error = loss.of_class(Class::ProcFailedPending).reworded(|loss| {
            format!(
                "{loss}, which the message may have been to come from; the receive waits on: acknowledge the loss \
                 (MPIX_Comm_ack_failed) and wait again, or cancel it"
            )
        });
        Some(error.on(owner))
    }

    /// As [`Process::interruption`], where most often nothing is lost.
    #[inline]
    pub fn check_interruption(&self, id: RequestId) -> Result<()> {
        match self.losses.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.interruption(id).map_or(Ok(()), Err),
        }
    }

    /// How often this process has looked after those that it waits for: about every 200 ms of waiting.
    #[inline(always)]
    pub fn checks(&self) -> u32 {
        self.checks.load(Ordering::Relaxed)
    }

    /// Has those who count [`Process::checks`] look at once.
    pub fn count_check(&self) {
        self.checks.fetch_add(1, Ordering::Relaxed);
    }

    /// Looks, if it is time for that, whether the processes that somebody here waits for still live: for those
    /// who wait in a loop of their own.
    #[cold]
    pub fn look_after_awaited(&self) {
        self.check_peers();
    }

    /// Sends a letter by a VCI.
    pub fn send_letter(&self, vci: VciId, letter: Letter) -> Result<()> {
        let mut state = self.lock(vci)?;
        state.engine.write_letter(letter);
        state.dispatch();
        Ok(())
    }

    /// Looks, if it is time for that, whether the processes that are waited for still live.
    #[cold]
    pub(super) fn check_peers(&self) {
        let now = || self.clock().now().as_millis() as u64;
        let (start, due) = (now(), self.check_due.load(Ordering::Relaxed));
        let next = start + CHECK_EVERY.as_millis() as u64;
        if start < due
            || self
                .check_due
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let probed = self.probed.swap(0, Ordering::Relaxed);
        let probed = (probed != 0).then_some(probed);
        for vci in self.open_vcis() {
            let state = self.vci(vci).ok().and_then(Vci::visit);
            if let Some(mut state) = state {
                let sources = self.sources.iter();
                let mut awaited: Vec<Peer> = sources.flat_map(|one| one.awaited_on(vci)).collect();
                awaited.extend(self.notes.awaited_on(vci));
                let mut owners = state.owners_from_any();
                owners.extend(probed);
                if !owners.is_empty() {
                    // Nobody else says that one of another job has died.
                    awaited.extend(self.foreign.members_of(&owners));
                    let judge = self.judge().into_iter();
                    awaited.extend(judge.flat_map(|judge| judge.senders_to(&owners)));
                    state.add_known_peers(&mut awaited);
                }
                state.check_peers(awaited);
            }
        }
        self.checks.fetch_add(1, Ordering::Relaxed);
        // It looks at all requests. Where these are a million it is to take no more than a part of the
        // time.
        let end = now();
        let rest = end + CHECK_SHARE * (end - start);
        self.check_due.fetch_max(rest, Ordering::Relaxed);
    }

    /// The processes that may have ended.
    pub fn doubts(&self) -> &Arc<Doubts> {
        &self.doubts
    }

    /// Returns whether a process is lost, or may be. Costs a look at two words.
    #[inline]
    pub fn may_have_losses(&self) -> bool {
        self.losses() != 0 || self.doubts.any()
    }

    /// Checks the processes that may have ended, so that ended ones count as lost.
    #[cold]
    pub fn settle_doubts(&self) -> Result<()> {
        let Some(peers) = self.doubts.take() else {
            return Ok(());
        };
        // A transport counts a process as lost that it finds ended twice, with a poll in between for what it has sent.
        for _ in 0..2 {
            for vci in self.open_vcis() {
                if let Some(mut state) = self.vci(vci).ok().and_then(Vci::visit) {
                    state.check_peers(peers.clone());
                }
            }
            self.poll_all()?;
        }
        Ok(())
    }
}
