//! Tuning files: rules that say from which numbers of ranks and bytes on which algorithms are used.
//!
//! A line is a rule: collective, ranks, ranks per node, bytes, algorithms. It applies from these
//! numbers on, as [`Situation`] counts them. Ranks may be a range (`2-2`), bytes may have a unit
//! (`64k`, `4M`), depend on the ranks (`64k*ranks`, `8M/ranks`), and exclude the number itself
//! (`>4M`). Of several algorithms, a direct one is preferred to one in slots, and that to messages;
//! `messages` alone leaves the algorithm to other rules. `#` begins a comment.
//!
//! A heading restricts the rules below it to shared memory of a node: `[node]`; `[busy]` while
//! several collectives may be in execution, or ranks outnumber cores; `[crowded]` for the latter
//! alone. Of the rules that apply, those below the later heading decide, then the most ranks, ranks
//! per node and bytes, then the later line.
//!
//! The built-in rules are `tuning/default`, and before them those of `tuning/far-cores` where one
//! copy by CMA is expected to be faster than two through slots, as the members of a communicator
//! agree. A file of the user (`WEFT_COLL_TABLE`), which `osu-bench tune` writes, comes before both.

use std::mem;
use std::sync::OnceLock;

use super::collective::{Algorithm, Executor, Setting, Subject};
use super::situation::Situation;
use super::slots::{Direct, Slots};
use mpi_types::error::{Class, Error, Result};

/// The built-in rules.
static DEFAULT: BuiltIn = BuiltIn::new(include_str!("../tuning/default"));

/// The built-in rules for cores that share no cache.
static FAR_CORES: BuiltIn = BuiltIn::new(include_str!("../tuning/far-cores"));

/// The ranks that rules below a heading are for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
enum Scope {
    /// All ranks.
    #[default]
    Any,
    /// Ranks that share a node.
    Node,
    /// Those of them with several collectives in execution, or with fewer cores than ranks.
    Busy,
    /// Those of them with fewer cores than ranks.
    Crowded,
}

/// The headings of tuning files.
const HEADINGS: [(&str, Scope); 3] = [
    ("[node]", Scope::Node),
    ("[busy]", Scope::Busy),
    ("[crowded]", Scope::Crowded),
];

/// The ranks that select an algorithm.
#[derive(Clone, Copy, Default, Debug)]
pub struct Locality {
    scope: Scope,
    has_far_cores: bool,
}

impl Locality {
    /// Ranks that share a node, in whatever state.
    pub const NODE: Locality = Locality {
        scope: Scope::Node,
        has_far_cores: false,
    };
}

impl From<Slots> for Locality {
    fn from(slots: Slots) -> Locality {
        Locality {
            scope: match (slots.crowded, slots.is_nonblocking) {
                (true, _) => Scope::Crowded,
                (false, true) => Scope::Busy,
                (false, false) => Scope::Node,
            },
            has_far_cores: slots.direct == Direct::Quicker,
        }
    }
}

/// A number of bytes that may depend on the number of ranks.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    number: usize,
    per: Per,
    is_exclusive: bool,
}

#[derive(Clone, Copy, Debug)]
enum Per {
    Call,
    TimesRanks,
    OverRanks,
}

impl Bytes {
    fn parse(text: &str) -> Option<Bytes> {
        let (text, is_exclusive) = match text.strip_prefix('>') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (text, per) = match (text.strip_suffix("*ranks"), text.strip_suffix("/ranks")) {
            (Some(text), _) => (text, Per::TimesRanks),
            (_, Some(text)) => (text, Per::OverRanks),
            _ => (text, Per::Call),
        };
        let (digits, unit) = match (text.strip_suffix('k'), text.strip_suffix('M')) {
            (Some(digits), _) => (digits, 1 << 10),
            (_, Some(digits)) => (digits, 1 << 20),
            _ => (text, 1),
        };
        let number = digits.parse::<usize>().ok()?.checked_mul(unit)?;
        Some(Bytes {
            number,
            per,
            is_exclusive,
        })
    }

