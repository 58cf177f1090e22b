//! Failed processes: detection, records and announcements. A process that is considered failed is
//! *lost*.

#![deny(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{Peer, VciId};

use super::source::ProgressSource;
use super::suspects::SuspectedPeers;
use super::{CHECK_EVERY, Process, Source};
use crate::error::{Class, Error, Result};
use crate::pt2pt::NOBODY;
use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::lost_peer;
use crate::pt2pt::notice::Notice;
use crate::pt2pt::request::{RequestId, Role};
use crate::vci::{Vci, VciGuard};
use netmod_kit::event;

/// Minimum ratio of the time between two checks of peers to the duration of a check.
const CHECK_SHARE: u64 = 20;

/// Number of calls of [`Process::check_polled_peers`] per reading of the clock.
const CALLS_PER_CHECK: u32 = 8;

impl Process {
    /// Handles events that a VCI has queued: marks lost processes on all VCIs, so that operations
    /// that wait for them fail, and hands notices to their sources.
    #[cold]
    pub(super) fn handle_news(&self, mut state: VciGuard<'_>) {
        let vci = state.engine.vci;
        let (news, notices) = state.take_news();
        // Under the VCI's lock, which ending a connection takes too, so that the numbers are not
        // reused yet.
        let news: Vec<_> = news
            .into_iter()
            .map(|(peer, why)| (peer, why, self.foreign.connection_of(peer)))
            .collect();
        drop(state);
        for notice in &notices {
            self.sources
                .iter()
                .for_each(|source| source.read_notice(self, vci, notice));
        }
        for (peer, why, connection) in news.into_iter().filter(|(peer, ..)| *peer != self.me) {
            self.note_loss(peer, &why, connection);
        }
    }

