//! A comparison as a Markdown page: a summary of the first library's ratios, then a table and a
//! picture per benchmark.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::figure::Bar;
use super::plot::{Line, bytes};
use super::report::{Cell, Report, number, ratio};
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
    let benches = benches(report);
    let mut pictures = 0;
    let mut links = Vec::new();
    for bench in &benches {
        let beside = picture_path(path, *bench);
        let link = match picture(report, *bench) {
            Some(text) => {
                put(&beside, &text)?;
                pictures += 1;
                let name = beside.file_name().unwrap_or_default();
                Some(name.to_string_lossy().into_owned())
            }
            None => None,
        };
        links.push(link);
    }
    let mut text = page(report, &benches, &links, command);
    if let Some(picture) = overview::svg(&text) {
        let beside = overview::path(path);
        put(&beside, &picture)?;
        pictures += 1;
        let name = beside.file_name().unwrap_or_default().to_string_lossy();
        let image = format!("![where {} stands]({name})\n\n## ", first(report));
        text = text.replacen("## ", &image, 1);
    }
    put(path, &text)?;
    Ok(pictures)
}

fn picture_path(page: &Path, bench: Name) -> PathBuf {
    let stem = page.file_stem().unwrap_or_default().to_string_lossy();
    page.with_file_name(format!("{stem}-{}.svg", bench.text()))
}

fn benches(report: &Report) -> Vec<Name> {
    let mut benches: Vec<Name> = Vec::new();
    for cell in &report.cells {
        if !benches.contains(&cell.bench) && cell.bench.unit().is_some() {
            benches.push(cell.bench);
        }
    }
    benches
}

fn cells(report: &Report, bench: Name) -> impl Iterator<Item = &Cell> {
    report.cells.iter().filter(move |cell| cell.bench == bench)
}

fn first(report: &Report) -> &str {
    report.sides.first().map_or("", |(name, _)| name)
}

fn page(report: &Report, benches: &[Name], links: &[Option<String>], command: &str) -> String {
    let mut text = format!("# {} beside other MPI libraries\n\n", first(report));
    summary(&mut text, report, benches);
    for (bench, link) in benches.iter().zip(links) {
        one(&mut text, report, *bench, link.as_deref());
    }
    measured(&mut text, report, command);
    text
}

/// Of a benchmark: where the first library is at each size, and at each distance of the cores.
fn standings(report: &Report, bench: Name) -> Vec<(usize, Against)> {
    cells(report, bench)
        .filter_map(|cell| Some((cell.size, against(report, cell)?)))
        .collect()
}

/// Formats the summary, at most ten lines.
fn summary(text: &mut String, report: &Report, benches: &[Name]) {
    let all: Vec<(Name, Vec<(usize, Against)>)> = benches
        .iter()
        .map(|bench| (*bench, standings(report, *bench)))
        .collect();
    let name = first(report);
    let distances = report.distances();
    for distance in &distances {
        let of_distance = report
            .cells
            .iter()
            .filter(|cell| cell.distance == *distance);
        let points: Vec<Against> = of_distance
            .filter_map(|cell| against(report, cell))
            .collect();
        let count = |standing| points.iter().filter(|one| one.standing == standing).count();
        let cores = match distance {
            Some(distance) if distances.len() > 1 => format!(" with the cores {}", distance.text()),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "{name} against the best of the others{cores}, at {} points of {} benchmarks: ahead by 5 % or more at {}, \
             behind by as much at {}, equal at {} (less, or up to 10 % where runs differ by more). Numbers are how \
             many times as fast it is.\n",
            points.len(),
            all.len(),
            count(Standing::Ahead),
            count(Standing::Behind),
            count(Standing::Equal),
        );
    }
    let has = |points: &[(usize, Against)], standing| {
        points.iter().any(|(_, one)| one.standing == standing)
    };
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
        let words: Vec<String> = of_group
            .map(|(bench, points)| standing_words(report, *bench, points))
            .collect();
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
    let _ = writeln!(
        text,
        "\n{}{}; {} ranks, {}; medians of {} runs. [How it was measured](#how-it-was-measured).",
        with.machine,
        with.line
            .map(|line| format!(", line there and back {line}"))
            .unwrap_or_default(),
        with.ranks,
        with.network,
        with.rounds
    );
}

