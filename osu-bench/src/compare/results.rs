//! A comparison as a Markdown page: a summary of the first library's ratios, then a table and a
//! picture per benchmark.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::plot::{Line, bytes};
use super::report::{Report, number, ratio};
use super::standing::{Against, Standing, against};
use super::{figure, overview};
use crate::bench::Name;
use crate::error::{Error, Result};
use crate::stats::Summary;

/// Writes the page, and beside it a picture of each benchmark, `FILE-latency.svg` for `FILE.md`,
/// and `FILE.svg` of all. `command` is what was typed. Returns how many pictures there are.
pub fn write(report: &Report, path: &Path, command: &str) -> Result<usize> {
    let put = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let benches = report.benches();
    let mut text = format!("# {} beside other MPI libraries\n\n", first(report));
    summary(&mut text, report, &benches);
    let mut pictures = 0;
    for &bench in &benches {
        let name = format!("{stem}-{}.svg", bench.text());
        let picture = picture(report, bench);
        if let Some(picture) = &picture {
            put(&path.with_file_name(&name), picture)?;
            pictures += 1;
        }
        one(&mut text, report, bench, picture.map(|_| name).as_deref());
    }
    measured(&mut text, report, command);
    if let Some(picture) = overview::svg(&text) {
        put(&path.with_extension("svg"), &picture)?;
        pictures += 1;
        let image = format!("![where {} stands]({stem}.svg)\n\n## ", first(report));
        text = text.replacen("## ", &image, 1);
    }
    put(path, &text)?;
    Ok(pictures)
}

fn first(report: &Report) -> &str {
    report.sides.first().map_or("", |(name, _)| name)
}

/// The results of the first library in a benchmark, by size.
type Standings = Vec<(usize, Against)>;

