//! `tune`: measures each algorithm of each collective and writes which is the best at which size;
//! `consistency`: looks for messages that are faster than smaller ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::bench::Name;
use crate::costs::{self, Plan};
use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::library::Library;
use crate::progress::Progress;
use crate::{output, process};

/// What `tune` and `consistency` have in common.
#[derive(Args, Debug)]
pub struct Measuring {
    /// The folder of Weft's libmpi.so.12; otherwise the one in LD_LIBRARY_PATH or beside this program.
    #[arg(long, value_name = "DIR")]
    lib: Option<PathBuf>,
    /// Ranks per job.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=4096))]
    ranks: u32,
    /// Runs of each; the median counts.
    #[arg(long, value_name = "R", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measuring time per message size and run.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    budget: u64,
    /// Time limit per run.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,64,512,2048,8192,16384,32768,65536,262144,1048576"
    )]
    sizes: Vec<usize>,
    /// Collectives; all that have a choice when absent.
    #[arg(
        long = "bench",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum
    )]
    benches: Vec<Name>,
}

/// Options of `tune`.
#[derive(Args, Debug)]
pub struct TuneOptions {
    #[command(flatten)]
    measuring: Measuring,
    /// Ranks per node; all ranks when absent.
    #[arg(long, value_name = "RANKS")]
    per_node: Option<u32>,
    /// Measure what writes over a network cost instead, between ranks that go by it even on one host, and write it to
    /// FILE for WEFT_COLL_COSTS_FILE, or to where Weft looks without it.
    #[arg(long)]
    costs: bool,
    /// With --costs: the netmod.
    #[arg(long, value_name = "NETMOD", requires = "costs", default_value = "tcp",
          value_parser = ["tcp", "verbs", "ofi", "ucx"])]
    netmod: String,
    /// With --costs: the hosts to start ranks on, one each, four or more for the best figures; all on this one when
    /// absent.
    #[arg(long, value_name = "HOST,…", requires = "costs")]
    hosts: Option<String>,
    /// The file to write, for WEFT_COLL_TABLE; lines for other numbers of ranks, or other netmods, stay as they are.
    #[arg(value_name = "FILE", required_unless_present = "costs")]
    file: Option<PathBuf>,
}

/// Options of `consistency`.
#[derive(Args, Debug)]
pub struct ConsistencyOptions {
    #[command(flatten)]
    measuring: Measuring,
    /// By how many per cent a larger message may be faster, beyond what runs differ by.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    tolerance: f64,
}

/// The benchmarks, the library's names of their collectives, and algorithms to be tried.
const CHOICES: &[(Name, &str, &[&str])] = &[
    (
        Name::Barrier,
        "barrier",
        &["slots", "dissemination", "tree"],
    ),
    (
        Name::Bcast,
        "bcast",
        &["slots", "direct", "binomial", "scatter-ring", "chain:65536"],
    ),
    (Name::Gather, "gather", &["slots", "linear", "binomial"]),
    (Name::Scatter, "scatter", &["slots", "linear", "binomial"]),
    (
        Name::Allgather,
        "allgather",
        &[
            "slots",
            "direct",
            "recursive-doubling",
            "bruck",
            "ring",
            "neighbor-exchange",
        ],
    ),
    (
        Name::Alltoall,
        "alltoall",
        &["slots", "direct", "bruck", "pairwise:4", "pairwise:32"],
    ),
    (
        Name::Reduce,
        "reduce",
        &["slots", "slots-tree:4", "direct", "binomial", "halving"],
    ),
    (
        Name::Allreduce,
        "allreduce",
        &["slots", "direct", "recursive-doubling", "halving", "ring"],
    ),
    (
        Name::ReduceScatter,
        "reduce_scatter",
        &["slots", "halving", "pairwise"],
    ),
];

/// How much better another algorithm must be than the one of the size before: crossovers that are
/// noise would only make tables long.
const WORTH_IT: f64 = 0.97;

