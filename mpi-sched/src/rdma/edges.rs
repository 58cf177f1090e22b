//! The edges of the ring of ranks: chunks from each rank to the next, in order, in slots that the
//! reader frees.

use super::reach::Reach;
use crate::schedule::{Block, CAME, FREE, FREED, SENT, Schedule, Slot};

/// Builder of a schedule's chunks to the next rank and from the previous one.
///
/// Both ends of an edge count its chunks alike. The schedule waits for each chunk's slot and frees
/// it; the port acknowledges slots to the other end only in halves of the ring.
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

    /// Returns the number of chunks that a rank may be ahead of the previous one.
    pub fn ahead(&self) -> u32 {
        self.reach.half()
    }

    /// Sends a chunk once its slot is free.
    pub fn send(&mut self, schedule: &mut Schedule, block: Block) {
        let (next, phase) = (self.reach.after(1), self.sent as i32);
        // The phase of the slot's previous chunk.
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

    /// Waits for the next chunk, which stays in its slot until it is [taken](Edges::take).
    pub fn receive(&mut self, schedule: &mut Schedule, len: usize) -> Block {
        let phase = self.come as i32;
        let from = self.reach.before(1);
        self.reach.arrival(schedule, from, CAME, phase, len);
        self.reach.arrived(CAME, phase, len)
    }

    /// Frees the slot of the received chunk.
    pub fn take(&mut self, schedule: &mut Schedule) {
        let phase = self.come as i32;
        self.reach
            .signal(schedule, self.reach.before(1), FREE, phase);
        self.come += 1;
    }

    /// Stores the numbers of chunks in the schedule.
    pub fn end(self, schedule: &mut Schedule) {
        schedule.set_pieces([self.sent, self.come]);
    }
}
