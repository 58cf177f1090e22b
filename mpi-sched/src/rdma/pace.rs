//! Numbering of phases.

use super::reach::Reach;
use crate::schedule::Course;

/// Counts, identically on all ranks, the collectives in which all ranks meet, the broadcasts and
/// reductions to one rank since the last of them, and the chunks sent to the next rank and received
/// from the previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    meetings: u64,
    /// Broadcasts and reductions.
    oneway: [OneWay; 2],
    /// Chunks sent and received.
    pieces: [u64; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OneWay {
    next: u64,
    /// The number of the first phase after the last meeting.
    met: u64,
}

impl Pace {
    /// Starts at phase `first`, a multiple of an edge's slots, before which nothing was written.
    pub fn new(first: u64) -> Pace {
        let oneway = OneWay {
            next: first,
            met: first,
        };
        Pace {
            meetings: first,
            oneway: [oneway; 2],
            pieces: [first; 2],
        }
    }

    /// Returns whether a collective of `phases` phases may begin; if not, a barrier must come
    /// first.
    ///
    /// Its last phase must reuse a slot that all ranks had read when they last met.
    pub fn allows(&self, phases: u32, course: Course, reach: &Reach) -> bool {
        let (oneway, ring) = match course {
            Course::Meets => return true,
            Course::Down => (self.oneway[0], reach.depth),
            Course::Up => (self.oneway[1], reach.reduce_depth()),
        };
        let ahead = oneway.next.wrapping_sub(oneway.met) + u64::from(phases);
        ahead <= ring.into()
    }

    /// Returns the first of `phases` new numbers. A collective in which all ranks meet completes
    /// everything before it.
    pub fn take(&mut self, phases: u32, course: Course) -> u64 {
        let next = match course {
            Course::Meets => &mut self.meetings,
            Course::Down => &mut self.oneway[0].next,
            Course::Up => &mut self.oneway[1].next,
        };
        let first = *next;
        *next = first.wrapping_add(phases.into());
        if course == Course::Meets {
            for oneway in &mut self.oneway {
                oneway.met = oneway.next;
            }
        }
        first
    }

    /// Returns the first of the new numbers for chunks sent and received.
    pub fn take_pieces(&mut self, pieces: [u32; 2]) -> [u64; 2] {
        let first = self.pieces;
        for (number, pieces) in self.pieces.iter_mut().zip(pieces) {
            *number = number.wrapping_add(pieces.into());
        }
        first
    }
}
