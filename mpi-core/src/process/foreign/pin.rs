//! Processes of other jobs that are held on to until something has them as members.
//!
//! Threads that connect at the same time make a connection each between the same two processes. One of these is chosen, by
//! one of the two processes: each sees the threads come in an order of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::Peer;

use super::{Foreign, Identity, Known, State};
use crate::pt2pt::context::ContextId;

/// What stands for the connection of processes of one job.
const OWN_JOB: u64 = u64::MAX;

/// A known process. As long as this lives, no thread begins to part from it.
pub struct Pin {
    of: Option<Arc<Foreign>>,
    peer: Peer,
    connection: u64,
}

impl Foreign {
    /// Holds on to a process, if it is of the own job or connected and not being parted from.
    pub fn pin(self: &Arc<Self>, identity: Identity) -> Option<Pin> {
        if identity.job == self.job.load(Ordering::Relaxed) {
            return Some(Pin {
                of: None,
                peer: identity.rank,
                connection: OWN_JOB,
            });
        }
        let mut state = self.state.lock();
        let place = state.place_of(identity)?;
        self.hold_chosen(&mut state, place)
    }

    /// Chooses the connection with the process of a pin, which is of a new one and not of the own job: that which has
    /// been chosen before, if there is one. The other process is to [`Foreign::follow`].
    pub fn choose(self: &Arc<Self>, new: &Pin) -> Option<Pin> {
        let mut state = self.state.lock();
        let own = self.place(new.peer)?;
        let identity = state.known(own)?.member.identity;
        let place = state.place_of(identity).unwrap_or(own);
        self.hold_chosen(&mut state, place)
    }

    /// Takes the connection that the other process has chosen; none if this one has parted from it there, or is about to.
    pub fn follow(self: &Arc<Self>, new: &Pin, connection: u64) -> Option<Pin> {
        let mut state = self.state.lock();
        let identity = state.known(self.place(new.peer)?)?.member.identity;
        let is_it = |known: &Known| known.connection.to_bits() == connection;
        let place = state.place_where(identity, is_it)?;
        let before = state.place_of(identity);
        if let Some(before) = before.and_then(|place| state.known(place)) {
            before.chosen = false;
        }
        self.hold_chosen(&mut state, place)
    }

    /// The other process does not have the connection that this one has chosen.
    pub fn reject(&self, chosen: &Pin) {
        let mut state = self.state.lock();
        if let Some(known) = self.place(chosen.peer).and_then(|at| state.known(at)) {
            known.chosen = false;
        }
    }

    fn hold_chosen(self: &Arc<Self>, state: &mut State, place: usize) -> Option<Pin> {
        let known = state.known(place)?;
        known.chosen = true;
        known.pins += 1;
        let peer = self.own_size() + place as u32;
        Some(Pin::holding(self, peer, known.connection))
    }
}

impl Pin {
    /// Of a process whose pins have been counted up.
    pub(super) fn holding(of: &Arc<Foreign>, peer: Peer, connection: ContextId) -> Pin {
        Pin {
            of: Some(of.clone()),
            peer,
            connection: connection.to_bits(),
        }
    }

    /// The number of the process.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// By what it is known: the two that know each other by the same can send to each other. Never 0.
    pub fn connection(&self) -> u64 {
        self.connection
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(foreign) = &self.of else { return };
        let mut state = foreign.state.lock();
        let known = foreign.place(self.peer);
        if let Some(known) = known.and_then(|place| state.known(place))
            && known.connection.to_bits() == self.connection
        {
            known.pins -= 1;
        }
    }
}
