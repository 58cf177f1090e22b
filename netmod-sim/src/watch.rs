//! Hosts that fall silent: nobody is told, and whoever waits for one has to ask.

use std::collections::{HashMap, HashSet};

use netmod::Peer;

use crate::log::Place;

/// Who is asked for a sign of life, and since when.
#[derive(Default)]
pub(crate) struct Watch {
    /// For so long a host may leave a question unanswered, in nanoseconds. `None`: nobody asks.
    patience: Option<u64>,
    silent: HashSet<Peer>,
    asked: HashMap<(Place, Peer), u64>,
    questions: u64,
}

/// What comes of a look at a peer.
pub(crate) enum Look {
    /// It is asked.
    Ask,
    /// It has been asked before and may still answer, or nobody asks.
    Wait,
    /// It has been silent for so long.
    Silent(u64),
}

impl Watch {
    pub fn set_patience(&mut self, patience: u64) {
        self.patience = Some(patience);
    }

    /// How many questions have been asked.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    pub fn silence(&mut self, peer: Peer) {
        self.silent.insert(peer);
    }

    pub fn is_silent(&self, peer: Peer) -> bool {
        self.silent.contains(&peer)
    }

    /// A lane looks after a peer.
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

    /// A peer's answer has come.
    pub fn answered(&mut self, lane: Place, peer: Peer) {
        self.asked.remove(&(lane, peer));
    }
}
