//! Collectives by remote writes: right whatever comes after what, and what they cost.

use super::calls::{Kind, One, in_turn, reach};
use super::sim::FIRST;
use super::*;
use crate::Reduction;
use crate::rdma::{
    self, BLOCK, DEGREES, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach,
    steps,
};
use crate::{Part, Schedule};

#[test]
fn every_collective_after_every_other() {
    let seed = seed();
    for size in (2..=17).chain([31, 32, 33, 64]) {
        let mut rng = Rng::new(seed + size as u64);
        let calls = if size <= 17 { 40 } else { 12 };
        let mut calls: Vec<One> = (0..calls).map(|_| One::any(&mut rng, size)).collect();
        let late = rng.below(size as u64) as usize;
        in_turn(seed, size, late, &mut calls);
    }
}

#[test]
fn three_hundred_barriers_with_one_late_rank() {
    // Numbers wrap after the twelfth. Nobody may be through a barrier before the late one is in it,
    // so nobody's count of barriers may be more than one above the late one's: a flag that went up
    // too early would overtake, and the simulator looks for flags that go down.
    let seed = seed();
    for size in [2, 4, 5, 8] {
        for late in [0, size - 1] {
            let mut rng = Rng::new(seed);
            let mut calls: Vec<One> = (0..300)
                .map(|_| One::new(Kind::Barrier, &mut rng, size))
                .collect();
            in_turn(seed, size, late, &mut calls);
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_comes() {
    // The late rank first sends itself 100 messages, each of which takes a unit of time.
    for size in 2..=17 {
        for late in [0, size / 2, size - 1] {
            let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
            for rank in 0..size {
                let mut run = Run::new();
                let schedule = run.rebuild();
                for _ in 0..if rank == late { 100 } else { 0 } {
                    let nothing = crate::Block::empty();
                    schedule.exchange(rank as u32, nothing, rank as u32, nothing);
                }
                rdma::barrier(schedule, reach(rank, size));
                run.set_number(FIRST);
                // SAFETY: no buffers are used.
                unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 1) }.unwrap();
                runs.push(vec![run]);
            }
            let (cost, _) = run_all(&mut runs, Network::OnePort, &|_, to| to);
            assert!(cost.done.iter().all(|&done| done >= 100), "{size} {cost:?}");
        }
    }
}

#[test]
fn roots_in_rotation_with_a_late_child() {
    let seed = seed();
    for size in [2, 4, 5, 8] {
        for late in 0..size {
            let mut rng = Rng::new(seed + late as u64);
            let mut calls: Vec<One> = (0..60)
                .map(|i| {
                    One::new(
                        Kind::Bcast(i % size, RdmaBcast::Binomial { block: BLOCK }),
                        &mut rng,
                        size,
                    )
                })
                .collect();
            in_turn(seed, size, late, &mut calls);
        }
    }
}

#[test]
fn reductions_to_one_rank_with_a_late_parent() {
    let seed = seed();
    for size in [2, 3, 5, 8] {
        for late in 0..size {
            for ways in [
                &DEGREES.map(|degree| RdmaReduce::Tree { degree })[..],
                &[RdmaReduce::Chain],
            ] {
                let mut rng = Rng::new(seed + late as u64);
                let mut calls: Vec<One> = (0..60)
                    .map(|i| {
                        let kind = Kind::Reduce {
                            // Most often the late one, whom nobody else waits for.
                            root: if i % 8 == 7 { i / 8 % size } else { late },
                            how: ways[i / 4 % ways.len()],
                            in_place: i % 3 == 0,
                            commutes: true,
                        };
                        One::new(kind, &mut rng, size)
                    })
                    .collect();
                in_turn(seed, size, late, &mut calls);
            }
        }
    }
}

#[test]
fn degrees_in_rotation() {
    let seed = seed();
    for size in [2, 3, 4, 8, 13, 16] {
        let mut rng = Rng::new(seed + size as u64);
        let mut calls: Vec<One> = (0..60)
            .map(|i| {
                let kind = Kind::Allreduce {
                    way: match i % 5 {
                        0 => RdmaAllreduce::Pairs,
                        number => RdmaAllreduce::Tree {
                            up: DEGREES[number - 1],
                            down: DEGREES[i % 4],
                        },
                    },
                    in_place: i % 3 == 0,
                    commutes: false,
                };
                One::new(kind, &mut rng, size)
            })
            .collect();
        in_turn(seed, size, size / 2, &mut calls);
    }
}

fn cost(size: usize, build: &dyn Fn(usize, &mut Schedule), len: usize) -> Cost {
    let mut buffers = vec![Buffer::new(len); size];
    let (network, mut send) = (Network::OnePort, buffers.clone());
    run_one(network, &size, build, &mut send, &mut buffers)
}

#[test]
fn costs() {
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 8,
        datatype: &int,
    };
    let op = operation(true);
    for size in SIZES {
        let rounds = u64::from(size.next_power_of_two().ilog2());
        let one = cost(size, &|r, s| rdma::barrier(s, reach(r, size)), 0);
        assert!(one.puts.iter().all(|&puts| puts == rounds), "{one:?}");
        assert_eq!(one.time, rounds);

        for root in roots(size) {
            let build =
                |r, s: &mut Schedule| rdma::bcast(s, reach(r, size), root as u32, part, BLOCK);
            let bcast = cost(size, &build, 32);
            assert_eq!(bcast.time, rounds);
            assert_eq!(bcast.puts.iter().sum::<u64>(), size as u64 - 1);
        }
        for k in DEGREES {
            let build = |r, s: &mut Schedule| {
                rdma::allreduce(s, reach(r, size), Reduction::new(false, part, &op), [k, 1]);
            };
            let all = cost(size, &build, 32);
            let up = u64::from(steps(size as u32, k + 1));
            assert!(all.time <= up + rounds, "{size} {k} {all:?}");
            if size.is_power_of_two() {
                assert_eq!(all.time, up + rounds, "{size} {k}");
            }
            assert_eq!(all.puts.iter().sum::<u64>(), 2 * (size as u64 - 1));
        }
    }
}

