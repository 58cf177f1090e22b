//! Collectives of ranks that see each other's memory: flags and slots written by stores, and read in
//! place.
//!
//! Every rank has a ring of slots that all can read. A schedule has phases, and in each of them every
//! rank raises its flag in the slot of that phase, with or without data before it; whoever needs the
//! data waits for that flag only. Nobody is told where data was read, since a flag says that too:
//!
//! Invariant: who raises the flag of phase n has read all that it reads of phase n - 2. (Of phase
//! n - 1 it may still read: so pieces of long data overlap.) So before a rank writes data to the slot
//! of phase n, which was that of phase n - depth, it has seen the flags of phase n - depth + 2 of all
//! ranks. Roots may change and ranks may be late as they like.
//!
//! That holds for collectives that come one after the other. Of nonblocking ones several are under way,
//! and end in any order; theirs are other slots ([`Slots::several`]), and for these each rank has one flag
//! more, [`THROUGH`], the number of the last phase up to which it has ended all collectives. Only who has
//! something to say raises a flag, when all are through with what was in its slot before. Nobody waits
//! for that but by a step: who has called waits until others have, at the worst, and until they call MPI
//! again if he is ahead of them by all slots of the ring.

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
