//! `cargo xtask test`: a short run for every change, the full run before a merge, and tests by name.

pub mod needs;
mod smallest;
mod stage;
mod stages;
mod times;
pub mod units;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use weft_needs::{ANY, RECORD, VARIABLE};

use crate::beside::Beside;
use crate::install::BUILT;
use crate::{Result, workspace};
use times::Usual;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Run only the tests of these crates and of programs in tests/c and tests/f whose names contain
    /// these words.
    names: Vec<String>,
    /// Run all tests that must pass before a merge; as root, installs the Debian packages that they
    /// need.
    ///
    /// Fails at its start if this machine lacks something that WEFT_TEST_ALLOW_SKIP does not name.
    #[arg(long, conflicts_with = "names")]
    full: bool,
    /// Only install the packages that --full needs, and print what is lacking.
    #[arg(long, requires = "full")]
    prepare: bool,
    /// Run only the build and these stages, named as in the table at the end of a run.
    #[arg(long = "stage", value_name = "STAGE", conflicts_with_all = ["names", "record"])]
    stages: Vec<String>,
    /// Write the times of this run's stages to tests/times.txt. Needs a quiet machine and an empty
    /// target folder.
    #[arg(long, conflicts_with = "names")]
    record: bool,
}

/// The stages to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The stages for every change: needs a C compiler, and skips tests whose needs this machine lacks.
    Short,
    /// All stages.
    Full,
}

impl Kind {
    /// The name in `tests/times.txt`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Short => "short",
            Kind::Full => "full",
        }
    }
}

/// Rows of the table of slow programs.
const SLOWEST: usize = 30;

/// A run and its results so far.
pub struct Run {
    kind: Kind,
    failures: Vec<String>,
    /// The skipped parts with their reasons.
    left_out: Vec<String>,
    /// Seconds and names of programs and of executables with tests.
    programs: units::Times,
    /// The tests in the virtual machine, once they have begun.
    rdma: Option<Beside>,
    /// The executables with tests, once they are built.
    units: Vec<units::Executable>,
    /// The folder of logs and of the files that tests write to.
    folder: PathBuf,
}

