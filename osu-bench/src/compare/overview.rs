//! A comparison as one small picture: for each benchmark, how many times as fast as the best of the
//! others the first library is. It is drawn from the page that `compare --page` writes, so that
//! both have the same numbers.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::plot::escape;
use crate::error::{Error, Result};
use crate::output;

/// Options of `overview`.
#[derive(Args, Debug)]
pub struct OverviewOptions {
    /// A page that `compare --page` has written.
    #[arg(value_name = "FILE.md")]
    page: PathBuf,
}

/// Runs `overview` and prints the picture.
pub fn run(options: &OverviewOptions) -> Result<()> {
    let wrong = |text: String| Error::new(format!("{}: {text}", options.page.display()));
    let page = fs::read_to_string(&options.page).map_err(|error| wrong(error.to_string()))?;
    let picture = svg(&page).ok_or_else(|| {
        wrong("no tables with a column 'is' as osu-bench compare --page writes them".to_owned())
    })?;
    output::say(picture.trim_end());
    Ok(())
}

/// A benchmark's name, and its ratios with their classes.
type Row<'a> = (&'a str, Vec<(f64, &'a str)>);

/// Parses the benchmarks of a page, in its order.
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.split_once(':').map_or(heading, |(name, _)| name);
            rows.push((name, Vec::new()));
            continue;
        }
        let cells = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'));
        let last = cells.and_then(|cells| cells.rsplit('|').next());
        let Some((ratio, standing)) = last.and_then(|last| last.trim().split_once(' ')) else {
            continue;
        };
        if let (Ok(ratio), Some((_, points))) = (ratio.parse::<f64>(), rows.last_mut())
            && ratio > 0.0
        {
            points.push((ratio, standing));
        }
    }
    rows.retain(|(_, points)| !points.is_empty());
    rows
}

const WIDTH: f64 = 640.0;
const NAMES: f64 = 112.0;
const ROW: f64 = 20.0;
/// Height above the rows, for title and machine.
const HEAD: f64 = 52.0;
/// Height below the rows, for the axis and the legend of colours.
const FOOT: f64 = 58.0;
/// Ratios with a labelled line, if they are within the range.
const LEVELS: [f64; 11] = [0.1, 0.2, 0.33, 0.5, 0.67, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0];

fn colour(standing: &str) -> &'static str {
    match standing {
        "ahead" => "#1b7f3b",
        "behind" => "#b3261e",
        _ => "#8a8a8a",
    }
}

