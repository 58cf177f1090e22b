//! `degrees`: the algorithm of an allreduce by writes, or all algorithms of a collective by writes
//! and by messages, in virtual time.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mpi_sched::costs::{Network, Quick};
use mpi_sched::model::{GUESSED, Parameters};
use mpi_sched::rdma::{
    self, BLOCK, DEGREES, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach,
    WriteCall,
};
use mpi_sched::{Choices, Collective, Layout, Part, Reduction, Schedule, Situation, Team};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

use crate::costs::{self, Plan};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::stats::medians;
use crate::virtual_time::{self, FAST, THESIS};
use crate::{find, output, process};

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
    use Algorithm::{Allgather, Allreduce, Alltoall, Bcast, Messages, Reduce};
    let named = |name: &str, how| vec![(name.to_string(), how)];
    let trees = |how: fn(u32) -> Algorithm| {
        let tree = |k| (format!("tree {k}"), how(k));
        DEGREES.map(tree).to_vec()
    };
    let all = match collective {
        "bcast" => [
            named("binomial", Bcast(RdmaBcast::Binomial { block: BLOCK })),
            named("chain", Bcast(RdmaBcast::Chain)),
            vec![],
        ],
        "reduce" => [
            trees(|k| Reduce(RdmaReduce::Tree { degree: k })),
            named("chain", Reduce(RdmaReduce::Chain)),
            vec![],
        ],
        "allgather" => [
            named("direct", Allgather(RdmaAllgather::Direct)),
            named("doubling", Allgather(RdmaAllgather::Doubling)),
            named("ring", Allgather(RdmaAllgather::Ring)),
        ],
        "alltoall" => [
            named("direct", Alltoall(RdmaAlltoall::Direct)),
            named("doubling", Alltoall(RdmaAlltoall::Doubling)),
            vec![],
        ],
        _ => [
            named("pairs", Allreduce(RdmaAllreduce::Pairs)),
            trees(|k| Allreduce(RdmaAllreduce::Tree { up: k, down: k })),
            named("ring", Allreduce(RdmaAllreduce::Ring)),
        ],
    };
    let messages = named("messages", Messages);
    all.into_iter().flatten().chain(messages).collect()
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
        let call = WriteCall {
            collective: match self.collective {
                "bcast" => Collective::Bcast,
                "reduce" => Collective::Reduce,
                "allgather" => Collective::Allgather,
                "alltoall" => Collective::Alltoall,
                _ => Collective::Allreduce,
            },
            reach: reach(0, self.ranks),
            root: 0,
            bytes: self.bytes,
            commutes: true,
        };
        match Choices::default().write_algorithm(&call, &network)? {
            mpi_sched::Algorithm::RdmaBcast(how) => Some(Algorithm::Bcast(how)),
            mpi_sched::Algorithm::RdmaReduce(how) => Some(Algorithm::Reduce(how)),
            mpi_sched::Algorithm::RdmaAllgather(how) => Some(Algorithm::Allgather(how)),
            mpi_sched::Algorithm::RdmaAlltoall(how) => Some(Algorithm::Alltoall(how)),
            mpi_sched::Algorithm::RdmaAllreduce(how) => Some(Algorithm::Allreduce(how)),
            _ => None,
        }
    }

    fn build(&self, how: Algorithm, rank: u32, schedule: &mut Schedule) {
        let float = Datatype::predefined(Predefined::Float);
        let part = Part {
            count: self.bytes / 4,
            datatype: &float,
        };
        let op = Op::predefined(PredefinedOp::Sum);
        let of = Reduction::new(false, part, &op);
        let reach = reach(rank, self.ranks);
        match how {
            Algorithm::Messages => self.by_messages(rank, of, schedule),
            Algorithm::Bcast(how) => rdma::bcast_by(schedule, reach, 0, part, how),
            Algorithm::Reduce(how) => rdma::reduce_by(schedule, reach, 0, of, how),
            Algorithm::Allgather(how) => rdma::allgather_by(schedule, reach, Some(part), part, how),
            Algorithm::Alltoall(how) => rdma::alltoall_by(schedule, reach, Some(part), part, how),
            Algorithm::Allreduce(how) => rdma::allreduce_by(schedule, reach, of, how),
        }
    }

    fn by_messages(&self, rank: u32, of: Reduction<'_>, schedule: &mut Schedule) {
        let part = of.part;
        let (choices, at) = (Choices::default(), self.situation());
        let team = Team::all(rank, self.ranks);
        let (whole, blocks) = (Some(part), Layout::Uniform(part));
        match self.collective {
            "bcast" => mpi_sched::bcast(schedule, team, 0, part, choices.bcast(&at)),
            "reduce" => mpi_sched::reduce(schedule, team, 0, of, choices.reduce(&at)),
            "allgather" => {
                mpi_sched::allgather(schedule, team, whole, blocks, choices.allgather(&at));
            }
            "alltoall" => {
                mpi_sched::alltoall(schedule, team, Some(blocks), blocks, choices.alltoall(&at));
            }
            _ => mpi_sched::allreduce(schedule, team, of, choices.allreduce(&at)),
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

/// Options of `degrees`.
#[derive(Args, Debug)]
pub struct DegreesOptions {
    /// Costs of writes: "guessed" (Weft's default without measurements), "fast" (an example of an
    /// adapter with 20 ns overhead and 0.9 us latency per write), "thesis", or eight times as in
    /// WEFT_COLL_COSTS.
    #[arg(long, value_name = "COSTS", default_value = "guessed")]
    costs: String,
    /// Bytes of a vector; a multiple of 4.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,1024"
    )]
    sizes: Vec<usize>,
    /// Largest number of ranks.
    #[arg(long, value_name = "RANKS", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(2..=65536))]
    most: u32,
    /// Print the algorithms of this collective by writes and by messages.
    #[arg(long, value_name = "COLLECTIVE",
          value_parser = ["bcast", "reduce", "allgather", "alltoall", "allreduce"])]
    of: Option<String>,
    /// Largest eager message in bytes, in algorithms by messages.
    #[arg(long, value_name = "BYTES", default_value_t = 16384)]
    eager: usize,
    /// Measure the trees with these numbers of ranks over a network, and print the time that the
    /// model predicts by costs measured before beside it.
    #[arg(long, value_name = "RANKS,…", value_delimiter = ',', conflicts_with_all = ["costs", "of"],
          value_parser = clap::value_parser!(u32).range(2..=4096))]
    measure: Vec<u32>,
    /// With --measure: the netmod.
    #[arg(long, value_name = "NETMOD", requires = "measure", default_value = "tcp",
          value_parser = ["tcp", "verbs", "ofi", "ucx"])]
    netmod: String,
    /// With --measure: the hosts to start ranks on, one each; all on this one when absent.
    #[arg(long, value_name = "HOST,…", requires = "measure")]
    hosts: Option<String>,
    /// With --measure: the folder of Weft's libmpi.so.12; otherwise the one in LD_LIBRARY_PATH or
    /// beside this program.
    #[arg(long, value_name = "DIR", requires = "measure")]
    lib: Option<PathBuf>,
}

