//! Runs commands with a time limit and holds their results.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::program::Case;

/// The result of a command.
pub struct Outcome {
    status: Option<ExitStatus>,
    out: String,
    err: String,
    took: Duration,
    /// Seconds since 1970.
    ended: f64,
}

impl Outcome {
    /// Runs a command to its end and kills it after `limit`.
    pub fn of(command: &mut Command, limit: Duration) -> Result<Outcome> {
        Self::reading(command, Stdio::null(), limit)
    }

    /// Runs a command with data on its standard input and kills it after `limit`.
    pub fn reading(command: &mut Command, input: Stdio, limit: Duration) -> Result<Outcome> {
        let began = Instant::now();
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?} can't be run: {error}"))?;
        let out = collect(child.stdout.take());
        let err = collect(child.stderr.take());
        let mut nap = Duration::from_millis(1);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if began.elapsed() < limit => thread::sleep(nap),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
            }
            nap = (nap * 2).min(Duration::from_millis(20));
        };
        let took = began.elapsed();
        let ended = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        Ok(Outcome {
            status,
            out: text(out),
            err: text(err),
            took,
            ended,
        })
    }

    /// Returns its exit code, unless it was killed.
    pub fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    /// Returns its standard output.
    pub fn stdout(&self) -> &str {
        &self.out
    }

    /// Returns its standard error.
    pub fn stderr(&self) -> &str {
        &self.err
    }

    /// Returns the seconds from the time that the program printed to its end.
    fn since_told(&self) -> Option<f64> {
        let (_, told) = self.out.rsplit_once("at ")?;
        let told: f64 = told.split_whitespace().next()?.parse().ok()?;
        Some(self.ended - told)
    }

    /// Compares with the expected result.
    pub fn judge(&self, case: &Case, leftovers: &[String]) -> Result {
        let mut wrong = Vec::new();
        match self.status {
            None => wrong.push("it did not end in time and was killed".to_owned()),
            Some(status) if status.code() != Some(case.exit) => {
                wrong.push(format!(
                    "it ended with {status}, expected was exit code {}",
                    case.exit
                ));
            }
            Some(_) => {}
        }
        for (name, text, expected) in [
            ("stdout", &self.out, &case.stdout),
            ("stderr", &self.err, &case.stderr),
        ] {
            if expected.is_empty() && !text.is_empty() && case.ends.is_none() {
                wrong.push(format!("{name} was expected to be empty"));
            }
            for part in expected.iter().filter(|part| !text.contains(*part)) {
                wrong.push(format!("{name} lacks {part:?}"));
            }
        }
        if let Some(limit) = case.ends {
            match self.since_told() {
                Some(took) if took <= crate::patience(limit).as_secs_f64() => {}
                Some(took) => wrong.push(format!("it ended only {took:.2} s later")),
                None => wrong.push("stdout tells no moment".to_owned()),
            }
        }
        if !leftovers.is_empty() {
            wrong.push(format!("it left behind: {}", leftovers.join(", ")));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let Outcome { out, err, took, .. } = self;
        let wrong = wrong.join("\n  ");
        Err(format!(
            "  {wrong}\nafter {took:.2?}\n--- stdout:\n{out}--- stderr:\n{err}---"
        ))
    }
}

type Collector = Option<JoinHandle<Vec<u8>>>;

fn collect(from: Option<impl Read + Send + 'static>) -> Collector {
    let mut from = from?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    }))
}

fn text(collector: Collector) -> String {
    let bytes = collector
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
