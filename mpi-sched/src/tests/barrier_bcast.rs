use super::*;
use crate::{Barrier, Bcast, Part, Team, barrier, bcast};

#[test]
fn barrier_holds_everyone_until_the_last() {
    // Rank `late` starts when all others are stuck; nobody may be done before.
    let seed = seed();
    for algorithm in [Barrier::Dissemination, Barrier::Tree] {
        for size in SIZES {
            let late = Rng::new(seed).below(size as u64) as usize;
            let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
            for rank in 0..size {
                let mut run = Run::new();
                let schedule = run.rebuild();
                if rank == late {
                    // A message to itself, slow in virtual time, stands for coming late.
                    let first = schedule.here();
                    for _ in 0..100 {
                        let nothing = crate::Block::empty();
                        schedule.exchange(rank as u32, nothing, rank as u32, nothing);
                    }
                    assert!(schedule.here() > first);
                }
                barrier(schedule, Team::all(rank as u32, size as u32), algorithm);
                // SAFETY: no buffers are used.
                unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), 1) }.unwrap();
                runs.push(vec![run]);
            }
            let (cost, _) = run_all(&mut runs, Network::OnePort, &|_, to| to);
            let rounds = u64::from(size.next_power_of_two().ilog2());
            let most = match algorithm {
                Barrier::Dissemination => rounds,
                Barrier::Tree => 2 * rounds,
            };
            assert!(cost.done.iter().all(|&done| done >= 100), "{size} {cost:?}");
            assert!(cost.time <= 100 + most, "{size} {cost:?}");
        }
    }
}

#[test]
fn barrier_costs() {
    for size in SIZES {
        let build = |rank: usize, s: &mut Schedule| {
            barrier(
                s,
                Team::all(rank as u32, size as u32),
                Barrier::Dissemination,
            );
        };
        let mut none = vec![Buffer::new(0); size];
        let cost = run_one(
            Network::OnePort,
            &size,
            &build,
            &mut none.clone(),
            &mut none,
        );
        let rounds = u64::from(size.next_power_of_two().ilog2());
        assert_eq!(cost.time, rounds);
        assert!(cost.sent.iter().all(|&sent| sent == rounds));
    }
}

#[test]
fn bcast_costs() {
    for size in SIZES {
        let int = Datatype::predefined(Predefined::Int);
        for root in roots(size) {
            let part = Part {
                count: 100,
                datatype: &int,
            };
            let run = |algorithm| {
                let build = |rank: usize, s: &mut Schedule| {
                    bcast(
                        s,
                        Team::all(rank as u32, size as u32),
                        root,
                        part,
                        algorithm,
                    );
                };
                let mut buffers = vec![Buffer::of(100, &int); size];
                run_one(
                    Network::OnePort,
                    &size,
                    &build,
                    &mut buffers.clone(),
                    &mut buffers,
                )
            };
            let rounds = u64::from(size.next_power_of_two().ilog2());
            let cost = run(Bcast::Binomial);
            assert_eq!(cost.time, rounds);
            assert_eq!(cost.sent.iter().sum::<u64>(), size as u64 - 1);
            // Pieces follow each other down the chain without a gap.
            let cost = run(Bcast::Chain { segment: 40 });
            if size > 1 {
                assert_eq!(cost.time, size as u64 - 2 + 10);
            }
            let cost = run(Bcast::ScatterRing);
            let most = cost.bytes.iter().max().unwrap();
            assert!(*most <= 2 * 400 + 8, "{size}: {cost:?}");
        }
    }
}

#[test]
fn bcast_is_right() {
    let seed = seed();
    let algorithms = [
        Bcast::Binomial,
        Bcast::ScatterRing,
        Bcast::Chain { segment: 16 },
        Bcast::Chain { segment: 1000 },
    ];
    for size in SIZES {
        for datatype in types() {
            for (root, count) in roots(size).into_iter().zip(cycle([0, 1, 7, 40], size)) {
                for algorithm in algorithms {
                    let what = (size, root, count, &datatype, algorithm);
                    let part = Part {
                        count,
                        datatype: &datatype,
                    };
                    let build = |rank: usize, s: &mut Schedule| {
                        bcast(
                            s,
                            Team::all(rank as u32, size as u32),
                            root,
                            part,
                            algorithm,
                        );
                    };
                    let packed = data(seed, 0, part.bytes());
                    let full = Buffer::with(count, &datatype, &packed);
                    let mut recv = vec![Buffer::of(count, &datatype); size];
                    recv[root] = full.clone();
                    let mut send = vec![Buffer::new(0); size];
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    compare(&what, &recv, &vec![full; size]);
                }
            }
        }
    }
}
