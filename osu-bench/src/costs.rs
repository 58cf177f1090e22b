//! `tune --costs` measures the costs of writes over a network, for the file that Weft reads at
//! start.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use mpi_sched::Collective;
use mpi_sched::costs::{Measured, Network, Quick, usual_file};
use mpi_sched::model::Parameters;

use crate::bench::Name;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::library::Library;
use crate::output;
use crate::progress::Progress;
use crate::stats::medians;

/// The settings of `tune --costs`.
pub struct Plan<'a> {
    /// The folder of the library.
    pub dir: &'a Path,
    /// The netmod, a value of `WEFT_NETMOD`.
    pub netmod: &'a str,
    /// The hosts of the ranks; if empty, all ranks are on this host, over loopback.
    pub hosts: Option<&'a str>,
    /// Runs of each measurement; the median counts.
    pub rounds: u32,
    /// Measuring time per size and run, in milliseconds.
    pub budget: u64,
    /// Time limit per run.
    pub timeout: Duration,
    /// The file to write; `None` for the default.
    pub file: Option<&'a Path>,
}

/// Bytes of vectors in ascending order; the longest one fits into a slot.
const SIZES: [usize; 7] = [8, 64, 512, 1024, 2048, 4096, 8192];

/// Bytes up to which writes are compared with messages in each collective.
const LENGTHS: [usize; 11] = [
    8, 64, 512, 2048, 4096, 8192, 16_384, 65_536, 131_072, 262_144, 1_048_576,
];

/// Collectives to compare, and the number of ranks whose data the limit counts per byte.
const COMPARED: [(Name, Collective, usize); 5] = [
    (Name::Bcast, Collective::Bcast, 1),
    (Name::Allreduce, Collective::Allreduce, 1),
    (Name::Reduce, Collective::Reduce, 1),
    (Name::Allgather, Collective::Allgather, 2),
    (Name::Alltoall, Collective::Alltoall, 1),
];

/// Largest ratio of writes' time to messages' at which writes are still chosen: it allows for
/// noise, and writes save more between leaders of nodes than between two ranks.
const NOISE: f64 = 1.05;

/// Runs per requested run: single runs differ by more than the costs to distinguish.
const RUNS: u32 = 3;

/// Measures the costs and writes the file.
pub fn run(plan: &Plan<'_>) -> Result<()> {
    let wrong =
        |path: &Path, why: &dyn std::fmt::Display| Error::new(format!("{}: {why}", path.display()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let usual = || usual_file(host.trim(), |name| env::var_os(name));
    let path: PathBuf = match plan.file {
        Some(file) => file.to_path_buf(),
        None => usual().ok_or_else(|| {
            Error::new("HOME and XDG_CONFIG_HOME are not set; name the file to write")
        })?,
    };
    // Checked before the measurement, which takes minutes.
    let mut measured = match fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|why: String| wrong(&path, &why))?,
        Err(_) => Measured::default(),
    };
    let network = measure(plan)?;
    measured.set(plan.netmod, network);
    let text = format!(
        "# What writes over networks cost on {}, by osu-bench tune --costs: netmod, microseconds (wire time of a byte,\n\
         # start of a transfer, copy of a byte, adapter, processor, library, reduction once and per byte), and up to how\n\
         # many bytes writes are quicker than messages, where it is another number by collective.\n{measured}",
        host.trim()
    );
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| wrong(folder, &error))?;
    }
    fs::write(&path, &text).map_err(|error| wrong(&path, &error))?;
    output::say(text.trim_end());
    output::say(&format!("# written to {}", path.display()));
    Ok(())
}

/// Writes between two ranks, messages between two, and three ranks that write to one.
const CHOICES: [(&str, usize); 3] = [
    ("allreduce=rdma-pairs", 2),
    ("allreduce=recursive-doubling", 2),
    ("allreduce=rdma-tree:3", 4),
];

