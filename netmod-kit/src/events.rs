//! Events of protocols on standard error, to read where a protocol hangs. `WEFT_LOG` chooses them.
//!
//! Builds with debug assertions or the feature `trace` have them. In all others [`event!`](crate::event)
//! is checked by the compiler and generates no code.

/// A protocol that reports events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "`SUBJECTS` names them")]
pub enum Subject {
    Vci,
    Send,
    Pending,
    Rendezvous,
    Route,
    Tcp,
    Coll,
    Rma,
    Loss,
}

/// The subjects' names in `WEFT_LOG`, in the order of [`Subject`].
pub const SUBJECTS: [&str; 9] = [
    "vci",
    "send",
    "pending",
    "rendezvous",
    "route",
    "tcp",
    "coll",
    "rma",
    "loss",
];

/// How often an event happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A few times in a program: connections, routes, losses.
    Info,
    /// With each message or call.
    Debug,
}

/// Whether this build has events.
pub const ARE_BUILT: bool = cfg!(any(feature = "trace", debug_assertions));

/// The events that `WEFT_LOG` asks for: the highest level of each subject.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Filter([Option<Level>; SUBJECTS.len()]);

impl Filter {
    /// Parses a list such as `vci,rendezvous,tcp=info`. Later entries override earlier ones.
    ///
    /// # Errors
    /// An entry is no subject or has no such level; the text says what is possible.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for entry in text.split(',').map(str::trim) {
            let (name, level) = entry.split_once('=').unwrap_or((entry, "debug"));
            let level = match level {
                "off" => None,
                "info" => Some(Level::Info),
                "debug" => Some(Level::Debug),
                _ => return Err(format!("{entry:?} has no level off, info or debug")),
            };
            match SUBJECTS.iter().position(|subject| *subject == name) {
                Some(index) => filter.0[index] = level,
                None if name == "all" => filter.0 = [level; SUBJECTS.len()],
                None => {
                    let known = SUBJECTS.join(", ");
                    return Err(format!("{name:?} is not one of all, {known}"));
                }
            }
        }
        Ok(filter)
    }

    /// Returns whether an event is asked for.
    pub fn has(&self, subject: Subject, level: Level) -> bool {
        self.0[subject as usize].is_some_and(|highest| level <= highest)
    }
}

/// Reports an event of a subject and a level: `event!(Rendezvous, Debug, "RTS of {len} bytes")`.
///
/// The arguments are evaluated only if `WEFT_LOG` asks for the event.
#[cfg(any(feature = "trace", debug_assertions))]
#[macro_export]
macro_rules! event {
    ($subject:ident, $level:ident, $($text:tt)+) => {
        if $crate::events::is_on($crate::events::Subject::$subject, $crate::events::Level::$level) {
            $crate::events::write(
                $crate::events::Subject::$subject,
                ::std::format_args!($($text)+),
            );
        }
    };
}

/// Reports an event in builds that have events; this one has none.
#[cfg(not(any(feature = "trace", debug_assertions)))]
#[macro_export]
macro_rules! event {
    ($subject:ident, $level:ident, $($text:tt)+) => {
        if false {
            let _ = ($crate::events::Subject::$subject, $crate::events::Level::$level);
            let _ = ::std::format_args!($($text)+);
        }
    };
}

#[cfg(any(feature = "trace", debug_assertions))]
pub use built::{is_on, set_rank, write};

/// The rank is shown in events, which this build does not have.
#[cfg(not(any(feature = "trace", debug_assertions)))]
pub fn set_rank(_rank: u32) {}

#[cfg(any(feature = "trace", debug_assertions))]
mod built {
    use std::fmt;
    use std::io::Write;
    use std::sync::OnceLock;
    use std::time::SystemTime;

    use super::{Filter, Level, SUBJECTS, Subject};

    /// This process's rank in its world, once it is known.
    static RANK: OnceLock<u32> = OnceLock::new();

    /// Sets the rank that events are marked with. Events before it have the process's number.
    pub fn set_rank(rank: u32) {
        let _ = RANK.set(rank);
    }

    /// Returns whether `WEFT_LOG` asks for an event. A malformed value asks for none: `MPI_Init`
    /// reports it.
    pub fn is_on(subject: Subject, level: Level) -> bool {
        static FILTER: OnceLock<Filter> = OnceLock::new();
        let read = || {
            let text = std::env::var("WEFT_LOG").ok();
            let filter = text.and_then(|text| Filter::parse(&text).ok());
            filter.unwrap_or_default()
        };
        FILTER.get_or_init(read).has(subject, level)
    }

    /// Writes an event in one call, so that lines of several processes stay whole. The time of day is
    /// UTC, and orders the events of a host's processes.
    pub fn write(subject: Subject, text: fmt::Arguments<'_>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let (seconds, micros) = (now.as_secs() % 86_400, now.subsec_micros());
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let name = SUBJECTS[subject as usize];
        let from = match RANK.get() {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", std::process::id()),
        };
        let line =
            format!("{hours:02}:{minutes:02}:{seconds:02}.{micros:06} {from} {name}: {text}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_levels() {
        let filter = Filter::parse("vci, tcp=info,rma=off").unwrap();
        assert!(filter.has(Subject::Vci, Level::Debug));
        assert!(filter.has(Subject::Tcp, Level::Info));
        assert!(!filter.has(Subject::Tcp, Level::Debug));
        assert!(!filter.has(Subject::Rma, Level::Info));
        assert!(!filter.has(Subject::Loss, Level::Info));
        let all = Filter::parse("all,send=off").unwrap();
        assert!(all.has(Subject::Loss, Level::Debug) && !all.has(Subject::Send, Level::Info));
    }

    #[test]
    fn wrong_entries_are_named() {
        let wrong = |text: &str| Filter::parse(text).unwrap_err();
        assert!(wrong("vcis").contains("\"vcis\" is not one of all, vci, send"));
        assert!(wrong("vci=trace").contains("\"vci=trace\" has no level"));
    }

    #[test]
    fn subjects_are_in_the_order_of_their_names() {
        assert_eq!(SUBJECTS[Subject::Rendezvous as usize], "rendezvous");
        assert_eq!(SUBJECTS[Subject::Loss as usize], "loss");
    }
}