/// Formats the summary, at most ten lines.
fn summary(text: &mut String, report: &Report, benches: &[Name]) {
    let standings = |bench: &Name| -> (Name, Standings) {
        let cells = report.cells_of(*bench);
        let points = cells.filter_map(|cell| Some((cell.size, against(report, cell)?)));
        (*bench, points.collect())
    };
    let all: Vec<(Name, Standings)> = benches.iter().map(standings).collect();
    let (name, distances) = (first(report), report.distances());
    for distance in &distances {
        let cells = report
            .cells
            .iter()
            .filter(|cell| cell.distance == *distance);
        let points: Vec<Against> = cells.filter_map(|cell| against(report, cell)).collect();
        let count = |standing| points.iter().filter(|one| one.standing == standing).count();
        let [ahead, behind, equal] =
            [Standing::Ahead, Standing::Behind, Standing::Equal].map(count);
        let cores = match distance {
            Some(distance) if distances.len() > 1 => format!(" with the cores {}", distance.text()),
            _ => String::new(),
        };
        let (points, benches) = (points.len(), all.len());
        let _ = writeln!(
            text,
            "{name} against the best of the others{cores}, at {points} points of {benches} benchmarks: \
             ahead by 5 % or more at {ahead}, behind by as much at {behind}, equal at {equal} (less, or \
             up to 10 % where runs differ by more). Numbers are how many times as fast it is.\n"
        );
    }
    let has = |points: &Standings, standing| points.iter().any(|(_, one)| one.standing == standing);
    type Group = (&'static str, fn([bool; 3]) -> bool);
    let groups: [Group; 4] = [
        ("Ahead at all sizes", |has| has == [true, false, false]),
        ("Ahead or equal", |has| has == [true, true, false]),
        ("Equal at all sizes", |has| has == [false, true, false]),
        ("Behind somewhere", |[_, _, behind]| behind),
    ];
    for (head, is_in) in groups {
        let of_group = all.iter().filter(|(_, points)| {
            let standings = [Standing::Ahead, Standing::Equal, Standing::Behind];
            is_in(standings.map(|standing| has(points, standing)))
        });
        let words = of_group.map(|(bench, points)| standing_words(report, *bench, points));
        let words: Vec<String> = words.collect();
        if !words.is_empty() {
            let _ = writeln!(text, "- **{head}**: {}.", words.join("; "));
        }
    }
    let alone = all.iter().filter(|(_, points)| points.is_empty());
    let alone: Vec<String> = alone.map(|(bench, _)| bench.text()).collect();
    if !alone.is_empty() {
        let _ = writeln!(text, "- Not compared with anything: {}.", alone.join(", "));
    }
    let with = &report.conditions;
    let line = with.line.map_or(String::new(), |line| {
        format!(", line there and back {line}")
    });
    let (machine, ranks, network, rounds) = (&with.machine, with.ranks, &with.network, with.rounds);
    let _ = writeln!(
        text,
        "\n{machine}{line}; {ranks} ranks, {network}; medians of {rounds} runs. \
         [How it was measured](#how-it-was-measured)."
    );
}

/// Formats `latency 1.21 to 1.40`; where it is behind, also the sizes and the best peer.
fn standing_words(report: &Report, bench: Name, points: &Standings) -> String {
    let ratios = || points.iter().map(|(_, one)| one.ratio);
    let (least, most) = (
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
    );
    let name = bench.text();
    let words = match points.len() {
        1 => format!("{name} {}", ratio(least)),
        _ => format!("{name} {} to {}", ratio(least), ratio(most)),
    };
    let behind = || {
        points
            .iter()
            .filter(|(_, one)| one.standing == Standing::Behind)
    };
    let worst = behind().min_by(|(_, one), (_, other)| one.ratio.total_cmp(&other.ratio));
    let Some((size, one)) = worst else {
        return words;
    };
    let (peer, size) = (&report.sides[one.peer].0, bytes(*size));
    match (bench.has_sizes(), behind().count()) {
        (false, _) => format!("{words} (behind {peer})"),
        (true, 1) => format!("{words} (behind at {size}, {peer})"),
        (true, count) => {
            let all = points.len();
            format!("{words} (behind at {count} of {all} sizes, most at {size}, {peer})")
        }
    }
}

/// Formats picture, table and noise of a benchmark.
fn one(text: &mut String, report: &Report, bench: Name, link: Option<&str>) {
    let Some(unit) = bench.unit() else { return };
    let (name, meaning) = (bench.text(), bench.explanation());
    let _ = writeln!(text, "\n## {name}: {meaning}, {}\n", unit.text());
    if let Some(link) = link {
        let _ = writeln!(text, "![{name}]({link})\n");
    }
    // Libraries without a value at any size, since they have no such benchmark here, get no column.
    let has = |place: &usize| {
        let mut values = report
            .cells_of(bench)
            .filter_map(|cell| cell.values.get(*place));
        values.any(|all| !all.is_empty())
    };
    let shown: Vec<usize> = (0..report.sides.len()).filter(has).collect();
    let names: String = shown
        .iter()
        .map(|place| format!(" {} |", report.sides[*place].0))
        .collect();
    let _ = writeln!(text, "| bytes |{names} {} is |", first(report));
    let _ = writeln!(text, "| ---: |{} --- |", " ---: |".repeat(shown.len()));
    for cell in report.cells_of(bench) {
        let size = match bench.has_sizes() {
            true => bytes(cell.size),
            false => "–".to_owned(),
        };
        let value = |place: &usize| match Summary::of(&cell.values[*place]) {
            Some(summary) => format!(" {} |", number(summary.median)),
            None => " failed |".to_owned(),
        };
        let values: String = shown.iter().map(value).collect();
        let standing = match against(report, cell) {
            Some(one) => format!("{} {}", ratio(one.ratio), one.standing.text()),
            None => "–".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {size}{} |{values} {standing} |",
            report.distance_of(cell)
        );
    }
    let spread = |place: &usize| {
        let cells = report.cells_of(bench);
        let spreads =
            cells.filter_map(|cell| Some(Summary::of(cell.values.get(*place)?)?.spread()));
        let spreads: Vec<f64> = spreads.map(|spread| 50.0 * spread).collect();
        let worst = spreads.iter().copied().fold(0.0, f64::max);
        let usual = Summary::of(&spreads)?.median;
        Some(format!(
            "{} {usual:.0} ({worst:.0})",
            report.sides[*place].0
        ))
    };
    let spreads: Vec<String> = shown.iter().filter_map(spread).collect();
    let _ = writeln!(
        text,
        "\nSpread in ± %, usual (worst): {}.",
        spreads.join(", ")
    );
}

/// Formats command, libraries and machine.
fn measured(text: &mut String, report: &Report, command: &str) {
    let _ = writeln!(
        text,
        "\n## How it was measured\n\n<!-- not run: it takes minutes, and the other libraries are not everywhere -->\n\n    {}\n",
        command.replace('\n', " ")
    );
    for (name, library) in &report.sides {
        let _ = writeln!(text, "- {name}: {}", library.version);
    }
    text.push_str(&report.circumstances());
    for failure in &report.failures {
        let _ = writeln!(text, "- failed: {}", failure.replace('\n', " / "));
    }
}

fn picture(report: &Report, bench: Name) -> Option<String> {
    let unit = bench.unit()?.text();
    let distance = report
        .shown(bench)
        .next()
        .map(|cell| report.distance_of(cell));
    let distance = distance.unwrap_or_default();
    let title = format!("{}: {}{distance}", bench.text(), bench.explanation());
    if !bench.has_sizes() {
        return figure::bars(&title, unit, &report.bars(report.shown(bench).next()?));
    }
    let ratios = Line {
        name: String::new(),
        points: report
            .shown(bench)
            .filter(|cell| cell.size > 0)
            .filter_map(|cell| Some((cell.size, against(report, cell)?)))
            .map(|(size, one)| (size, one.ratio, one.range))
            .collect(),
    };
    figure::lines(&title, unit, "bytes", &report.lines(bench), ratios)
}

/// Returns the command line of this process, quoted for a shell.
pub fn typed() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let plain = |word: &str| {
        let fits = |one: char| one.is_ascii_alphanumeric() || "-_=/.,:+@%".contains(one);
        !word.is_empty() && word.chars().all(fits)
    };
    let quoted = words.map(|word| match plain(&word) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    });
    let all: Vec<String> = [program.to_string_lossy().into_owned()]
        .into_iter()
        .chain(quoted)
        .collect();
    all.join(" ")
}
