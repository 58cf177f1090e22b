//! The page of the experiments: prose by hand, and between two marks the tables of
//! [`super::table::EXPERIMENTS`] with the values measured last.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Experiment;
use super::table::{DOCUMENTS, EXPERIMENTS, REMARKS};
use crate::error::{Error, Result};

const START: &str = "<!-- written by osu-bench experiments: -->\n";
const END: &str = "<!-- end -->\n";
const MACHINES: &str = "## Machines\n";
/// Stands for a value that was not measured yet.
const NONE: &str = "–";
const BREAK: &str = "<br>";

/// The values of an experiment's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values(Vec<Option<String>>);

impl Values {
    /// Creates values of `count` commands, none of them measured.
    pub fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// Sets the value of a command, measured on the machine with a number.
    pub fn set(&mut self, command: usize, value: &str, machine: usize) {
        self.0[command] = Some(format!("{value} ({machine})"));
    }

    fn parse(cell: &str) -> Self {
        let parts = cell.split(BREAK).map(str::trim);
        Self(
            parts
                .map(|part| (!part.is_empty() && part != NONE).then(|| part.to_owned()))
                .collect(),
        )
    }

    fn cell(&self) -> String {
        let parts: Vec<&str> = self
            .0
            .iter()
            .map(|one| one.as_deref().unwrap_or(NONE))
            .collect();
        parts.join(BREAK)
    }
}

/// The page's parts.
#[derive(Default)]
pub struct Page {
    before: String,
    after: String,
    /// By name.
    values: BTreeMap<String, Values>,
    /// Descriptions; each value ends with the number of its machine.
    machines: Vec<String>,
}

impl Page {
    /// Reads a page.
    pub fn read(file: &Path) -> Result<Self> {
        let failed =
            |error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
        Self::parse(&text).map_err(|error| failed(&error))
    }

    /// Writes the page.
    pub fn write(&self, file: &Path) -> Result<()> {
        let written = fs::write(file, self.text());
        written.map_err(|error| Error::new(format!("{}: {error}", file.display())))
    }

    /// Takes a page apart.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once(START).and_then(|(before, rest)| {
            let (tables, after) = rest.split_once(END)?;
            Some((before, tables, after))
        });
        let (before, tables, after) = parts.ok_or_else(|| {
            Error::new(format!(
                "it lacks the lines '{}' and '{}'",
                START.trim(),
                END.trim()
            ))
        })?;
        let mut page = Page {
            before: before.to_owned(),
            after: after.to_owned(),
            ..Page::default()
        };
        let (tables, machines) = tables.split_once(MACHINES).unwrap_or((tables, ""));
        for line in tables.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let [_, name, _, _, _, _, values, ..] = cells[..] {
                page.values.insert(name.to_owned(), Values::parse(values));
            }
        }
        let machines = machines.lines().filter_map(|line| line.split_once(". "));
        page.machines = machines.map(|(_, machine)| machine.to_owned()).collect();
        Ok(page)
    }

    /// Returns the number of a machine.
    pub fn machine(&mut self, description: &str) -> usize {
        let known = self.machines.iter().position(|one| one == description);
        1 + known.unwrap_or_else(|| {
            self.machines.push(description.to_owned());
            self.machines.len() - 1
        })
    }

    /// Takes over what was measured of an experiment; values of commands that were left out stay.
    pub fn set(&mut self, name: &str, measured: Values) {
        let kept = self.values.remove(name).unwrap_or_else(|| Values::new(0));
        let mut kept = kept.0.into_iter();
        let merged = measured.0.into_iter().map(|new| {
            let old = kept.next().flatten();
            new.or(old)
        });
        self.values
            .insert(name.to_owned(), Values(merged.collect()));
    }

    /// Returns the page's text.
    pub fn text(&self) -> String {
        let mut text = format!("{}{START}", self.before);
        let whole = EXPERIMENTS
            .iter()
            .filter(|one| REMARKS.contains(&one.lacks))
            .count();
        let not = EXPERIMENTS.iter().filter(|one| one.runs.is_empty()).count();
        let _ = writeln!(
            text,
            "\nOf {} experiments {whole} have commands that answer the whole question, {} a part of it, {not} none yet.",
            EXPERIMENTS.len(),
            EXPERIMENTS.len() - whole - not
        );
        for (letter, title) in DOCUMENTS {
            let _ = writeln!(
                text,
                "\n## {title}\n\n\
                 | Name | Figure | Question | Command | There | Weft | Not here |\n\
                 |---|---|---|---|---|---|---|"
            );
            for one in EXPERIMENTS
                .iter()
                .filter(|one| one.name.starts_with(*letter))
            {
                text.push_str(&self.row(one));
            }
        }
        let _ = writeln!(text, "\n{MACHINES}");
        for (number, machine) in (1..).zip(&self.machines) {
            let _ = writeln!(text, "{number}. {machine}");
        }
        text + END + &self.after
    }

    fn row(&self, one: &Experiment) -> String {
        let commands: Vec<String> = one
            .runs
            .iter()
            .map(|run| format!("`{}`", run.command))
            .collect();
        let values = self
            .values
            .get(one.name)
            .filter(|values| values.0.len() == one.runs.len());
        let values = values
            .cloned()
            .unwrap_or_else(|| Values::new(one.runs.len()));
        format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            one.name,
            one.place,
            one.shows,
            commands.join(BREAK),
            one.seed,
            values.cell(),
            one.lacks
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_until_measured_again() {
        let text = format!("# Prose\n\n{START}{END}\nMore.\n");
        let mut page = Page::parse(&text).unwrap();
        let one = EXPERIMENTS.iter().find(|one| one.runs.len() == 1).unwrap();
        let mut values = Values::new(1);
        values.set(0, "0.5 us", page.machine("a machine, 2 cores"));
        page.set(one.name, values);
        let again = Page::parse(&page.text()).unwrap();
        assert!(again.text().starts_with("# Prose\n") && again.text().ends_with("\nMore.\n"));
        assert!(again.text().contains("| 0.5 us (1) |"), "{}", again.text());
        assert!(again.text().contains("1. a machine, 2 cores\n"));
        let mut later = Page::parse(&again.text()).unwrap();
        later.set(one.name, Values::new(1));
        assert_eq!(later.text(), again.text());
    }
}
