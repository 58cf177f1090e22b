//! Collectives by remote writes as data, which follow each other in any order.

use super::sim::{DEPTH, FIRST, ROOM, run_late};
use super::*;
use crate::Reduction;
use crate::rdma::{
    self, BLOCK, DEGREES, Pace, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce,
    Reach,
};
use crate::schedule::Course;
use crate::{Part, Schedule};

pub(super) fn reach(rank: usize, size: usize) -> Reach {
    Reach {
        rank: rank as u32,
        size: size as u32,
        room: ROOM,
        depth: DEPTH,
    }
}

fn any_degree(rng: &mut Rng) -> u32 {
    DEGREES[rng.below(4) as usize]
}

/// Builds an allreduce of a vector that fits a slot with any algorithm.
pub(super) fn any_way(rng: &mut Rng) -> RdmaAllreduce {
    let [up, down] = [any_degree(rng), any_degree(rng)];
    match rng.below(5) {
        0 => RdmaAllreduce::Pairs,
        _ => RdmaAllreduce::Tree { up, down },
    }
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Barrier,
    Bcast(usize, RdmaBcast),
    Allreduce {
        way: RdmaAllreduce,
        in_place: bool,
        commutes: bool,
    },
    Reduce {
        root: usize,
        how: RdmaReduce,
        in_place: bool,
        commutes: bool,
    },
    /// And whether in place.
    Allgather(RdmaAllgather, bool),
    Alltoall(RdmaAlltoall, bool),
}

impl Kind {
    fn any(rng: &mut Rng, size: usize) -> Kind {
        let in_place = rng.below(2) == 0;
        let root = rng.below(size as u64) as usize;
        let few = size <= 16;
        match rng.below(12) {
            0 | 1 => Kind::Barrier,
            2 => {
                let block = [BLOCK, ROOM / 3, ROOM / 2][rng.below(3) as usize];
                Kind::Bcast(root, RdmaBcast::Binomial { block })
            }
            3 => Kind::Bcast(root, RdmaBcast::Chain),
            4 => Kind::Allreduce {
                way: any_way(rng),
                in_place,
                commutes: rng.below(2) == 0,
            },
            5 => Kind::Allreduce {
                way: RdmaAllreduce::Ring,
                in_place,
                commutes: size > 2 || rng.below(2) == 0,
            },
            6 | 7 => Kind::Reduce {
                root,
                how: RdmaReduce::Tree {
                    degree: any_degree(rng),
                },
                in_place,
                commutes: root > 0 || rng.below(2) == 0,
            },
            8 => Kind::Reduce {
                root,
                how: RdmaReduce::Chain,
                in_place,
                commutes: true,
            },
            9 if few => Kind::Allgather(RdmaAllgather::Direct, in_place),
            9 => Kind::Allgather(RdmaAllgather::Doubling, in_place),
            10 => match rng.below(2) {
                0 => Kind::Allgather(RdmaAllgather::Doubling, in_place),
                _ => Kind::Allgather(RdmaAllgather::Ring, in_place),
            },
            _ if few && rng.below(2) == 0 => Kind::Alltoall(RdmaAlltoall::Direct, in_place),
            _ => Kind::Alltoall(RdmaAlltoall::Doubling, in_place),
        }
    }

    /// The most bytes of a vector or block.
    fn most(&self, size: usize) -> usize {
        let doubling = ROOM / (size.next_power_of_two() / 2);
        match self {
            Kind::Barrier => 0,
            Kind::Bcast(_, RdmaBcast::Binomial { block }) => 2 * (*block).min(ROOM),
            Kind::Bcast(_, RdmaBcast::Chain) => 21 * ROOM,
            Kind::Allreduce {
                way: RdmaAllreduce::Ring,
                ..
            } => 3 * size * ROOM,
            Kind::Allreduce { .. } => ROOM,
            Kind::Reduce {
                how: RdmaReduce::Tree { .. },
                ..
            } => reach(0, size).most_up(),
            Kind::Reduce { .. } => 11 * ROOM,
            Kind::Allgather(RdmaAllgather::Direct, _) | Kind::Alltoall(RdmaAlltoall::Direct, _) => {
                ROOM
            }
            Kind::Allgather(RdmaAllgather::Doubling, _)
            | Kind::Alltoall(RdmaAlltoall::Doubling, _) => doubling,
            Kind::Allgather(RdmaAllgather::Ring, _) => 5 * ROOM,
        }
    }

