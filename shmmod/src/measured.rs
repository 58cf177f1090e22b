//! Which way long messages go to a peer, of what has been measured: by [`Choice`], or by [`crate::hand_over`] where two
//! send by turns.

use std::mem;

use crate::choice::{Choice, Way, Work};
use crate::lane::Remote;
use crate::turns::Turn;

impl Remote {
    /// What is known of the ways to it; `single`: whether its memory can be read.
    pub fn choice(&mut self, single: bool) -> &mut Choice {
        let whole_lines = netmod_kit::overwrites_unread();
        self.choice
            .get_or_insert_with(|| Box::new(Choice::new(single, whole_lines)))
    }

    /// A long message that went this way took so long.
    pub fn note(&mut self, len: usize, way: Way, work: Work) {
        if let Some(choice) = &mut self.choice {
            choice.note(len, way, work, self.turns.are_both_ways());
            self.far = choice.is_far();
        }
    }

    /// Whether a long message by turns goes by memory that changes hands.
    pub fn goes_by_hand(&mut self, len: usize, last: Turn, single: bool) -> bool {
        match self.choice(single).is_settled(len) {
            true => self.hand_over.next(len, Some(last)),
            // All other ways are tried first.
            false => last.1,
        }
    }

    /// Whether a message that has just got its way is to be timed.
    pub fn is_timed(
        &mut self,
        len: usize,
        (by_turns, by_hand): (bool, bool),
        single: bool,
    ) -> bool {
        let of_turns = by_turns && self.hand_over.is_timed(len);
        of_turns || !by_hand && self.choice(single).is_timed(len)
    }

    /// A long message that was read from this process's memory took so long.
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
