//! Costs of the algorithms of collectives by remote writes, and the fastest one that takes a call.
//!
//! In the model of [`super::model`], a write takes a hop to arrive, several writes of a rank are a
//! gap apart each, and a pipeline of chunks is as fast as its slowest stage.

use super::collective::{Algorithm, Collective};
use super::model::Parameters;
use super::rdma::{
    BLOCK, DEGREES, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach,
    WriteCall, steps,
};

/// Returns the algorithms by writes, but for those of an allreduce.
fn algorithms() -> impl Iterator<Item = Algorithm> {
    let trees = DEGREES.map(|degree| Algorithm::RdmaReduce(RdmaReduce::Tree { degree }));
    let others = [
        Algorithm::Rdma,
        Algorithm::RdmaBcast(RdmaBcast::Binomial { block: BLOCK }),
        Algorithm::RdmaBcast(RdmaBcast::Chain),
        Algorithm::RdmaReduce(RdmaReduce::Chain),
        Algorithm::RdmaAllgather(RdmaAllgather::Direct),
        Algorithm::RdmaAllgather(RdmaAllgather::Doubling),
        Algorithm::RdmaAllgather(RdmaAllgather::Ring),
        Algorithm::RdmaAlltoall(RdmaAlltoall::Direct),
        Algorithm::RdmaAlltoall(RdmaAlltoall::Doubling),
    ];
    trees.into_iter().chain(others)
}

/// Returns the number of chunks of at most `room` bytes, and the bytes of one.
fn pieces(bytes: usize, room: usize) -> (f64, usize) {
    let count = bytes.div_ceil(room.max(1)).max(1);
    (count as f64, bytes.div_ceil(count))
}

impl Parameters {
    /// Returns the first of the fastest algorithms of a call, if any takes it.
    pub fn best(&self, call: &WriteCall) -> Option<Algorithm> {
        let WriteCall { reach, bytes, .. } = call;
        if call.collective == Collective::Allreduce {
            let best = self.best_allreduce(reach, *bytes, call.commutes);
            return best.map(Algorithm::RdmaAllreduce);
        }
        let possible = algorithms().filter(|algorithm| call.allows(*algorithm));
        let timed = possible.map(|algorithm| {
            let time = match algorithm {
                Algorithm::RdmaBcast(how) => self.bcast_time(reach, *bytes, how),
                Algorithm::RdmaReduce(how) => self.reduce_time(reach, *bytes, how),
                Algorithm::RdmaAllgather(how) => self.allgather_time(reach, *bytes, how),
                Algorithm::RdmaAlltoall(how) => self.alltoall_time(reach, *bytes, how),
                _ => 0.0,
            };
            (algorithm, time)
        });
        let best = timed.min_by(|one, other| one.1.total_cmp(&other.1));
        best.map(|(algorithm, _)| algorithm)
    }

    /// Returns the time to reduce `bytes` bytes.
    fn reduction(&self, bytes: usize) -> f64 {
        self.operation[0] + self.operation[1] * bytes as f64
    }

    /// Returns the time between two chunks at a rank that forwards them.
    fn cycle(&self, bytes: usize, reduces: bool) -> f64 {
        let work = if reduces { self.reduction(bytes) } else { 0.0 };
        let processor = self.library + self.descriptor + self.copy * bytes as f64 + work;
        self.gap(bytes).max(processor).max(self.startup)
    }

    /// Returns the share of `phases` phases in the barrier that must come once per ring of one-way
    /// collectives.
    fn pace(&self, ranks: u32, phases: f64, ring: u32) -> f64 {
        f64::from(steps(ranks, 2)) * self.hop(0) * phases / f64::from(ring)
    }

    /// Returns the share of `pieces` chunks in the time of sending and receiving an acknowledgement
    /// per half ring.
    fn acknowledgements(&self, reach: &Reach, pieces: f64) -> f64 {
        let one = self.library + self.descriptor + self.startup;
        2.0 * one * pieces / f64::from(reach.depth)
    }

    /// Returns the time of a broadcast.
    fn bcast_time(&self, reach: &Reach, bytes: usize, algorithm: RdmaBcast) -> f64 {
        let room = match algorithm {
            RdmaBcast::Binomial { block } => block.min(reach.room),
            RdmaBcast::Chain => reach.room,
        };
        let (count, piece) = pieces(bytes, room);
        let rounds = f64::from(steps(reach.size, 2));
        let copy = self.copy * piece as f64;
        match algorithm {
            RdmaBcast::Binomial { .. } => {
                let each = (rounds * self.gap(piece)).max(self.cycle(piece, false));
                let pace = self.pace(reach.size, count, reach.depth);
                rounds * self.hop(piece) + (count - 1.0) * each + copy + pace
            }
            RdmaBcast::Chain => {
                let hops = f64::from(reach.size - 1);
                let others = (count - 1.0) * self.cycle(piece, false);
                hops * self.hop(piece) + others + copy + self.acknowledgements(reach, count)
            }
        }
    }