#[test]
fn memory_grows_with_the_logarithm() {
    for (size, room) in [(16, 5120), (1024, 5120), (1 << 20, 5120)] {
        let reach = Reach {
            rank: 0,
            size,
            room,
            depth: 4,
        };
        println!(
            "N = {size}: {} cells, {} KiB per rank",
            reach.cells(),
            reach.memory() / 1024
        );
        let children = DEGREES.map(|k| k * steps(size, k + 1));
        let most = *children.iter().max().unwrap();
        // Once for reductions to all, and once for those to one.
        let meetings = most.max(steps(size, 2) + 1);
        assert!(reach.cells() <= meetings + most + steps(size, 2) + 5);
    }
    let memory = |size| {
        Reach {
            rank: 0,
            size,
            room: 4096,
            depth: 4,
        }
        .memory()
    };
    assert!(memory(1 << 20) < 2 << 20, "{}", memory(1 << 20));
}

#[test]
fn nobody_writes_to_others_than_it_says() {
    let byte = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: 1,
        datatype: &byte,
    };
    let mut rng = Rng::new(seed());
    for size in (2..40).chain([1000, 4097, 65_536]) {
        for _ in 0..20 {
            let rank = rng.below(size as u64) as usize;
            let known = rdma::written_to(reach(rank, size));
            let log = steps(size as u32, 2) as usize;
            assert!(known.len() <= 40 * log, "{size}: {}", known.len());
            for _ in 0..20 {
                let root = rng.below(size as u64) as u32;
                let mut schedule = Schedule::new();
                let reach = reach(rank, size);
                let op = operation(true);
                for how in [RdmaBcast::Binomial { block: BLOCK }, RdmaBcast::Chain] {
                    rdma::bcast_by(&mut schedule, reach, root, part, how);
                }
                for how in DEGREES
                    .map(|degree| RdmaReduce::Tree { degree })
                    .into_iter()
                    .chain([RdmaReduce::Chain])
                {
                    rdma::reduce_by(
                        &mut schedule,
                        reach,
                        root,
                        Reduction::new(false, part, &op),
                        how,
                    );
                }
                // On the ring such paths have a hop for each rank.
                if size < 40 {
                    rdma::allreduce_by(
                        &mut schedule,
                        reach,
                        Reduction::new(false, part, &op),
                        RdmaAllreduce::Ring,
                    );
                    for how in [
                        RdmaAllgather::Direct,
                        RdmaAllgather::Doubling,
                        RdmaAllgather::Ring,
                    ] {
                        if how.takes(reach, 1) {
                            rdma::allgather_by(&mut schedule, reach, Some(part), part, how);
                        }
                    }
                    for how in [RdmaAlltoall::Direct, RdmaAlltoall::Doubling] {
                        if how.takes(reach, 1) {
                            rdma::alltoall_by(&mut schedule, reach, Some(part), part, how);
                        }
                    }
                }
                for step in schedule.steps() {
                    if let crate::Step::Put { slot, .. } = step {
                        assert!(known.contains(&slot.of), "{size} {rank} {root} {slot:?}");
                    }
                }
            }
        }
    }
}
