//! The stages of a run. Each prints an estimate of the time left; a table at the end has their times.

use std::fs;
use std::time::Instant;

use super::Run;
use super::times::{Usual, clock};
use crate::Result;

/// A part of a run. The next stage runs even if it fails.
#[derive(Clone, Copy)]
pub struct Stage {
    /// The name in tables and in `tests/times.txt`.
    pub name: &'static str,
    /// The function that runs it.
    pub run: fn(&mut Run) -> Result,
}

/// The result of a stage.
pub struct Done {
    pub name: &'static str,
    /// Elapsed seconds.
    pub took: f64,
    /// CPU seconds of all processes.
    cores: f64,
    usual: Option<f64>,
    has_failed: bool,
}

/// Seconds of finished stages from which on the pace of a run is an estimate.
const PACE_AFTER: f64 = 30.0;

/// Estimates the seconds left: the usual times of the stages to come, scaled by the pace of the finished ones.
fn left(done: &[Done], usual: &Usual, run: &str, to_come: &[Stage]) -> f64 {
    let to_come = to_come.iter().filter_map(|stage| usual.of(run, stage.name));
    let known = || {
        done.iter()
            .filter_map(|done| Some((done.took, done.usual?)))
    };
    let (took, expected) = known().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let pace = if expected < PACE_AFTER {
        1.0
    } else {
        took / expected
    };
    to_come.sum::<f64>() * pace
}

/// Returns the CPU seconds of ended children of this process.
fn cores_time() -> f64 {
    // USER_HZ is 100 on all Linux targets of Rust.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// Runs stages in order and collects failures in the run.
pub fn run(stages: &[Stage], run: &mut Run, usual: &Usual) -> Vec<Done> {
    let name = run.kind.name();
    let mut done = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let left = left(&done, usual, name, &stages[index..]);
        println!(
            "xtask: [{}/{}] {}; about {} left",
            index + 1,
            stages.len(),
            stage.name,
            clock(left)
        );
        let (began, cores) = (Instant::now(), cores_time());
        let result = (stage.run)(run);
        done.push(Done {
            name: stage.name,
            took: began.elapsed().as_secs_f64(),
            cores: cores_time() - cores,
            usual: usual.of(name, stage.name),
            has_failed: result.is_err(),
        });
        if let Err(error) = result {
            eprintln!("xtask: *** FAILED: {error}");
            run.failures.push(error);
        }
    }
    done
}

/// Formats the table of the stages.
pub fn table(done: &[Done]) -> String {
    let mut text = format!(
        "{:<32} {:>7} {:>7} {:>7}\n",
        "stage", "took", "usual", "cores"
    );
    let row = |name: &str, took: f64, usual: Option<f64>, cores: f64, end: &str| {
        let usual = usual.map_or("-".to_owned(), clock);
        format!(
            "{name:<32} {:>7} {usual:>7} {:>7}{end}\n",
            clock(took),
            clock(cores)
        )
    };
    for one in done {
        let end = if one.has_failed { "  FAILED" } else { "" };
        text += &row(one.name, one.took, one.usual, one.cores, end);
    }
    let sum = |of: fn(&Done) -> f64| done.iter().map(of).sum::<f64>();
    let usual = sum(|one| one.usual.unwrap_or(0.0));
    text + &row(
        "all",
        sum(|one| one.took),
        Some(usual),
        sum(|one| one.cores),
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn done(name: &'static str, took: f64, usual: Option<f64>) -> Done {
        Done {
            name,
            took,
            cores: 2.0 * took,
            usual,
            has_failed: name == "bad",
        }
    }

    #[test]
    fn stages_go_on_after_a_failure() {
        const STAGES: &[Stage] = &[
            Stage {
                name: "bad",
                run: |_| Err("wrong".to_owned()),
            },
            Stage {
                name: "good",
                run: |run| {
                    run.left_out.push("that".to_owned());
                    Ok(())
                },
            },
        ];
        let mut made = Run::new(Kind::Short).unwrap();
        let done = super::run(STAGES, &mut made, &Usual::default());
        assert_eq!(made.failures, ["wrong"]);
        assert_eq!(made.left_out, ["that"]);
        assert_eq!(done.len(), 2);
        let table = table(&done);
        assert!(
            table
                .lines()
                .any(|line| line.starts_with("bad ") && line.ends_with("FAILED"))
        );
    }

    #[test]
    fn what_is_left_goes_by_the_pace() {
        let usual = Usual::load().unwrap();
        let name = Kind::Short.name();
        let stages = super::super::stages::SHORT;
        let all = left(&[], &usual, name, stages);
        assert!(all > 100.0);
        let slow = [done("first", 120.0, Some(60.0)), done("new", 5.0, None)];
        assert_eq!(left(&slow, &usual, name, stages), 2.0 * all);
        let text = table(&slow);
        assert!(text.ends_with("2:05    1:00    4:10\n"), "{text}");
    }
}