    /// Returns the least bytes of a call on `ranks` ranks.
    fn least(self, ranks: usize) -> usize {
        let number = match self.per {
            Per::Call => self.number,
            Per::TimesRanks => self.number.saturating_mul(ranks),
            Per::OverRanks => self.number / ranks.max(1),
        };
        number.saturating_add(usize::from(self.is_exclusive))
    }
}

/// A line of a tuning file.
#[derive(Clone, Debug)]
pub struct Rule {
    scope: Scope,
    ranks: usize,
    most_ranks: usize,
    per_node: usize,
    bytes: Bytes,
    settings: Vec<Setting>,
}

impl Rule {
    /// Returns what decides between rules that apply, before the least bytes do.
    fn rank(&self) -> (Scope, usize, usize) {
        (self.scope, self.ranks, self.per_node)
    }

    /// Returns the least bytes for which the rule applies; `None` if it does not apply.
    fn least_bytes(&self, situation: &Situation, locality: Locality) -> Option<usize> {
        let applies = self.ranks <= situation.ranks
            && situation.ranks <= self.most_ranks
            && self.scope <= locality.scope
            && self.per_node <= situation.per_node;
        if !applies {
            return None;
        }
        let bytes = self.bytes.least(situation.ranks);
        (bytes <= situation.bytes).then_some(bytes)
    }

    /// Returns the algorithm with this executor, if the rule names one.
    pub(super) fn algorithm(&self, executor: Executor) -> Option<Algorithm> {
        self.settings.iter().find_map(|setting| match setting {
            Setting::Algorithm(algorithm) if algorithm.executor() == executor => Some(*algorithm),
            _ => None,
        })
    }

    /// Returns the state of the rule's switch.
    pub(super) fn switch(&self) -> Option<bool> {
        self.settings.iter().find_map(|setting| match setting {
            Setting::Switch(is_on) => Some(*is_on),
            Setting::Algorithm(_) => None,
        })
    }

    /// Parses a line's words.
    fn parse(words: &[&str], scope: Scope) -> std::result::Result<(Subject, Rule), String> {
        let &[subject, ranks, per_node, bytes, ref settings @ ..] = words else {
            return Err(wrong_length(words));
        };
        if settings.is_empty() {
            return Err(wrong_length(words));
        }
        let detail = |error: Error| error.detail().to_string();
        let subject = Subject::parse(subject).map_err(detail)?;
        let mut chosen: Vec<Setting> = Vec::new();
        for setting in settings.iter().filter(|setting| **setting != "messages") {
            if let Some(setting) = subject.setting(setting).map_err(detail)? {
                let executor = |setting: &Setting| match setting {
                    Setting::Algorithm(algorithm) => Some(algorithm.executor()),
                    Setting::Switch(_) => None,
                };
                if chosen
                    .iter()
                    .any(|other| executor(other) == executor(&setting))
                {
                    return Err(format!("{} and another of its kind", settings.join(" ")));
                }
                chosen.push(setting);
            }
        }
        let number = |word: &str| {
            let number: Option<usize> = word.parse().ok();
            number.ok_or_else(|| format!("{word:?} is not a number"))
        };
        let (least, most) = match ranks.split_once('-') {
            Some((least, most)) => (number(least)?, number(most)?),
            None => (number(ranks)?, usize::MAX),
        };
        let rule = Rule {
            scope,
            ranks: least,
            most_ranks: most,
            per_node: number(per_node)?,
            bytes: Bytes::parse(bytes)
                .ok_or_else(|| format!("{bytes:?} is not a number of bytes"))?,
            settings: chosen,
        };
        Ok((subject, rule))
    }
}

fn wrong_length(words: &[&str]) -> String {
    format!(
        "{} words; a rule has collective, ranks, ranks per node, bytes and algorithms",
        words.len()
    )
}

