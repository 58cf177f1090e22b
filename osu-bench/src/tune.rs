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
use crate::job::Job;
use crate::library::Library;
use crate::progress::Progress;
use crate::stats::medians;
use crate::{output, process};

/// Options of `tune` and `consistency`.
#[derive(Args, Debug)]
pub struct Measuring {
    /// The folder of Weft's libmpi.so.12; otherwise the one in LD_LIBRARY_PATH or beside this
    /// program.
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
    /// Measure what writes over a network cost instead, between ranks that go by it even on one
    /// host, and write it to FILE for WEFT_COLL_COSTS_FILE, or to where Weft looks without it.
    #[arg(long)]
    costs: bool,
    /// With --costs: the netmod.
    #[arg(long, value_name = "NETMOD", requires = "costs", default_value = "tcp",
          value_parser = ["tcp", "verbs", "ofi", "ucx"])]
    netmod: String,
    /// With --costs: the hosts to start ranks on, one each, four or more for the best figures; all
    /// on this one when absent.
    #[arg(long, value_name = "HOST,…", requires = "costs")]
    hosts: Option<String>,
    /// The file to write, for WEFT_COLL_TABLE; lines for other numbers of ranks, or other netmods,
    /// stay as they are.
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

/// The collectives with the algorithms to try, separated by spaces.
const CHOICES: &[(Name, &str)] = &[
    (Name::Barrier, "slots dissemination tree"),
    (
        Name::Bcast,
        "slots direct binomial scatter-ring chain:65536",
    ),
    (Name::Gather, "slots linear binomial"),
    (Name::Scatter, "slots linear binomial"),
    (
        Name::Allgather,
        "slots direct recursive-doubling bruck ring neighbor-exchange",
    ),
    (Name::Alltoall, "slots direct bruck pairwise:4 pairwise:32"),
    (Name::Reduce, "slots slots-tree:4 direct binomial halving"),
    (
        Name::Allreduce,
        "slots direct recursive-doubling halving ring",
    ),
    (Name::ReduceScatter, "slots halving pairwise"),
];

/// Largest ratio of times at which an algorithm replaces that of the size before: crossovers that
/// are noise would only make tables long.
const WORTH_IT: f64 = 0.97;

impl Measuring {
    fn chosen(&self) -> Result<Vec<&'static (Name, &'static str)>> {
        let has_choice = |name: &&Name| CHOICES.iter().any(|row| row.0 == **name);
        if let Some(other) = self.benches.iter().find(|name| !has_choice(name)) {
            return Err(Error::new(format!(
                "{} has no choice of algorithms",
                other.text()
            )));
        }
        let is_wanted = |row: &&(Name, _)| self.benches.is_empty() || self.benches.contains(&row.0);
        Ok(CHOICES.iter().filter(is_wanted).collect())
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

    /// Returns the times of one benchmark at all sizes, in microseconds, or why there are none.
    fn measure(
        &self,
        library: &Library,
        bench: Name,
        sizes: &[usize],
    ) -> Result<std::result::Result<Vec<f64>, String>> {
        let job = Job {
            bench,
            sizes,
            ranks: self.ranks as usize,
            budget: self.budget,
            timeout: Duration::from_secs(self.timeout),
        };
        job.run(library, &[])
    }
}

