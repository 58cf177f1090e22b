//! What goes from each rank to the next one: pieces in the order sent, in slots that their reader gives free.

use super::reach::Reach;
use crate::schedule::{Block, CAME, FREE, FREED, SENT, Schedule, Slot};

/// What of a schedule goes to the next rank and comes from the one before, in pieces that fit a slot.
///
/// Both ends of an edge count its pieces alike, in whole halves of its slots: so a schedule says no more than how
/// many there are, and begins with the first slot of a half.
pub(super) struct Stream {
    reach: Reach,
    sent: u32,
    come: u32,
}

impl Stream {
    pub fn new(reach: Reach) -> Stream {
        let (sent, come) = (0, 0);
        Stream { reach, sent, come }
    }

    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Pieces that a rank may be ahead of the one that it waits for.
    pub fn ahead(&self) -> u32 {
        self.reach.half()
    }

    /// Sends a piece, when its slot is free.
    pub fn send(&mut self, schedule: &mut Schedule, block: Block) {
        let Reach { depth, .. } = self.reach;
        let (half, next) = (self.reach.half(), self.reach.after(1));
        let phase = self.sent as i32;
        if self.sent.is_multiple_of(half) {
            // The last of the half that was in these slots before.
            let freed = phase + half as i32 - 1 - depth as i32;
            self.reach.arrival(schedule, next, FREED, freed, usize::MAX);
        }
        let slot = Slot {
            of: next,
            cell: SENT,
            phase,
        };
        schedule.put(slot, block);
        self.sent += 1;
    }

    /// Waits for the next piece, which lies where it came until it is [taken](Stream::take).
    pub fn receive(&mut self, schedule: &mut Schedule, len: usize) -> Block {
        let phase = self.come as i32;
        let from = self.reach.before(1);
        self.reach.arrival(schedule, from, CAME, phase, len);
        self.reach.arrived(CAME, phase, len)
    }

    /// Is through with that piece.
    pub fn take(&mut self, schedule: &mut Schedule) {
        self.come += 1;
        if self.come.is_multiple_of(self.reach.half()) {
            self.give_free(schedule);
        }
    }

    fn give_free(&self, schedule: &mut Schedule) {
        let last = self.come as i32 - 1;
        self.reach
            .signal(schedule, self.reach.before(1), FREE, last);
    }

    /// Ends the schedule's part of both edges.
    pub fn end(mut self, schedule: &mut Schedule) {
        let half = self.reach.half();
        if !self.come.is_multiple_of(half) {
            self.come = self.come.next_multiple_of(half);
            self.give_free(schedule);
        }
        let sent = self.sent.next_multiple_of(half);
        schedule.set_streamed([sent, self.come]);
    }
}
