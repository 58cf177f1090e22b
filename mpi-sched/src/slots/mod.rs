//! Collectives through shared memory: ranks store data and flags in slots that all others read in
//! place.
//!
//! Every rank has a ring of slots that all ranks can read. A schedule has phases. In each phase
//! every rank raises its flag in its slot of that phase, with or without data before it; a reader
//! of the data waits for that flag only. Reads are not acknowledged, since later flags imply them:
//!
//! Invariant: a rank that raises the flag of phase n has completed its reads of phase n - 2. (It
//! may still read slots of phase n - 1, so that chunks of long data overlap.) Before a rank writes
//! data to the slot of phase n, which was that of phase n - depth, it has therefore seen the flags
//! of phase n - depth + 2 of all ranks. This holds for any root and any skew of the ranks.
//!
//! The invariant covers collectives that run one after the other. Nonblocking collectives overlap
//! and complete in any order. They use other slots ([`Slots::is_nonblocking`]), with one more flag for
//! each rank, [`THROUGH`]: the number of the last phase up to which the rank has completed all
//! collectives. A rank raises its flag only if a reader waits for it, once all ranks have completed
//! the slot's previous phase. Waiting is a step of the schedule: no call blocks for it, but a rank
//! that is ahead by the whole ring makes no progress until the others have completed the old phase
//! and it calls MPI again.

mod direct;
mod movement;
mod reductions;
mod ring;
mod shares;
mod tree;

pub use direct::{
    allgather_direct, alltoall_direct, bcast_direct, can_reduce_direct, reduce_direct,
};
pub use movement::{
    allgather, alltoall, arrive, barrier, bcast, can_scatter, gather, release, scatter,
};
pub use reductions::{
    allreduce, can_reduce, can_reduce_with_gaps, is_small, reduce, reduce_scatter, reduce_to_first,
    scan,
};
pub use ring::{Direct, Slots, THROUGH};
pub use shares::{allreduce_direct, reduce_direct_by_shares};
pub use tree::{Tree, reduce_by_tree};
