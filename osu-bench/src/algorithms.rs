//! `degrees --of`: the algorithms of a collective by writes and by messages, in virtual time.

use mpi_sched::costs::{Network, Quick};
use mpi_sched::model::Parameters;
use mpi_sched::rdma::{
    self, DEGREES, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach,
};
use mpi_sched::{Choices, Layout, Part, Schedule, Situation, Team, virtual_time};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

use crate::error::{Error, Result};
use crate::output;
use crate::progress::Progress;

/// An algorithm of a collective: by messages, or one by writes.
#[derive(Clone, Copy, PartialEq)]
enum Algorithm {
    Messages,
    Bcast(RdmaBcast),
    Reduce(RdmaReduce),
    Allgather(RdmaAllgather),
    Alltoall(RdmaAlltoall),
    Allreduce(RdmaAllreduce),
}

/// Most steps of all ranks together that are simulated.
const MOST_STEPS: usize = 1 << 24;

/// Returns the shared slots that Weft gives a communicator (see `mpi-comm`).
fn reach(rank: u32, size: u32) -> Reach {
    Reach {
        rank,
        size,
        room: 8192,
        depth: 16,
    }
}

/// Returns all algorithms of a collective with their names.
fn algorithms(collective: &str) -> Vec<(String, Algorithm)> {
    let tree = |k: &u32| format!("tree {k}");
    let mut ways: Vec<(String, Algorithm)> = match collective {
        "bcast" => vec![
            ("binomial".into(), Algorithm::Bcast(RdmaBcast::Binomial)),
            ("chain".into(), Algorithm::Bcast(RdmaBcast::Chain)),
        ],
        "reduce" => {
            let trees = DEGREES
                .iter()
                .map(|k| (tree(k), Algorithm::Reduce(RdmaReduce::Tree { degree: *k })));
            let chain = ("chain".to_string(), Algorithm::Reduce(RdmaReduce::Chain));
            trees.chain([chain]).collect()
        }
        "allgather" => vec![
            ("direct".into(), Algorithm::Allgather(RdmaAllgather::Direct)),
            (
                "doubling".into(),
                Algorithm::Allgather(RdmaAllgather::Doubling),
            ),
            ("ring".into(), Algorithm::Allgather(RdmaAllgather::Ring)),
        ],
        "alltoall" => vec![
            ("direct".into(), Algorithm::Alltoall(RdmaAlltoall::Direct)),
            (
                "doubling".into(),
                Algorithm::Alltoall(RdmaAlltoall::Doubling),
            ),
        ],
        _ => {
            let pairs = (
                "pairs".to_string(),
                Algorithm::Allreduce(RdmaAllreduce::Pairs),
            );
            let way = |k: &u32| RdmaAllreduce::Tree { up: *k, down: *k };
            let trees = DEGREES
                .iter()
                .map(|k| (tree(k), Algorithm::Allreduce(way(k))));
            let ring = (
                "ring".to_string(),
                Algorithm::Allreduce(RdmaAllreduce::Ring),
            );
            [pairs].into_iter().chain(trees).chain([ring]).collect()
        }
    };
    ways.push(("messages".into(), Algorithm::Messages));
    ways
}

/// Returns whether an algorithm can transfer `bytes`, and is small enough to be simulated.
fn takes(how: Algorithm, ranks: u32, bytes: usize) -> bool {
    let reach = reach(0, ranks);
    // Estimates of the steps of each rank.
    let (pieces, ring) = (bytes.div_ceil(reach.room), ranks as usize);
    let (takes, steps) = match how {
        Algorithm::Messages => (true, 1),
        Algorithm::Bcast(how) => (how.takes(reach, bytes), 4 * pieces),
        Algorithm::Reduce(how) => (how.takes(reach, 0, bytes, true), 4 * pieces),
        Algorithm::Allgather(how @ RdmaAllgather::Ring) => {
            (how.takes(reach, bytes), 4 * pieces * ring)
        }
        Algorithm::Allgather(how) => (how.takes(reach, bytes), 64),
        Algorithm::Alltoall(how @ RdmaAlltoall::Doubling) => (how.takes(reach, bytes), 16 * ring),
        Algorithm::Alltoall(how) => (how.takes(reach, bytes), 64),
        Algorithm::Allreduce(how @ RdmaAllreduce::Ring) => {
            (how.takes(reach, bytes, true), 8 * ring)
        }
        Algorithm::Allreduce(how) => (how.takes(reach, bytes, true), 64),
    };
    takes && steps * ranks as usize <= MOST_STEPS
}

