//! The results of a comparison, as a Markdown table and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::bench::{Name, Unit};
use crate::library::Library;
use crate::stats::Summary;

use super::line::{Distance, LineRange};

/// All measurements of one benchmark and size while the cores were equally far from each other, per
/// side.
pub struct Cell {
    /// The benchmark.
    pub bench: Name,
    /// Bytes; 0 if the benchmark has no sizes.
    pub size: usize,
    /// Distance of the cores; `None` if it was not measured, or there is one core only.
    pub distance: Option<Distance>,
    /// Whether values of several distances are among these, since no distance has values of all
    /// sides. They are shown, and compared with nothing.
    pub is_mixed: bool,
    /// One list of values per side.
    pub values: Vec<Vec<f64>>,
}

/// A value with the distance of the cores before and after it.
pub type Placed = (Option<Distance>, f64);

/// Fewest values of each side with which a distance of the cores is a row of its own, if most were
/// measured at another.
const FEWEST: usize = 3;

impl Cell {
    /// Splits the values of a benchmark and size by the distance of the cores: first the distance
    /// with most values of each side, then others with enough values. Values of different distances
    /// are never compared.
    pub fn split(bench: Name, size: usize, sides: &[Vec<Placed>]) -> Vec<Cell> {
        let distances: BTreeSet<_> = sides
            .iter()
            .flatten()
            .map(|(distance, _)| *distance)
            .collect();
        let measured = || sides.iter().filter(|all| !all.is_empty());
        let fewest = |distance: Option<Distance>| {
            let count =
                |side: &Vec<Placed>| side.iter().filter(|(there, _)| *there == distance).count();
            (
                measured().map(count).min(),
                measured().map(count).sum::<usize>(),
            )
        };
        let most = distances
            .iter()
            .copied()
            .max_by_key(|distance| fewest(*distance));
        let most = most.unwrap_or_default();
        let at = |distance: Option<Distance>| {
            let values = sides.iter().map(|side| {
                let own = side.iter().filter(|(there, _)| *there == distance);
                own.map(|(_, value)| *value).collect()
            });
            Cell {
                bench,
                size,
                distance,
                is_mixed: false,
                values: values.collect(),
            }
        };
        if fewest(most).0 == Some(0) {
            let values = |side: &Vec<Placed>| side.iter().map(|(_, value)| *value).collect();
            return vec![Cell {
                is_mixed: true,
                values: sides.iter().map(values).collect(),
                ..at(None)
            }];
        }
        let has_enough = |distance: &Option<Distance>| fewest(*distance).0 >= Some(FEWEST);
        let others = distances
            .iter()
            .copied()
            .filter(|distance| *distance != most);
        let others = others.filter(has_enough);
        [most].into_iter().chain(others).map(at).collect()
    }
}

/// Whether jobs ran with real-time priority, or the reason against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Not requested.
    NotAsked,
    /// `chrt` works.
    RealTime,
    /// `chrt` is missing or not permitted.
    NotPermitted,
    /// Ranks would have to share cores.
    TooManyRanks,
}

impl Priority {
    fn text(self) -> &'static str {
        match self {
            Self::NotAsked => "normal priority",
            Self::RealTime => "real-time priority",
            Self::NotPermitted => "normal priority (chrt is not permitted)",
            Self::TooManyRanks => "normal priority (more ranks than cores)",
        }
    }
}

/// The conditions of the measurement.
pub struct Conditions {
    /// Processor and cores.
    pub machine: String,
    /// Ranks per job.
    pub ranks: usize,
    /// Runs per benchmark and side.
    pub rounds: u32,
    /// Milliseconds per size and run.
    pub budget: u64,
    /// The transport.
    pub network: String,
    /// The jobs' priority.
    pub priority: Priority,
    /// Whether ranks were bound to cores.
    pub bound: bool,
    /// Round-trip times of a cache line between the cores.
    pub line: Option<LineRange>,
    /// Load average before and after.
    pub load: (f64, f64),
    /// The share of processor time that the hypervisor took.
    pub stolen: Option<f64>,
}