    fn reduces(&self) -> bool {
        matches!(self, Kind::Allreduce { .. } | Kind::Reduce { .. })
    }
}

pub(super) struct One {
    pub kind: Kind,
    datatype: Datatype,
    count: usize,
    send: Vec<Buffer>,
    recv: Vec<Buffer>,
    expect: Vec<Buffer>,
}

impl One {
    pub fn new(kind: Kind, rng: &mut Rng, size: usize) -> One {
        let (seed, all) = (rng.below(1 << 30), types());
        let which = rng.below(if kind.reduces() { 2 } else { all.len() as u64 });
        let datatype = all[which as usize].clone();
        let most = kind.most(size) / datatype.size();
        let count = match rng.below(4) {
            0 => rng.below(8).min(most as u64) as usize,
            1 => most,
            _ => rng.below(most as u64 + 1) as usize,
        };
        let blocks = match kind {
            Kind::Alltoall(..) => size,
            _ => 1,
        };
        let operands: Vec<_> = (0..size)
            .map(|i| data(seed, i as u64, blocks * count * datatype.size()))
            .collect();
        let full = |packed: &Vec<u8>| Buffer::with(blocks * count, &datatype, packed);
        let blank = Buffer::of(count, &datatype);
        let wide = Buffer::of(size * count, &datatype);
        let vectors: Vec<Buffer> = operands.iter().map(full).collect();
        let none = vec![Buffer::new(0); size];
        let block = |packed: &[u8], i: usize| {
            let len = count * datatype.size();
            packed[i * len..(i + 1) * len].to_vec()
        };
        let (send, recv, expect) = match kind {
            Kind::Barrier => (none.clone(), none.clone(), none),
            Kind::Bcast(root, _) => {
                let mut recv = vec![blank; size];
                recv[root] = vectors[root].clone();
                (none, recv, vec![vectors[root].clone(); size])
            }
            Kind::Allreduce {
                in_place, commutes, ..
            } => {
                let sum = full(&reduced(commutes, operands.iter()));
                let recv = match in_place {
                    true => vectors.clone(),
                    false => vec![blank; size],
                };
                (vectors, recv, vec![sum; size])
            }
            Kind::Reduce {
                root,
                in_place,
                commutes,
                ..
            } => {
                // Elsewhere than at the root nothing is written.
                let mut recv = vec![blank; size];
                let mut expect = recv.clone();
                expect[root] = full(&reduced(commutes, operands.iter()));
                if in_place {
                    recv[root] = vectors[root].clone();
                }
                (vectors, recv, expect)
            }
            Kind::Allgather(_, in_place) => {
                let whole = Buffer::with(size * count, &datatype, &operands.concat());
                let own = |(i, packed): (usize, &Vec<u8>)| {
                    let mut buffer = wide.clone();
                    let at = (i * count) as isize * datatype.extent();
                    if in_place {
                        buffer.put(at, &datatype, packed);
                    }
                    buffer
                };
                let recv = operands.iter().enumerate().map(own).collect();
                (vectors, recv, vec![whole; size])
            }
            Kind::Alltoall(_, in_place) => {
                let of = |rank: usize| {
                    let got: Vec<u8> = operands
                        .iter()
                        .flat_map(|packed| block(packed, rank))
                        .collect();
                    Buffer::with(size * count, &datatype, &got)
                };
                let recv = match in_place {
                    true => vectors.clone(),
                    false => vec![wide; size],
                };
                (vectors, recv, (0..size).map(of).collect())
            }
        };
        One {
            kind,
            datatype,
            count,
            send,
            recv,
            expect,
        }
    }

