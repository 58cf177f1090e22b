//! A simulation of remote writes and messages of very many ranks in virtual time, without data.

use std::collections::HashMap;

use mpi_sched::model::Parameters;
use mpi_sched::rdma::{self, RdmaAllreduce, Reach};
use mpi_sched::schedule::{Block, CAME, FREE, FREED, SENT, Schedule, Step};
use mpi_sched::{Part, Reduction};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

/// The thesis's cluster of 16 nodes (section 6.5.2). It gives no time for operations; these match a
/// sum of integers on processors of that time.
pub const THESIS: Parameters = Parameters {
    transmit: 0.010,
    startup: 2.0,
    copy: 0.027,
    nic: 1.52,
    descriptor: 0.6,
    library: 1.3,
    operation: [0.1, 0.004],
};

/// A network whose adapters take 20 ns for a write with 0.9 µs of latency. An example, not
/// measured.
pub const FAST: Parameters = Parameters {
    transmit: 0.00004,
    startup: 0.02,
    copy: 0.0001,
    nic: 0.42,
    descriptor: 0.01,
    library: 0.01,
    operation: [0.005, 0.0001],
};

/// The times of operations.
#[derive(Clone, Copy)]
struct Clock {
    /// The model's costs. `None`: a rank sends one write at a time, each takes one unit, and the
    /// rest costs nothing.
    costs: Option<Parameters>,
    /// Largest eager message in bytes; longer ones use rendezvous.
    eager: usize,
}

impl Clock {
    fn cost(&self, of: impl Fn(&Parameters) -> f64) -> f64 {
        self.costs.as_ref().map_or(0.0, of)
    }

    /// Returns the processor's time for a write or a message.
    fn post(&self) -> f64 {
        self.cost(|costs| costs.library + costs.descriptor)
    }

    /// Returns the adapter's time between two writes.
    fn gap(&self, bytes: usize) -> f64 {
        let costs = self.costs;
        costs.map_or(1.0, |costs| {
            costs.startup.max(costs.transmit * bytes as f64)
        })
    }

    /// Returns the time from the start of a write to its arrival.
    fn delay(&self, bytes: usize) -> f64 {
        let costs = self.costs;
        costs.map_or(1.0, |costs| {
            costs.startup + costs.transmit * bytes as f64 + 2.0 * costs.nic
        })
    }

    /// Returns the time to receive an arrived write.
    fn take(&self) -> f64 {
        self.cost(|costs| costs.startup)
    }

    /// Returns the time to match a message.
    fn find(&self) -> f64 {
        self.cost(|costs| costs.library)
    }

    fn reduce(&self, bytes: usize) -> f64 {
        self.cost(|costs| costs.operation[0] + costs.operation[1] * bytes as f64)
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.cost(|costs| costs.copy * bytes as f64)
    }
}

/// An event that has arrived or is awaited: rank, cell and phase; for messages, source and number.
type Key = (u32, u32, i32);

/// Slots of an edge that are freed together, as in Weft's communicators.
const HALF: i32 = 8;

/// First cell of messages, one for each source; there are fewer ranks than this.
const MESSAGES: u32 = 1 << 24;

#[derive(Clone, Copy)]
enum Act {
    /// A write: target, cell and phase, and its bytes.
    Put(Key, usize),
    Await(Key),
    /// A message, to cell [`MESSAGES`] and up.
    Send(Key, usize),
    /// Posts the receive of this number.
    Post(u32),
    /// Waits for the receive of this number.
    Arrive(Key, u32, usize),
    Work(f64),
}

#[derive(Default)]
struct Rank {
    acts: Box<[Act]>,
    next: usize,
    now: f64,
    port_free: f64,
    /// Time at which each receive was posted.
    posted: Vec<f64>,
}

/// Returns the microseconds of the schedules that `build` makes for each rank. A message costs as
/// much as a write plus the library's time to match it; one of more than `eager` bytes uses
/// rendezvous.
///
/// # Panics
/// If the ranks deadlock.
pub fn time(
    ranks: u32,
    costs: &Parameters,
    eager: usize,
    build: &dyn Fn(usize, &mut Schedule),
) -> f64 {
    let costs = Some(*costs);
    run(ranks as usize, Clock { costs, eager }, build)
}

/// Returns the microseconds of an allreduce of `bytes` (a multiple of 4) by writes with one
/// algorithm.
pub fn allreduce(ranks: u32, costs: &Parameters, bytes: usize, way: RdmaAllreduce) -> f64 {
    let float = Datatype::predefined(Predefined::Float);
    let part = Part {
        count: bytes / 4,
        datatype: &float,
    };
    let op = Op::predefined(PredefinedOp::Sum);
    let build = |rank: usize, schedule: &mut Schedule| {
        let reach = Reach {
            rank: rank as u32,
            size: ranks,
            room: bytes.next_multiple_of(64),
            depth: 2,
        };
        rdma::allreduce_by(schedule, reach, Reduction::new(false, part, &op), way);
    };
    time(ranks, costs, usize::MAX, &build)
}

