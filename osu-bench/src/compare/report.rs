//! The results of a comparison, as a Markdown table and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::bench::{Name, Unit};
use crate::library::Library;
use crate::stats::Summary;

use super::figure::Bar;
use super::line::{Distance, LineRange};
use super::plot::Line;

/// All measurements of one benchmark and size while the cores were equally far from each other, per
/// side.
pub struct Cell {
    /// The benchmark.
    pub bench: Name,
    /// Bytes; 0 if the benchmark has no sizes.
    pub size: usize,
    /// Distance of the cores; `None` if it was not measured, or there is one core only.
    pub distance: Option<Distance>,
    /// Whether the values are of several distances, since no distance has values of all sides. They
    /// are shown, and compared with nothing.
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
        let distances: BTreeSet<_> = sides.iter().flatten().map(|(there, _)| *there).collect();
        // The fewest values of a side, and all values.
        let counts = |distance: Option<Distance>| {
            let measured = sides.iter().filter(|all| !all.is_empty());
            let counts =
                measured.map(|side| side.iter().filter(|(there, _)| *there == distance).count());
            (counts.clone().min(), counts.sum::<usize>())
        };
        let most = distances
            .iter()
            .copied()
            .max_by_key(|distance| counts(*distance));
        let most = most.unwrap_or_default();
        let cell = |distance, is_mixed, is_in: &dyn Fn(Option<Distance>) -> bool| Cell {
            bench,
            size,
            distance,
            is_mixed,
            values: sides
                .iter()
                .map(|side| {
                    let own = side.iter().filter(|(there, _)| is_in(*there));
                    own.map(|(_, value)| *value).collect()
                })
                .collect(),
        };
        if counts(most).0 == Some(0) {
            return vec![cell(None, true, &|_| true)];
        }
        let others = distances
            .iter()
            .copied()
            .filter(|distance| *distance != most && counts(*distance).0 >= Some(FEWEST));
        let rows = [most].into_iter().chain(others);
        rows.map(|distance| cell(distance, false, &|there| there == distance))
            .collect()
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
    /// The jobs' priority, with the reason if it is not the one asked for.
    pub priority: &'static str,
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
        text += &self.circumstances();
        for failure in &self.failures {
            let _ = writeln!(text, "- FAILED: {}", failure.replace('\n', "\n  "));
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Returns the benchmarks with a number to compare, in the order of their rows.
    pub(super) fn benches(&self) -> Vec<Name> {
        let mut benches: Vec<Name> = Vec::new();
        for cell in &self.cells {
            if !benches.contains(&cell.bench) && cell.bench.unit().is_some() {
                benches.push(cell.bench);
            }
        }
        benches
    }

    /// Returns the rows of a benchmark.
    pub(super) fn cells_of(&self, bench: Name) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.bench == bench)
    }

    /// Returns the rows of a benchmark that its picture shows.
    pub(super) fn shown(&self, bench: Name) -> impl Iterator<Item = &Cell> {
        self.cells_of(bench).filter(|cell| self.is_main(cell))
    }

    /// Returns the lines of a benchmark's picture, one for each library.
    pub(super) fn lines(&self, bench: Name) -> Vec<Line> {
        let line = |(place, (name, _)): (usize, &(String, Library))| Line {
            name: name.clone(),
            points: self
                .shown(bench)
                .filter(|cell| cell.size > 0)
                .filter_map(|cell| {
                    let found = Summary::of(cell.values.get(place)?)?;
                    Some((cell.size, found.median, [found.lower, found.upper]))
                })
                .collect(),
        };
        self.sides.iter().enumerate().map(line).collect()
    }

    /// Returns the bars of a row's picture, one for each library with values.
    pub(super) fn bars(&self, cell: &Cell) -> Vec<Bar> {
        let bar = |(place, (name, _)): (usize, &(String, Library))| {
            let found = Summary::of(cell.values.get(place)?)?;
            Some(Bar {
                place,
                name: name.clone(),
                value: found.median,
                range: [found.lower, found.upper],
            })
        };
        self.sides.iter().enumerate().filter_map(bar).collect()
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

    /// Returns whether a row belongs to the distance at which its benchmark has most rows, which
    /// its picture shows. Of two with as many rows, that of most rows of all benchmarks. Rows
    /// without values always belong.
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
        let Some(((base, _), others)) = self.sides.split_first() else {
            return;
        };
        let (floor, rule) = match self.has_floor() {
            true => (format!(" floor | {base}/floor |"), " ---: | ---: |"),
            false => (String::new(), ""),
        };
        let names = others
            .iter()
            .map(|(name, _)| format!(" {name} | {name}/{base} | {name} is |"));
        let names: String = names.collect();
        let rules = " ---: | ---: | --- |".repeat(others.len());
        let _ = writeln!(text, "| benchmark | bytes | unit | {base} |{names}{floor}");
        let _ = writeln!(text, "| --- | ---: | --- | ---: |{rules}{rule}");
        for cell in &self.cells {
            self.write_row(text, cell);
        }
    }

    fn write_row(&self, text: &mut String, cell: &Cell) {
        let Some(unit) = cell.bench.unit() else {
            return;
        };
        let size = match cell.bench.has_sizes() {
            true => cell.size.to_string(),
            false => "–".to_owned(),
        };
        let (name, distance) = (cell.bench.text(), self.distance_of(cell));
        let _ = write!(text, "| {name}{distance} | {size} | {} |", unit.text());
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
            let floor = self.floor_of(cell).zip(base.as_ref()).map(|(floor, base)| {
                format!(" {} | {} |", number(floor), ratio(base.median / floor))
            });
            text.push_str(&floor.unwrap_or(" – | – |".to_owned()));
        }
        text.push('\n');
    }

    fn has_floor(&self) -> bool {
        self.floor.is_some() || self.bandwidth_floor.is_some()
    }

    /// Returns the floor of a row: half a round trip of two sockets, or a whole one.
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

    /// Formats the conditions, one per line.
    pub(super) fn circumstances(&self) -> String {
        let with = &self.conditions;
        let share = |s: f64| format!("{:.1} %", 100.0 * s);
        let stolen = with.stolen.map_or("unknown".to_owned(), share);
        let bound = match with.bound {
            true => "bound to cores",
            false => "on fewer cores, not bound",
        };
        let mut lines = vec![
            format!(
                "Machine: {}; load average {:.2} before, {:.2} after; stolen by the hypervisor {stolen}",
                with.machine, with.load.0, with.load.1
            ),
            format!(
                "{} ranks {bound}, {}, {}; medians of {} alternating runs of {} ms per size, ± half \
                 the distance of the quartiles; \"within noise\" when the quartile ranges overlap",
                with.ranks, with.network, with.priority, with.rounds, with.budget
            ),
        ];
        lines.extend(with.line.map(|line| {
            format!(
                "Only runs before and after which a cache line took {line} from the first core to the \
                 second and back"
            )
        }));
        if let [Some(distance)] = self.distances()[..] {
            let text = distance.text();
            lines.push(format!("The first two cores were {text} in all runs"));
        }
        if self.dropped > 0 {
            lines.push(format!(
                "{} runs do not count: the first two cores came nearer or went farther apart in them",
                self.dropped
            ));
        }
        for (place, (name, _)) in self.sides.iter().enumerate() {
            lines.extend(self.noise(place).map(|(typical, worst)| {
                format!(
                    "Run-to-run variation of {name} (quartile distance / median): typically {}, at \
                     worst {}",
                    share(typical),
                    share(worst)
                )
            }));
        }
        lines.iter().map(|line| format!("- {line}\n")).collect()
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
        let side = |(name, library): &(String, Library)| {
            let [dir, launcher] =
                [&library.dir, &library.launcher].map(|path| path.display().to_string());
            json!({ "name": name, "version": library.version, "dir": dir, "launcher": launcher })
        };
        let sides: Vec<Value> = self.sides.iter().map(side).collect();
        let results: Vec<Value> = self.cells.iter().map(|cell| self.cell_json(cell)).collect();
        json!({
            "machine": with.machine,
            "ranks": with.ranks,
            "rounds": with.rounds,
            "budget_ms": with.budget,
            "network": with.network,
            "priority": with.priority,
            "bound": with.bound,
            "line": with.line.map(|line| line.to_string()),
            "load": [with.load.0, with.load.1],
            "stolen": with.stolen,
            "sides": sides,
            "results": results,
            "failures": self.failures,
            "dropped": self.dropped,
        })
    }

    fn cell_json(&self, cell: &Cell) -> Value {
        let side = |((name, _), values): (&(String, Library), &Vec<f64>)| {
            Summary::of(values).map_or(json!({ "name": name, "values": [] }), |s| {
                json!({
                    "name": name, "median": s.median, "lower": s.lower, "upper": s.upper,
                    "values": values,
                })
            })
        };
        let sides: Vec<Value> = self.sides.iter().zip(&cell.values).map(side).collect();
        json!({
            "bench": cell.bench.text(), "bytes": cell.size,
            "unit": cell.bench.unit().map(Unit::text), "sides": sides,
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
        let cell = |bench, size, values: [&[f64]; 2]| Cell {
            bench,
            size,
            distance: None,
            is_mixed: false,
            values: values.map(<[f64]>::to_vec).to_vec(),
        };
        Report {
            floor: None,
            bandwidth_floor: None,
            sides: vec![("A".into(), library("One")), ("B".into(), library("Two"))],
            cells: vec![
                cell(Name::Latency, 8, [&[1.0, 1.0, 1.2], &[0.5, 0.5, 0.5]]),
                cell(Name::Bw, 1024, [&[10_000.0], &[9_000.0]]),
                cell(Name::Barrier, 0, [&[0.3], &[]]),
            ],
            failures: vec!["B, barrier, round 1: exit code 1".into()],
            dropped: 0,
            conditions: Conditions {
                machine: "CPU, 2 cores".into(),
                ranks: 2,
                rounds: 3,
                budget: 50,
                network: "shared memory".into(),
                priority: "real-time priority",
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
        let near = |count: usize, value: f64| vec![(Some(Near), value); count];
        let far = |count: usize, value: f64| vec![(Some(Far), value); count];
        // Over all values B would be as fast as A.
        let a = [near(4, 1.0), far(3, 3.0)].concat();
        let b = [near(3, 1.5), far(5, 2.0)].concat();
        let cells = Cell::split(Name::Latency, 8, &[a.clone(), b]);
        let distances: Vec<_> = cells.iter().map(|cell| cell.distance).collect();
        assert_eq!(distances, [Some(Far), Some(Near)]);
        let mut report = report();
        let mut is_in = |cells: Vec<Cell>, expected: &[&str]| {
            report.cells = cells;
            report.dropped = 1;
            let text = report.markdown();
            for part in expected {
                assert!(text.contains(part), "no {part} in {text}");
            }
        };
        is_in(
            cells,
            &[
                "| latency, near | 8 | µs | 1.00 ±0 % | 1.50 ±0 % | 1.50 | worse |",
                "| latency, far | 8 | µs | 3.00 ±0 % | 2.00 ±0 % | 0.67 | better |",
            ],
        );
        let apart = Cell::split(Name::Latency, 8, &[near(1, 1.0), far(1, 2.0)]);
        assert!(apart.len() == 1 && apart[0].is_mixed);
        is_in(
            apart,
            &["| latency | 8 | µs | 1.00 ±0 % | 2.00 ±0 % | – | – |"],
        );
        // Two values are too few for a row of their own.
        let few = [near(2, 1.5), far(3, 2.0)].concat();
        is_in(
            Cell::split(Name::Latency, 8, &[a, few]),
            &[
                "| latency | 8 | µs | 3.00 ±0 % | 2.00 ±0 % |",
                "- The first two cores were far in all runs",
                "- 1 runs do not count",
            ],
        );
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
        report.bandwidth_floor = Some(vec![(1024, 1e9)]);
        let text = report.markdown();
        let bandwidth = text.lines().find(|line| line.starts_with("| bw")).unwrap();
        assert!(!bandwidth.ends_with(" – |"), "{bandwidth}");
        report.cells[0].bench = Name::FopLatency;
        let text = report.markdown();
        assert!(text.contains(" 1.00 | 1.00 |\n"), "{text}");
    }
}