    /// Returns the time of a reduction to one rank.
    fn reduce_time(&self, reach: &Reach, bytes: usize, algorithm: RdmaReduce) -> f64 {
        match algorithm {
            RdmaReduce::Tree { degree: k } => {
                let (count, piece) = pieces(bytes, reach.reduce_room());
                let children = k.min(reach.size.saturating_sub(1));
                let each = f64::from(children) * self.cycle(piece, true);
                let pace = self.pace(reach.size, count, reach.reduce_depth());
                self.up(reach.size, k, piece) + (count - 1.0) * each + pace
            }
            RdmaReduce::Chain => {
                let (count, piece) = pieces(bytes, reach.room);
                let hops = f64::from(reach.size - 1);
                let others = (count - 1.0) * self.cycle(piece, true);
                hops * self.step(1, piece) + others + self.acknowledgements(reach, count)
            }
        }
    }

    /// Returns the time in which all ranks write `bytes` bytes to all others and receive theirs.
    fn all_to_all(&self, ranks: u32, bytes: usize) -> f64 {
        let others = f64::from(ranks.saturating_sub(2));
        self.hop(bytes) + others * self.cycle(bytes, false) + self.copy * bytes as f64
    }

    /// Returns the time of an allgather of blocks of `block` bytes.
    fn allgather_time(&self, reach: &Reach, block: usize, algorithm: RdmaAllgather) -> f64 {
        let size = reach.size;
        match algorithm {
            RdmaAllgather::Direct => self.all_to_all(size, block),
            RdmaAllgather::Doubling => {
                let mut time = 0.0;
                let mut have = 1;
                while have < size {
                    let bytes = have.min(size - have) as usize * block;
                    time += self.hop(bytes) + 2.0 * self.copy * bytes as f64;
                    have *= 2;
                }
                time
            }
            RdmaAllgather::Ring => {
                let (count, piece) = pieces(block, reach.room);
                let step = self.hop(piece) + self.copy * piece as f64;
                let hops = f64::from(size - 1);
                let steps = hops * step.max(count * self.cycle(piece, false));
                steps + self.acknowledgements(reach, hops * count)
            }
        }
    }

    /// Returns the time of an alltoall of blocks of `block` bytes.
    fn alltoall_time(&self, reach: &Reach, block: usize, algorithm: RdmaAlltoall) -> f64 {
        let rounds = steps(reach.size, 2);
        match algorithm {
            RdmaAlltoall::Direct => self.all_to_all(reach.size, block),
            RdmaAlltoall::Doubling => {
                let bytes = reach.size as usize / 2 * block;
                let round = self.hop(bytes) + 2.0 * self.copy * bytes as f64;
                f64::from(rounds) * round + self.copy * (reach.size as usize * block) as f64
            }
        }
    }

    /// Returns the time of an allreduce round the ring.
    fn ring_time(&self, reach: &Reach, bytes: usize) -> f64 {
        if reach.size == 2 {
            let (count, piece) = pieces(bytes, reach.room);
            let others = (count - 1.0) * self.cycle(piece, true);
            return self.step(1, piece) + others + self.acknowledgements(reach, count);
        }
        let (count, piece) = pieces(bytes.div_ceil(reach.size as usize), reach.room);
        let hops = f64::from(reach.size - 1);
        let first = self.step(1, piece).max(count * self.cycle(piece, true));
        let second = self.hop(piece).max(count * self.cycle(piece, false));
        hops * (first + second) + self.acknowledgements(reach, 2.0 * hops * count)
    }

    /// Returns the fastest algorithm of an allreduce, if any takes it.
    fn best_allreduce(&self, reach: &Reach, bytes: usize, commutes: bool) -> Option<RdmaAllreduce> {
        let (short, short_time) = self.best_short(reach.size, bytes);
        let fits = short.takes(*reach, bytes, commutes);
        let goes_round = RdmaAllreduce::Ring.takes(*reach, bytes, commutes);
        match (fits, goes_round) {
            // Two ranks exchange whole vectors either way, and pairs need no acknowledgements.
            (true, true) if reach.size > 2 && self.ring_time(reach, bytes) < short_time => {
                Some(RdmaAllreduce::Ring)
            }
            (true, _) => Some(short),
            (false, true) => Some(RdmaAllreduce::Ring),
            (false, false) => None,
        }
    }
}
