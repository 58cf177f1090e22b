//! Collectives by remote writes: data and flags are written to slots at their receivers, which poll
//! only their own memory.
//!
//! Every rank has [`Reach::cells`] cells, each a ring of slots: one for each round of a barrier,
//! one for each child in the trees of allreduces (k ⌈log(k+1) N⌉ of them, not N), one for the data
//! that comes down these trees, one for broadcasts, and one for each child in the trees of
//! reductions. A flag holds the number of its phase, which all ranks count alike: a flag of an
//! earlier collective reads as "not yet", whatever its root or degree.
//!
//! Invariant: no rank writes data of phase n before the receiver has read the slot's previous data.
//! Collectives in which all ranks *meet* (barriers, allreduces, allgathers, alltoalls) are numbered
//! separately. A rank that completes one knows that all ranks had entered it, and so had completed
//! the one before: two slots suffice. A broadcast or a reduction to one rank implies nothing of the
//! kind. [`Pace`] counts both since the last meeting, identically on all ranks, and requires a
//! barrier before a ring wraps around.
//!
//! Long vectors go round the ring of ranks in chunks, from each rank to the next whatever the root
//! ([`long`]). Each of these edges has its own ring of slots, whose chunks only the edge's two ends
//! count. A slot is free when the receiver acknowledges it, which it does with one flag for half of
//! the slots. The sender waits for that flag before it reuses these slots, and never otherwise.

mod destinations;
mod edges;
mod exchange;
mod limits;
pub mod long;
mod pace;
mod reach;
mod reduce;
mod trees;

pub use super::collective::{RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce};
pub use destinations::written_to;
pub use exchange::{allgather_direct, allgather_doubling, alltoall_direct, alltoall_doubling};
pub use limits::WriteCall;
pub use pace::Pace;
pub use reach::{DEGREES, Reach, SLOT_HEAD, steps};
pub use reduce::reduce;
pub use trees::{allreduce, barrier, bcast, exchange};

/// Bytes of a block of a broadcast down a tree, where no other is asked for.
pub const BLOCK: usize = 8 << 10;

use super::schedule::Schedule;
use super::team::{Part, Reduction};

/// Builds an allreduce by an algorithm that takes the call ([`RdmaAllreduce::takes`]).
pub fn allreduce_by(
    schedule: &mut Schedule,
    reach: Reach,
    of: Reduction<'_>,
    algorithm: RdmaAllreduce,
) {
    match algorithm {
        RdmaAllreduce::Pairs => exchange(schedule, reach, of),
        RdmaAllreduce::Tree { up, down } => allreduce(schedule, reach, of, [up, down]),
        RdmaAllreduce::Ring => long::allreduce(schedule, reach, of),
    }
}

/// Builds a broadcast by an algorithm that takes the call ([`RdmaBcast::takes`]).
pub fn bcast_by(
    schedule: &mut Schedule,
    reach: Reach,
    root: u32,
    part: Part<'_>,
    algorithm: RdmaBcast,
) {
    match algorithm {
        RdmaBcast::Binomial { block } => bcast(schedule, reach, root, part, block),
        RdmaBcast::Chain => long::bcast(schedule, reach, root, part),
    }
}

/// Builds a reduction by an algorithm that takes the call ([`RdmaReduce::takes`]).
pub fn reduce_by(
    schedule: &mut Schedule,
    reach: Reach,
    root: u32,
    of: Reduction<'_>,
    algorithm: RdmaReduce,
) {
    match algorithm {
        RdmaReduce::Tree { degree } => reduce(schedule, reach, root, of, degree),
        RdmaReduce::Chain => long::reduce(schedule, reach, root, of),
    }
}

/// Builds an allgather by an algorithm that takes the call ([`RdmaAllgather::takes`]).
pub fn allgather_by(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
    algorithm: RdmaAllgather,
) {
    match algorithm {
        RdmaAllgather::Direct => allgather_direct(schedule, reach, send, recv),
        RdmaAllgather::Doubling => allgather_doubling(schedule, reach, send, recv),
        RdmaAllgather::Ring => long::allgather(schedule, reach, send, recv),
    }
}

/// Builds an alltoall by an algorithm that takes the call ([`RdmaAlltoall::takes`]).
pub fn alltoall_by(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
    algorithm: RdmaAlltoall,
) {
    match algorithm {
        RdmaAlltoall::Direct => alltoall_direct(schedule, reach, send, recv),
        RdmaAlltoall::Doubling => alltoall_doubling(schedule, reach, send, recv),
    }
}
