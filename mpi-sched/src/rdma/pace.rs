//! Numbers of phases.

use super::reach::Reach;
use crate::schedule::Course;

/// Counts, alike on all ranks, collectives in which all meet, and broadcasts and reductions to one rank since the
/// last of them; and what goes to the next rank and comes from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    meetings: u64,
    /// Downwards and upwards.
    oneway: [OneWay; 2],
    /// Pieces sent and come.
    pieces: [u64; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OneWay {
    next: u64,
    /// The number of the first after the last meeting.
    met: u64,
}

impl Pace {
    /// From the first phase on, before which nothing was written; a multiple of the slots of edges.
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

    /// Whether a collective of so many phases may begin; if not, there must be a barrier before it.
    ///
    /// The last of its phases takes the slot of one that all had read when they met.
    pub fn allows(&self, phases: u32, course: Course, reach: &Reach) -> bool {
        let (oneway, ring) = match course {
            Course::Meets => return true,
            Course::Down => (self.oneway[0], reach.depth),
            Course::Up => (self.oneway[1], reach.rise_depth()),
        };
        let ahead = oneway.next.wrapping_sub(oneway.met) + u64::from(phases);
        ahead <= ring.into()
    }

    /// Numbers for so many phases of a collective. With one in which all meet everything before is over.
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

    /// Numbers for so many pieces sent and come.
    pub fn take_pieces(&mut self, pieces: [u32; 2]) -> [u64; 2] {
        let first = self.pieces;
        for (number, pieces) in self.pieces.iter_mut().zip(pieces) {
            *number = number.wrapping_add(pieces.into());
        }
        first
    }
}
