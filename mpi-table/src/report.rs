//! The report on the coverage of MPI.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Table;
use crate::function::{Function, VERSIONS};

impl Table {
    /// Returns a report: the numbers of implemented functions by chapter and by version of the
    /// standard, and the missing functions.
    pub fn coverage(&self) -> String {
        let mut text = String::new();
        for chapter in &self.functions.chapters {
            let Some(number) = chapter.number else {
                continue;
            };
            let missing = || {
                let functions = chapter.functions.iter();
                functions.filter(|function| function.implementation.is_none())
            };
            let all = chapter.functions.len();
            let present = all - missing().count();
            let _ = writeln!(
                text,
                "chapter {number:>2}  {present:>3} of {all:>3}  {}",
                chapter.title
            );
            for (feature, count) in left_out(missing()) {
                let _ = writeln!(
                    text,
                    "            left out: {count} of the feature {feature}"
                );
            }
            let mut line = String::new();
            for function in missing().filter(|function| function.feature.is_none()) {
                let name = &function.name;
                if line.len() + name.len() > 80 {
                    let _ = writeln!(text, "            missing:{line}");
                    line.clear();
                }
                line.push(' ');
                line.push_str(name);
            }
            if !line.is_empty() {
                let _ = writeln!(text, "            missing:{line}");
            }
        }
        for (major, minor) in VERSIONS {
            let new = || {
                let chapters = self.functions.chapters.iter();
                chapters
                    .filter(|chapter| chapter.number.is_some())
                    .flat_map(|chapter| &chapter.functions)
                    .filter(|function| function.since == (major, minor))
            };
            let present = new().filter(|function| function.implementation.is_some());
            let (present, all) = (present.count(), new().count());
            if all > 0 {
                let _ = writeln!(text, "MPI-{major}.{minor}     {present:>3} of {all:>3}");
            }
        }
        text
    }
}

/// Counts the functions of Cargo features that are off, by feature.
fn left_out<'a>(missing: impl Iterator<Item = &'a Function>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for feature in missing.filter_map(|function| function.feature.as_deref()) {
        *counts.entry(feature).or_default() += 1;
    }
    counts
}