/// Measures the costs of writes, without comparing them with messages.
pub fn fitted(plan: &Plan<'_>) -> Result<Parameters> {
    let mut times: [Vec<Vec<f64>>; 2] = Default::default();
    for _ in 0..RUNS * plan.rounds {
        for (times, (choice, ranks)) in times.iter_mut().zip([CHOICES[0], CHOICES[2]]) {
            times.push(allreduce(plan, &SIZES, choice, ranks)?);
        }
    }
    let [writes, tree] = times.map(|rounds| medians(&rounds));
    Ok(fit(&writes, tree[0], copy_of_byte(), reduction()))
}

/// Measures the times of an allreduce at all sizes, in microseconds.
pub fn allreduce(plan: &Plan<'_>, sizes: &[usize], choice: &str, ranks: usize) -> Result<Vec<f64>> {
    bench(plan, (Name::Allreduce, sizes), choice, ranks)
}

fn measure(plan: &Plan<'_>) -> Result<Network> {
    let mut times: [Vec<Vec<f64>>; 3] = Default::default();
    let rounds = RUNS * plan.rounds;
    let mut pairs: [[Vec<Vec<f64>>; 2]; COMPARED.len()] = Default::default();
    let runs = rounds as usize * CHOICES.len() + plan.rounds as usize * 2 * COMPARED.len();
    let mut progress = Progress::new(runs);
    for round in 1..=rounds {
        for (place, (choice, ranks)) in CHOICES.into_iter().enumerate() {
            progress.step(format!(
                "round {round} of {rounds}, {choice}, {ranks} ranks"
            ));
            times[place].push(allreduce(plan, &SIZES, choice, ranks)?);
        }
    }
    for round in 1..=plan.rounds {
        for ((collective, ..), found) in COMPARED.into_iter().zip(&mut pairs) {
            let name = collective.text();
            let choices = [format!("{name}=rdma"), "rdma=off".to_string()];
            for (choice, found) in choices.iter().zip(found) {
                progress.step(format!(
                    "round {round} of {}, {name}, {choice}",
                    plan.rounds
                ));
                found.push(bench(plan, (collective, &LENGTHS[..]), choice, 2)?);
            }
        }
    }
    drop(progress);
    let [writes, messages, tree] = times.map(|rounds| medians(&rounds));
    for (at, size) in SIZES.iter().enumerate() {
        output::say(&format!(
            "# {size} bytes: writes {:.2} us, messages {:.2} us; three to one {:.2} us",
            writes[at], messages[at], tree[at]
        ));
    }
    let mut limits = Quick::all(quick(&SIZES, &writes, &messages));
    for ((_, collective, ranks), found) in COMPARED.into_iter().zip(pairs) {
        let [writes, messages] = found.map(|rounds| medians(&rounds));
        for (at, size) in LENGTHS.iter().enumerate() {
            let [writes, messages] = [writes[at], messages[at]];
            let name = collective.name();
            output::say(&format!(
                "# {name} of {size} bytes: writes {writes:.2} us, messages {messages:.2} us"
            ));
        }
        let bytes = quick(&LENGTHS, &writes, &messages);
        limits.set(collective, bytes.map(|bytes| ranks * bytes));
    }
    Ok(Network {
        costs: fit(&writes, tree[0], copy_of_byte(), reduction()),
        quick: limits,
    })
}

/// Fits the parameters of the cost model to the measurements: an allreduce of two ranks at all
/// sizes, one of four ranks in a tree of degree 3 at the smallest size, and this processor's times.
fn fit(pairs: &[f64], tree: f64, copy: f64, operation: [f64; 2]) -> Parameters {
    let last = SIZES.len() - 1;
    let slope = (pairs[last] - pairs[0]) / (SIZES[last] - SIZES[0]) as f64;
    let transmit = (slope - 2.0 * copy - operation[1]).max(1e-6);
    // The time of one write from the call until the target sees it.
    let hop = (pairs[0] - operation[0]).max(0.01);
    // One step of three ranks that write to one up the tree, then two steps down.
    let startup = (tree - 3.0 * hop - operation[0]) / 2.0;
    let startup = startup.clamp(hop / 100.0, hop / 4.0);
    // Only the sum is measured; it is split between the adapters of both sides.
    let rest = hop - 2.0 * startup;
    let [once, each] = operation;
    let numbers = [
        transmit,
        startup,
        copy,
        rest / 4.0,
        0.0,
        rest / 2.0,
        once,
        each,
    ];
    Parameters::from_numbers(numbers.map(rounded))
}