/// Prints predicted beside measured times of trees, and the errors of the prediction.
fn compare(options: &DegreesOptions) -> Result<()> {
    const ROUNDS: u32 = 3;
    process::prepare()?;
    let plan = Plan {
        dir: &options.lib.clone().map_or_else(find::folder, Ok)?,
        netmod: &options.netmod,
        hosts: options.hosts.as_deref(),
        rounds: 1,
        budget: 10,
        timeout: Duration::from_secs(60),
        file: None,
    };
    let fitted = costs::fitted(&plan)?;
    output::say(&format!(
        "Allreduce by trees over {}, us; costs {fitted}\n\n\
         | ranks | degree | bytes | predicted | measured | error |\n|---:|---:|---:|---:|---:|---:|",
        options.netmod
    ));
    let mut errors = Vec::new();
    for &ranks in &options.measure {
        let mut own = Vec::new();
        for degree in DEGREES.into_iter().filter(|k| *k == 1 || *k < ranks) {
            let choice = format!("allreduce=rdma-tree:{degree}:{degree}");
            let round = |_| costs::allreduce(&plan, &options.sizes, &choice, ranks as usize);
            let rounds: Vec<Vec<f64>> = (0..ROUNDS).map(round).collect::<Result<_>>()?;
            for (&bytes, measured) in options.sizes.iter().zip(medians(&rounds)) {
                let predicted = fitted.up(ranks, degree, bytes) + fitted.down(ranks, degree, bytes);
                let error = (predicted / measured - 1.0) * 100.0;
                own.push(error.abs());
                output::say(&format!(
                    "| {ranks} | {degree} | {bytes} | {predicted:.2} | {measured:.2} | {error:+.0} % |"
                ));
            }
        }
        errors.push((ranks, own));
    }
    output::say("");
    for (ranks, own) in errors {
        let (mean, most) = (
            own.iter().sum::<f64>() / own.len() as f64,
            own.iter().copied().fold(0.0, f64::max),
        );
        output::say(&format!(
            "error with {ranks} ranks: {mean:.0} % in the mean, {most:.0} % at most"
        ));
    }
    Ok(())
}

