//! `degrees --of`: the ways of a collective by writes, and by messages, in virtual time.

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

/// A way of a collective: by messages, or one by writes.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Messages,
    Bcast(RdmaBcast),
    Reduce(RdmaReduce),
    Allgather(RdmaAllgather),
    Alltoall(RdmaAlltoall),
    Allreduce(RdmaAllreduce),
}

/// Steps of all ranks together that are too many to be looked at.
const MOST_STEPS: usize = 1 << 24;

/// Slots of communicators as Weft makes them: see `mpi-comm`.
fn reach(rank: u32, size: u32) -> Reach {
    Reach {
        rank,
        size,
        room: 8192,
        depth: 16,
    }
}

/// All ways of a collective, as they are called.
fn ways(collective: &str) -> Vec<(String, How)> {
    let tree = |k: &u32| format!("tree {k}");
    let mut ways: Vec<(String, How)> = match collective {
        "bcast" => vec![
            ("binomial".into(), How::Bcast(RdmaBcast::Tree)),
            ("chain".into(), How::Bcast(RdmaBcast::Chain)),
        ],
        "reduce" => {
            let trees = DEGREES
                .iter()
                .map(|k| (tree(k), How::Reduce(RdmaReduce::Tree(*k))));
            let chain = ("chain".to_string(), How::Reduce(RdmaReduce::Chain));
            trees.chain([chain]).collect()
        }
        "allgather" => vec![
            ("direct".into(), How::Allgather(RdmaAllgather::Direct)),
            ("doubling".into(), How::Allgather(RdmaAllgather::Doubling)),
            ("ring".into(), How::Allgather(RdmaAllgather::Ring)),
        ],
        "alltoall" => vec![
            ("direct".into(), How::Alltoall(RdmaAlltoall::Direct)),
            ("doubling".into(), How::Alltoall(RdmaAlltoall::Doubling)),
        ],
        _ => {
            let pairs = ("pairs".to_string(), How::Allreduce(RdmaAllreduce::Pairs));
            let way = |k: &u32| RdmaAllreduce::Tree { up: *k, down: *k };
            let trees = DEGREES.iter().map(|k| (tree(k), How::Allreduce(way(k))));
            let ring = ("ring".to_string(), How::Allreduce(RdmaAllreduce::Ring));
            [pairs].into_iter().chain(trees).chain([ring]).collect()
        }
    };
    ways.push(("messages".into(), How::Messages));
    ways
}

/// Whether a way takes so many bytes, and can be looked at.
fn takes(how: How, ranks: u32, bytes: usize) -> bool {
    let reach = reach(0, ranks);
    // About so many steps has each rank.
    let (pieces, ring) = (bytes.div_ceil(reach.room), ranks as usize);
    let (takes, steps) = match how {
        How::Messages => (true, 1),
        How::Bcast(how) => (how.takes(reach, bytes), 4 * pieces),
        How::Reduce(how) => (how.takes(reach, 0, bytes, true), 4 * pieces),
        How::Allgather(how @ RdmaAllgather::Ring) => (how.takes(reach, bytes), 4 * pieces * ring),
        How::Allgather(how) => (how.takes(reach, bytes), 64),
        How::Alltoall(how @ RdmaAlltoall::Doubling) => (how.takes(reach, bytes), 16 * ring),
        How::Alltoall(how) => (how.takes(reach, bytes), 64),
        How::Allreduce(how @ RdmaAllreduce::Ring) => (how.takes(reach, bytes, true), 8 * ring),
        How::Allreduce(how) => (how.takes(reach, bytes, true), 64),
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

    /// The way that the cost model takes among those by writes.
    fn taken(&self) -> Option<How> {
        let network = Network {
            costs: *self.costs,
            quick: Quick::all(Some(usize::MAX)),
        };
        let (choices, reach) = (Choices::default(), reach(0, self.ranks));
        let situation = self.situation();
        match self.collective {
            "bcast" => choices
                .bcast_by_writes(&situation, &reach, &network)
                .map(How::Bcast),
            "reduce" => choices
                .reduce_by_writes(&situation, 0, &reach, &network)
                .map(How::Reduce),
            "allgather" => choices
                .allgather_by_writes(&situation, self.bytes, &reach, &network)
                .map(How::Allgather),
            "alltoall" => choices
                .alltoall_by_writes(&situation, &reach, &network)
                .map(How::Alltoall),
            _ => choices
                .allreduce_by_writes(&situation, &reach, &network)
                .map(How::Allreduce),
        }
    }

    fn build(&self, how: How, rank: u32, schedule: &mut Schedule) {
        let float = Datatype::predefined(Predefined::Float);
        let part = Part {
            count: self.bytes / 4,
            datatype: &float,
        };
        let op = Op::predefined(PredefinedOp::Sum);
        let reach = reach(rank, self.ranks);
        match how {
            How::Messages => self.by_messages(rank, part, &op, schedule),
            How::Bcast(how) => rdma::bcast_by(schedule, reach, 0, part, how),
            How::Reduce(how) => rdma::reduce_by(schedule, reach, (0, false), part, &op, how),
            How::Allgather(how) => rdma::allgather_by(schedule, reach, Some(part), part, how),
            How::Alltoall(how) => rdma::alltoall_by(schedule, reach, Some(part), part, how),
            How::Allreduce(how) => rdma::allreduce_by(schedule, reach, false, part, &op, how),
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

    /// Microseconds; none if the way can't take it, or would take too long to find out.
    fn time(&self, how: How) -> Option<f64> {
        if !takes(how, self.ranks, self.bytes) {
            return None;
        }
        if how == How::Messages {
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

    fn row(&self, ways: &[(String, How)]) -> String {
        let times: Vec<Option<f64>> = ways.iter().map(|(_, how)| self.time(*how)).collect();
        let say = |time: &Option<f64>| time.map_or("–".to_string(), |time| format!("{time:.2}"));
        let cells: Vec<String> = times.iter().map(say).collect();
        let taken = match self.taken().map(|how| (how, self.time(how))) {
            Some((how, Some(time))) => {
                let name = ways.iter().find(|way| way.1 == how);
                let name = name.map_or("tree, other down", |way| &way.0);
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

/// Prints tables of a collective for these sizes.
pub fn table(
    collective: &str,
    costs: &Parameters,
    sizes: &[usize],
    most: u32,
    eager: usize,
) -> Result<()> {
    output::say(&format!(
        "{collective} by writes and by messages in virtual time, us; costs {costs}; messages of more than {eager} bytes \
         are asked for first; the way by writes that is taken, and its time to that of messages\n"
    ));
    let ways = ways(collective);
    let each = (1..).take_while(|power| 1_u64 << power <= u64::from(most));
    let mut progress = Progress::new(sizes.len() * each.count());
    for &bytes in sizes {
        if bytes == 0 || bytes % 4 != 0 {
            return Err(Error::new(format!(
                "--sizes {bytes}: must be a multiple of 4 above 0"
            )));
        }
        let names: Vec<&str> = ways.iter().map(|way| way.0.as_str()).collect();
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
            output::say(&case.row(&ways));
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
                        let writes = ways(collective).into_iter();
                        let writes = writes.filter(|way| way.1 != How::Messages);
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
