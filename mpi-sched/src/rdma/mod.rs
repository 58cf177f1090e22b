//! Collectives by writes to remote memory: data and flags are put into slots at their receivers, who
//! look at their own memory only.
//!
//! Every rank has [`Reach::cells`] cells, each a ring of slots: one for each round of a barrier, one for
//! each child in the trees of allreduces (k ⌈log(k+1) N⌉ of them, not N), one for what comes down these
//! trees, one for broadcasts, and again one for each child in the trees of reductions. A flag is the number of
//! the phase, which all ranks count alike, so that what is left from before says "not yet" whatever root or
//! degree came before.
//!
//! Invariant: nobody writes data of phase n before the receiver has read what was in that slot.
//! Collectives in which all *meet* (barriers, allreduces, allgathers, alltoalls) are numbered by themselves. Who has
//! come to the end of one knows that all had come to its beginning, and so to the end of the one before: two
//! slots are enough for them. A broadcast or a reduction to one rank tells nobody anything. [`Pace`] counts both
//! since the last meeting, alike on all ranks, and asks for a barrier before a ring comes round.
//!
//! Long vectors go round the ring of ranks in pieces, from each rank to the next whatever the root ([`long`]). Each
//! of these edges has a ring of slots of its own, and both its ends count its pieces, and only they: so a slot is free
//! when the one rank that reads it says so, which it does for half of these slots with one flag. Who sends waits for
//! that flag before he comes to these slots again, and never otherwise.

mod edges;
mod exchange;
mod how;
pub mod long;
mod pace;
mod reach;
mod rise;
mod trees;
mod written;

pub use exchange::{allgather_direct, allgather_doubling, alltoall_direct, alltoall_doubling};
pub use how::{RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce};
pub use pace::Pace;
pub use reach::{DEGREES, Reach, SLOT_HEAD, steps};
pub use rise::reduce;
pub use trees::{Signals, allreduce, barrier, bcast, exchange};
pub use written::written_to;

use super::schedule::Schedule;
use super::team::Part;
use mpi_types::op::Op;

/// An allreduce that goes one of all ways; it must be one that can take it ([`RdmaAllreduce::takes`]).
pub fn allreduce_by(
    schedule: &mut Schedule,
    reach: Reach,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    way: RdmaAllreduce,
) {
    match way {
        RdmaAllreduce::Pairs => exchange(schedule, reach, in_place, part, op),
        RdmaAllreduce::Tree { up, down } => {
            allreduce(schedule, reach, in_place, part, op, [up, down])
        }
        RdmaAllreduce::Ring => long::allreduce(schedule, reach, in_place, part, op),
    }
}

/// A broadcast that goes one of all ways; it must be one that can take it ([`RdmaBcast::takes`]).
pub fn bcast_by(schedule: &mut Schedule, reach: Reach, root: u32, part: Part<'_>, how: RdmaBcast) {
    match how {
        RdmaBcast::Tree => bcast(schedule, reach, root, part),
        RdmaBcast::Chain => long::bcast(schedule, reach, root, part),
    }
}

/// A reduction that goes one of all ways; it must be one that can take it ([`RdmaReduce::takes`]).
pub fn reduce_by(
    schedule: &mut Schedule,
    reach: Reach,
    (root, in_place): (u32, bool),
    part: Part<'_>,
    op: &Op,
    how: RdmaReduce,
) {
    match how {
        RdmaReduce::Tree(k) => reduce(schedule, reach, (root, in_place), part, op, k),
        RdmaReduce::Chain => long::reduce(schedule, reach, (root, in_place), part, op),
    }
}

/// An allgather that goes one of all ways; it must be one that can take it ([`RdmaAllgather::takes`]).
pub fn allgather_by(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
    how: RdmaAllgather,
) {
    match how {
        RdmaAllgather::Direct => allgather_direct(schedule, reach, send, recv),
        RdmaAllgather::Doubling => allgather_doubling(schedule, reach, send, recv),
        RdmaAllgather::Ring => long::allgather(schedule, reach, send, recv),
    }
}

/// An alltoall that goes one of all ways; it must be one that can take it ([`RdmaAlltoall::takes`]).
pub fn alltoall_by(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
    how: RdmaAlltoall,
) {
    match how {
        RdmaAlltoall::Direct => alltoall_direct(schedule, reach, send, recv),
        RdmaAlltoall::Doubling => alltoall_doubling(schedule, reach, send, recv),
    }
}
