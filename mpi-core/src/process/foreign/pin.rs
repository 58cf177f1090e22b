//! Processes of other jobs that are held on to until something has them as members.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::Peer;

use super::{Foreign, Identity};
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
        let known = state.known(place)?;
        known.pins += 1;
        Some(Pin::holding(
            self,
            self.own_size() + place as u32,
            known.connection,
        ))
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