struct Case<'a> {
    collective: &'a str,
    costs: &'a Parameters,
    ranks: u32,
    bytes: usize,
    eager: usize,
}

impl Case<'_> {
    fn situation(&self) -> Situation {
        let ranks = self.ranks as usize;
        let blocks = if self.collective == "allgather" {
            ranks
        } else {
            1
        };
        Situation {
            ranks,
            per_node: 1,
            bytes: blocks * self.bytes,
            commutes: true,
        }
    }

    /// Returns the algorithm by writes that the cost model chooses.
    fn taken(&self) -> Option<Algorithm> {
        let network = Network {
            costs: *self.costs,
            quick: Quick::all(Some(usize::MAX)),
        };
        let (choices, reach) = (Choices::default(), reach(0, self.ranks));
        let situation = self.situation();
        match self.collective {
            "bcast" => choices
                .bcast_by_writes(&situation, &reach, &network)
                .map(Algorithm::Bcast),
            "reduce" => choices
                .reduce_by_writes(&situation, 0, &reach, &network)
                .map(Algorithm::Reduce),
            "allgather" => choices
                .allgather_by_writes(&situation, self.bytes, &reach, &network)
                .map(Algorithm::Allgather),
            "alltoall" => choices
                .alltoall_by_writes(&situation, &reach, &network)
                .map(Algorithm::Alltoall),
            _ => choices
                .allreduce_by_writes(&situation, &reach, &network)
                .map(Algorithm::Allreduce),
        }
    }

    fn build(&self, how: Algorithm, rank: u32, schedule: &mut Schedule) {
        let float = Datatype::predefined(Predefined::Float);
        let part = Part {
            count: self.bytes / 4,
            datatype: &float,
        };
        let op = Op::predefined(PredefinedOp::Sum);
        let reach = reach(rank, self.ranks);
        match how {
            Algorithm::Messages => self.by_messages(rank, part, &op, schedule),
            Algorithm::Bcast(how) => rdma::bcast_by(schedule, reach, 0, part, how),
            Algorithm::Reduce(how) => rdma::reduce_by(schedule, reach, (0, false), part, &op, how),
            Algorithm::Allgather(how) => rdma::allgather_by(schedule, reach, Some(part), part, how),
            Algorithm::Alltoall(how) => rdma::alltoall_by(schedule, reach, Some(part), part, how),
            Algorithm::Allreduce(how) => rdma::allreduce_by(schedule, reach, false, part, &op, how),
        }
    }

    fn by_messages(&self, rank: u32, part: Part<'_>, op: &Op, schedule: &mut Schedule) {
        let (choices, at) = (Choices::default(), self.situation());
        let team = Team::all(rank, self.ranks);
        let (whole, blocks) = (Some(part), Layout::Uniform(part));
        match self.collective {
            "bcast" => mpi_sched::bcast(schedule, team, 0, part, choices.bcast(&at)),
            "reduce" => mpi_sched::reduce(schedule, team, 0, false, part, op, choices.reduce(&at)),
            "allgather" => {
                mpi_sched::allgather(schedule, team, whole, blocks, choices.allgather(&at));
            }
            "alltoall" => {
                mpi_sched::alltoall(schedule, team, Some(blocks), blocks, choices.alltoall(&at));
            }
            _ => mpi_sched::allreduce(schedule, team, false, part, op, choices.allreduce(&at)),
        }
    }

    /// Returns the time in microseconds. Returns `None` if [`takes`] is false or steps are too
    /// many.
    fn time(&self, how: Algorithm) -> Option<f64> {
        if !takes(how, self.ranks, self.bytes) {
            return None;
        }
        if how == Algorithm::Messages {
            let mut schedule = Schedule::new();
            self.build(how, 0, &mut schedule);
            if schedule.steps().len() * self.ranks as usize > MOST_STEPS {
                return None;
            }
        }
        let build = |rank: usize, schedule: &mut Schedule| self.build(how, rank as u32, schedule);
        let time = virtual_time::time(self.ranks, self.costs, self.eager, &build);
        Some(time)
    }

    fn row(&self, algorithms: &[(String, Algorithm)]) -> String {
        let times: Vec<Option<f64>> = algorithms.iter().map(|(_, how)| self.time(*how)).collect();
        let say = |time: &Option<f64>| time.map_or("–".to_string(), |time| format!("{time:.2}"));
        let cells: Vec<String> = times.iter().map(say).collect();
        let taken = match self.taken().map(|how| (how, self.time(how))) {
            Some((how, Some(time))) => {
                let name = algorithms.iter().find(|one| one.1 == how);
                let name = name.map_or("tree, other down", |one| &one.0);
                let ratio = times
                    .last()
                    .copied()
                    .flatten()
                    .map(|messages| time / messages);
                let ratio = ratio.map_or(String::new(), |ratio| format!(", {ratio:.2}"));
                format!("{name}{ratio}")
            }
            _ => "–".to_string(),
        };
        format!("| {} | {} | {taken} |", self.ranks, cells.join(" | "))
    }
}