impl Measuring {
    fn chosen(&self) -> Result<Vec<&'static (Name, &'static str, &'static [&'static str])>> {
        if let Some(other) = self
            .benches
            .iter()
            .find(|name| CHOICES.iter().all(|row| row.0 != **name))
        {
            return Err(Error::new(format!(
                "{} has no choice of algorithms",
                other.text()
            )));
        }
        let wanted = |row: &&(Name, _, _)| self.benches.is_empty() || self.benches.contains(&row.0);
        Ok(CHOICES.iter().filter(wanted).collect())
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn folder(&self) -> Result<PathBuf> {
        match &self.lib {
            Some(dir) => Ok(dir.clone()),
            None => find::folder(),
        }
    }

    fn library(&self, choice: Option<String>) -> Result<Library> {
        let dir = self.folder()?;
        let env: Vec<(String, String)> = choice
            .into_iter()
            .map(|choice| ("WEFT_COLL".to_string(), choice))
            .collect();
        let library = Library::open(&dir, None, false, &env)?;
        library.must_be_weft("this command")?;
        Ok(library)
    }

    /// The times of one benchmark at all sizes, in microseconds, or why there are none.
    fn measure(
        &self,
        library: &Library,
        bench: Name,
        sizes: &[usize],
    ) -> Result<std::result::Result<Vec<f64>, String>> {
        let mut command = library.launch(self.ranks as usize, 1, false);
        command.arg("-n").arg(self.ranks.to_string());
        command.arg(this_program()?).arg(bench.text());
        command
            .args(["--precision", "4"])
            .arg("--budget")
            .arg(self.budget.to_string());
        if bench.has_sizes() {
            let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
            command.arg("--sizes").arg(list.join(","));
        }
        let finished = process::run(&mut command, Duration::from_secs(self.timeout))?;
        if let Some(failure) = finished.failure {
            return Ok(Err(failure));
        }
        let found = output::parse(&finished.stdout);
        if !bench.has_sizes() {
            let one = found.first().map(|(_, value)| vec![*value]);
            return Ok(one.ok_or_else(|| "no value in the output".to_string()));
        }
        let value = |size: &usize| found.iter().find(|row| row.0 == *size).map(|row| row.1);
        let values: Option<Vec<f64>> = sizes.iter().map(value).collect();
        Ok(values.ok_or_else(|| "the output lacks some sizes".to_string()))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Of each size the algorithm to take, by the times of each algorithm at each size.
fn best<'a>(times: &[(&'a str, Vec<f64>)], sizes: usize) -> Vec<&'a str> {
    let mut chosen: Vec<&str> = Vec::new();
    for place in 0..sizes {
        let at = |name: &str| {
            let row = times.iter().find(|row| row.0 == name);
            row.map_or(f64::INFINITY, |row| row.1[place])
        };
        let first = times
            .iter()
            .min_by(|a, b| a.1[place].total_cmp(&b.1[place]));
        let Some((fastest, _)) = first else { break };
        let name = match chosen.last() {
            Some(before) if at(fastest) > at(before) * WORTH_IT => before,
            _ => fastest,
        };
        chosen.push(name);
    }
    chosen
}

/// Runs `tune`.
pub fn run(options: &TuneOptions) -> Result<()> {
    process::prepare()?;
    let measuring = &options.measuring;
    let file = match (&options.file, options.costs) {
        (Some(file), false) => file,
        (file, _) => {
            return costs::run(&Plan {
                dir: &measuring.folder()?,
                netmod: &options.netmod,
                hosts: options.hosts.as_deref(),
                rounds: measuring.rounds,
                budget: measuring.budget,
                timeout: Duration::from_secs(measuring.timeout),
                file: file.as_deref(),
            });
        }
    };
    let ranks = measuring.ranks as usize;
    let per_node = options.per_node.map_or(ranks, |each| each as usize);
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let chosen = measuring.chosen()?;
    let ways: usize = chosen.iter().map(|row| row.2.len()).sum();
    let mut progress = Progress::new(ways * measuring.rounds as usize);
    for &&(bench, collective, algorithms) in &chosen {
        let sizes = match bench.has_sizes() {
            true => measuring.sizes(),
            false => vec![0],
        };
        let mut rounds: Vec<Vec<Vec<f64>>> = vec![Vec::new(); algorithms.len()];
        for _ in 0..measuring.rounds {
            for (place, algorithm) in algorithms.iter().enumerate() {
                progress.step(format!("{collective} by {algorithm}"));
                let choice = Some(format!("{collective}={algorithm}"));
                let library = measuring.library(choice)?;
                match measuring.measure(&library, bench, &sizes)? {
                    Ok(values) => rounds[place].push(values),
                    Err(why) => output::complain(&format!("{collective} {algorithm}: {why}")),
                }
            }
        }
        let times: Vec<(&str, Vec<f64>)> = algorithms
            .iter()
            .zip(&rounds)
            .filter(|(_, rounds)| !rounds.is_empty())
            .map(|(algorithm, rounds)| {
                let at = |place: usize| median(rounds.iter().map(|values| values[place]).collect());
                (*algorithm, (0..sizes.len()).map(at).collect())
            })
            .collect();
        for (name, values) in &times {
            let mut line = format!("# {collective} {name}:");
            for (size, value) in sizes.iter().zip(values) {
                let _ = write!(line, " {size}: {value:.2}");
            }
            output::say(&line);
        }
        let chosen = best(&times, sizes.len());
        let rules = lines.entry(collective).or_default();
        let mut before = None;
        for (place, (size, algorithm)) in sizes.iter().zip(chosen).enumerate() {
            if before != Some(algorithm) {
                // From the smallest size on means from nothing on; of an allgather the library
                // counts what a rank receives.
                let blocks = if bench == Name::Allgather { ranks } else { 1 };
                let from = if place == 0 { 0 } else { size * blocks };
                rules.push(format!(
                    "{collective} {ranks} {per_node} {from} {algorithm}"
                ));
                before = Some(algorithm);
            }
        }
    }
    let old = fs::read_to_string(file).unwrap_or_default();
    let table = merged(&old, &lines, ranks, per_node);
    fs::write(file, &table).map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    output::say(&table);
    Ok(())
}