    pub fn any(rng: &mut Rng, size: usize) -> One {
        let kind = Kind::any(rng, size);
        One::new(kind, rng, size)
    }

    fn build(&self, rank: usize, size: usize, schedule: &mut Schedule) {
        let (count, datatype) = (self.count, &self.datatype);
        let part = Part { count, datatype };
        let bytes = part.bytes();
        let reach = reach(rank, size);
        let send = |in_place: bool| (!in_place).then_some(part);
        match self.kind {
            Kind::Barrier => rdma::barrier(schedule, reach),
            Kind::Bcast(root, how) => {
                assert!(how.takes(reach, bytes));
                rdma::bcast_by(schedule, reach, root as u32, part, how);
            }
            Kind::Allreduce {
                way,
                in_place,
                commutes,
            } => {
                assert!(way.takes(reach, bytes, commutes));
                rdma::allreduce_by(
                    schedule,
                    reach,
                    Reduction::new(in_place, part, &operation(commutes)),
                    way,
                );
            }
            Kind::Reduce {
                root,
                how,
                in_place,
                commutes,
            } => {
                let root = root as u32;
                assert!(how.takes(reach, root, bytes, commutes));
                let op = operation(commutes);
                rdma::reduce_by(
                    schedule,
                    reach,
                    root,
                    Reduction::new(in_place, part, &op),
                    how,
                );
            }
            Kind::Allgather(how, in_place) => {
                assert!(how.takes(reach, bytes));
                rdma::allgather_by(schedule, reach, send(in_place), part, how);
            }
            Kind::Alltoall(how, in_place) => {
                assert!(how.takes(reach, bytes));
                rdma::alltoall_by(schedule, reach, send(in_place), part, how);
            }
        }
    }
}

/// One after the other, with the barriers that [`Pace`] asks for.
pub(super) fn in_turn(seed: u64, size: usize, late: usize, calls: &mut [One]) {
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    for rank in 0..size {
        let mut pace = Pace::new(FIRST);
        let mut list = Vec::new();
        for call in calls.iter_mut() {
            let mut run = Run::new();
            call.build(rank, size, run.rebuild());
            if size <= 9 {
                let (send, recv) = (call.send[rank].len(), call.recv[rank].len());
                races::check(&call.kind, rank, run.schedule(), send, recv);
            }
            let (phases, course) = (run.schedule().phases(), run.schedule().course());
            if !pace.allows(phases, course, &reach(rank, size)) {
                let mut first = Run::new();
                rdma::barrier(first.rebuild(), reach(rank, size));
                first.set_number(pace.take(1, Course::Meets));
                // SAFETY: no buffers are used.
                unsafe { first.start(std::ptr::null(), std::ptr::null_mut(), 0) }.unwrap();
                list.push(first);
            }
            run.set_number(pace.take(phases, course));
            run.set_pieces(pace.take_pieces(run.schedule().pieces()));
            // SAFETY: the buffers live until the runs are done, below.
            unsafe { run.start(call.send[rank].ptr(), call.recv[rank].ptr(), 0) }.unwrap();
            list.push(run);
        }
        runs.push(list);
    }
    let network = Network::Random(seed);
    let rings = |cell| reach(0, size).ring(cell);
    let (_, results) = run_late(&mut runs, network, &|_, to| to, &rings, Some(late));
    assert!(results.iter().all(|result| result.is_ok()), "{results:?}");
    for (place, call) in calls.iter().enumerate() {
        let what = (place, &call.kind, call.count, &call.datatype, size, late);
        compare(&what, &call.recv, &call.expect);
    }
}
