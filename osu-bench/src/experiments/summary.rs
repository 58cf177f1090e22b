//! The value of an experiment in one line, from the output of its command.

/// The part of an output that is the value.
#[derive(Clone, Copy, Debug)]
pub enum Summary {
    /// The lines that begin with one of these texts.
    Lines(&'static [&'static str]),
    /// Columns of the last row as ratios to the column named second.
    Ratios(&'static [&'static str], &'static str),
    /// The same in the table below this title.
    Part(&'static str, &'static [&'static str], &'static str),
    /// A column, by name or the first behind the row's own, in the first and the last row.
    Ends(&'static str),
}

/// A table of numbers: names of the columns and rows, the first of which names the row.
struct Numbers<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Numbers<'a> {
    /// Finds the rows that begin with a number, and the last comment before them.
    fn parse(text: &'a str) -> Self {
        let is_row = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        let heads = text.lines().take_while(|line| !is_row(line));
        let head = heads.filter(|line| line.starts_with('#')).last();
        let head = head.unwrap_or_default().trim_start_matches(['#', ' ']);
        // Names have single spaces, gaps between them more.
        let names = head.split("  ").map(str::trim);
        // Further tables stand behind a blank line.
        let rows = text.lines().skip_while(|line| !is_row(line));
        let rows = rows.take_while(|line| !line.is_empty()).filter(is_row);
        Self {
            names: names.filter(|name| !name.is_empty()).collect(),
            rows: rows.map(|row| row.split_whitespace().collect()).collect(),
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        match name {
            "" => Some(1),
            name => self.names.iter().position(|one| *one == name),
        }
    }
}

impl Summary {
    /// Returns the value in `text`, or `None` if it isn't there.
    pub fn of(self, text: &str) -> Option<String> {
        let text = match self {
            Summary::Part(title, ..) => text.split_once(&format!("# {title}\n"))?.1,
            _ => text,
        };
        let numbers = Numbers::parse(text);
        let parts: Vec<String> = match self {
            Summary::Lines(starts) => {
                let lines = text.lines().map(str::trim);
                let found = lines.filter(|line| starts.iter().any(|start| line.starts_with(start)));
                let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
                found.map(words).collect()
            }
            Summary::Ratios(names, base) | Summary::Part(_, names, base) => {
                let last = numbers.rows.last()?;
                let at =
                    |name: &str| -> Option<f64> { last.get(numbers.column(name)?)?.parse().ok() };
                let all = at(base)?;
                let ratio = |name: &&str| Some(format!("{name} {:.2}", at(name)? / all));
                let mut parts = names.iter().map(ratio).collect::<Option<Vec<_>>>()?;
                let step = numbers.names.first()?;
                let digits = if all < 100.0 { 2 } else { 0 };
                let title = match self {
                    Summary::Part(title, ..) => format!("{title}, "),
                    _ => String::new(),
                };
                parts.push(format!(
                    "of {base} ({title}{all:.digits$} with {} {step})",
                    last[0]
                ));
                parts
            }
            Summary::Ends(name) => {
                let column = numbers.column(name)?;
                let unit = numbers.names.get(column).copied().unwrap_or_default();
                let (first, last) = (numbers.rows.first()?, numbers.rows.last()?);
                let cell = |row: &[&str]| Some(format!("{} at {}", row.get(column)?, row[0]));
                match numbers.rows.len() {
                    1 => vec![format!("{} {unit}", first.get(column)?)],
                    _ => vec![format!("{unit}: {}", cell(first)?), cell(last)?],
                }
            }
        };
        (!parts.is_empty()).then(|| parts.join("; ").replace('|', "/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# vci-rate (Isend), per second, Weft\n\
                         # workers           processes          one-on1\n\
                         1                      400         100\n\
                         2                      800         200\n# vci-rate.svg\n";

    #[test]
    fn values_are_found() {
        let ratios = Summary::Ratios(&["one-on1"], "processes");
        assert_eq!(
            ratios.of(TABLE).as_deref(),
            Some("one-on1 0.25; of processes (800 with 2 workers)")
        );
        assert_eq!(
            Summary::Ends("one-on1").of(TABLE).as_deref(),
            Some("one-on1: 100 at 1; 200 at 2")
        );
        let latency = "# OSU\n# Size          Latency (us)\n8                       0.08\n";
        assert_eq!(
            Summary::Ends("").of(latency).as_deref(),
            Some("0.08 Latency (us)")
        );
        let lines = Summary::Lines(&["P_put", "P_get "]);
        assert_eq!(
            lines
                .of("P_put   = 1 us\nP_get = 2 us\nP_x = 3\n")
                .as_deref(),
            Some("P_put = 1 us; P_get = 2 us")
        );
        let two = format!("{TABLE}\n# get, us\n# workers  processes  one-on1\n2  3.00  6.00\n");
        assert_eq!(ratios.of(&two), ratios.of(TABLE));
        assert_eq!(
            Summary::Part("get, us", &["one-on1"], "processes")
                .of(&two)
                .as_deref(),
            Some("one-on1 2.00; of processes (get, us, 3.00 with 2 workers)")
        );
        assert_eq!(Summary::Ends("no-such").of(TABLE), None);
        assert_eq!(Summary::Lines(&["none"]).of(TABLE), None);
    }
}
