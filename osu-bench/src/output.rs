//! Output in OSU's format: a header of comment lines, then one line per message size.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use crate::progress::aside;

/// Width of the first column.
const SIZE_WIDTH: usize = 10;
/// Width of every other column.
const FIELD_WIDTH: usize = 18;

/// Returns the first line: test, program and measured library.
pub fn title(name: &str, library: &str) -> String {
    format!(
        "# OSU MPI {name} (osu-bench of Weft {}), {library}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the line with the names of the columns.
pub fn columns(names: &[&str]) -> String {
    let mut line = format!("{:<SIZE_WIDTH$}", "# Size");
    for name in names {
        let _ = write!(line, "{name:>FIELD_WIDTH$}");
    }
    line
}

/// Prints a line. Ignores a closed output, since other ranks go on.
pub fn say(line: &str) {
    let _ = aside(|| writeln!(io::stdout().lock(), "{line}"));
}

/// Prints a line to standard error in one piece, so that lines of several ranks don't mix.
pub fn complain(line: &str) {
    let _ = aside(|| io::stderr().write_all(format!("{line}\n").as_bytes()));
}

/// One measured value, as printed.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// A time, a bandwidth or a rate.
    Number(f64),
    /// A number of iterations.
    Count(u64),
    /// Whether the data was correct.
    Valid(bool),
}

/// Returns the line of one message size.
pub fn row(size: usize, fields: &[Field], precision: u8) -> String {
    let precision = usize::from(precision);
    let mut line = format!("{size:<SIZE_WIDTH$}");
    for field in fields {
        let _ = match field {
            Field::Number(value) => write!(line, "{value:>FIELD_WIDTH$.precision$}"),
            Field::Count(count) => write!(line, "{count:>FIELD_WIDTH$}"),
            Field::Valid(true) => write!(line, "{:>FIELD_WIDTH$}", "Pass"),
            Field::Valid(false) => write!(line, "{:>FIELD_WIDTH$}", "Fail"),
        };
    }
    line
}

/// Parses a benchmark's output into (size, first value); a line without a size has size 0.
/// Ignores comments and other lines.
pub fn parse(text: &str) -> Vec<(usize, f64)> {
    text.lines().filter_map(parse_row).collect()
}

fn parse_row(line: &str) -> Option<(usize, f64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let value = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
    match fields[..] {
        [only] => Some((0, value(only)?)),
        [size, first, ..] => Some((size.parse().ok()?, value(first)?)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_as_osu_prints_them() {
        assert_eq!(columns(&["Latency (us)"]), "# Size          Latency (us)");
        assert_eq!(
            row(8, &[Field::Number(0.284)], 2),
            "8                       0.28"
        );
        assert_eq!(
            row(
                1024,
                &[Field::Number(1.0), Field::Count(1000), Field::Valid(false)],
                2
            ),
            "1024                    1.00              1000              Fail"
        );
        assert!(
            title("Latency Test", "MPICH 4.0")
                .starts_with("# OSU MPI Latency Test (osu-bench of Weft ")
        );
    }

    #[test]
    fn output_reads_back() {
        let text = format!(
            "{}\n{}\n{}\n{}\n",
            title("Latency Test", "MPICH 4.0"),
            columns(&["Latency (us)"]),
            row(0, &[Field::Number(0.25)], 2),
            row(8, &[Field::Number(0.5), Field::Valid(true)], 2)
        );
        assert_eq!(parse(&text), [(0, 0.25), (8, 0.5)]);
        assert_eq!(parse("# Avg Latency(us)\n             0.29\n"), [(0, 0.29)]);
        assert_eq!(parse("some warning\n8 nan\n8 x\n\n"), []);
    }
}
