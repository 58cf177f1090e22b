//! The algorithms of collectives by remote writes, and the calls that each takes.

use super::reach::{DIRECT, LONGEST, Reach};

/// The algorithm of an allreduce by remote writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAllreduce {
    /// Between pairs of ranks 1, 2, 4, … apart.
    Pairs,
    /// Up a tree of one degree to rank 0, and down a tree of another: [`super::DEGREES`].
    Tree {
        /// Children of a node in a step upwards.
        up: u32,
        /// Children of a node in a step downwards.
        down: u32,
    },
    /// Round the ring, each rank reducing a share; two ranks exchange whole vectors.
    Ring,
}

impl RdmaAllreduce {
    /// Returns whether the algorithm takes a vector of `bytes` bytes.
    pub fn takes(self, reach: Reach, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaAllreduce::Pairs | RdmaAllreduce::Tree { .. } => bytes <= reach.room,
            RdmaAllreduce::Ring => bytes <= LONGEST && (commutes || reach.size == 2),
        }
    }
}

/// The algorithm of a broadcast by remote writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaBcast {
    /// Down a binomial tree.
    Tree,
    /// Along the ring of ranks, in chunks.
    Chain,
}

impl RdmaBcast {
    /// Returns whether the algorithm takes `bytes` bytes.
    pub fn takes(self, reach: Reach, bytes: usize) -> bool {
        match self {
            RdmaBcast::Tree => bytes <= reach.most(),
            RdmaBcast::Chain => bytes <= LONGEST,
        }
    }
}

/// The algorithm of a reduction to one rank by remote writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaReduce {
    /// Up a tree of this degree: [`super::DEGREES`].
    Tree(u32),
    /// Along the ring of ranks, in chunks.
    Chain,
}

impl RdmaReduce {
    /// Returns whether the algorithm takes `bytes` bytes to this root. Operands are in the order of
    /// ranks only up a tree to rank 0.
    pub fn takes(self, reach: Reach, root: u32, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaReduce::Tree(_) => bytes <= reach.most_up() && (commutes || root == 0),
            RdmaReduce::Chain => bytes <= LONGEST && commutes,
        }
    }
}

/// The algorithm of an allgather by remote writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAllgather {
    /// Each rank to all others.
    Direct,
    /// All gathered blocks to ranks 1, 2, 4, … further on.
    Doubling,
    /// Block after block round the ring, in chunks.
    Ring,
}

impl RdmaAllgather {
    /// Returns whether the algorithm takes blocks of this size.
    pub fn takes(self, reach: Reach, block: usize) -> bool {
        match self {
            RdmaAllgather::Direct => reach.size <= DIRECT && block <= reach.room,
            RdmaAllgather::Doubling => block * reach.half_of_all() <= reach.room,
            RdmaAllgather::Ring => block.saturating_mul(reach.size as usize) <= LONGEST,
        }
    }
}

/// The algorithm of an alltoall by remote writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAlltoall {
    /// Each rank to all others.
    Direct,
    /// To ranks 1, 2, 4, … further on, with blocks of other ranks.
    Doubling,
}

impl RdmaAlltoall {
    /// Returns whether the algorithm takes blocks of this size.
    pub fn takes(self, reach: Reach, block: usize) -> bool {
        match self {
            RdmaAlltoall::Direct => reach.size <= DIRECT && block <= reach.room,
            RdmaAlltoall::Doubling => block * reach.half_of_all() <= reach.room,
        }
    }
}
