//! The calls that each algorithm by remote writes takes.

use super::reach::{DIRECT, LONGEST, Reach};
use crate::collective::{
    Algorithm, Collective, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce,
};
use crate::situation::Situation;

/// A call among ranks with slots over a network, as the selection of its algorithm sees it.
#[derive(Clone, Copy, Debug)]
pub struct WriteCall {
    /// The collective.
    pub collective: Collective,
    /// The slots.
    pub reach: Reach,
    /// The root's number among the ranks with slots.
    pub root: u32,
    /// Bytes of a vector, or of a block.
    pub bytes: usize,
    /// Whether the operation commutes.
    pub commutes: bool,
}

impl WriteCall {
    /// Returns what all ranks know of the call.
    pub fn situation(&self) -> Situation {
        let ranks = self.reach.size as usize;
        Situation {
            ranks,
            per_node: 1,
            bytes: match self.collective {
                Collective::Allgather => self.bytes * ranks,
                _ => self.bytes,
            },
            commutes: self.commutes,
        }
    }

    /// Returns whether this is an algorithm of the collective that takes the call.
    pub fn allows(&self, algorithm: Algorithm) -> bool {
        let WriteCall { reach, bytes, .. } = *self;
        match (self.collective, algorithm) {
            (Collective::Barrier, Algorithm::Rdma) => true,
            (Collective::Bcast, Algorithm::RdmaBcast(how)) => how.takes(reach, bytes),
            (Collective::Reduce, Algorithm::RdmaReduce(how)) => {
                how.takes(reach, self.root, bytes, self.commutes)
            }
            (Collective::Allgather, Algorithm::RdmaAllgather(how)) => how.takes(reach, bytes),
            (Collective::Alltoall, Algorithm::RdmaAlltoall(how)) => how.takes(reach, bytes),
            (Collective::Allreduce, Algorithm::RdmaAllreduce(how)) => {
                how.takes(reach, bytes, self.commutes)
            }
            _ => false,
        }
    }
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

impl RdmaBcast {
    /// Returns whether the algorithm takes `bytes` bytes.
    pub fn takes(self, reach: Reach, bytes: usize) -> bool {
        match self {
            RdmaBcast::Binomial { block } => bytes <= reach.most_in(block),
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
