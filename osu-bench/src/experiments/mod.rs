//! `experiments`: the figures, tables and experiments of the documents that Weft was built after, each
//! with the command that reproduces it. The page docs/experiments.md comes from the same table.

mod page;
mod summary;
mod table;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::compare;
use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::library::Library;
use crate::loops;
use crate::progress::Progress;
use crate::{output, process};
use page::{Page, Values};
use summary::Summary;

/// Options of `experiments`.
#[derive(Args, Debug)]
pub struct ExperimentOptions {
    /// Only the experiments whose names begin like this, such as Z3 (a chapter) or F; without it all.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List names, figures and commands, and run nothing; --page is written with the values it has.
    #[arg(long)]
    list: bool,
    /// The page whose tables get the values; those of experiments that are not run stay.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// A folder for the outputs and pictures of the commands.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The folder of libmpi.so.12; otherwise the one in LD_LIBRARY_PATH, beside this program
    /// or of the system.
    #[arg(long, value_name = "DIR")]
    lib: Option<PathBuf>,
    /// The launcher; otherwise chosen as by compare.
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,
    /// The folder of a libmpi.so.12 with the feature breakdown, for the commands that need one.
    #[arg(long, value_name = "DIR")]
    breakdown: Option<PathBuf>,
    /// The folder of Intel MPI's libmpi.so.12, for the command that compares with it.
    #[arg(long, value_name = "DIR")]
    intel: Option<PathBuf>,
    /// A command, such as 'cargo xtask rdma-vm --', that runs another one on a machine with RDMA
    /// devices: runs all commands there that need one and find none here.
    #[arg(long, value_name = "COMMAND")]
    vm: Option<String>,
    /// Time limit of a command.
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// A figure, table or experiment.
pub struct Experiment {
    /// The name on the command line: the document's letter and the number of its first figure.
    name: &'static str,
    /// Its figures and tables.
    place: &'static str,
    /// The question that it answers.
    shows: &'static str,
    /// The document's value.
    seed: &'static str,
    runs: &'static [Run],
    /// The part that can't be reproduced, and what that takes; empty if it is whole.
    lacks: &'static str,
}

/// A command that reproduces an experiment or a part of it.
pub struct Run {
    needs: &'static [Need],
    /// Words separated by spaces: osu-bench or mpiexec and their arguments; an example is compiled.
    command: &'static str,
    summary: Summary,
}

/// The examples in C that commands name, with their sources.
const EXAMPLES: [(&str, &str); 7] = [
    (
        "verbs_objects",
        include_str!("../../../examples/verbs_objects.c"),
    ),
    ("rma_sparse", include_str!("../../../examples/rma_sparse.c")),
    ("rma_halo", include_str!("../../../examples/rma_halo.c")),
    ("rma_kmers", include_str!("../../../examples/rma_kmers.c")),
    ("rma_fft", include_str!("../../../examples/rma_fft.c")),
    ("rma_hash", include_str!("../../../examples/rma_hash.c")),
    (
        "rma_exchange",
        include_str!("../../../examples/rma_exchange.c"),
    ),
];

/// A property of machine or library without which a command is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A device of the verbs.
    Rdma,
    /// A library with the feature `breakdown`.
    Breakdown,
    /// The right to make network namespaces.
    Root,
    /// Intel MPI.
    Intel,
}

/// The word of commands for the folder of Intel MPI.
const INTEL: &str = "INTEL";

/// The name of [`Need::Rdma`].
const RDMA_DEVICE: &str = "an RDMA device";

impl Need {
    /// Returns the need's name if the machine, or the library in `dir`, lacks it.
    fn lacking(self, dir: &Path, options: &ExperimentOptions) -> Option<&'static str> {
        let (is_there, name) = match self {
            Need::Rdma => {
                let devices = fs::read_dir("/sys/class/infiniband");
                let is_there = devices.is_ok_and(|mut all| all.next().is_some());
                (is_there, RDMA_DEVICE)
            }
            Need::Breakdown => {
                let dir = options.breakdown.as_deref().unwrap_or(dir);
                let library = fs::read(dir.join("libmpi.so.12")).unwrap_or_default();
                let symbol = b"\0weft_breakdown\0";
                let is_there = library.windows(symbol.len()).any(|bytes| bytes == symbol);
                (is_there, "a library with the feature breakdown")
            }
            // SAFETY: geteuid has no arguments and can't fail.
            Need::Root => (unsafe { libc::geteuid() } == 0, "root"),
            Need::Intel => (options.intel.is_some(), "Intel MPI"),
        };
        (!is_there).then_some(name)
    }
}

impl Run {
    /// Returns the names of what it needs and this machine or the library in `dir` lacks.
    fn lacking(&self, dir: &Path, options: &ExperimentOptions) -> Vec<&'static str> {
        let namespaces = self.command.contains("--netns").then_some(Need::Root);
        let needs = self.needs.iter().copied().chain(namespaces);
        needs
            .filter_map(|need| need.lacking(dir, options))
            .collect()
    }
}

