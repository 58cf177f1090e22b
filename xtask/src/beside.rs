//! Tasks that run beside others, since they use one core only.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::failing::{self, Failing};
use crate::{Result, workspace};

/// A task that is running. What it prints is shown when it has ended, so that it doesn't mix with others'.
pub struct Beside {
    task: &'static str,
    child: Child,
    begun: Instant,
    output: PathBuf,
}

impl Beside {
    /// Starts `cargo xtask TASK`, with what `equip` adds to the command.
    pub fn start(task: &'static str, equip: impl FnOnce(&mut Command)) -> Result<Beside> {
        let output = workspace::target()?.join(format!("{task}.log"));
        let failed = |error: std::io::Error| format!("{}: {error}", output.display());
        let file = File::create(&output).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        // Not by its own path: the checks before may have built it anew, and this one is gone.
        let mut command = workspace::cargo();
        equip(&mut command);
        let child = command
            .args(["xtask", task])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cargo xtask {task} can't be started: {error}"))?;
        println!("xtask: {task} has begun, beside what follows");
        Ok(Beside {
            task,
            child,
            begun: Instant::now(),
            output,
        })
    }

    /// Waits for its end, and shows what it has printed.
    pub fn end(mut self) -> Result {
        let (task, path) = (self.task, self.output.display());
        let status = self.child.wait();
        let output = fs::read(&self.output).map_err(|error| format!("{path}: {error}"))?;
        println!("xtask: what {task} has printed:");
        let output = String::from_utf8_lossy(&output);
        println!("{output}");
        let took = self.begun.elapsed().as_secs();
        println!("xtask: {task}: took {took} s, beside others");
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
