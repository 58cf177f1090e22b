//! The ways that collectives by writes go, and what each takes.

use super::reach::{DIRECT, LONGEST, Reach};

/// How an allreduce by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAllreduce {
    /// Between pairs of ranks 1, 2, 4, … apart.
    Pairs,
    /// Up a tree of one degree to rank 0, and down one of another: [`super::DEGREES`].
    Tree {
        /// Children of a node in a step upwards.
        up: u32,
        /// And downwards.
        down: u32,
    },
    /// Round the ring, each rank reducing a share; two ranks each send all that they have.
    Ring,
}

impl RdmaAllreduce {
    /// Whether it takes a vector of so many bytes.
    pub fn takes(self, reach: Reach, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaAllreduce::Pairs | RdmaAllreduce::Tree { .. } => bytes <= reach.room,
            RdmaAllreduce::Ring => bytes <= LONGEST && (commutes || reach.size == 2),
        }
    }
}

/// How a broadcast by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaBcast {
    /// Down a binomial tree.
    Tree,
    /// Along the ring of ranks, piece after piece.
    Chain,
}

impl RdmaBcast {
    /// Whether it takes so many bytes.
    pub fn takes(self, reach: Reach, bytes: usize) -> bool {
        match self {
            RdmaBcast::Tree => bytes <= reach.most(),
            RdmaBcast::Chain => bytes <= LONGEST,
        }
    }
}

/// How a reduction to one rank by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaReduce {
    /// Up a tree of that degree: [`super::DEGREES`].
    Tree(u32),
    /// Along the ring of ranks, piece after piece.
    Chain,
}

impl RdmaReduce {
    /// Whether it takes so many bytes with that root. The order of operands is that of ranks only up a tree to rank 0.
    pub fn takes(self, reach: Reach, root: u32, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaReduce::Tree(_) => bytes <= reach.most_up() && (commutes || root == 0),
            RdmaReduce::Chain => bytes <= LONGEST && commutes,
        }
    }
}

/// How an allgather by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAllgather {
    /// Each rank to all others.
    Direct,
    /// All that is known to ranks 1, 2, 4, … further on.
    Doubling,
    /// Block after block round the ring, in pieces.
    Ring,
}

impl RdmaAllgather {
    /// Whether it takes blocks of so many bytes.
    pub fn takes(self, reach: Reach, block: usize) -> bool {
        match self {
            RdmaAllgather::Direct => reach.size <= DIRECT && block <= reach.room,
            RdmaAllgather::Doubling => block * reach.half_of_all() <= reach.room,
            RdmaAllgather::Ring => block.saturating_mul(reach.size as usize) <= LONGEST,
        }
    }
}

/// How an alltoall by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaAlltoall {
    /// Each rank to all others.
    Direct,
    /// To ranks 1, 2, 4, … further on, blocks of others with the own ones.
    Doubling,
}

impl RdmaAlltoall {
    /// Whether it takes blocks of so many bytes.
    pub fn takes(self, reach: Reach, block: usize) -> bool {
        match self {
            RdmaAlltoall::Direct => reach.size <= DIRECT && block <= reach.room,
            RdmaAlltoall::Doubling => block * reach.half_of_all() <= reach.room,
        }
    }
}
