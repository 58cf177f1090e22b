//! Pins of connected processes, which keep them connected until they are members of a communicator.
//!
//! Threads that connect concurrently each create a connection between the same two processes. One
//! of the two processes chooses the connection for both, since each may see the threads in another
//! order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::Peer;

use super::{Foreign, ForeignPeer, Identity, State};
use crate::pt2pt::context::ContextId;

/// [`Pin::connection`] of processes of the own job.
const OWN_JOB: u64 = u64::MAX;

/// A pinned process. While the pin lives, no thread begins to part from it.
pub struct Pin {
    of: Option<Arc<Foreign>>,
    peer: Peer,
    connection: u64,
}

impl Foreign {
    /// Pins a process that is of the own job, or connected and not parting.
    pub fn pin(self: &Arc<Self>, identity: Identity) -> Option<Pin> {
        if identity.job == self.job.load(Ordering::Relaxed) {
            return Some(Pin {
                of: None,
                peer: identity.rank,
                connection: OWN_JOB,
            });
        }
        let mut state = self.state.lock();
        let index = state.chosen_index(identity)?;
        self.hold_chosen(&mut state, index)
    }

    /// Chooses the connection with the process of `new`, which is of a new connection: the one
    /// chosen before, if there is one. The other process must [`Foreign::follow`].
    pub fn choose(self: &Arc<Self>, new: &Pin) -> Option<Pin> {
        let mut state = self.state.lock();
        let own = self.index_of(new.peer)?;
        let identity = state.peer_mut(own)?.member.identity;
        let index = state.chosen_index(identity).unwrap_or(own);
        self.hold_chosen(&mut state, index)
    }

    /// Adopts the connection that the other process has chosen. `None` if this process is parting
    /// from it there.
    pub fn follow(self: &Arc<Self>, new: &Pin, connection: u64) -> Option<Pin> {
        let mut state = self.state.lock();
        let identity = state.peer_mut(self.index_of(new.peer)?)?.member.identity;
        let is_it = |known: &ForeignPeer| known.connection.to_bits() == connection;
        let index = state.index_where(identity, is_it)?;
        let before = state.chosen_index(identity);
        if let Some(before) = before.and_then(|index| state.peer_mut(index)) {
            before.is_chosen = false;
        }
        self.hold_chosen(&mut state, index)
    }

    /// Revokes the choice of a connection that the other process does not have.
    pub fn reject(&self, chosen: &Pin) {
        let mut state = self.state.lock();
        if let Some(known) = self.index_of(chosen.peer).and_then(|at| state.peer_mut(at)) {
            known.is_chosen = false;
        }
    }

    fn hold_chosen(self: &Arc<Self>, state: &mut State, index: usize) -> Option<Pin> {
        let known = state.peer_mut(index)?;
        known.is_chosen = true;
        known.pins += 1;
        let peer = self.own_size() + index as u32;
        Some(Pin::holding(self, peer, known.connection))
    }
}

impl Pin {
    /// Makes the pin of a process whose `pins` the caller has incremented.
    pub(super) fn holding(of: &Arc<Foreign>, peer: Peer, connection: ContextId) -> Pin {
        Pin {
            of: Some(of.clone()),
            peer,
            connection: connection.to_bits(),
        }
    }

    /// Returns the number of the process.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the connection, equal on both sides if they can send to each other. Never 0.
    pub fn connection(&self) -> u64 {
        self.connection
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(foreign) = &self.of else { return };
        let mut state = foreign.state.lock();
        let known = foreign.index_of(self.peer);
        if let Some(known) = known.and_then(|index| state.peer_mut(index))
            && known.connection.to_bits() == self.connection
        {
            known.pins -= 1;
        }
    }
}
