//! Signals for the ranks of the root's own host.
//!
//! The root signals them itself: beside thousands of busy ranks their agent, which works for all of
//! them, waits for a core for seconds, while the root sleeps and gets one at once.

use crate::system::{self, Pid};

/// The process group of these ranks.
pub struct OwnRanks {
    group: Pid,
    /// Whether the agent starts no more of them.
    are_started: bool,
    /// Signals that came before.
    early: Vec<i32>,
}

impl OwnRanks {
    pub fn new(group: Pid) -> OwnRanks {
        OwnRanks {
            group,
            are_started: false,
            early: Vec::new(),
        }
    }

    /// Sends a signal to all of them, once they are started.
    pub fn signal(&mut self, number: i32) {
        match self.are_started {
            true => system::kill_group(self.group, number),
            false => self.early.push(number),
        }
    }

    /// Sends the signals that came before the last rank was started.
    pub fn started(&mut self) {
        self.are_started = true;
        for number in self.early.drain(..) {
            system::kill_group(self.group, number);
        }
    }
}
