//! Tables of measured algorithm choices: text that `osu-bench tune` writes.
//!
//! A line is a rule: collective, ranks, ranks per node, bytes, algorithm. It applies from these
//! numbers of ranks, ranks per node and bytes on, as [`Situation`] counts them; of the rules that
//! apply, the one with the most ranks decides, then ranks per node, then bytes. `#` begins a
//! comment.

use super::choose::{Choices, Situation, collective_name};
use mpi_types::error::{Class, Error, Result};

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Rule {
    collective: Box<str>,
    ranks: usize,
    per_node: usize,
    bytes: usize,
    /// Choices with only this collective's algorithm set.
    choices: Choices,
}

impl Rule {
    /// Returns whether the rule chooses remote writes.
    pub(super) fn asks_for_writes(&self) -> bool {
        self.choices.asks_for_writes()
    }
}

/// Returns the rule that decides a call.
pub(super) fn find<'a>(
    rules: &'a [Rule],
    collective: &str,
    situation: &Situation,
) -> Option<&'a Choices> {
    rules
        .iter()
        .filter(|rule| {
            &*rule.collective == collective
                && rule.ranks <= situation.ranks
                && rule.per_node <= situation.per_node
                && rule.bytes <= situation.bytes
        })
        .max_by_key(|rule| (rule.ranks, rule.per_node, rule.bytes))
        .map(|rule| &rule.choices)
}

impl Choices {
    /// Replaces the table.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` with the number of the first invalid line, and why it is invalid; nothing has
    /// changed then.
    pub fn read_table(&mut self, text: &str) -> Result<()> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() {
                let wrong = |why: String| Error::new(Class::Arg, format!("line {number}: {why}"));
                rules.push(rule(&words).map_err(wrong)?);
            }
        }
        self.rules = rules.into();
        Ok(())
    }
}

fn rule(words: &[&str]) -> std::result::Result<Rule, String> {
    let &[collective, ranks, per_node, bytes, algorithm] = words else {
        return Err(format!(
            "{} words; a rule has collective, ranks, ranks per node, bytes and algorithm",
            words.len()
        ));
    };
    let number = |word: &str| {
        let number: Option<usize> = word.parse().ok();
        number.ok_or_else(|| format!("{word:?} is not a number"))
    };
    let mut choices = Choices::default();
    choices
        .set(collective, algorithm)
        .map_err(|error| error.detail().to_string())?;
    Ok(Rule {
        collective: collective_name(collective).into(),
        ranks: number(ranks)?,
        per_node: number(per_node)?,
        bytes: number(bytes)?,
        choices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allreduce, Barrier, Bcast};

    fn at(ranks: usize, bytes: usize) -> Situation {
        Situation {
            ranks,
            per_node: ranks.min(8),
            bytes,
            commutes: true,
        }
    }

    #[test]
    fn the_closest_rule_from_below_decides() {
        let mut choices = Choices::default();
        let text = "# measured\n\
                    bcast 2 1 0 slots # small\n\
                    bcast 2 1 1000 chain:500\n\
                    bcast 16 1 0 scatter-ring\n\
                    \n\
                    allreduce 1 1 0 ring\n";
        choices.read_table(text).unwrap();
        assert!(choices.in_slots("bcast", &at(4, 999)));
        assert!(!choices.in_slots("bcast", &at(4, 1000)));
        let chain = Bcast::Chain { segment: 500 };
        assert_eq!(choices.bcast(&at(4, 1000)), chain);
        assert_eq!(choices.bcast(&at(16, 1000)), Bcast::ScatterRing);
        assert!(!choices.in_slots("bcast", &at(16, 8)));
        assert_eq!(choices.allreduce(&at(2, 8)), Allreduce::Ring);
        // Calls without a rule use the built-in choices.
        assert_eq!(choices.barrier(&at(2, 0)), Barrier::Dissemination);
        assert!(choices.in_slots("barrier", &at(2, 0)));
        // A choice by name precedes the table.
        choices.set("bcast", "binomial").unwrap();
        assert_eq!(choices.bcast(&at(4, 1000)), Bcast::Binomial);
        assert!(!choices.in_slots("bcast", &at(4, 8)));
        choices.set("bcast", "slots").unwrap();
        assert!(choices.in_slots("bcast", &at(4, 1 << 20)));
    }

    #[test]
    fn wrong_lines_are_named() {
        let mut choices = Choices::default();
        for wrong in [
            "bcast 2 1 0",
            "bcast 2 1 x binomial",
            "bcast 2 1 0 magic",
            "cast 2 1 0 ring",
            "bcast 2 -1 0 binomial",
            "a b c d e f g",
        ] {
            let text = format!("# fine\nbcast 2 1 0 binomial\n{wrong}\n");
            let error = choices.read_table(&text).unwrap_err();
            assert!(error.detail().starts_with("line 3: "), "{error}");
        }
        assert_eq!(choices.rules.len(), 0);
    }
}
