//! Chooses the protocol for long messages to a peer from measurements: by [`Choice`], or by
//! [`crate::hand_over`] where two processes send by turns.

use std::mem;

use crate::choice::{Choice, Way, Work};
use crate::lane::Remote;
use crate::turns::Turn;

impl Remote {
    /// Returns the choice of protocols for the peer. `single`: whether CMA works.
    pub fn choice(&mut self, single: bool) -> &mut Choice {
        let whole_lines = netmod_kit::overwrites_without_fetch();
        self.choice
            .get_or_insert_with(|| Box::new(Choice::new(single, whole_lines)))
    }

    /// Records the cost of a long message by a protocol.
    pub fn note(&mut self, len: usize, way: Way, work: Work) {
        if let Some(choice) = &mut self.choice {
            choice.note(len, way, work, self.turns.are_both_ways());
            self.far = choice.is_far();
        }
    }

    /// Returns whether a long message by turns uses the hand-over protocol.
    pub fn goes_by_hand(&mut self, len: usize, last: Turn, single: bool) -> bool {
        match self.choice(single).is_settled(len) {
            true => self.hand_over.next(len, Some(last)),
            // All other protocols are tried first.
            false => last.1,
        }
    }

    /// Returns whether a message is to be timed, after its protocol was chosen.
    pub fn is_timed(
        &mut self,
        len: usize,
        (by_turns, by_hand): (bool, bool),
        single: bool,
    ) -> bool {
        let of_turns = by_turns && self.hand_over.is_timed(len);
        of_turns || !by_hand && self.choice(single).is_timed(len)
    }

    /// Records the time that the peer took to read a long message by CMA.
    pub fn note_read(&mut self, len: usize, nanoseconds: u64) {
        if mem::take(&mut self.reads_by_turns) {
            self.hand_over.note(len, false, nanoseconds);
        }
        let work = Work {
            sending: 0,
            receiving: nanoseconds,
        };
        self.note(len, Way::Single, work);
    }
}
