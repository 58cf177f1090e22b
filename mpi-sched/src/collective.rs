//! The collectives, their algorithms and the names of these, from `mpi-table/collectives.mpi`.
//!
//! The build script generates the enums, the dispatch of algorithms by messages to the functions
//! that build their schedules, and the [`ENTRIES`] by which names are read.

use super::schedule::Schedule;
use super::situation::Situation;
use mpi_types::error::{Class, Error, Result};

include!(concat!(env!("OUT_DIR"), "/collectives.rs"));

/// The medium through which a schedule's data moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executor {
    /// Messages between ranks.
    Messages,
    /// Slots of a node in shared memory.
    Slots,
    /// Copies from each other's memory within a node.
    Direct,
    /// Writes to slots over a network.
    Writes,
}

/// The algorithms of a collective by messages.
pub trait ByMessages: Copy {
    /// The collective.
    const COLLECTIVE: Collective;
    /// The algorithm that is used if nothing selects one.
    const FIRST: Self;

    /// Returns the algorithm if it is one of this enum.
    fn of(algorithm: Algorithm) -> Option<Self>;

    /// Returns the algorithm that replaces this one where it does not support the operation.
    #[must_use]
    fn resolve(self, _: &Situation) -> Self {
        self
    }
}

/// The most parameters of an algorithm.
const MAX_PARAMETERS: usize = 2;

/// An algorithm as names are read.
pub struct Entry {
    /// The collective.
    pub collective: Collective,
    /// The algorithm's name, with `-` between words.
    pub name: &'static str,
    /// The parameters that may follow the name.
    pub parameters: &'static [Parameter],
    make: fn([Option<usize>; MAX_PARAMETERS]) -> Algorithm,
}

/// A parameter of an algorithm.
pub struct Parameter {
    /// What the number is.
    pub help: &'static str,
    /// The allowed values; empty if all from `least` on are.
    pub values: &'static [usize],
    /// The least value.
    pub least: usize,
}

impl Parameter {
    fn parse(&self, text: &str) -> Option<usize> {
        let is_allowed = |value: &usize| match self.values {
            [] => *value >= self.least,
            values => values.contains(value),
        };
        text.parse().ok().filter(is_allowed)
    }
}

impl Entry {
    /// Returns the algorithm with these parameters; `None` if one is wrong or there are too many.
    fn algorithm(&self, parameters: Option<&str>) -> Option<Algorithm> {
        let mut values = [None; MAX_PARAMETERS];
        let mut known = self.parameters.iter().zip(&mut values);
        for text in parameters.iter().flat_map(|all| all.split(':')) {
            let (parameter, value) = known.next()?;
            *value = Some(parameter.parse(text)?);
        }
        Some((self.make)(values))
    }

    /// Describes the name and the parameters, for errors.
    fn usage(&self) -> String {
        let parameters = self.parameters.iter().map(|parameter| {
            let values: Vec<String> = parameter.values.iter().map(usize::to_string).collect();
            match (values.is_empty(), parameter.least) {
                (false, _) => format!("[:{} {}]", parameter.help, values.join("|")),
                (true, 1) => format!("[:{}]", parameter.help),
                (true, least) => format!("[:{} from {least} on]", parameter.help),
            }
        });
        self.name.to_owned() + &parameters.collect::<String>()
    }
}

/// What a name in `WEFT_COLL` or a tuning file selects something for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The algorithm of a collective.
    Collective(Collective),
    /// A switch.
    Switch(Switch),
}

impl Subject {
    /// The number of subjects.
    pub(crate) const COUNT: usize = Collective::ALL.len() + Switch::ALL.len();

    pub(crate) fn all() -> impl Iterator<Item = Subject> {
        let switches = Switch::ALL.into_iter().map(Subject::Switch);
        let collectives = Collective::ALL.into_iter().map(Subject::Collective);
        collectives.chain(switches)
    }

    /// Returns the position in arrays of [`Subject::COUNT`] elements.
    pub(crate) const fn index(self) -> usize {
        match self {
            Subject::Collective(collective) => collective as usize,
            Subject::Switch(switch) => Collective::ALL.len() + switch as usize,
        }
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Subject::Collective(collective) => collective.name(),
            Subject::Switch(switch) => switch.name(),
        }
    }

    /// Returns whether this is its name, in which `-` and `_` are equal.
    pub(crate) fn is_called(self, name: &str) -> bool {
        let letters = name.bytes().map(|letter| match letter {
            b'-' => b'_',
            letter => letter,
        });
        letters.eq(self.name().bytes())
    }

    /// Returns the subject of this name, in which `-` and `_` are equal.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` with the names of all subjects.
    pub(crate) fn parse(name: &str) -> Result<Subject> {
        let wrong = || {
            let known: Vec<_> = Subject::all().map(Subject::name).collect();
            let known = known.join(", ");
            let name = name.replace('-', "_");
            Error::new(
                Class::Arg,
                format!("there is no choice of algorithms for \"{name}\"; there is for {known}"),
            )
        };
        let found = Subject::all().find(|subject| subject.is_called(name));
        found.ok_or_else(wrong)
    }

    /// Returns what this text selects, in which `-` and `_` are equal; `None` for `auto`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` with all texts that may stand there.
    pub(crate) fn setting(self, text: &str) -> Result<Option<Setting>> {
        let text = text.replace('_', "-");
        if text == "auto" {
            return Ok(None);
        }
        let found = match self {
            Subject::Switch(_) => match &*text {
                "on" => Some(Setting::Switch(true)),
                "off" => Some(Setting::Switch(false)),
                _ => None,
            },
            Subject::Collective(collective) => {
                let (name, parameters) = match text.split_once(':') {
                    Some((name, parameters)) => (name, Some(parameters)),
                    None => (&*text, None),
                };
                let algorithm = entries(collective)
                    .find(|entry| entry.name == name)
                    .and_then(|entry| entry.algorithm(parameters));
                algorithm.map(Setting::Algorithm)
            }
        };
        let wrong = || {
            let known = match self {
                Subject::Switch(_) => "on, off".to_owned(),
                Subject::Collective(collective) => {
                    let known: Vec<_> = entries(collective).map(Entry::usage).collect();
                    known.join(", ")
                }
            };
            let name = self.name();
            let text = format!("\"{text}\" is no algorithm for {name}; there are auto, {known}");
            Error::new(Class::Arg, text)
        };
        found.map(Some).ok_or_else(wrong)
    }
}

/// What is selected for a [`Subject`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// An algorithm of the collective.
    Algorithm(Algorithm),
    /// The state of the switch.
    Switch(bool),
}

/// Returns the algorithms of a collective.
pub fn entries(collective: Collective) -> impl Iterator<Item = &'static Entry> {
    ENTRIES
        .iter()
        .filter(move |entry| entry.collective == collective)
}