/// The rules of a tuning file, by subject, and of each those with the highest [`Rule::rank`] first.
#[derive(Clone, Default, Debug)]
pub struct Rules([Vec<Rule>; Subject::COUNT]);

impl Rules {
    /// Parses a tuning file.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` with the number of the first invalid line, and why it is invalid.
    pub fn parse(text: &str) -> Result<Rules> {
        Rules::parse_those_for(None, text)
    }

    /// Parses the rules for a subject, or all.
    fn parse_those_for(wanted: Option<Subject>, text: &str) -> Result<Rules> {
        let mut rules = Rules::default();
        let mut scope = Scope::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let is_other = |word: &str| {
                !word.starts_with('[') && wanted.is_some_and(|subject| !subject.is_called(word))
            };
            if line.split_whitespace().next().is_none_or(is_other) {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = |why: String| Error::new(Class::Arg, format!("line {number}: {why}"));
            match *words {
                [heading] if heading.starts_with('[') => {
                    let known = HEADINGS.iter().find(|(name, _)| *name == heading);
                    let unknown = || format!("{heading} is none of [node], [busy] and [crowded]");
                    scope = known.ok_or_else(|| wrong(unknown()))?.1;
                }
                _ => {
                    let (subject, rule) = Rule::parse(&words, scope).map_err(wrong)?;
                    rules.0[subject.index()].push(rule);
                }
            }
        }
        for rules in &mut rules.0 {
            rules.sort_by_key(|rule| std::cmp::Reverse(rule.rank()));
        }
        Ok(rules)
    }

    /// Returns whether a rule chooses writes over a network.
    pub(super) fn has_writes(&self) -> bool {
        let mut rules = self.0.iter().flatten();
        rules.any(|rule| rule.algorithm(Executor::Writes).is_some())
    }

    /// Returns the rule that decides a call.
    pub(super) fn find(
        &self,
        subject: Subject,
        situation: &Situation,
        locality: Locality,
    ) -> Option<&Rule> {
        find(&self.0[subject.index()], situation, locality)
    }
}

/// Returns the rule of a subject that decides a call: of those with the highest rank that apply, the
/// one with the most bytes, and of equal ones the last.
fn find<'a>(rules: &'a [Rule], situation: &Situation, locality: Locality) -> Option<&'a Rule> {
    let mut found: Option<(usize, &Rule)> = None;
    for rule in rules {
        if found.is_some_and(|(_, known)| known.rank() != rule.rank()) {
            break;
        }
        if let Some(bytes) = rule.least_bytes(situation, locality)
            && found.is_none_or(|(most, _)| most <= bytes)
        {
            found = Some((bytes, rule));
        }
    }
    found.map(|(_, rule)| rule)
}

/// A built-in tuning file. The rules for a subject are parsed when they are first asked for.
struct BuiltIn {
    text: &'static str,
    rules: [OnceLock<Vec<Rule>>; Subject::COUNT],
}

impl BuiltIn {
    const fn new(text: &'static str) -> BuiltIn {
        BuiltIn {
            text,
            rules: [const { OnceLock::new() }; Subject::COUNT],
        }
    }

    fn rules_for(&self, subject: Subject) -> &[Rule] {
        self.rules[subject.index()].get_or_init(|| {
            let mut rules = Rules::parse_those_for(Some(subject), self.text)
                .unwrap_or_else(|error| panic!("internal error: tuning rules: {error}"));
            mem::take(&mut rules.0[subject.index()])
        })
    }
}