/// Draws the picture of a page. Returns `None` if the page has no ratios.
pub fn svg(page: &str) -> Option<String> {
    let rows = rows(page);
    let all = || rows.iter().flat_map(|(_, points)| points);
    let least = all().map(|point| point.0).reduce(f64::min)?.min(0.67) / 1.08;
    let most = all().map(|point| point.0).reduce(f64::max)?.max(1.5) * 1.08;
    let first = page.lines().find_map(|line| line.strip_prefix("# "))?;
    let first = first.split(" beside ").next().unwrap_or(first);
    let machine = page
        .lines()
        .find_map(|line| line.strip_suffix(" [How it was measured](#how-it-was-measured)."));
    let x =
        |ratio: f64| NAMES + (WIDTH - NAMES - 16.0) * (ratio / least).ln() / (most / least).ln();
    let (bottom, height) = (
        HEAD + ROW * rows.len() as f64,
        HEAD + ROW * rows.len() as f64 + FOOT,
    );
    let title = format!(
        "{} against the best of the other MPI libraries",
        escape(first)
    );
    let mut text = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' \
         role='img' font-family='system-ui, Helvetica, Arial, sans-serif' font-size='12' fill='#333'>\
         <title>{title}</title><rect width='{WIDTH}' height='{height}' fill='#fff'/>\
         <text font-size='15' font-weight='600' x='10' y='20'>{title}</text>\
         <text x='10' y='38' fill='#666'>{}</text>",
        escape(machine.unwrap_or_default().trim_end_matches('.'))
    );
    for level in LEVELS.into_iter().filter(|at| (least..=most).contains(at)) {
        let stroke = if level == 1.0 { "#444" } else { "#e2e2e2" };
        let _ = write!(
            text,
            "<line x1='{0:.1}' x2='{0:.1}' y1='{1}' y2='{bottom}' stroke='{stroke}'/>\
             <text text-anchor='middle' x='{0:.1}' y='{2}'>{level}</text>",
            x(level),
            HEAD - 4.0,
            bottom + 15.0
        );
    }
    for (place, (name, points)) in rows.iter().enumerate() {
        let middle = HEAD + ROW * (place as f64 + 0.5);
        let ends = |pick: fn(f64, f64) -> f64| points.iter().map(|point| point.0).reduce(pick);
        let _ = write!(
            text,
            "<text text-anchor='end' x='{:.1}' y='{:.1}'>{}</text>\
             <line x1='{:.1}' x2='{:.1}' y1='{middle}' y2='{middle}' stroke='#bbb' stroke-width='2'/>",
            NAMES - 8.0,
            middle + 4.0,
            escape(name),
            x(ends(f64::min).unwrap_or(1.0)),
            x(ends(f64::max).unwrap_or(1.0))
        );
        for (ratio, standing) in points {
            let _ = write!(
                text,
                "<circle cx='{:.1}' cy='{middle}' r='4.5' fill='{}' fill-opacity='0.85'><title>{} {ratio} {}</title></circle>",
                x(*ratio),
                colour(standing),
                escape(name),
                escape(standing)
            );
        }
    }
    let _ = write!(
        text,
        "<text text-anchor='middle' x='{:.1}' y='{}'>times as fast as the best of the others: a dot for each message size</text>",
        x((least * most).sqrt()),
        bottom + 32.0
    );
    let said = [
        ("ahead", "ahead"),
        ("equal", "equal, or runs differ by more"),
        ("behind", "behind"),
    ];
    let mut left = NAMES + 60.0;
    for (standing, words) in said {
        let _ = write!(
            text,
            "<circle cx='{left}' cy='{}' r='4.5' fill='{}'/><text x='{}' y='{}'>{words}</text>",
            bottom + 46.0,
            colour(standing),
            left + 9.0,
            bottom + 50.0
        );
        left += 36.0 + 6.5 * words.len() as f64;
    }
    text.push_str("</svg>\n");
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_picture_has_a_row_for_each_benchmark_and_a_dot_for_each_size() {
        let page = "# Weft beside other MPI libraries\n\n\
                    A machine; 2 ranks. [How it was measured](#how-it-was-measured).\n\n\
                    ## latency: half the time, µs\n\n\
                    | bytes | Weft | Other | Weft is |\n| ---: | ---: | ---: | --- |\n\
                    | 8 | 1.0 | 2.0 | 2.00 ahead |\n| 64 | 2.0 | 1.0 | 0.50 behind |\n\n\
                    ## barrier: time, µs\n\n| – | 1.0 | 1.0 | 1.00 equal |\n\n\
                    ## How it was measured\n";
        let text = svg(page).unwrap();
        for (standing, dots) in [("ahead", 1), ("behind", 1), ("equal", 1)] {
            assert_eq!(text.matches(&format!(" {standing}</title>")).count(), dots);
        }
        assert!(text.contains(">latency<") && text.contains(">barrier<"));
        assert!(!text.contains("How it was") && text.contains(">A machine; 2 ranks<"));
        assert!(svg("# Weft\n\nno tables\n").is_none());
    }

    #[test]
    fn the_picture_of_the_documentation_is_that_of_its_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = fs::read_to_string(docs.join("side-by-side.md")).unwrap();
        let picture = fs::read_to_string(docs.join("side-by-side.svg")).unwrap();
        assert_eq!(
            svg(&page),
            Some(picture),
            "run osu-bench overview docs/side-by-side.md > docs/side-by-side.svg"
        );
    }
    #[test]
    fn the_readme_says_what_the_page_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = fs::read_to_string(root.join("docs/side-by-side.md")).unwrap();
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        let points = rows(&page);
        let points = || points.iter().flat_map(|(_, points)| points);
        let count = |wanted: &str| points().filter(|(_, standing)| *standing == wanted).count();
        let expected = format!(
            "at {} of {} points Weft is ahead, at {} equal, at {} behind",
            count("ahead"),
            points().count(),
            count("equal"),
            count("behind")
        );
        let words: Vec<&str> = readme.split_whitespace().collect();
        assert!(words.join(" ").contains(&expected), "{expected}");
    }
}
