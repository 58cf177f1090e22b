//! A job that runs one benchmark of this program under a library.

use std::process::Command;
use std::time::Duration;

use crate::bench::{self, Name};
use crate::error::Result;
use crate::find::this_program;
use crate::library::Library;
use crate::{output, process};

/// A benchmark, its sizes, and how long it may take.
pub struct Job<'a> {
    pub bench: Name,
    /// Message sizes in bytes; ignored by a benchmark without sizes.
    pub sizes: &'a [usize],
    pub ranks: usize,
    /// Measuring time per size, in milliseconds.
    pub budget: u64,
    /// Time limit.
    pub timeout: Duration,
}

impl Job<'_> {
    /// Adds the program of a rank and its arguments to a launcher's command.
    pub fn add_rank(&self, library: &Library, command: &mut Command) -> Result<()> {
        let program = match &library.loops {
            Some(loops) => loops.program(),
            None => this_program()?,
        };
        command.arg(program).arg(self.bench.text());
        command
            .args(["--precision", "4", "--budget"])
            .arg(self.budget.to_string());
        if self.bench.has_sizes() {
            let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
            command.arg("--sizes").arg(sizes.join(","));
        }
        Ok(())
    }

    /// Starts a job of equal ranks by the library's launcher, and returns what
    /// [`Job::values`] does.
    pub fn run(
        &self,
        library: &Library,
        launcher_options: &[&str],
    ) -> Result<std::result::Result<Vec<f64>, String>> {
        let mut command = library.launch(self.ranks, 1, false);
        command
            .args(launcher_options)
            .arg("-n")
            .arg(self.ranks.to_string());
        self.add_rank(library, &mut command)?;
        self.values(&mut command)
    }

    /// Runs a job's command. Returns a value per size (one for a benchmark without sizes), or why
    /// there are none.
    pub fn values(&self, command: &mut Command) -> Result<std::result::Result<Vec<f64>, String>> {
        let finished = process::run(command, self.timeout)?;
        if let Some(failure) = finished.failure {
            return Ok(Err(failure));
        }
        let text = &finished.stdout;
        let found = match self.bench {
            Name::Init => bench::parse_init(text)
                .map(|value| (0, value))
                .into_iter()
                .collect(),
            _ => output::parse(text),
        };
        let value = |size: &usize| {
            let row = found.iter().find(|(known, _)| known == size);
            row.map(|(_, value)| *value)
        };
        let values: Option<Vec<f64>> = match self.bench.has_sizes() {
            true => self.sizes.iter().map(value).collect(),
            false => found.first().map(|(_, value)| vec![*value]),
        };
        Ok(values.ok_or_else(|| {
            format!(
                "the output lacks some values: {}",
                text.trim().replace('\n', " / ")
            )
        }))
    }
}