/// Returns the built-in rule that decides a call.
pub(super) fn built_in_rule(
    subject: Subject,
    situation: &Situation,
    locality: Locality,
) -> Option<&'static Rule> {
    let default = find(DEFAULT.rules_for(subject), situation, locality);
    let far = match locality.has_far_cores {
        true => find(FAR_CORES.rules_for(subject), situation, locality),
        false => None,
    };
    match far {
        Some(rule) if default.is_none_or(|other| other.scope <= rule.scope) => Some(rule),
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allreduce, Barrier, Bcast, Choices, Collective};

    fn at(ranks: usize, bytes: usize) -> Situation {
        Situation {
            ranks,
            per_node: ranks.min(8),
            bytes,
            commutes: true,
        }
    }

    fn in_slots(choices: &Choices, situation: &Situation) -> bool {
        choices.in_slots(Collective::Bcast, situation, Locality::NODE)
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
        assert!(in_slots(&choices, &at(4, 999)));
        assert!(!in_slots(&choices, &at(4, 1000)));
        let chain = Bcast::Chain { segment: 500 };
        assert_eq!(choices.bcast(&at(4, 1000)), chain);
        assert_eq!(choices.bcast(&at(16, 1000)), Bcast::ScatterRing);
        assert!(!in_slots(&choices, &at(16, 8)));
        assert_eq!(choices.allreduce(&at(2, 8)), Allreduce::Ring);
        // Calls without a rule use the built-in choices.
        assert_eq!(choices.barrier(&at(2, 0)), Barrier::Dissemination);
        assert!(choices.in_slots(Collective::Barrier, &at(2, 0), Locality::NODE));
        // A choice by name precedes the table.
        choices.set("bcast", "binomial").unwrap();
        assert_eq!(choices.bcast(&at(4, 1000)), Bcast::Binomial);
        assert!(!in_slots(&choices, &at(4, 8)));
        choices.set("bcast", "slots").unwrap();
        assert!(in_slots(&choices, &at(4, 1 << 20)));
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
            "bcast 2 1 4kk binomial",
            "bcast 2 1 99999999999999999999M binomial",
            "bcast 2-x 1 0 binomial",
            "bcast 2 1 0 binomial chain",
            "nodes 2 1 0 slots",
            "[nodes]",
        ] {
            let text = format!("# fine\nbcast 2 1 0 binomial\n{wrong}\n");
            let error = choices.read_table(&text).unwrap_err();
            assert!(error.detail().starts_with("line 3: "), "{error}");
        }
        assert!(!in_slots(&choices, &at(4, 1 << 30)));
        assert_eq!(choices.bcast(&at(2, 1 << 20)), Bcast::Binomial);
    }

    #[test]
    fn the_built_in_files_are_valid() {
        for file in [&DEFAULT, &FAR_CORES] {
            let all = Rules::parse(file.text).unwrap();
            for subject in Subject::all() {
                assert_eq!(
                    file.rules_for(subject).len(),
                    all.0[subject.index()].len(),
                    "{}",
                    subject.name()
                );
            }
        }
    }

    #[test]
    fn bytes_may_depend_on_ranks() {
        let least = |text: &str| Bytes::parse(text).map(|bytes| bytes.least(3));
        assert_eq!(least("4k"), Some(4096));
        assert_eq!(least(">1M"), Some((1 << 20) + 1));
        assert_eq!(least("2k*ranks"), Some(6144));
        assert_eq!(least(">100/ranks"), Some(34));
        for wrong in ["", "k", "-1", "1.5k", "4K", "*ranks", "1k*2"] {
            assert_eq!(least(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rules_of_a_narrower_scope_decide() {
        let mut choices = Choices::default();
        let text = "bcast 2 1 0 direct slots chain:500\n\
                    nodes 2 1 100 on\n\
                    [node]\n\
                    bcast 2-3 1 0 messages\n";
        choices.read_table(text).unwrap();
        assert!(in_slots(&choices, &at(4, 8)) && !in_slots(&choices, &at(3, 8)));
        assert!(choices.asks_for_direct(Collective::Bcast, &at(4, 8), Locality::NODE));
        assert!(!choices.asks_for_direct(Collective::Bcast, &at(3, 8), Locality::NODE));
        assert_eq!(choices.bcast(&at(3, 8)), Bcast::Chain { segment: 500 });
        let far = |bytes| Situation {
            per_node: 8,
            ..at(64, bytes)
        };
        assert!(choices.by_nodes(&far(1 << 20)) && choices.by_nodes(&far(8)));
    }
}