/// Returns the steps of a rank that cost time.
fn acts(rank: u32, clock: Clock, schedule: &Schedule) -> (Box<[Act]>, usize) {
    let mut acts = Vec::with_capacity(schedule.steps().len());
    // Numbers of messages to and from each rank, and the receives that are not yet waited for.
    let mut counts: HashMap<(u32, bool), i32> = HashMap::new();
    let mut receives: Vec<(u32, Key, usize, bool)> = Vec::new();
    let mut waited = 0;
    let mut count = |peer: u32, sends: bool| {
        let count = counts.entry((peer, sends)).or_default();
        *count += 1;
        *count
    };
    let bytes = |block: &Block| block.count * schedule.type_of(block.datatype).size();
    for (number, step) in (0..).zip(schedule.steps()) {
        match step {
            // Only the last slot of each half is acknowledged.
            Step::Put { slot, .. } if slot.cell == FREE && slot.phase % HALF != HALF - 1 => {}
            Step::Await { cell, phase, .. } if *cell == FREED => {
                if *phase >= 0 && phase % HALF == 0 {
                    acts.push(Act::Await((rank, FREED, phase + HALF - 1)));
                }
            }
            Step::Put { slot, block } => {
                let cell = match slot.cell {
                    SENT => CAME,
                    FREE => FREED,
                    cell => cell,
                };
                acts.push(Act::Put((slot.of, cell, slot.phase), bytes(block)));
            }
            Step::Await {
                first, cell, phase, ..
            } => {
                assert_eq!(*first, rank);
                // Negative phases have arrived.
                if *phase >= 0 {
                    acts.push(Act::Await((rank, *cell, *phase)));
                }
            }
            Step::Reduce { inout: block, .. } | Step::Combine { to: block, .. } => {
                acts.push(Act::Work(clock.reduce(bytes(block))));
            }
            Step::Copy { from, .. } => acts.push(Act::Work(clock.copy(bytes(from)))),
            Step::Send { to, block } => {
                let key = (*to, MESSAGES + rank, count(*to, true));
                acts.push(Act::Send(key, bytes(block)));
            }
            Step::Recv { from, block } => {
                let key = (rank, MESSAGES + from, count(*from, false));
                acts.push(Act::Post(receives.len() as u32));
                receives.push((number, key, bytes(block), false));
            }
            Step::Wait { from, to } => {
                let open = receives.iter_mut().enumerate().skip(waited);
                for (place, one) in open.take_while(|(_, one)| one.0 < *to) {
                    if one.0 >= *from && !std::mem::replace(&mut one.3, true) {
                        acts.push(Act::Arrive(one.1, place as u32, one.2));
                    }
                }
                let over = receives[waited..].iter().take_while(|one| one.3);
                waited += over.count();
            }
            Step::Lend { .. } | Step::Direct { .. } => {}
        }
    }
    for (place, one) in receives.iter().enumerate().filter(|(_, one)| !one.3) {
        acts.push(Act::Arrive(one.1, place as u32, one.2));
    }
    (acts.into(), receives.len())
}