/// A whole comparison.
pub struct Report {
    /// Name and library of each side; the first is what others are measured against.
    pub sides: Vec<(String, Library)>,
    /// The measurements.
    pub cells: Vec<Cell>,
    /// Half round trips of two sockets without a library, in microseconds by bytes, where they were
    /// measured.
    pub floor: Option<Vec<(usize, f64)>>,
    /// The bandwidth of two sockets by message size.
    pub bandwidth_floor: Option<Vec<(usize, f64)>>,
    /// The failures.
    pub failures: Vec<String>,
    /// Runs that do not count, since the distance of the cores changed during them.
    pub dropped: usize,
    /// The conditions.
    pub conditions: Conditions,
}

impl Unit {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    pub(super) fn more_is_better(self) -> bool {
        self == Self::MegabytesPerSecond
    }
}

/// Formats a value with about three significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a ratio: two decimals, more for small ones, fewer for large ones.
pub(super) fn ratio(value: f64) -> String {
    match value.abs() {
        v if v >= 10.0 => number(value),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Describes `other` compared with `base`.
pub(super) fn verdict(unit: Unit, base: &Summary, other: &Summary) -> &'static str {
    if !base.apart_from(other) {
        "within noise"
    } else if (other.median > base.median) == unit.more_is_better() {
        "better"
    } else {
        "worse"
    }
}

impl Report {
    /// Formats the table, the libraries and the conditions.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        self.write_table(&mut text);
        text.push('\n');
        for (name, library) in &self.sides {
            let (dir, launcher) = (library.dir.display(), library.launcher.display());
            let _ = writeln!(
                text,
                "- {name}: {}, {dir}, launcher {launcher}",
                library.version
            );
        }
        self.write_conditions(&mut text);
        for failure in &self.failures {
            let _ = writeln!(text, "- FAILED: {}", failure.replace('\n', "\n  "));
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Formats the conditions, one per line.
    pub(super) fn circumstances(&self) -> String {
        let mut text = String::new();
        self.write_conditions(&mut text);
        text
    }

    /// Returns the distances of the cores, the one of most rows first.
    pub(super) fn distances(&self) -> Vec<Option<Distance>> {
        let mut counts: BTreeMap<Option<Distance>, usize> = BTreeMap::new();
        for cell in self
            .cells
            .iter()
            .filter(|cell| !cell.values.concat().is_empty())
        {
            *counts.entry(cell.distance).or_default() += 1;
        }
        let mut distances: Vec<_> = counts.keys().copied().collect();
        distances.sort_by_key(|distance| std::cmp::Reverse(counts[distance]));
        distances
    }

    /// Whether a row belongs to the distance at which its benchmark has most rows, which its
    /// picture shows. Of two with as many rows, that of most rows of all benchmarks. Rows without
    /// values always belong.
    pub(super) fn is_main(&self, cell: &Cell) -> bool {
        let rows_at = |distance: Option<Distance>| {
            let of_bench = self.cells.iter().filter(|other| other.bench == cell.bench);
            of_bench
                .filter(|other| other.distance == distance && !other.values.concat().is_empty())
                .count()
        };
        let distances = self.distances();
        // The last of several maxima is taken.
        let main = distances
            .iter()
            .rev()
            .copied()
            .max_by_key(|&distance| rows_at(distance));
        cell.values.concat().is_empty() || main.is_none_or(|main| main == cell.distance)
    }

    /// Returns a row's text about the distance of the cores, if rows have several distances.
    pub(super) fn distance_of(&self, cell: &Cell) -> String {
        match cell.distance {
            Some(distance) if self.distances().len() > 1 => format!(", {}", distance.text()),
            _ => String::new(),
        }
    }

    fn write_table(&self, text: &mut String) {
        let (base, others) = match self.sides.split_first() {
            Some(((base, _), others)) => (base, others),
            None => return,
        };
        let _ = write!(text, "| benchmark | bytes | unit | {base} |");
        for (name, _) in others {
            let _ = write!(text, " {name} | {name}/{base} | {name} is |");
        }
        if self.has_floor() {
            let _ = write!(text, " floor | {base}/floor |");
        }
        let _ = write!(text, "\n| --- | ---: | --- | ---: |");
        text.push_str(&" ---: | ---: | --- |".repeat(others.len()));
        if self.has_floor() {
            text.push_str(" ---: | ---: |");
        }
        text.push('\n');
        for cell in &self.cells {
            self.write_row(text, cell);
        }
    }

    fn write_row(&self, text: &mut String, cell: &Cell) {
        let Some(unit) = cell.bench.unit() else {
            return;
        };
        let size = if cell.bench.has_sizes() {
            cell.size.to_string()
        } else {
            "–".to_owned()
        };
        let distance = self.distance_of(cell);
        let _ = write!(
            text,
            "| {}{distance} | {size} | {} |",
            cell.bench.text(),
            unit.text()
        );
        let summaries: Vec<Option<Summary>> = cell
            .values
            .iter()
            .map(|values| Summary::of(values))
            .collect();
        let offers = |place: usize| {
            let loops = self.sides[place].1.loops.as_deref();
            loops.is_none_or(|loops| loops.offers(cell.bench))
        };
        let shown = |place: usize, summary: &Option<Summary>| match summary {
            Some(s) => format!("{} ±{:.0} %", number(s.median), 50.0 * s.spread()),
            None if offers(place) && !self.failures.is_empty() => "failed".to_owned(),
            None => "–".to_owned(),
        };
        let Some((base, others)) = summaries.split_first() else {
            return;
        };
        let _ = write!(text, " {} |", shown(0, base));
        for (place, other) in others.iter().enumerate() {
            let (ratio, verdict) = match (base, other) {
                (Some(base), Some(other)) if !cell.is_mixed => (
                    ratio(other.median / base.median),
                    verdict(unit, base, other),
                ),
                _ => ("–".to_owned(), "–"),
            };
            let _ = write!(text, " {} | {ratio} | {verdict} |", shown(place + 1, other));
        }
        if self.has_floor() {
            match (self.floor_of(cell), base) {
                (Some(floor), Some(base)) => {
                    let of_floor = ratio(base.median / floor);
                    let _ = write!(text, " {} | {of_floor} |", number(floor));
                }
                _ => text.push_str(" – | – |"),
            }
        }
        text.push('\n');
    }

    fn has_floor(&self) -> bool {
        self.floor.is_some() || self.bandwidth_floor.is_some()
    }

    /// What two sockets take for the same: half a round trip, or a whole one.
    fn floor_of(&self, cell: &Cell) -> Option<f64> {
        let floor = match cell.bench {
            Name::Bw => &self.bandwidth_floor,
            _ => &self.floor,
        };
        let floor = floor.as_ref()?;
        let (_, half) = floor.iter().find(|(size, _)| *size == cell.size)?;
        match cell.bench {
            Name::Latency | Name::Bw => Some(*half),
            bench if bench.is_round_trip() => Some(2.0 * half),
            _ => None,
        }
    }

    fn write_conditions(&self, text: &mut String) {
        let with = &self.conditions;
        let stolen = with
            .stolen
            .map_or("unknown".to_owned(), |s| format!("{:.1} %", 100.0 * s));
        let _ = writeln!(
            text,
            "- Machine: {}; load average {:.2} before, {:.2} after; stolen by the hypervisor \
             {stolen}",
            with.machine, with.load.0, with.load.1
        );
        let _ = writeln!(
            text,
            "- {} ranks{}, {}, {}; medians of {} alternating runs of {} ms per size, ± half the \
             distance of the quartiles; \"within noise\" when the quartile ranges overlap",
            with.ranks,
            if with.bound {
                " bound to cores"
            } else {
                " on fewer cores, not bound"
            },
            with.network,
            with.priority.text(),
            with.rounds,
            with.budget
        );
        if let Some(line) = with.line {
            let _ = writeln!(
                text,
                "- Only runs before and after which a cache line took {line} from the first core to the second and back"
            );
        }
        if let [Some(distance)] = self.distances()[..] {
            let _ = writeln!(
                text,
                "- The first two cores were {} in all runs",
                distance.text()
            );
        }
        if self.dropped > 0 {
            let _ = writeln!(
                text,
                "- {} runs do not count: the first two cores came nearer or went farther apart in them",
                self.dropped
            );
        }
        for (place, (name, _)) in self.sides.iter().enumerate() {
            if let Some((typical, worst)) = self.noise(place) {
                let _ = writeln!(
                    text,
                    "- Run-to-run variation of {name} (quartile distance / median): typically \
                     {:.1} %, at worst {:.1} %",
                    100.0 * typical,
                    100.0 * worst
                );
            }
        }
    }

    /// Returns the median and the largest spread of a side's cells.
    fn noise(&self, place: usize) -> Option<(f64, f64)> {
        let spreads: Vec<f64> = self
            .cells
            .iter()
            .filter_map(|cell| Some(Summary::of(cell.values.get(place)?)?.spread()))
            .collect();
        let worst = spreads.iter().copied().fold(0.0, f64::max);
        Some((Summary::of(&spreads)?.median, worst))
    }

    /// Formats everything, with all single values, as JSON.
    pub fn json(&self) -> Value {
        let with = &self.conditions;
        let sides: Vec<Value> = self
            .sides
            .iter()
            .map(|(name, library)| {
                json!({
                    "name": name,
                    "version": library.version,
                    "dir": library.dir.display().to_string(),
                    "launcher": library.launcher.display().to_string(),
                })
            })
            .collect();
        json!({
            "machine": with.machine,
            "ranks": with.ranks,
            "rounds": with.rounds,
            "budget_ms": with.budget,
            "network": with.network,
            "priority": with.priority.text(),
            "bound": with.bound,
            "line": with.line.map(|line| line.to_string()),
            "load": [with.load.0, with.load.1],
            "stolen": with.stolen,
            "sides": sides,
            "results": self.cells.iter().map(|cell| self.cell_json(cell)).collect::<Vec<_>>(),
            "failures": self.failures,
            "dropped": self.dropped,
        })
    }

    fn cell_json(&self, cell: &Cell) -> Value {
        let sides: Vec<Value> = self
            .sides
            .iter()
            .zip(&cell.values)
            .map(|((name, _), values)| match Summary::of(values) {
                Some(s) => json!({
                    "name": name, "median": s.median, "lower": s.lower, "upper": s.upper,
                    "values": values,
                }),
                None => json!({ "name": name, "values": [] }),
            })
            .collect();
        let unit = cell.bench.unit().map(Unit::text);
        json!({
            "bench": cell.bench.text(), "bytes": cell.size, "unit": unit, "sides": sides,
            "cores": cell.distance.map(Distance::text),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn library(version: &str) -> Library {
        Library {
            dir: PathBuf::from("/lib"),
            family: crate::library::Family::MpichOfi,
            version: version.to_owned(),
            launcher: PathBuf::from("mpiexec"),
            launcher_binds: false,
            env: Vec::new(),
            loops: None,
        }
    }

    fn report() -> Report {
        let latency = Cell {
            bench: Name::Latency,
            size: 8,
            distance: None,
            is_mixed: false,
            values: vec![vec![1.0, 1.0, 1.2], vec![0.5, 0.5, 0.5]],
        };
        let bandwidth = Cell {
            bench: Name::Bw,
            size: 1024,
            distance: None,
            is_mixed: false,
            values: vec![vec![10_000.0], vec![9_000.0]],
        };
        let barrier = Cell {
            bench: Name::Barrier,
            size: 0,
            distance: None,
            is_mixed: false,
            values: vec![vec![0.3], Vec::new()],
        };
        Report {
            floor: None,
            bandwidth_floor: None,
            sides: vec![("A".into(), library("One")), ("B".into(), library("Two"))],
            cells: vec![latency, bandwidth, barrier],
            failures: vec!["B, barrier, round 1: exit code 1".into()],
            dropped: 0,
            conditions: Conditions {
                machine: "CPU, 2 cores".into(),
                ranks: 2,
                rounds: 3,
                budget: 50,
                network: "shared memory".into(),
                priority: Priority::RealTime,
                bound: true,
                line: None,
                load: (0.5, 1.5),
                stolen: Some(0.01),
            },
        }
    }

    #[test]
    fn the_table_says_who_is_better() {
        let text = report().markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "| benchmark | bytes | unit | A | B | B/A | B is |"
        );
        assert_eq!(
            lines[2],
            "| latency | 8 | µs | 1.00 ±5 % | 0.500 ±0 % | 0.50 | better |"
        );
        assert_eq!(
            lines[3],
            "| bw | 1024 | MB/s | 10000 ±0 % | 9000 ±0 % | 0.90 | worse |"
        );
        assert_eq!(
            lines[4],
            "| barrier | – | µs | 0.300 ±0 % | failed | – | – |"
        );
        assert!(text.contains("- FAILED: B, barrier, round 1: exit code 1"));
        assert!(text.contains("load average 0.50 before, 1.50 after"));
        assert!(text.contains(
            "variation of A (quartile distance / median): typically 0.0 %, at worst 10.0 %"
        ));
    }

    #[test]
    fn values_are_compared_at_one_distance_of_the_cores() {
        use Distance::{Far, Near};
        let near = |value: f64| (Some(Near), value);
        let far = |value: f64| (Some(Far), value);
        // Over all values B would be as fast as A.
        let a = vec![
            near(1.0),
            near(1.0),
            near(1.0),
            near(1.0),
            far(3.0),
            far(3.0),
            far(3.0),
        ];
        let b = vec![
            near(1.5),
            near(1.5),
            near(1.5),
            far(2.0),
            far(2.0),
            far(2.0),
            far(2.0),
            far(2.0),
        ];
        let cells = Cell::split(Name::Latency, 8, &[a.clone(), b]);
        let distances: Vec<_> = cells.iter().map(|cell| cell.distance).collect();
        assert_eq!(distances, [Some(Far), Some(Near)]);
        let mut report = report();
        report.cells = cells;
        let text = report.markdown();
        assert!(
            text.contains("| latency, near | 8 | µs | 1.00 ±0 % | 1.50 ±0 % | 1.50 | worse |"),
            "{text}"
        );
        assert!(
            text.contains("| latency, far | 8 | µs | 3.00 ±0 % | 2.00 ±0 % | 0.67 | better |"),
            "{text}"
        );
        let apart = Cell::split(Name::Latency, 8, &[vec![near(1.0)], vec![far(2.0)]]);
        assert!(apart.len() == 1 && apart[0].is_mixed);
        report.cells = apart;
        let text = report.markdown();
        assert!(
            text.contains("| latency | 8 | µs | 1.00 ±0 % | 2.00 ±0 % | – | – |"),
            "{text}"
        );
        // Two values are too few for a row of their own.
        let few = vec![near(1.5), near(1.5), far(2.0), far(2.0), far(2.0)];
        report.cells = Cell::split(Name::Latency, 8, &[a, few]);
        report.dropped = 1;
        let text = report.markdown();
        assert!(
            text.contains("| latency | 8 | µs | 3.00 ±0 % | 2.00 ±0 % |"),
            "{text}"
        );
        assert!(
            text.contains("- The first two cores were far in all runs"),
            "{text}"
        );
        assert!(text.contains("- 1 runs do not count"), "{text}");
    }

    #[test]
    fn a_benchmark_without_rows_at_the_usual_distance_is_in_pictures() {
        let mut report = report();
        for cell in &mut report.cells {
            cell.distance = Some(Distance::Far);
        }
        let shown = |report: &Report| -> Vec<bool> {
            let cells = report.cells.iter();
            cells.map(|cell| report.is_main(cell)).collect()
        };
        report.cells[2].distance = Some(Distance::Near);
        assert_eq!(shown(&report), [true; 3]);
        // Of two distances of one benchmark, that of most rows of all.
        report.cells[1].bench = Name::Barrier;
        assert_eq!(shown(&report), [true, true, false]);
    }

    #[test]
    fn json_keeps_every_value() {
        let json = report().json();
        assert_eq!(
            json["results"][0]["sides"][0]["values"],
            json!([1.0, 1.0, 1.2])
        );
        assert_eq!(json["results"][2]["sides"][1]["median"], Value::Null);
        assert_eq!(json["failures"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn the_floor_is_a_column_of_what_it_is_under() {
        let mut report = report();
        report.floor = Some(vec![(8, 0.5)]);
        let text = report.markdown();
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("| benchmark").ends_with(" floor | A/floor |"));
        assert!(row("| latency").ends_with(" 0.500 | 2.00 |"));
        assert!(row("| bw").ends_with(" – | – |"));
        let size = report
            .cells
            .iter()
            .find(|cell| cell.bench == Name::Bw)
            .unwrap()
            .size;
        report.bandwidth_floor = Some(vec![(size, 1e9)]);
        let text = report.markdown();
        let bandwidth = text.lines().find(|line| line.starts_with("| bw")).unwrap();
        assert!(!bandwidth.ends_with(" – |"), "{bandwidth}");
        report.cells[0].bench = Name::FopLatency;
        let text = report.markdown();
        assert!(text.contains(" 1.00 | 1.00 |\n"), "{text}");
    }
}