    /// Records the loss of a process. For another job's process, `connection` is the one that its
    /// number belongs to.
    pub(super) fn note_loss(&self, peer: Peer, why: &str, connection: Option<ContextId>) {
        // Another thread may have ended the connection meanwhile; the number then belongs to no one
        // or to another process.
        let _no_end = self.foreign.is_foreign(peer).then(|| self.opening.lock());
        if self.foreign.connection_of(peer) != connection {
            return;
        }
        self.sources
            .iter()
            .for_each(|source| source.before_loss(peer));
        let is_new = {
            let mut lost = self.lost.lock();
            let is_new = !lost.iter().any(|(known, _)| *known == peer);
            if is_new {
                lost.push((peer, why.to_string()));
                self.count_losses(&lost);
            }
            is_new
        };
        if is_new {
            event!(Loss, Info, "process {peer} is lost: {why}");
        }
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

    /// Applies losses and revocations to a VCI that the calling thread uses exclusively, which
    /// other threads skipped.
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

    /// Ends the program's messages on a revoked communicator, except those whose memory a peer
    /// accesses.
    pub(crate) fn end_messages(&self, context: ContextId, error: &Error) {
        {
            event!(Loss, Info, "messages of {context:?} end: {error}");
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

    /// Number of lost processes and revoked communicators.
    #[inline]
    pub fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// Removes the losses of processes whose numbers will be reused.
    pub(super) fn forget_losses(&self, of: std::ops::Range<Peer>) {
        let mut lost = self.lost.lock();
        lost.retain(|(peer, _)| !of.contains(peer));
        self.count_losses(&lost);
    }

    /// Whether a process is lost.
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.loss_among(|lost| lost == peer).is_some()
    }

    /// Returns the error of the first lost process of the own job, if any. Objects with members of
    /// other jobs check those themselves.
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

    /// Returns the lost processes that `wanted` selects, in the order of their detection.
    pub fn lost_among(&self, wanted: impl Fn(Peer) -> bool) -> Vec<Peer> {
        let lost = self.lost.lock();
        let lost = lost.iter().map(|(peer, _)| *peer);
        lost.filter(|peer| wanted(*peer)).collect()
    }

    /// Records the loss of a process that peers have reported.
    pub fn learn_of_loss(&self, peer: Peer, why: &str) {
        if !self.is_lost(peer) {
            self.note_loss(peer, why, self.foreign.connection_of(peer));
        }
    }

    /// Returns the error of a lost process that `is_member` selects.
    pub fn loss_among(&self, is_member: impl Fn(Peer) -> bool) -> Option<Error> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lost = self.lost.lock();
        let found = lost.iter().find(|(peer, _)| is_member(*peer));
        found.map(|(peer, why)| lost_peer(*peer, why))
    }

    /// Fails if the loss of a process means that no message from `from` may arrive any more.
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

    /// Returns the source that decides which losses affect receives from any source, if there is
    /// one.
    fn judge(&self) -> Option<&dyn ProgressSource> {
        self.sources.iter().find(|source| source.is_judge())
    }

    /// Returns the error that interrupts the wait for a receive from any source, of class
    /// [`Class::ProcFailedPending`]. The receive is not matched, and a member is lost whose loss
    /// the program has not acknowledged. It stays posted.
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
                "{loss}, which may have been the sender of the message; the receive stays posted: acknowledge \
                 the loss (MPIX_Comm_ack_failed) and wait again, or cancel it"
            )
        });
        Some(error.on(owner))
    }

    /// Fails with [`Process::interruption`]. Fast if no process is lost.
    #[inline]
    pub fn check_interruption(&self, id: RequestId) -> Result<()> {
        match self.losses.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.interruption(id).map_or(Ok(()), Err),
        }
    }

    /// Number of checks of awaited peers, about one per 200 ms of waiting.
    #[inline(always)]
    pub fn peer_checks(&self) -> u32 {
        self.checks.load(Ordering::Relaxed)
    }

    /// Increments [`Process::peer_checks`], so that waits that compare it check their condition.
    pub fn force_recheck(&self) {
        self.checks.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks, if a check is due, whether awaited processes are alive. For waits outside of
    /// [`Process::wait_until`].
    #[cold]
    pub fn check_awaited_peers(&self) {
        self.check_peers();
    }

    /// Checks, if a check is due, whether `peers` are alive. For calls that wait for nothing and that
    /// a program may repeat until `peers` act: no pending operation shows that it depends on them.
    #[inline]
    pub fn check_polled_peers<P: IntoIterator<Item = Peer>>(
        &self,
        vci: VciId,
        peers: impl FnOnce() -> P,
    ) {
        let calls = self.polling_calls.load(Ordering::Relaxed).wrapping_add(1);
        self.polling_calls.store(calls, Ordering::Relaxed);
        if calls.is_multiple_of(CALLS_PER_CHECK) && self.is_check_due() {
            self.notes.add_polled(vci, peers().into_iter());
            self.check_peers();
        }
    }

    #[cold]
    fn is_check_due(&self) -> bool {
        let now = self.clock().now().as_millis() as u64;
        now >= self.check_due.load(Ordering::Relaxed)
    }

    /// Sends a notice from a VCI.
    pub fn send_notice(&self, vci: VciId, notice: Notice) -> Result<()> {
        let mut state = self.lock(vci)?;
        state.engine.write_notice(notice);
        state.dispatch();
        Ok(())
    }

    /// Checks, if a check is due, whether awaited processes are alive.
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
                awaited.extend(self.notes.take_awaited_on(vci));
                let mut owners = state.owners_from_any();
                owners.extend(probed);
                if !owners.is_empty() {
                    // Processes of other jobs are checked here, since no launcher reports their
                    // end.
                    awaited.extend(self.foreign.members_of(&owners));
                    let judge = self.judge().into_iter();
                    awaited.extend(judge.flat_map(|judge| judge.senders_to(&owners)));
                    state.add_known_peers(&mut awaited);
                }
                state.check_peers(awaited);
            }
        }
        self.checks.fetch_add(1, Ordering::Relaxed);
        // The check scans all requests. With a million of them it must not take more than a small
        // share of the time.
        let end = now();
        let rest = end + CHECK_SHARE * (end - start);
        self.check_due.fetch_max(rest, Ordering::Relaxed);
    }

    /// Returns the processes that may have ended.
    pub fn suspects(&self) -> &Arc<SuspectedPeers> {
        &self.suspects
    }

    /// Whether a process is lost, or may be. Reads two words.
    #[inline]
    pub fn may_have_losses(&self) -> bool {
        self.losses() != 0 || self.suspects.any()
    }

    /// Checks the processes that may have ended, and records those that have as lost.
    #[cold]
    pub fn check_suspects(&self) -> Result<()> {
        let Some(peers) = self.suspects.take() else {
            return Ok(());
        };
        // A transport declares a process lost when it finds it ended twice, with a poll in between
        // for its last messages.
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
