//! Ranks that disagree about the amount of data, with random delays: each rank's call ends, and at
//! least one gets an error.

use std::sync::Arc;

use mpi_coll::{Buffers, Call, Root, started};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::op::{Op, PredefinedOp};
use mpi_core::{Class, Error, RequestId};
use mpi_sched::{Layout, Part, Reduction};
use netmod_sim::Rng;

use crate::job::{Job, Setup, for_seeds, random_network};

const SECOND: u64 = 1_000_000_000;
/// Numbers of elements on both sides of the limits between algorithms, for 3 to 5 ranks.
const COUNTS: [usize; 5] = [0, 1, 40, 3000, 90_000];
const KINDS: usize = 9;

struct Case {
    job: Job,
    comms: Vec<Arc<Comm>>,
    number: Datatype,
    sum: Op,
}

/// A rank's part in a call.
struct Share {
    _send: Vec<u64>,
    recv: Vec<u64>,
    request: RequestId,
}

impl Case {
    fn start(&self, rank: usize, kind: usize, count: usize) -> Share {
        let ranks = self.comms.len();
        let room = (count * ranks).max(1);
        let send = vec![1 + rank as u64; room];
        let mut recv = vec![0u64; room];
        let part = Part {
            count,
            datatype: &self.number,
        };
        let (layout, op) = (Layout::Uniform(part), &self.sum);
        let root = Root::Rank(1);
        let in_place = false;
        let at_root = |layout| (rank == 1).then_some(layout);
        let call = match kind {
            0 => Call::Bcast(root, part),
            1 => Call::Allreduce(Reduction::new(in_place, part, op)),
            2 => Call::Allgather(Some(part), layout),
            3 => Call::Alltoall(Some(layout), layout),
            4 => Call::Reduce(root, Reduction::new(in_place, part, op)),
            5 => Call::Gather {
                root,
                send: Some(part),
                recv: at_root(layout),
                varying: false,
            },
            6 => Call::Scatter {
                root,
                send: at_root(layout),
                recv: Some(part),
                varying: false,
            },
            7 => Call::Scan(Reduction::new(in_place, part, op)),
            _ => Call::ReduceScatter {
                in_place,
                blocks: layout,
                op,
            },
        };
        let buffers = Buffers {
            send: send.as_ptr().cast(),
            recv: recv.as_mut_ptr().cast(),
        };
        let (process, comm) = (&self.job.ranks[rank], self.comms[rank].clone());
        // SAFETY: the vectors are as long as the call says and don't move until it has ended.
        let request = unsafe { started::start_call(process, comm, buffers, &call) }.unwrap();
        Share {
            _send: send,
            recv,
            request,
        }
    }

    fn is_done(&self, rank: usize, share: &Share) -> bool {
        self.job.ranks[rank]
            .request(share.request)
            .unwrap()
            .is_done()
    }

    /// Makes all ranks wait until all calls have ended, and returns their errors.
    fn wait(&self, shares: &[Share], what: &str) -> Vec<Option<Error>> {
        let until = self.job.sim.now() + 20 * SECOND;
        while !(0..shares.len()).all(|rank| self.is_done(rank, &shares[rank])) {
            assert!(self.job.sim.now() < until, "{what} does not end");
            self.job.settle();
            self.job.sim.run_until(self.job.sim.now() + SECOND / 20);
            for rank in &self.job.ranks {
                // A test checks the peers once in a number of calls only.
                (0..1024).for_each(|_| rank.yield_after_test());
            }
        }
        let errors = shares.iter().zip(&self.job.ranks);
        errors
            .map(|(share, process)| process.finish(share.request).unwrap().1)
            .collect()
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let ranks = 3 + rng.index(3);
    let network = random_network(&mut rng);
    let setup = Setup {
        eager_limit: rng.pick(&[64, 512, 4096]),
        window: rng.pick(&[0, 4096, 1 << 20]),
        threaded: rng.chance(50),
        ..Setup::new(ranks as u32)
    };
    let members = Group::identity(ranks as u32);
    let comm = |rank| Arc::new(Comm::new(ContextId::new(0, 1), members.clone(), rank));
    let case = Case {
        job: Job::new(seed, network, setup),
        comms: (0..ranks as u32).map(comm).collect(),
        number: Datatype::predefined(Predefined::Uint64T),
        sum: Op::predefined(PredefinedOp::Sum),
    };
    for round in 0..3 {
        let kind = rng.index(KINDS);
        let (few, many) = (rng.pick(&COUNTS), rng.pick(&COUNTS));
        let other = rng.index(ranks);
        let counts: Vec<usize> = (0..ranks)
            .map(|rank| if rank == other { many } else { few })
            .collect();
        let what = format!("round {round}, kind {kind}, counts {counts:?}");
        let mut shares = Vec::new();
        for (rank, count) in counts.iter().enumerate() {
            shares.push(case.start(rank, kind, *count));
            for _ in 0..rng.index(20) {
                case.job.sim.step();
                case.job.ranks[rng.index(ranks)].poll(0).unwrap();
            }
        }
        let errors = case.wait(&shares, &what);
        let told = errors.iter().flatten().count();
        // Where no rank waits, because there is no data, none notices what others send.
        if few == many || few.min(many) > 0 {
            assert_eq!(told > 0, few != many, "{what}: {errors:?}");
        }
        for error in errors.iter().flatten() {
            assert_eq!(error.class(), Class::Truncate, "{what}: {error}");
        }
        // The communicator goes on.
        let shares: Vec<Share> = (0..ranks).map(|rank| case.start(rank, 1, 5)).collect();
        let errors = case.wait(&shares, "an allreduce after it");
        assert!(errors.iter().all(Option::is_none), "{what}: {errors:?}");
        let sum: u64 = (1..=ranks as u64).sum();
        for share in &shares {
            assert_eq!(share.recv[..5], [sum; 5], "after {what}");
        }
    }
}

#[test]
fn calls_with_different_amounts_of_data_end_with_an_error() {
    for_seeds(72, run);
}
