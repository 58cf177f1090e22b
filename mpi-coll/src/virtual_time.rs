//! Remote writes of very many ranks in virtual time: no data, no memory but the programs.

use std::collections::HashMap;

use super::model::Parameters;
use super::rdma::{self, Reach, Way};
use super::schedule::{Schedule, Step};
use super::team::Part;
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

/// What a schedule costs all ranks together.
pub struct Total {
    /// When the last rank is done.
    pub time: f64,
    /// The most writes of a rank.
    pub most_puts: u64,
}

/// What takes how long.
#[derive(Clone, Copy)]
struct Clock {
    /// The processor's part of a write.
    post: f64,
    /// Time after which the adapter begins with the next one.
    gap: f64,
    /// From then until it has arrived.
    delay: f64,
    /// To take in what has arrived.
    take: f64,
    /// To reduce a vector.
    reduce: f64,
    /// To copy a byte.
    copy: f64,
}

impl Clock {
    /// A rank sends one write at a time, each takes one unit; the rest costs nothing.
    const UNITS: Clock = Clock {
        post: 0.0,
        gap: 1.0,
        delay: 1.0,
        take: 0.0,
        reduce: 0.0,
        copy: 0.0,
    };

    /// As the model has it, for writes of so many bytes.
    fn of(costs: &Parameters, bytes: usize) -> Clock {
        let len = bytes as f64;
        let wire = costs.transmit * len;
        Clock {
            post: costs.library + costs.descriptor,
            gap: costs.startup.max(wire),
            delay: costs.startup + wire + 2.0 * costs.nic,
            take: costs.startup,
            reduce: costs.operation[0] + costs.operation[1] * len,
            copy: costs.copy,
        }
    }
}

#[derive(Clone, Copy)]
enum Act {
    Put(u32, u32),
    Await(u32),
    Work(f64),
}

#[derive(Default)]
struct Rank {
    acts: Box<[Act]>,
    next: usize,
    now: f64,
    port_free: f64,
    puts: u64,
}

/// Runs the schedules of one phase that `build` makes for each rank, where a rank sends one write at a time, each
/// takes one unit, and the rest costs nothing.
///
/// # Panics
/// If ranks would wait for ever.
pub fn of(size: usize, build: &dyn Fn(usize, &mut Schedule)) -> Total {
    run(size, Clock::UNITS, build)
}

/// Microseconds that an allreduce of `bytes` (a multiple of 4) by writes takes, one way.
pub fn allreduce(ranks: u32, costs: &Parameters, bytes: usize, way: Way) -> f64 {
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
        rdma::allreduce_by(schedule, reach, false, part, &op, way);
    };
    run(ranks as usize, Clock::of(costs, bytes), &build).time
}

fn run(size: usize, clock: Clock, build: &dyn Fn(usize, &mut Schedule)) -> Total {
    let mut schedule = Schedule::new();
    let mut ranks: Vec<Rank> = (0..size)
        .map(|rank| {
            schedule.clear();
            build(rank, &mut schedule);
            assert_eq!(schedule.phases(), 1);
            let acts = schedule.steps().iter().filter_map(|step| match *step {
                Step::Put { slot, .. } => Some(Act::Put(slot.of, slot.cell)),
                Step::Await { first, cell, .. } => {
                    assert_eq!(first as usize, rank);
                    Some(Act::Await(cell))
                }
                Step::Reduce { .. } | Step::Combine { .. } => Some(Act::Work(clock.reduce)),
                Step::Copy { from, .. } => {
                    let len = from.count * schedule.type_of(from.datatype).size();
                    Some(Act::Work(clock.copy * len as f64))
                }
                _ => None,
            });
            Rank {
                acts: acts.collect(),
                ..Rank::default()
            }
        })
        .collect();
    // When flags that nobody waited for so far went up.
    let mut up: HashMap<(u32, u32), f64> = HashMap::new();
    let mut ready: Vec<u32> = (0..size as u32).collect();
    let mut blocked: Vec<Option<u32>> = vec![None; size];
    let mut done = 0;
    while let Some(number) = ready.pop() {
        let rank = &mut ranks[number as usize];
        loop {
            match rank.acts.get(rank.next) {
                None => {
                    done += 1;
                    break;
                }
                Some(&Act::Put(to, cell)) => {
                    rank.now += clock.post;
                    let start = rank.port_free.max(rank.now);
                    rank.port_free = start + clock.gap;
                    rank.puts += 1;
                    up.insert((to, cell), start + clock.delay);
                    if blocked[to as usize] == Some(cell) {
                        blocked[to as usize] = None;
                        ready.push(to);
                    }
                }
                Some(&Act::Await(cell)) => match up.remove(&(number, cell)) {
                    Some(time) => rank.now = rank.now.max(time) + clock.take,
                    None => {
                        blocked[number as usize] = Some(cell);
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
    Total {
        time: ends.fold(0.0, f64::max),
        most_puts: ranks.iter().map(|rank| rank.puts).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FAST, GUESSED};
    use crate::rdma::DEGREES;

    #[test]
    fn the_model_chooses_what_is_nearly_the_best() {
        for costs in [GUESSED, FAST] {
            for ranks in [2, 3, 4, 7, 8, 16, 31, 64, 100, 256] {
                for bytes in [8, 1024, 8192] {
                    let trees = DEGREES
                        .iter()
                        .flat_map(|&up| DEGREES.map(|down| Way::Tree { up, down }));
                    let times = trees
                        .chain([Way::Pairs])
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
}
