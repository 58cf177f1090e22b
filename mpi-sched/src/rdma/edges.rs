//! What goes from each rank to the next one: pieces in the order sent, in slots that their reader gives free.

use super::reach::Reach;
use crate::schedule::{Block, CAME, FREE, FREED, SENT, Schedule, Slot};

/// What of a schedule goes to the next rank and comes from the one before, in pieces that fit a slot.
///
/// Both ends of an edge count its pieces alike. A schedule says of each piece that its slot must be free, and is free
/// again; who carries it out tells the other end only when half of the slots are.
pub(super) struct Edges {
    reach: Reach,
    sent: u32,
    come: u32,
}

impl Edges {
    pub fn new(reach: Reach) -> Edges {
        let (sent, come) = (0, 0);
        Edges { reach, sent, come }
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
        let (next, phase) = (self.reach.after(1), self.sent as i32);
        // That of the piece that was there before.
        let before = phase - self.reach.depth as i32;
        self.reach
            .arrival(schedule, next, FREED, before, usize::MAX);
        let slot = Slot {
            of: next,
            cell: SENT,
            phase,
        };
        schedule.put(slot, block);
        self.sent += 1;
    }

    /// Waits for the next piece, which lies where it came until it is [taken](Edges::take).
    pub fn receive(&mut self, schedule: &mut Schedule, len: usize) -> Block {
        let phase = self.come as i32;
        let from = self.reach.before(1);
        self.reach.arrival(schedule, from, CAME, phase, len);
        self.reach.arrived(CAME, phase, len)
    }

    /// Is through with that piece.
    pub fn take(&mut self, schedule: &mut Schedule) {
        let phase = self.come as i32;
        self.reach
            .signal(schedule, self.reach.before(1), FREE, phase);
        self.come += 1;
    }

    /// Ends the schedule's part of both edges.
    pub fn end(self, schedule: &mut Schedule) {
        schedule.set_pieces([self.sent, self.come]);
    }
}