/// Lists or runs the experiments, and writes the page.
pub fn run(options: &ExperimentOptions) -> Result<()> {
    let is_chosen = |one: &&Experiment| {
        options.names.is_empty()
            || options
                .names
                .iter()
                .any(|start| one.name.starts_with(start))
    };
    let chosen: Vec<&Experiment> = table::EXPERIMENTS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(Error::new(format!(
            "no experiment begins with {}; --list names them",
            options.names.join(" or ")
        )));
    }
    let mut page = match &options.page {
        Some(file) => Page::read(file)?,
        None => Page::default(),
    };
    if options.list {
        chosen.iter().for_each(|one| say(one));
        return options
            .page
            .as_ref()
            .map_or(Ok(()), |file| page.write(file));
    }
    process::prepare()?;
    let dir = options.lib.clone().map_or_else(find::folder, Ok)?;
    let library = Library::open(&dir, options.launcher.as_deref(), false, &[])?;
    let instrumented = match &options.breakdown {
        Some(dir) => Some(Library::open(dir, options.launcher.as_deref(), false, &[])?),
        None => None,
    };
    let machine = format!("{}, {}", compare::description(), library.version);
    let virtual_machine = format!("the virtual machine with Soft-RoCE (`--vm`) on: {machine}");
    let pictures = tempfile::tempdir()?;
    let folder = options.output.as_deref().unwrap_or(pictures.path());
    fs::create_dir_all(folder)?;
    // Commands run in it, and examples are compiled there.
    let folder = &folder.canonicalize()?;
    let mut progress = Progress::new(chosen.iter().map(|one| one.runs.len()).sum());
    let mut failures = Vec::new();
    let mut outputs = HashMap::new();
    let runs = chosen.iter().flat_map(|one| one.runs);
    let elsewhere = runs.filter(|run| run.lacking(&dir, options) == [RDMA_DEVICE]);
    let elsewhere: BTreeSet<&'static str> = elsewhere.map(|run| run.command).collect();
    if let Some(vm) = options.vm.as_deref().filter(|_| !elsewhere.is_empty()) {
        progress.step(vm.to_owned());
        run_elsewhere(vm, &elsewhere, &library, folder, options, &mut outputs)?;
    }
    let found: Vec<&str> = outputs.keys().copied().collect();
    for one in &chosen {
        let mut values = Values::new(one.runs.len());
        for (number, run) in one.runs.iter().enumerate() {
            progress.step(format!("{}: {}", one.name, run.command));
            let (lacking, machine) = match found.contains(&run.command) {
                true => (Vec::new(), &virtual_machine),
                false => (run.lacking(&dir, options), &machine),
            };
            let library = match &instrumented {
                Some(instrumented) if run.needs.contains(&Need::Breakdown) => instrumented,
                _ => &library,
            };
            let line = match lacking.as_slice() {
                [] => match value(run, library, folder, options, &mut outputs) {
                    Ok(value) => {
                        values.set(number, &value, page.machine(machine));
                        value
                    }
                    Err(error) => {
                        failures.push(one.name);
                        format!("failed: {error}")
                    }
                },
                [RDMA_DEVICE] if options.vm.is_some() => {
                    failures.push(one.name);
                    "failed on the machine of --vm".to_owned()
                }
                lacking => format!("left out, needs {}", lacking.join(" and ")),
            };
            output::say(&format!("{:<8} {}\n         {line}", one.name, run.command));
        }
        page.set(one.name, values);
    }
    if let Some(file) = &options.page {
        page.write(file)?;
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(Error::new(format!("failed: {}", failures.join(", ")))),
    }
}

/// Prints an experiment with its commands.
fn say(one: &Experiment) {
    output::say(&format!("{:<8} {}: {}", one.name, one.place, one.shows));
    for run in one.runs {
        output::say(&format!("         {}", run.command));
    }
    if !one.lacks.is_empty() {
        output::say(&format!("         not here: {}", one.lacks));
    }
}

/// Runs a command, unless `outputs` has it, keeps its output in `folder` and returns its value.
fn value(
    run: &Run,
    library: &Library,
    folder: &Path,
    options: &ExperimentOptions,
    outputs: &mut HashMap<&'static str, String>,
) -> Result<String> {
    if !outputs.contains_key(run.command) {
        let text = output_of(run, library, folder, options)?;
        let file = folder.join(format!("{}.txt", run.command.replace(' ', "_")));
        fs::write(file, &text)?;
        outputs.insert(run.command, text);
    }
    let text = outputs.get(run.command).map_or("", String::as_str);
    let found = run.summary.of(text);
    found.ok_or_else(|| Error::new(format!("the output lacks the value: {}", text.trim())))
}

