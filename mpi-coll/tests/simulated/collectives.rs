//! Nonblocking collectives with random delays.

use std::sync::Arc;

use mpi_coll::Buffers;
use mpi_core::RequestId;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::op::{Op, PredefinedOp};
use mpi_sched::{Allreduce, Barrier, Bcast, Part, Team};
use netmod_sim::{Rng, SimConfig};

use crate::job::{Job, Setup, for_seeds, random_network};

#[derive(Clone, Copy, Debug)]
enum What {
    Barrier(Barrier),
    Bcast(usize, Bcast),
    Allreduce(Allreduce, bool),
}

/// One rank's part in one collective.
struct Part1 {
    send: Vec<u64>,
    recv: Vec<u64>,
    request: Option<RequestId>,
    done: bool,
}

fn comms(ranks: u32) -> Vec<Arc<Comm>> {
    let members = Group::identity(ranks);
    let context = ContextId::new(0, 1);
    (0..ranks)
        .map(|rank| Arc::new(Comm::new(context, members.clone(), rank)))
        .collect()
}

fn choose(rng: &mut Rng, ranks: usize) -> What {
    match rng.index(3) {
        0 => What::Barrier(rng.pick(&[Barrier::Dissemination, Barrier::Tree])),
        1 => {
            let chain = Bcast::Chain { segment: 64 };
            let how = rng.pick(&[Bcast::Binomial, Bcast::ScatterRing, chain]);
            What::Bcast(rng.index(ranks), how)
        }
        _ => {
            let all = [
                Allreduce::RecursiveDoubling,
                Allreduce::Halving,
                Allreduce::Ring,
            ];
            What::Allreduce(rng.pick(&all), rng.chance(30))
        }
    }
}

struct Collectives<'a> {
    job: &'a Job,
    comms: Vec<Arc<Comm>>,
    plan: Vec<(What, usize)>,
    parts: Vec<Vec<Part1>>,
    sum: Op,
    number: Datatype,
}

