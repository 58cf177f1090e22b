//! The calls that each algorithm by remote writes takes.

use super::reach::{DIRECT, LONGEST, Reach};
use crate::collective::{RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce};

impl RdmaAllreduce {
    /// Returns whether the algorithm takes a vector of `bytes` bytes.
    pub fn takes(self, reach: Reach, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaAllreduce::Pairs | RdmaAllreduce::Tree { .. } => bytes <= reach.room,
            RdmaAllreduce::Ring => bytes <= LONGEST && (commutes || reach.size == 2),
        }
    }
}

impl RdmaBcast {
    /// Returns whether the algorithm takes `bytes` bytes.
    pub fn takes(self, reach: Reach, bytes: usize) -> bool {
        match self {
            RdmaBcast::Binomial => bytes <= reach.most(),
            RdmaBcast::Chain => bytes <= LONGEST,
        }
    }
}

impl RdmaReduce {
    /// Returns whether the algorithm takes `bytes` bytes to this root. Operands are in the order of
    /// ranks only up a tree to rank 0.
    pub fn takes(self, reach: Reach, root: u32, bytes: usize, commutes: bool) -> bool {
        match self {
            RdmaReduce::Tree { .. } => bytes <= reach.most_up() && (commutes || root == 0),
            RdmaReduce::Chain => bytes <= LONGEST && commutes,
        }
    }
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

impl RdmaAlltoall {
    /// Returns whether the algorithm takes blocks of this size.
    pub fn takes(self, reach: Reach, block: usize) -> bool {
        match self {
            RdmaAlltoall::Direct => reach.size <= DIRECT && block <= reach.room,
            RdmaAlltoall::Doubling => block * reach.half_of_all() <= reach.room,
        }
    }
}
