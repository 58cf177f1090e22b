//! Tasks that use one core only and run in the background of a run.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::failing::{self, Failing};
use crate::{Result, workspace};

/// A running background task. Its output is shown at its end, so that it does not mix with others.
pub struct Beside {
    task: &'static str,
    child: Child,
    begun: Instant,
    output: PathBuf,
}

impl Beside {
    /// Starts `cargo xtask TASK` with the settings that `equip` adds to the command.
    pub fn start(task: &'static str, equip: impl FnOnce(&mut Command)) -> Result<Beside> {
        let output = workspace::target()?.join(format!("{task}.log"));
        let failed = |error: std::io::Error| format!("{}: {error}", output.display());
        let file = File::create(&output).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        // Cargo starts it, since earlier checks may have rebuilt xtask and replaced this executable.
        let mut command = workspace::cargo();
        equip(&mut command);
        let child = command
            .args(["xtask", task])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cargo xtask {task} can't be started: {error}"))?;
        println!("xtask: {task} has begun in the background");
        Ok(Beside {
            task,
            child,
            begun: Instant::now(),
            output,
        })
    }

    /// Waits for the task's end and shows its output.
    pub fn end(mut self) -> Result {
        let (task, path) = (self.task, self.output.display());
        let status = self.child.wait();
        let output = fs::read(&self.output).map_err(|error| format!("{path}: {error}"))?;
        println!("xtask: output of {task}:");
        let output = String::from_utf8_lossy(&output);
        println!("{output}");
        let took = self.begun.elapsed().as_secs();
        println!("xtask: {task}: took {took} s in the background");
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let failing = failing::said(&Failing::of(&output));
                Err(format!("cargo xtask {task} ended with {status}{failing}"))
            }
            Err(error) => Err(format!("cargo xtask {task}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_runs_beside_and_its_failure_is_told() {
        assert_eq!(Beside::start("help", |_| ()).and_then(Beside::end), Ok(()));
        let failed = Beside::start("no-such-task", |_| ()).and_then(Beside::end);
        assert!(failed.is_err_and(|error| error.contains("cargo xtask no-such-task ended")));
    }
}
