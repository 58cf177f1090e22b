//! The set of ranks that a rank ever writes to.

use super::BLOCK;
use super::reach::{DEGREES, DIRECT, Reach, steps};
use super::trees::{allreduce, barrier, bcast, exchange};
use crate::schedule::{Schedule, Step};
use crate::team::{Part, Reduction};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

/// Returns all ranks that this one ever writes to, in ascending order: O(log N), for all
/// collectives and roots.
pub fn written_to(reach: Reach) -> Vec<u32> {
    let byte = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: 1,
        datatype: &byte,
    };
    let op = Op::predefined(PredefinedOp::Bor);
    let mut schedule = Schedule::new();
    barrier(&mut schedule, reach);
    // As the root this rank has all children that it has in any tree: 1, 2, 4, … further on.
    bcast(&mut schedule, reach, reach.rank, part, BLOCK);
    let reduction = Reduction::new(true, part, &op);
    exchange(&mut schedule, reach, reduction);
    for k in DEGREES {
        allreduce(&mut schedule, reach, reduction, [k, k]);
    }
    let puts = schedule.steps().iter().filter_map(|step| match step {
        Step::Put { slot, .. } => Some(slot.of),
        _ => None,
    });
    let mut ranks: Vec<u32> = puts.collect();
    // The parents in reductions to any root, and the previous rank.
    for k in DEGREES {
        for level in 0..steps(reach.size, k + 1) {
            let step = u64::from(k + 1).pow(level);
            let away = (1..=u64::from(k)).map(|j| j * step);
            let others = away.take_while(|away| *away < reach.size.into());
            ranks.extend(others.map(|away| reach.before(away as u32)));
        }
    }
    if reach.size <= DIRECT {
        ranks.extend((0..reach.size).filter(|rank| *rank != reach.rank));
    }
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