fn run(size: usize, clock: Clock, build: &dyn Fn(usize, &mut Schedule)) -> f64 {
    let mut schedule = Schedule::new();
    let mut ranks: Vec<Rank> = (0..size)
        .map(|rank| {
            schedule.clear();
            build(rank, &mut schedule);
            let (acts, receives) = acts(rank as u32, clock, &schedule);
            Rank {
                acts,
                posted: vec![0.0; receives],
                ..Rank::default()
            }
        })
        .collect();
    // Arrival times of events that no rank has waited for yet.
    let mut come: HashMap<Key, f64> = HashMap::new();
    let mut ready: Vec<u32> = (0..size as u32).collect();
    let mut blocked: Vec<Option<Key>> = vec![None; size];
    let mut done = 0;
    while let Some(number) = ready.pop() {
        let rank = &mut ranks[number as usize];
        loop {
            match rank.acts.get(rank.next) {
                None => {
                    done += 1;
                    break;
                }
                Some(&(Act::Put(key, bytes) | Act::Send(key, bytes))) => {
                    rank.now += clock.post();
                    let start = rank.port_free.max(rank.now);
                    rank.port_free = start + clock.gap(bytes);
                    let is_asked = key.1 >= MESSAGES && key.1 < FREED && bytes > clock.eager;
                    let bytes = if is_asked { 0 } else { bytes };
                    come.insert(key, start + clock.delay(bytes));
                    let to = key.0;
                    if blocked[to as usize] == Some(key) {
                        blocked[to as usize] = None;
                        ready.push(to);
                    }
                }
                Some(&Act::Await(key)) => match come.remove(&key) {
                    Some(time) => rank.now = rank.now.max(time) + clock.take(),
                    None => {
                        blocked[number as usize] = Some(key);
                        break;
                    }
                },
                Some(&Act::Post(place)) => rank.posted[place as usize] = rank.now,
                Some(&Act::Arrive(key, place, bytes)) => match come.remove(&key) {
                    Some(time) => {
                        let posted = rank.posted[place as usize];
                        let (arrived, copy) = match bytes > clock.eager {
                            true => {
                                let asked = time.max(posted) + clock.find();
                                (asked + clock.delay(0) + clock.delay(bytes), 0.0)
                            }
                            false => (time, clock.copy(bytes)),
                        };
                        rank.now = rank.now.max(arrived) + clock.take() + clock.find() + copy;
                    }
                    None => {
                        blocked[number as usize] = Some(key);
                        break;
                    }
                },
                Some(&Act::Work(time)) => rank.now += time,
            }
            rank.next += 1;
        }
    }
    assert_eq!(done, size, "ranks that wait for ever");
    let ends = ranks.iter().map(|rank| rank.now.max(rank.port_free));
    ends.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_sched::model::GUESSED;
    use mpi_sched::rdma::{DEGREES, steps};

    /// Runs the schedules that `build` makes for each rank, where a rank sends one write at a time,
    /// each takes one unit, and the rest costs nothing.
    fn units(size: usize, build: &dyn Fn(usize, &mut Schedule)) -> f64 {
        let (costs, eager) = (None, usize::MAX);
        run(size, Clock { costs, eager }, build)
    }

    #[test]
    fn the_model_chooses_what_is_nearly_the_best() {
        for costs in [GUESSED, FAST] {
            for ranks in [2, 3, 4, 7, 8, 16, 31, 64, 100, 256] {
                for bytes in [8, 1024, 8192] {
                    let trees = DEGREES
                        .iter()
                        .flat_map(|&up| DEGREES.map(|down| RdmaAllreduce::Tree { up, down }));
                    let times = trees
                        .chain([RdmaAllreduce::Pairs])
                        .map(|way| allreduce(ranks, &costs, bytes, way));
                    let best = times.fold(f64::INFINITY, f64::min);
                    let chosen = costs.best_way(ranks, bytes);
                    let time = allreduce(ranks, &costs, bytes, chosen);
                    println!("{ranks} {bytes} {chosen:?} {time} {best}");
                    assert!(
                        time <= 1.5 * best,
                        "{ranks} {bytes} {chosen:?}: {time}, {best}"
                    );
                }
            }
        }
    }

    #[test]
    fn many_ranks_in_virtual_time() {
        // A million with WEFT_TEST_RANKS=1048576, in a release build.
        let asked = std::env::var("WEFT_TEST_RANKS").ok();
        let size: usize = asked.map_or(1 << 13, |text| text.parse().unwrap());
        let int = Datatype::predefined(Predefined::Int);
        let op = Op::predefined(PredefinedOp::Sum);
        let part = Part {
            count: 2,
            datatype: &int,
        };
        let rounds = u64::from(steps(size as u32, 2));
        let time = rounds as f64;
        let reach = |rank: usize| Reach {
            rank: rank as u32,
            size: size as u32,
            room: 256,
            depth: 4,
        };
        let dissemination = |rank, s: &mut Schedule| {
            rdma::barrier(s, reach(rank));
        };
        assert_eq!(units(size, &dissemination), time);
        let mut barrier = Schedule::new();
        dissemination(0, &mut barrier);
        let is_put = |step: &&Step| matches!(step, Step::Put { .. });
        assert_eq!(barrier.steps().iter().filter(is_put).count() as u64, rounds);
        let bcast = units(size, &|rank, s| {
            rdma::bcast(s, reach(rank), 0, part, rdma::BLOCK);
        });
        assert_eq!(bcast, time);
        for k in DEGREES {
            let reduce = units(size, &|rank, s| {
                rdma::allreduce(s, reach(rank), Reduction::new(false, part, &op), [k, 1]);
            });
            let up = u64::from(steps(size as u32, k + 1));
            println!("{size} ranks, degree {k}: {} steps", reduce);
            assert_eq!(reduce, (up + rounds) as f64);
        }
    }
}