/// `latency 1.21 to 1.40`; where it is behind, at which sizes and whom.
fn standing_words(report: &Report, bench: Name, points: &[(usize, Against)]) -> String {
    let ratios = || points.iter().map(|(_, one)| one.ratio);
    let (least, most) = (
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
    );
    let mut words = match points.len() {
        1 => format!("{} {}", bench.text(), ratio(least)),
        _ => format!("{} {} to {}", bench.text(), ratio(least), ratio(most)),
    };
    let behind = || {
        let points = points.iter();
        points.filter(|(_, one)| one.standing == Standing::Behind)
    };
    let worst = behind().min_by(|(_, one), (_, other)| one.ratio.total_cmp(&other.ratio));
    if let Some((size, one)) = worst {
        let peer = &report.sides[one.peer].0;
        let _ = match (bench.has_sizes(), behind().count()) {
            (false, _) => write!(words, " (behind {peer})"),
            (true, 1) => write!(words, " (behind at {}, {peer})", bytes(*size)),
            (true, count) => write!(
                words,
                " (behind at {count} of {} sizes, most at {}, {peer})",
                points.len(),
                bytes(*size)
            ),
        };
    }
    words
}

/// Formats picture, table and noise of a benchmark.
fn one(text: &mut String, report: &Report, bench: Name, link: Option<&str>) {
    let Some(unit) = bench.unit() else { return };
    let name = bench.text();
    let _ = writeln!(
        text,
        "\n## {name}: {}, {}\n",
        bench.explanation(),
        unit.text()
    );
    if let Some(link) = link {
        let _ = writeln!(text, "![{name}]({link})\n");
    }
    let _ = write!(text, "| bytes |");
    // Libraries without a value at any size, since they have no such benchmark here, take no room.
    let has = |place: usize| {
        cells(report, bench).any(|cell| cell.values.get(place).is_some_and(|all| !all.is_empty()))
    };
    let shown: Vec<usize> = (0..report.sides.len())
        .filter(|place| has(*place))
        .collect();
    for place in &shown {
        let _ = write!(text, " {} |", report.sides[*place].0);
    }
    let _ = write!(text, " {} is |\n| ---: |", first(report));
    text.push_str(&" ---: |".repeat(shown.len()));
    text.push_str(" --- |\n");
    for cell in cells(report, bench) {
        let size = match bench.has_sizes() {
            true => bytes(cell.size),
            false => "–".to_owned(),
        };
        let _ = write!(text, "| {size}{} |", report.distance_of(cell));
        for place in &shown {
            match Summary::of(&cell.values[*place]) {
                Some(summary) => {
                    let _ = write!(text, " {} |", number(summary.median));
                }
                None => text.push_str(" failed |"),
            }
        }
        let _ = match against(report, cell) {
            Some(one) => writeln!(text, " {} {} |", ratio(one.ratio), one.standing.text()),
            None => writeln!(text, " – |"),
        };
    }
    let spread = |place: &usize| {
        let spreads = cells(report, bench).filter_map(|cell| {
            let summary = Summary::of(cell.values.get(*place)?)?;
            Some(50.0 * summary.spread())
        });
        let spreads: Vec<f64> = spreads.collect();
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
    let distance = cells(report, bench).find(|cell| report.is_main(cell));
    let distance = distance.map(|cell| report.distance_of(cell));
    let title = format!(
        "{}: {}{}",
        bench.text(),
        bench.explanation(),
        distance.unwrap_or_default()
    );
    let summary = |cell: &Cell, place: usize| Summary::of(cell.values.get(place)?);
    if !bench.has_sizes() {
        let cell = cells(report, bench).find(|cell| report.is_main(cell))?;
        let rows = report
            .sides
            .iter()
            .enumerate()
            .filter_map(|(place, (name, _))| {
                let found = summary(cell, place)?;
                Some(Bar {
                    place,
                    name: name.clone(),
                    value: found.median,
                    range: [found.lower, found.upper],
                })
            });
        return figure::bars(&title, unit, &rows.collect::<Vec<_>>());
    }
    let lines: Vec<Line> = (report.sides.iter().enumerate())
        .map(|(place, (name, _))| Line {
            name: name.clone(),
            points: cells(report, bench)
                .filter(|cell| cell.size > 0 && report.is_main(cell))
                .filter_map(|cell| {
                    let found = summary(cell, place)?;
                    Some((cell.size, found.median, [found.lower, found.upper]))
                })
                .collect(),
        })
        .collect();
    let ratios = Line {
        name: String::new(),
        points: cells(report, bench)
            .filter(|cell| cell.size > 0 && report.is_main(cell))
            .filter_map(|cell| Some((cell.size, against(report, cell)?)))
            .map(|(size, one)| (size, one.ratio, one.range))
            .collect(),
    };
    figure::by_size(&title, unit, &lines, ratios)
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
