//! What of MPI there is.

use std::fmt::Write as _;

use crate::Table;

impl Table {
    /// A report for people: how many functions of each chapter there are, and which are missing.
    pub fn coverage(&self) -> String {
        let mut text = String::new();
        let mut total = (0, 0);
        for chapter in &self.functions.chapters {
            let Some(number) = chapter.number else {
                continue;
            };
            let missing: Vec<&str> = chapter
                .functions
                .iter()
                .filter(|function| function.implementation.is_none())
                .map(|function| function.name.as_str())
                .collect();
            let all = chapter.functions.len();
            let present = all - missing.len();
            total.0 += present;
            total.1 += all;
            let _ = writeln!(
                text,
                "chapter {number:>2}  {present:>3} of {all:>3}  {}",
                chapter.title
            );
            let mut line = String::new();
            for name in missing {
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
        let _ = writeln!(text, "MPI-3.1     {:>3} of {:>3}", total.0, total.1);
        text
    }
}