/// The table with new lines in place of those for the same collective and ranks.
fn merged(old: &str, new: &BTreeMap<&str, Vec<String>>, ranks: usize, per_node: usize) -> String {
    const HEAD: &str = "# collective ranks ranks-per-node bytes algorithm";
    let mut table = format!("{HEAD}\n");
    let replaced = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let same = |place: usize, value: usize| {
            words
                .get(place)
                .is_some_and(|word| *word == value.to_string())
        };
        let measured = words.first().is_some_and(|name| new.contains_key(name));
        measured && same(1, ranks) && same(2, per_node)
    };
    let kept = old.lines().filter(|line| *line != HEAD && !replaced(line));
    for line in kept.chain(new.values().flatten().map(String::as_str)) {
        let _ = writeln!(table, "{line}");
    }
    table
}

/// Runs `consistency`; an error if a larger message was faster.
pub fn consistency(options: &ConsistencyOptions) -> Result<()> {
    process::prepare()?;
    let measuring = &options.measuring;
    let library = measuring.library(std::env::var("WEFT_COLL").ok())?;
    let sizes = measuring.sizes();
    let mut wrong = 0;
    let chosen = measuring.chosen()?;
    let mut progress = Progress::new(chosen.len() * measuring.rounds as usize);
    for &&(bench, collective, _) in &chosen {
        if !bench.has_sizes() {
            continue;
        }
        let mut rounds = Vec::new();
        for _ in 0..measuring.rounds {
            progress.step(collective);
            match measuring.measure(&library, bench, &sizes)? {
                Ok(values) => rounds.push(values),
                Err(why) => return Err(Error::new(format!("{collective}: {why}"))),
            }
        }
        let faster = inversions(&rounds, options.tolerance / 100.0);
        for &(small, large) in &faster {
            let at = |place: usize| median(rounds.iter().map(|values| values[place]).collect());
            output::say(&format!(
                "{collective}: {} bytes take {:.2} us, {} bytes only {:.2} us",
                sizes[small],
                at(small),
                sizes[large],
                at(large)
            ));
        }
        if faster.is_empty() {
            output::say(&format!("{collective}: consistent"));
        }
        wrong += faster.len();
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Error::new(format!(
            "{wrong} times a larger message was faster than a smaller one; measure a table with \
             osu-bench tune"
        ))),
    }
}

/// Neighbouring sizes of which the larger one is faster in every run than the smaller one in any, by
/// more than the tolerance: what runs differ by is noise.
fn inversions(rounds: &[Vec<f64>], tolerance: f64) -> Vec<(usize, usize)> {
    let sizes = rounds.first().map_or(0, Vec::len);
    let least = |place: usize| {
        let values = rounds.iter().map(|values| values[place]);
        values.fold(f64::INFINITY, f64::min)
    };
    let most = |place: usize| {
        let values = rounds.iter().map(|values| values[place]);
        values.fold(0.0, f64::max)
    };
    (1..sizes)
        .map(|large| (large - 1, large))
        .filter(|&(small, large)| most(large) < least(small) * (1.0 - tolerance))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_stays_until_another_is_clearly_better() {
        let times = [
            ("a", vec![1.0, 2.0, 4.0, 9.0]),
            ("b", vec![2.0, 1.99, 2.0, 9.1]),
        ];
        assert_eq!(best(&times, 4), ["a", "a", "b", "b"]);
    }

    #[test]
    fn the_library_has_all_algorithms() {
        for (_, collective, algorithms) in CHOICES {
            for algorithm in *algorithms {
                let mut choices = mpi_sched::Choices::default();
                choices.set(collective, algorithm).unwrap();
            }
        }
    }

    #[test]
    fn lines_of_other_sizes_stay() {
        let old = "# collective ranks ranks-per-node bytes algorithm\n\
                   bcast 2 2 0 slots\nbcast 4 4 0 ring\nbarrier 2 2 0 tree\n";
        let new = BTreeMap::from([("bcast", vec!["bcast 2 2 0 binomial".to_string()])]);
        let table = merged(old, &new, 2, 2);
        let lines: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "bcast 4 4 0 ring",
                "barrier 2 2 0 tree",
                "bcast 2 2 0 binomial"
            ]
        );
    }

    #[test]
    fn only_clear_inversions_count() {
        let clear = [vec![2.0, 1.0, 3.0], vec![2.1, 1.1, 3.0]];
        assert_eq!(inversions(&clear, 0.1), [(0, 1)]);
        let noise = [vec![2.0, 1.0, 3.0], vec![2.1, 1.9, 3.0]];
        assert!(inversions(&noise, 0.1).is_empty());
    }
}