/// Runs `degrees`: prints a table per size.
pub fn run(options: &DegreesOptions) -> Result<()> {
    let costs = &match options.costs.as_str() {
        "guessed" => GUESSED,
        "fast" => FAST,
        "thesis" => THESIS,
        text => {
            let wrong = |why| Error::new(format!("--costs {text}: {why}"));
            text.parse().map_err(wrong)?
        }
    };
    if let Some(bytes) = options
        .sizes
        .iter()
        .find(|bytes| **bytes == 0 || **bytes % 4 != 0)
    {
        return Err(Error::new(format!(
            "option --sizes is {bytes}; it must be a multiple of 4 above 0"
        )));
    }
    if !options.measure.is_empty() {
        return compare(options);
    }
    let eager = options.eager;
    let (title, names, last) = match &options.of {
        Some(of) => (
            format!(
                "{of} by writes and by messages in virtual time, us; costs {costs}; messages of \
                 more than {eager} bytes use rendezvous; the chosen algorithm by writes, and its \
                 time divided by that of messages"
            ),
            algorithms(of).into_iter().map(|(name, _)| name).collect(),
            vec!["taken"],
        ),
        None => (
            format!("Allreduce by writes in virtual time, us; costs {costs}"),
            degrees().map(degree_name).collect::<Vec<_>>(),
            vec!["best", "taken"],
        ),
    };
    output::say(&format!("{title}\n"));
    // Powers of two, and the numbers in the middle between them up to 24.
    let ranks: Vec<u32> = (1..32)
        .flat_map(|power| [Some(1 << power), (power < 5).then_some(3 << (power - 1))])
        .flatten()
        .collect();
    let ranks = || {
        ranks
            .iter()
            .copied()
            .take_while(|ranks| *ranks <= options.most)
    };
    let mut progress = Progress::new(options.sizes.len() * ranks().count());
    for &bytes in &options.sizes {
        let columns = [names.iter().map(String::as_str).collect(), last.clone()].concat();
        output::say(&format!("| {bytes} B: ranks | {} |", columns.join(" | ")));
        let rule = format!(
            "|---:|{}{}",
            "---:|".repeat(names.len()),
            "---|".repeat(last.len())
        );
        output::say(&rule);
        for ranks in ranks() {
            progress.step(format!("{bytes} bytes, {ranks} ranks"));
            output::say(&match &options.of {
                Some(collective) => Case {
                    collective,
                    costs,
                    ranks,
                    bytes,
                    eager,
                }
                .row(&algorithms(collective)),
                None => degrees_row(ranks, costs, bytes),
            });
        }
        output::say("");
    }
    Ok(())
}

/// Returns the algorithms of an allreduce without `--of`: trees have one degree up and down.
fn degrees() -> impl Iterator<Item = RdmaAllreduce> {
    let trees = DEGREES.map(|k| RdmaAllreduce::Tree { up: k, down: k });
    [RdmaAllreduce::Pairs].into_iter().chain(trees)
}

/// Returns the row of the times of all [`degrees`] with `ranks` ranks.
fn degrees_row(ranks: u32, costs: &Parameters, bytes: usize) -> String {
    let time = |how: RdmaAllreduce| virtual_time::allreduce(ranks, costs, bytes, how);
    let times: Vec<(RdmaAllreduce, f64)> = degrees().map(|how| (how, time(how))).collect();
    let cells: Vec<String> = times.iter().map(|(_, time)| format!("{time:.2}")).collect();
    let best = times.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let best = best.map_or(String::new(), |(how, _)| degree_name(*how));
    let taken = costs.best_way(ranks, bytes);
    format!(
        "| {ranks} | {} | {best} | {}, {:.2} |",
        cells.join(" | "),
        degree_name(taken),
        time(taken)
    )
}

fn degree_name(how: RdmaAllreduce) -> String {
    match how {
        RdmaAllreduce::Pairs => "pairs".to_string(),
        RdmaAllreduce::Ring => "ring".to_string(),
        RdmaAllreduce::Tree { up, down } if up == down => format!("tree {up}"),
        RdmaAllreduce::Tree { up, down } => format!("tree {up}, down {down}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_optima_other_than_pairs() {
        let row = degrees_row(16, &FAST, 8);
        assert!(row.contains("| tree 15 |"), "{row}");
        assert!(degrees_row(16, &GUESSED, 8).contains("| pairs | pairs"));
    }

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