/// Rounds to three significant digits; more are noise.
fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

/// Returns the largest of these sizes up to which writes are faster, if any.
fn quick(sizes: &[usize], writes: &[f64], messages: &[f64]) -> Option<usize> {
    let both = writes.iter().zip(messages);
    let quicker = both.take_while(|(write, message)| **write <= NOISE * **message);
    let count = quicker.count();
    count.checked_sub(1).map(|last| sizes[last])
}

/// Measures the times of a benchmark at all sizes, in microseconds.
fn bench(
    plan: &Plan<'_>,
    (bench, sizes): (Name, &[usize]),
    choice: &str,
    ranks: usize,
) -> Result<Vec<f64>> {
    let env = [
        ("WEFT_COLL", choice),
        ("WEFT_NETMOD", plan.netmod),
        ("WEFT_SHM", "0"),
    ];
    let env = env.map(|(name, value)| (name.to_string(), value.to_string()));
    let library = Library::open(plan.dir, None, false, &env)?;
    library.must_be_weft("this command")?;
    let job = Job {
        bench,
        sizes,
        ranks,
        budget: plan.budget,
        timeout: plan.timeout,
    };
    let hosts = plan.hosts.map(|hosts| ["-hosts", hosts, "-ppn", "1"]);
    let values = job.run(&library, hosts.as_ref().map_or(&[], |words| &words[..]))?;
    values.map_err(|why| Error::new(format!("{}, {choice}, {ranks} ranks: {why}", bench.text())))
}

/// Measures the shortest time of `step` in microseconds.
fn least(mut step: impl FnMut()) -> f64 {
    const TIMES: u32 = 1000;
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        (0..TIMES).for_each(|_| step());
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
    }
    best
}

const LONG: usize = 8192;

fn copy_of_byte() -> f64 {
    let (from, mut to) = (vec![1_u8; LONG], vec![0_u8; LONG]);
    least(|| to.copy_from_slice(black_box(&from))) / LONG as f64
}

/// Measures a reduction: the time per call, and per byte.
fn reduction() -> [f64; 2] {
    let (from, mut to) = (vec![1_f32; LONG / 4], vec![0_f32; LONG / 4]);
    let mut of = |count: usize| {
        least(|| {
            let both = to[..count].iter_mut().zip(black_box(&from));
            both.for_each(|(to, from)| *to += from);
        })
    };
    let (short, long) = (of(2), of(LONG / 4));
    [short, ((long - short) / LONG as f64).max(0.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_says_is_found_again() {
        let known = Parameters {
            transmit: 0.001,
            startup: 0.5,
            copy: 0.0002,
            nic: 0.35,
            descriptor: 0.0,
            library: 0.7,
            operation: [0.02, 0.0003],
        };
        let pairs = SIZES.map(|bytes| known.pairs(2, bytes));
        let tree = known.up(4, 3, 8) + known.down(4, 1, 8);
        let found = fit(&pairs, tree, known.copy, known.operation);
        for (one, other) in known.to_numbers().into_iter().zip(found.to_numbers()) {
            assert!((one - other).abs() < 0.02, "{known:?} {found:?}");
        }
    }

    #[test]
    fn writes_are_taken_as_long_as_they_are_quicker() {
        let messages = [10.0; SIZES.len()];
        let with = |from: usize| {
            let mut writes = [9.0; SIZES.len()];
            writes[from..].fill(11.0);
            quick(&SIZES, &writes, &messages)
        };
        assert_eq!((with(0), with(1), with(4)), (None, Some(8), Some(1024)));
        assert_eq!(with(SIZES.len()), Some(8192));
    }
}
