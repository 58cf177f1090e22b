//! The usual times of stages in `tests/times.txt`, for the estimate of the time left and for limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::{Result, workspace};

/// Seconds that stages take on a quiet machine with two cores and an empty target folder.
#[derive(Debug, Default)]
pub struct Usual(BTreeMap<String, f64>);

fn path() -> PathBuf {
    workspace::root().join("tests/times.txt")
}

/// The name of a stage in the file.
fn key(run: &str, stage: &str) -> String {
    format!("{run}, {stage}")
}

impl Usual {
    /// Reads the file.
    pub fn load() -> Result<Usual> {
        let path = path();
        let text = fs::read_to_string(&path);
        Usual::parse(&text.map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Parses lines `run, stage: seconds`; lines with `#` are comments.
    fn parse(text: &str) -> Result<Usual> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let entry = |line: &str| {
            let entry = line.rsplit_once(": ");
            let entry =
                entry.and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
            entry.ok_or_else(|| format!("tests/times.txt: '{line}' is not 'run, stage: seconds'"))
        };
        lines.map(entry).collect::<Result<_>>().map(Usual)
    }

    /// Returns the seconds of a stage, or `None` if the file lacks it.
    pub fn of(&self, run: &str, stage: &str) -> Option<f64> {
        self.0.get(&key(run, stage)).copied()
    }

    /// Writes the file with the stages of one run replaced.
    pub fn record(mut self, run: &str, stages: &[(&str, f64)]) -> Result {
        let path = path();
        let old = fs::read_to_string(&path).unwrap_or_default();
        let comments = old.lines().take_while(|line| line.starts_with('#'));
        let mut text: String = comments.map(|line| format!("{line}\n")).collect();
        self.0
            .retain(|name, _| !name.starts_with(&format!("{run}, ")));
        let new = stages
            .iter()
            .map(|(stage, seconds)| (key(run, stage), seconds.ceil()));
        self.0.extend(new);
        for (name, seconds) in &self.0 {
            text += &format!("{name}: {seconds}\n");
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Formats minutes and seconds.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::stages::{FULL, SHORT};
    use super::super::{Kind, stage::Stage};
    use super::*;

    /// Returns the limit of a run in seconds, on two quiet cores and from an empty target folder.
    fn budget(kind: Kind) -> f64 {
        match kind {
            Kind::Short => 600.0,
            // 30 minutes, plus the fuzz targets, whose time is fixed.
            Kind::Full => 1800.0 + 150.0,
        }
    }

    fn check(kind: Kind, stages: &[Stage], share: f64) {
        let usual = Usual::load().unwrap();
        let of = |stage: &Stage| {
            let seconds = usual.of(kind.name(), stage.name);
            seconds.unwrap_or_else(|| {
                panic!("tests/times.txt lacks '{}, {}'", kind.name(), stage.name)
            })
        };
        let budget = budget(kind);
        for stage in stages {
            let seconds = of(stage);
            let most = budget * share;
            assert!(
                seconds <= most,
                "{}: {seconds} s, above {most} s",
                stage.name
            );
        }
        let all: f64 = stages.iter().map(of).sum();
        assert!(
            all <= budget,
            "the {} run: {all} s, above {budget} s",
            kind.name()
        );
    }

    #[test]
    fn no_stage_of_the_short_run_takes_more_than_a_third() {
        check(Kind::Short, SHORT, 1.0 / 3.0);
    }

    #[test]
    fn the_full_run_keeps_to_its_budget() {
        check(Kind::Full, FULL, 0.5);
    }

    #[test]
    fn recorded_times_are_those_of_stages() {
        let all = [(Kind::Short, SHORT), (Kind::Full, FULL)];
        let known = all.into_iter().flat_map(|(kind, stages)| {
            let name = move |stage: &Stage| key(kind.name(), stage.name);
            stages.iter().map(name)
        });
        let known: Vec<String> = known.collect();
        let usual = Usual::load().unwrap();
        let unknown: Vec<_> = usual
            .0
            .keys()
            .filter(|name| !known.contains(name))
            .collect();
        assert!(
            unknown.is_empty(),
            "tests/times.txt names no stages by {unknown:?}"
        );
    }

    #[test]
    fn times_are_read_and_shown() {
        let usual = Usual::parse("# text\nshort, build: 150\n").unwrap();
        assert_eq!(usual.of("short", "build"), Some(150.0));
        assert_eq!(usual.of("full", "build"), None);
        assert!(Usual::parse("short build 150").is_err());
        assert_eq!(clock(125.4), "2:05");
    }
}
