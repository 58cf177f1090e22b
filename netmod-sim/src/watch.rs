//! Silent hosts, whose loss is not reported: waiting lanes must probe them.

use std::collections::{HashMap, HashSet};

use netmod::Peer;

use crate::log::Place;

/// The pending probes of hosts.
#[derive(Default)]
pub(crate) struct Watch {
    /// Nanoseconds that a host may leave a probe unanswered. `None`: no probes are sent.
    patience: Option<u64>,
    silent: HashSet<Peer>,
    asked: HashMap<(Place, Peer), u64>,
    questions: u64,
}

/// The result of a check of a peer.
pub(crate) enum Look {
    /// A probe is sent.
    Ask,
    /// An earlier probe is pending, or no probes are sent.
    Wait,
    /// The peer has been silent for this time, in nanoseconds.
    Silent(u64),
}

impl Watch {
    pub fn set_patience(&mut self, patience: u64) {
        self.patience = Some(patience);
    }

    /// Returns the number of probes sent.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    pub fn silence(&mut self, peer: Peer) {
        self.silent.insert(peer);
    }

    pub fn is_silent(&self, peer: Peer) -> bool {
        self.silent.contains(&peer)
    }

    /// Checks a peer for a lane.
    pub fn look(&mut self, lane: Place, peer: Peer, now: u64) -> Look {
        let Some(patience) = self.patience else {
            return Look::Wait;
        };
        match self.asked.get(&(lane, peer)) {
            Some(at) if now - at >= patience => Look::Silent(now - at),
            Some(_) => Look::Wait,
            None => {
                self.asked.insert((lane, peer), now);
                self.questions += 1;
                Look::Ask
            }
        }
    }

    /// Records a peer's answer.
    pub fn answered(&mut self, lane: Place, peer: Peer) {
        self.asked.remove(&(lane, peer));
    }
}