impl Run {
    fn new(kind: Kind) -> Result<Run> {
        // Tests of this program make several at a time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-run-{}-{count}", std::process::id());
        let folder = workspace::target()?.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Run {
            kind,
            failures: Vec::new(),
            left_out: Vec::new(),
            programs: Vec::new(),
            rdma: None,
            units: Vec::new(),
            folder,
        })
    }

    /// Sets the variables for the tests of this run.
    fn equip(&self, command: &mut Command) {
        command.env(RECORD, self.folder.join("left-out"));
        command.env("WEFT_TEST_TIMES", self.folder.join("times"));
        command.env(BUILT, "1");
        if self.kind == Kind::Short {
            command.env(VARIABLE, ANY).env("WEFT_TEST_SHORT", "1");
        }
    }

    /// Sets the variables for tests by name, which skip what the machine lacks unless
    /// WEFT_TEST_ALLOW_SKIP says what may be skipped.
    fn equip_named(&self, command: &mut Command) {
        command.env(RECORD, self.folder.join("left-out"));
        if env::var_os(VARIABLE).is_none() {
            command.env(VARIABLE, ANY);
        }
    }

    /// Notes that this machine can't do a part of the run. Fails in the full run if `need` may not be
    /// skipped.
    fn leave_out(&mut self, need: &str, why: &str) -> Result {
        self.leave_out_if(weft_needs::is_optional(need), need, why)
    }

    fn leave_out_if(&mut self, is_optional: bool, need: &str, why: &str) -> Result {
        if self.kind == Kind::Full && !is_optional {
            return Err(format!("{why}. To run without it: {VARIABLE}={need}"));
        }
        self.left_out.push(format!("{need}: {why}"));
        Ok(())
    }

    /// Reads the times that programs have written since the last call.
    fn take_times(&mut self) {
        let path = self.folder.join("times");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        let line = |line: &str| {
            let (seconds, name) = line.split_once('\t')?;
            Some((seconds.parse().ok()?, name.to_owned()))
        };
        self.programs.extend(text.lines().filter_map(line));
    }

    /// Prints what was skipped.
    fn print_left_out(&self) {
        for line in self.left_out.iter().chain(&self.skipped()) {
            eprintln!("xtask: *** LEFT OUT: {line}");
        }
    }

    /// Returns the skipped tests as a line per need.
    fn skipped(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("left-out")).unwrap_or_default();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            *counts
                .entry(line.split('\t').next().unwrap_or(line))
                .or_default() += 1;
        }
        let line = |(name, count): (&str, usize)| {
            let need = weft_needs::ALL.iter().find(|need| need.name == name);
            let why = need.map_or(name.to_owned(), |need| need.explain());
            format!("{count} tests for lack of {why}")
        };
        counts.into_iter().map(line).collect()
    }

    /// Formats the slowest programs as a table.
    fn slowest(&mut self) -> String {
        self.programs
            .sort_by(|one, other| other.0.total_cmp(&one.0));
        let shown = self.programs.iter().take(SLOWEST);
        let mut text = format!(
            "the slowest of {} programs, in seconds\n",
            self.programs.len()
        );
        text.extend(shown.map(|(seconds, name)| format!("{seconds:8.2}  {name}\n")));
        text
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs the tests that the options name.
pub fn run(options: &Options) -> Result {
    if !options.names.is_empty() {
        let run = Run::new(Kind::Short)?;
        let result = stages::named(&run, &options.names);
        run.print_left_out();
        return result;
    }
    let kind = match options.full {
        true => Kind::Full,
        false => Kind::Short,
    };
    let mut run = Run::new(kind)?;
    match kind {
        Kind::Short => needs::compiler()?,
        Kind::Full => run.left_out = needs::prepare()?,
    }
    if options.prepare {
        return Ok(());
    }
    let usual = Usual::load()?;
    let stages = match kind {
        Kind::Short => stages::SHORT,
        Kind::Full => stages::FULL,
    };
    let stages = stages::chosen(stages, &options.stages)?;
    let done = stage::run(&stages, &mut run, &usual);
    println!("\n{}\n{}", stage::table(&done), run.slowest());
    run.print_left_out();
    if !run.failures.is_empty() {
        return Err(format!("what failed:\n{}", run.failures.join("\n")));
    }
    if options.record {
        let times: Vec<_> = done.iter().map(|one| (one.name, one.took)).collect();
        usual.record(kind.name(), &times)?;
    }
    println!(
        "xtask: all tests of the {} run that ran have passed",
        kind.name()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted() {
        let run = Run::new(Kind::Short).unwrap();
        let text = "namespaces\ta\nnamespaces\tb\nnowhere\tc\n";
        fs::write(run.folder.join("left-out"), text).unwrap();
        let skipped = run.skipped();
        assert!(
            skipped[0].starts_with("2 tests for lack of namespaces: "),
            "{skipped:?}"
        );
        assert_eq!(skipped[1], "1 tests for lack of nowhere");
        assert_eq!(skipped.len(), 2);
    }

    #[test]
    fn times_of_programs_are_read_once() {
        let mut run = Run::new(Kind::Short).unwrap();
        fs::write(
            run.folder.join("times"),
            "1.50\tfast/shm/2\n20.00\tslow/tcp/2\n",
        )
        .unwrap();
        run.take_times();
        run.take_times();
        let table = run.slowest();
        assert!(
            table.ends_with("   20.00  slow/tcp/2\n    1.50  fast/shm/2\n"),
            "{table}"
        );
    }

    #[test]
    fn only_the_full_run_insists() {
        for (kind, is_optional, passes) in [
            (Kind::Short, false, true),
            (Kind::Full, true, true),
            (Kind::Full, false, false),
        ] {
            let mut run = Run::new(kind).unwrap();
            let result = run.leave_out_if(is_optional, "namespaces", "they can't be made");
            assert_eq!(result.is_ok(), passes);
            assert_eq!(run.left_out.len(), usize::from(passes));
        }
    }
}