impl Collectives<'_> {
    /// Starts a rank's next collective.
    fn start(&mut self, rank: usize) {
        let index = self.parts[rank].len();
        let (what, count) = self.plan[index];
        let own: Vec<u64> = (0..count)
            .map(|i| (rank * 1000 + index * 7 + i) as u64)
            .collect();
        let mut part = Part1 {
            send: own.clone(),
            recv: own,
            request: None,
            done: false,
        };
        let team = Team::all(rank as u32, self.comms.len() as u32);
        let data = Part {
            count,
            datatype: &self.number,
        };
        let in_place = matches!(what, What::Allreduce(_, true));
        let buffers = Buffers {
            send: if in_place {
                std::ptr::null()
            } else {
                part.send.as_ptr().cast()
            },
            recv: part.recv.as_mut_ptr().cast(),
        };
        // SAFETY: the vectors are as long as `data` says and don't move until the collective is
        // complete.
        let request = unsafe {
            mpi_coll::started::start_collective(
                &self.job.ranks[rank],
                self.comms[rank].clone(),
                buffers,
                |schedule| match what {
                    What::Barrier(how) => mpi_sched::barrier(schedule, team, how),
                    What::Bcast(root, how) => mpi_sched::bcast(schedule, team, root, data, how),
                    What::Allreduce(how, in_place) => {
                        mpi_sched::allreduce(
                            schedule,
                            team,
                            mpi_sched::Reduction::new(in_place, data, &self.sum),
                            how,
                        );
                    }
                },
                None,
            )
        };
        part.request = Some(request.unwrap());
        self.parts[rank].push(part);
    }

    /// Checks whether a rank's collective is complete, and its result right.
    fn check(&mut self, rank: usize, index: usize) {
        let (what, count) = self.plan[index];
        let part = &mut self.parts[rank][index];
        let Some(id) = part.request else { return };
        let process = &self.job.ranks[rank];
        if part.done || !process.request(id).unwrap().is_done() {
            return;
        }
        assert_eq!(process.finish(id).unwrap().1, None);
        part.done = true;
        let ranks = self.comms.len();
        let value = |rank: usize, i: usize| (rank * 1000 + index * 7 + i) as u64;
        let expected: Vec<u64> = (0..count)
            .map(|i| match what {
                What::Barrier(_) => value(rank, i),
                What::Bcast(root, _) => value(root, i),
                What::Allreduce(..) => (0..ranks).map(|rank| value(rank, i)).sum(),
            })
            .collect();
        assert_eq!(part.recv, expected, "{what:?} on rank {rank} of {ranks}");
        if !matches!(what, What::Bcast(..)) {
            let all = self.parts.iter().all(|parts| parts.len() > index);
            assert!(all || count == 0, "{what:?} was left before all had come");
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let ranks = 2 + rng.index(16);
    let network = random_network(&mut rng);
    let setup = Setup {
        eager_limit: rng.pick(&[0, 64, 512]),
        window: rng.pick(&[0, 300, 4096]),
        threaded: rng.chance(50),
        ..Setup::new(ranks as u32)
    };
    let job = Job::new(seed, network, setup);
    let plan: Vec<_> = (0..1 + rng.index(6))
        .map(|_| {
            let what = choose(&mut rng, ranks);
            let count = if matches!(what, What::Barrier(_)) {
                1
            } else {
                1 + rng.index(300)
            };
            (what, count)
        })
        .collect();
    let mut all = Collectives {
        job: &job,
        comms: comms(ranks as u32),
        parts: (0..ranks).map(|_| Vec::with_capacity(plan.len())).collect(),
        plan,
        sum: Op::predefined(PredefinedOp::Sum),
        number: Datatype::predefined(Predefined::Uint64T),
    };
    while all.parts.iter().any(|parts| parts.len() < all.plan.len()) {
        let rank = rng.index(ranks);
        match rng.index(4) {
            0 if all.parts[rank].len() < all.plan.len() => all.start(rank),
            1 => {
                job.sim.step();
            }
            2 => {
                job.ranks[rank].poll(0).unwrap();
            }
            _ => {
                for index in 0..all.parts[rank].len() {
                    all.check(rank, index);
                }
            }
        }
    }
    while job.settle() {}
    for rank in 0..ranks {
        for index in 0..all.plan.len() {
            all.check(rank, index);
            assert!(
                all.parts[rank][index].done,
                "{:?} does not end",
                all.plan[index]
            );
        }
    }
    job.check_ended();
}

#[test]
fn nonblocking_collectives_end_right_in_any_order_of_events() {
    for_seeds(100, run);
}

/// A process that only probes takes part in the collectives that it has begun (MPI-3.1 section
/// 5.12: they progress as point-to-point does).
#[test]
fn probing_makes_progress_on_collectives() {
    let job = Job::new(1, SimConfig::default(), Setup::new(4));
    let comms = comms(4);
    let requests: Vec<_> = (0..4)
        .map(|rank| {
            let team = Team::all(rank as u32, 4);
            // SAFETY: a barrier has no data.
            unsafe {
                mpi_coll::started::start_collective(
                    &job.ranks[rank],
                    comms[rank].clone(),
                    Buffers::NONE,
                    |schedule| {
                        mpi_sched::barrier(schedule, team, Barrier::Dissemination);
                    },
                    None,
                )
            }
        })
        .map(Result::unwrap)
        .collect();
    for _ in 0..1000 {
        assert!(
            mpi_core::comm::probe_on(&job.ranks[0], &comms[0], 1, 0)
                .unwrap()
                .is_none()
        );
        for rank in 1..4 {
            job.ranks[rank].poll(0).unwrap();
        }
        job.sim.step();
    }
    for (rank, id) in requests.into_iter().enumerate() {
        assert!(
            job.ranks[rank].request(id).unwrap().is_done(),
            "rank {rank} is still waiting"
        );
        job.ranks[rank].finish(id).unwrap();
    }
}