/// Returns the algorithm to choose for each size, by the times of each algorithm at each size.
fn best<'a>(times: &[(&'a str, Vec<f64>)], sizes: usize) -> Vec<&'a str> {
    let mut chosen: Vec<usize> = Vec::new();
    for place in 0..sizes {
        let at = |row: usize| times[row].1[place];
        let Some(fastest) = (0..times.len()).min_by(|a, b| at(*a).total_cmp(&at(*b))) else {
            break;
        };
        chosen.push(match chosen.last() {
            Some(&before) if at(fastest) > at(before) * WORTH_IT => before,
            _ => fastest,
        });
    }
    chosen.into_iter().map(|row| times[row].0).collect()
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
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let chosen = measuring.chosen()?;
    let algorithms = chosen.iter().flat_map(|row| row.1.split(' '));
    let mut progress = Progress::new(algorithms.count() * measuring.rounds as usize);
    for &&(bench, algorithms) in &chosen {
        let collective = bench.text();
        let algorithms: Vec<&str> = algorithms.split(' ').collect();
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
            .map(|(algorithm, rounds)| (*algorithm, medians(rounds)))
            .collect();
        for (name, values) in &times {
            let mut line = format!("# {collective} {name}:");
            for (size, value) in sizes.iter().zip(values) {
                let _ = write!(line, " {size}: {value:.2}");
            }
            output::say(&line);
        }
        let chosen = best(&times, sizes.len());
        let rules = lines.entry(collective.clone()).or_default();
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

/// Returns the table with new lines in place of those for the same collective and ranks.
fn merged(old: &str, new: &BTreeMap<String, Vec<String>>, ranks: usize, per_node: usize) -> String {
    const HEAD: &str = "# collective ranks ranks-per-node bytes algorithm";
    let mut table = format!("{HEAD}\n");
    let replaced = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = [ranks.to_string(), per_node.to_string()];
        let is_measured = words.first().is_some_and(|name| new.contains_key(*name));
        is_measured && words.get(1..3).is_some_and(|words| *words == numbers)
    };
    let kept = old.lines().filter(|line| *line != HEAD && !replaced(line));
    for line in kept.chain(new.values().flatten().map(String::as_str)) {
        let _ = writeln!(table, "{line}");
    }
    table
}

/// Runs `consistency`. Fails if a larger message was faster.
pub fn consistency(options: &ConsistencyOptions) -> Result<()> {
    process::prepare()?;
    let measuring = &options.measuring;
    let library = measuring.library(std::env::var("WEFT_COLL").ok())?;
    let sizes = measuring.sizes();
    let mut wrong = 0;
    let chosen = measuring.chosen()?;
    let mut progress = Progress::new(chosen.len() * measuring.rounds as usize);
    for &&(bench, _) in chosen.iter().filter(|row| row.0.has_sizes()) {
        let collective = bench.text();
        let mut rounds = Vec::new();
        for _ in 0..measuring.rounds {
            progress.step(collective.as_str());
            match measuring.measure(&library, bench, &sizes)? {
                Ok(values) => rounds.push(values),
                Err(why) => return Err(Error::new(format!("{collective}: {why}"))),
            }
        }
        let faster = inversions(&rounds, options.tolerance / 100.0);
        let times = medians(&rounds);
        for &(small, large) in &faster {
            output::say(&format!(
                "{collective}: {} bytes take {:.2} us, {} bytes only {:.2} us",
                sizes[small], times[small], sizes[large], times[large]
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

/// Returns neighbouring sizes of which the larger one is faster in every run than the smaller one
/// in any, by more than the tolerance: differences within the runs' range are noise.
fn inversions(rounds: &[Vec<f64>], tolerance: f64) -> Vec<(usize, usize)> {
    let sizes = rounds.first().map_or(0, Vec::len);
    let at = |place: usize| rounds.iter().map(move |values| values[place]);
    let least = |place| at(place).fold(f64::INFINITY, f64::min);
    let most = |place| at(place).fold(0.0, f64::max);
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
        for (collective, algorithms) in CHOICES {
            for algorithm in algorithms.split(' ') {
                let mut choices = mpi_sched::Choices::default();
                choices.set(&collective.text(), algorithm).unwrap();
            }
        }
    }

    #[test]
    fn lines_of_other_sizes_stay() {
        let old = "# collective ranks ranks-per-node bytes algorithm\n\
                   bcast 2 2 0 slots\nbcast 4 4 0 ring\nbarrier 2 2 0 tree\n";
        let new = BTreeMap::from([(
            "bcast".to_string(),
            vec!["bcast 2 2 0 binomial".to_string()],
        )]);
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