/// Runs commands by one call of `vm`, and adds the outputs of those that succeed.
fn run_elsewhere(
    vm: &str,
    commands: &BTreeSet<&'static str>,
    library: &Library,
    folder: &Path,
    options: &ExperimentOptions,
    outputs: &mut HashMap<&'static str, String>,
) -> Result<()> {
    let mut script = OsString::new();
    for command in commands {
        script.push("printf '\\036'; timeout ");
        script.push(options.timeout.to_string());
        for word in words(command, library, folder, options)? {
            script.push(" '");
            script.push(word);
            script.push("'");
        }
        script.push(" 2>&1 && printf '\\037'\n");
    }
    let mut all = vm.split_whitespace();
    let mut command = Command::new(all.next().unwrap_or_default());
    command
        .args(all)
        .args(["sh", "-c"])
        .arg(script)
        .envs(library.env.iter().map(|(name, value)| (name, value)));
    let limit = Duration::from_secs(options.timeout * (1 + commands.len() as u64));
    let ended = process::run(&mut command, limit)?;
    let text = &ended.stdout;
    for (command, text) in commands.iter().zip(text.split('\x1e').skip(1)) {
        match text.trim_end().strip_suffix('\x1f') {
            Some(text) => drop(outputs.insert(command, text.to_owned())),
            None => output::complain(&format!("{vm}: {command} failed: {}", text.trim())),
        }
    }
    match outputs.is_empty() {
        true => Err(Error::new(format!("{vm}: {:?}", ended.failure))),
        false => Ok(()),
    }
}

/// Returns the words of a command, with the paths of programs.
fn words(
    command: &str,
    library: &Library,
    folder: &Path,
    options: &ExperimentOptions,
) -> Result<Vec<OsString>> {
    let this = this_program()?;
    let mut words = Vec::new();
    for word in command.split(' ') {
        words.push(match word {
            "osu-bench" => this.clone().into_os_string(),
            "mpiexec" => library.launcher.clone().into_os_string(),
            INTEL => {
                let dir = options.intel.clone().unwrap_or_default();
                dir.canonicalize()?.into_os_string()
            }
            word => match EXAMPLES.iter().find(|one| one.0 == word) {
                Some(one) => loops::compile(&library.dir, &library.env, *one, folder)?.into(),
                None => OsString::from(word),
            },
        });
    }
    Ok(words)
}

/// Runs a command and returns its output.
fn output_of(
    run: &Run,
    library: &Library,
    folder: &Path,
    options: &ExperimentOptions,
) -> Result<String> {
    let mut words = words(run.command, library, folder, options)?.into_iter();
    let program = words
        .next()
        .ok_or_else(|| Error::new("internal error: an empty command"))?;
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(folder)
        .envs(library.env.iter().map(|(name, value)| (name, value)));
    let limit = Duration::from_secs(options.timeout);
    process::successful(&mut command, limit, run.command)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    const PAGE: &str = include_str!("../../../docs/experiments.md");

    #[test]
    fn every_command_exists() {
        for one in table::EXPERIMENTS {
            for run in one.runs {
                let words = run.command.split(' ').take_while(|word| *word != ":");
                let words: Vec<&str> = words.collect();
                let is_example = |word: &&str| EXAMPLES.iter().any(|one| one.0 == *word);
                if words
                    .iter()
                    .take_while(|word| **word != "osu-bench")
                    .any(is_example)
                {
                    continue;
                }
                let start = words.iter().position(|word| *word == "osu-bench");
                let start = start.unwrap_or_else(|| panic!("{}: no osu-bench", run.command));
                assert!(start == 0 || words[0] == "mpiexec", "{}", run.command);
                if let Err(error) = crate::Cli::try_parse_from(&words[start..]) {
                    panic!("{}: {error}", run.command);
                }
            }
        }
        assert!(
            crate::Cli::command()
                .find_subcommand("experiments")
                .is_some()
        );
    }

    #[test]
    fn other_libraries_are_given_by_options() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: ExperimentOptions,
        }
        let options = |words: &[&str]| {
            let words = ["experiments"].iter().chain(words);
            Only::try_parse_from(words).unwrap().options
        };
        let folder = tempfile::tempdir().unwrap();
        let (dir, other) = (folder.path(), Path::new("/no-such-folder"));
        let library = b"symbols: \0weft_breakdown\0";
        fs::write(dir.join("libmpi.so.12"), library).unwrap();
        let name = dir.to_str().unwrap();
        for (need, option) in [(Need::Breakdown, "--breakdown"), (Need::Intel, "--intel")] {
            assert!(need.lacking(other, &options(&[])).is_some());
            assert_eq!(need.lacking(other, &options(&[option, name])), None);
        }
        assert!(Need::Breakdown.lacking(dir, &options(&[])).is_none());
    }

    #[test]
    fn names_are_unique_and_rows_whole() {
        let mut names: Vec<&str> = table::EXPERIMENTS.iter().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table::EXPERIMENTS.len());
        for one in table::EXPERIMENTS {
            assert!(
                !one.runs.is_empty() || !one.lacks.is_empty(),
                "{} neither runs nor says why not",
                one.name
            );
            let cells = [one.place, one.shows, one.seed, one.lacks];
            assert!(cells.iter().all(|cell| !cell.contains('|')), "{}", one.name);
        }
    }

    #[test]
    fn the_page_is_that_of_the_table() {
        let page = Page::parse(PAGE).unwrap();
        assert_eq!(
            page.text(),
            PAGE,
            "run osu-bench experiments --list --page docs/experiments.md"
        );
    }
}
