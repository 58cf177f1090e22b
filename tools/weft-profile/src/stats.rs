//! The table of `-stats`.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::clock::Scale;
use crate::names::NAMES;
use crate::{pvars, record};

/// Functions with a line of their own; the others share one.
const LINES: usize = 20;

/// Returns this rank's numbers: its time, then calls, nanoseconds and bytes of each function, then
/// the library's performance variables.
pub fn own(scale: &Scale, counted: &[u64]) -> Vec<u64> {
    let mut own = vec![scale.elapsed];
    for [calls, ticks, bytes] in record::sums() {
        own.extend([calls, scale.span(ticks), bytes]);
    }
    own.extend(counted);
    own
}

/// Smallest, mean and largest.
struct Spread {
    least: u64,
    mean: f64,
    most: u64,
    most_at: usize,
}

impl Spread {
    fn of(values: &[u64]) -> Spread {
        let (most_at, most) = values.iter().enumerate().fold((0, 0), |best, (at, value)| {
            if *value > best.1 { (at, *value) } else { best }
        });
        Spread {
            least: values.iter().copied().min().unwrap_or(0),
            mean: values.iter().sum::<u64>() as f64 / values.len().max(1) as f64,
            most,
            most_at,
        }
    }
}

/// Formats the table from the numbers of all ranks.
pub fn table(all: &[u64], size: usize) -> String {
    let counted = pvars::names();
    let functions = 1 + 3 * NAMES.len();
    let part = functions + counted.len();
    let values = |place: usize| {
        all.chunks(part)
            .map(move |rank| rank[place])
            .collect::<Vec<_>>()
    };
    let elapsed = values(0);
    let in_mpi: Vec<u64> = all
        .chunks(part)
        .map(|rank| rank[1..functions].iter().skip(1).step_by(3).sum())
        .collect();
    let wall = Spread::of(&elapsed);
    let mpi = Spread::of(&in_mpi);
    let mut text = format!(
        "\nWeft: {size} rank{}, {} from MPI_Init to MPI_Finalize\n\
         in MPI per rank: {} (least {}, most {} on rank {}), {:.1} % of the time\n",
        if size == 1 { "" } else { "s" },
        time(wall.mean),
        time(mpi.mean),
        time(mpi.least as f64),
        time(mpi.most as f64),
        mpi.most_at,
        100.0 * mpi.mean / wall.mean.max(1.0),
    );
    let mut lines: Vec<(usize, u64, u64, Spread)> = Vec::new();
    for function in 0..NAMES.len() {
        let sum = |which: usize| values(1 + 3 * function + which).iter().sum::<u64>();
        if sum(0) > 0 {
            let spread = Spread::of(&values(1 + 3 * function + 1));
            lines.push((function, sum(0), sum(2), spread));
        }
    }
    lines.sort_by_key(|line| Reverse(line.3.mean as u64));
    let _ = writeln!(
        text,
        "{:<28} {:>11} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9}",
        "function", "calls, all", "mean", "least", "most", "rank", "of MPI", "bytes"
    );
    let all_mpi = mpi.mean.max(1.0);
    for (function, calls, bytes, spread) in lines.iter().take(LINES) {
        let _ = writeln!(
            text,
            "{:<28} {calls:>11} {:>9} {:>9} {:>9} {:>6} {:>4.0} % {:>9}",
            NAMES[*function],
            time(spread.mean),
            time(spread.least as f64),
            time(spread.most as f64),
            spread.most_at,
            100.0 * spread.mean / all_mpi,
            amount(*bytes),
        );
    }
    if lines.len() > LINES {
        let rest = &lines[LINES..];
        let mean: f64 = rest.iter().map(|line| line.3.mean).sum();
        let calls: u64 = rest.iter().map(|line| line.1).sum();
        let name = format!("{} others", rest.len());
        let _ = writeln!(text, "{name:<28} {calls:>11} {:>9}", time(mean));
    }
    let counted = counted.iter().enumerate().filter_map(|(place, name)| {
        let values = values(functions + place);
        let sum = values.iter().sum::<u64>();
        (sum > 0).then(|| (name, sum, Spread::of(&values)))
    });
    let counted: Vec<_> = counted.collect();
    if !counted.is_empty() {
        let _ = writeln!(
            text,
            "{:<28} {:>11} {:>9} {:>9} {:>9} {:>6}",
            "counted by the library", "all", "mean", "least", "most", "rank"
        );
    }
    for (name, sum, spread) in counted {
        let _ = writeln!(
            text,
            "{name:<28} {sum:>11} {:>9.0} {:>9} {:>9} {:>6}",
            spread.mean, spread.least, spread.most, spread.most_at
        );
    }
    text
}

/// Formats nanoseconds.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} us", n / 1e3),
    }
}

/// Formats bytes; empty for 0.
fn amount(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match (bytes, unit) {
        (0, _) => String::new(),
        (_, 0) => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}