/// Prints a table per size for a collective.
pub fn table(
    collective: &str,
    costs: &Parameters,
    sizes: &[usize],
    most: u32,
    eager: usize,
) -> Result<()> {
    output::say(&format!(
        "{collective} by writes and by messages in virtual time, us; costs {costs}; messages of more than {eager} bytes \
         use rendezvous; the chosen algorithm by writes, and its time divided by that of messages\n"
    ));
    let algorithms = algorithms(collective);
    let each = (1..).take_while(|power| 1_u64 << power <= u64::from(most));
    let mut progress = Progress::new(sizes.len() * each.count());
    for &bytes in sizes {
        if bytes == 0 || bytes % 4 != 0 {
            return Err(Error::new(format!(
                "option --sizes is {bytes}; it must be a multiple of 4 above 0"
            )));
        }
        let names: Vec<&str> = algorithms.iter().map(|one| one.0.as_str()).collect();
        output::say(&format!(
            "| {bytes} B: ranks | {} | taken |",
            names.join(" | ")
        ));
        output::say(&format!("|---:|{}---|", "---:|".repeat(names.len())));
        let mut ranks = 2;
        while ranks <= most {
            progress.step(format!("{bytes} bytes, {ranks} ranks"));
            let case = Case {
                collective,
                costs,
                ranks,
                bytes,
                eager,
            };
            output::say(&case.row(&algorithms));
            ranks *= 2;
        }
        output::say("");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_sched::model::{FAST, GUESSED};

    #[test]
    fn what_is_taken_is_nearly_the_best_by_writes() {
        for costs in [GUESSED, FAST] {
            for collective in ["bcast", "reduce", "allgather", "alltoall", "allreduce"] {
                for ranks in [2, 4, 16, 64] {
                    for bytes in [8, 1024, 8192, 65_536, 1 << 20] {
                        let case = Case {
                            collective,
                            costs: &costs,
                            ranks,
                            bytes,
                            eager: 16_384,
                        };
                        let writes = algorithms(collective).into_iter();
                        let writes = writes.filter(|one| one.1 != Algorithm::Messages);
                        let times = writes.filter_map(|(_, how)| case.time(how));
                        let best = times.fold(f64::INFINITY, f64::min);
                        let Some(time) = case.taken().and_then(|how| case.time(how)) else {
                            assert_eq!(best, f64::INFINITY, "{collective} {ranks} {bytes}");
                            continue;
                        };
                        assert!(
                            time <= 1.5 * best,
                            "{collective}, {ranks} ranks, {bytes} bytes: {time}, {best}"
                        );
                    }
                }
            }
        }
    }
}
