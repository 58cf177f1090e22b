//! Summarizes the wait reports of all ranks: where each rank waits, and for which rank.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::hang_detector;

/// Time that ranks have to print their wait reports.
pub const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time for ranks within MPI without a report so far. To find the line of a call takes seconds on a
/// busy machine, or where a program has much debug information.
pub const LAST_WORDS_OF_ALL: Duration = Duration::from_secs(10);
/// Interval at which the launcher checks whether all reports have arrived.
pub const LOOK_FOR_WORDS: Duration = Duration::from_millis(50);

/// A request for wait reports in a job that goes on afterwards.
#[derive(Clone, Copy)]
pub struct Inquiry {
    /// Seconds without progress, if a hang caused the request.
    still: Option<u64>,
    /// The earliest time of the summary.
    least: Instant,
    /// The time of the summary if reports are missing.
    most: Instant,
}

impl Inquiry {
    /// Creates a request of `-report` or the quit signal, which the ranks have already received.
    pub fn new() -> Inquiry {
        let now = Instant::now();
        Inquiry {
            still: None,
            least: now + LAST_WORDS,
            most: now + LAST_WORDS_OF_ALL,
        }
    }

    /// Creates a request for a hang; each rank receives it in reply to its next notice of no
    /// progress.
    pub fn of_standstill(seconds: u64) -> Inquiry {
        let now = Instant::now();
        Inquiry {
            still: Some(seconds),
            least: now + 2 * LAST_WORDS,
            most: now + LAST_WORDS_OF_ALL,
        }
    }

    /// Returns the text for the user from the ranks' standard errors.
    pub fn answer<'a>(&self, texts: impl Iterator<Item = &'a [u8]>) -> String {
        let waits =
            summary(texts).unwrap_or_else(|| "no rank has said that it waits in MPI".to_owned());
        match self.still {
            Some(seconds) => format!("{}\n{waits}", hang_detector::text(seconds)),
            None => waits,
        }
    }

    /// Returns when to call [`Self::is_over`] next.
    pub fn due(&self) -> Instant {
        let now = Instant::now();
        if now < self.least {
            self.least
        } else {
            self.most.min(now + LOOK_FOR_WORDS)
        }
    }

    /// Returns whether to print the summary. `all` returns whether all ranks have reported.
    pub fn is_over(&self, all: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        now >= self.most || now >= self.least && all()
    }
}

/// The place at which one rank waits.
#[derive(Debug, PartialEq, Eq)]
struct RankWait {
    rank: usize,
    /// The MPI function and its caller, as the report names them; may be empty.
    place: String,
    /// The rank of `MPI_COMM_WORLD` that it waits for, if that is a single one.
    awaited: Option<usize>,
}

/// Summarizes what the ranks have printed. Returns `None` if no rank waits in MPI.
pub fn summary<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let said: Vec<RankWait> = texts
        .flat_map(|text| parse(&String::from_utf8_lossy(text)))
        .collect();
    if said.is_empty() {
        return None;
    }
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for wait in &said {
        places.entry(&wait.place).or_default().push(wait.rank);
    }
    let mut places: Vec<(&str, Vec<usize>)> = places.into_iter().collect();
    places
        .iter_mut()
        .for_each(|(_, ranks)| ranks.sort_unstable());
    places.sort_by_key(|(_, ranks)| ranks[0]);
    let lines: Vec<String> = places
        .into_iter()
        .map(|(place, ranks)| {
            let (noun, verb) = if ranks.len() == 1 {
                ("rank", "waits")
            } else {
                ("ranks", "wait")
            };
            let place = if place.is_empty() { "in MPI" } else { place };
            format!("{noun} {} {verb} {place}", runs(&ranks))
        })
        .collect();
    let mut text = lines.join("; ");
    if let Some(cycle) = cycle(&said) {
        let cycle: Vec<String> = cycle.iter().map(usize::to_string).collect();
        text += &format!(". They wait for each other: {}", cycle.join(" -> "));
    }
    Some(text)
}

/// A partly parsed report.
struct Report {
    wait: RankWait,
    /// The ranks that its operations wait for.
    awaited: Vec<usize>,
    /// The rank that its collective waits for, if that is a single one.
    collective: Option<usize>,
    /// Number of pending operations.
    operations: usize,
    /// The names of their communicators.
    comms: Vec<Option<String>>,
}

/// Parses the reports in one rank's output (`mpi_core::process::Process::report` writes them).
fn parse(text: &str) -> Vec<RankWait> {
    let mut said: Vec<Report> = Vec::new();
    for line in text.lines() {
        // Lines may begin with a label.
        if let Some((_, rest)) = line.split_once("Weft: process ")
            && let Some((rank, rest)) = rest.split_once(" is waiting")
            && let Ok(rank) = rank.parse()
        {
            let place = rest
                .split_once(". Pending operations:")
                .map_or("", |(place, _)| place);
            let place = place.trim().to_owned();
            said.push(Report {
                wait: RankWait {
                    rank,
                    place,
                    awaited: None,
                },
                awaited: Vec::new(),
                collective: None,
                operations: 0,
                comms: Vec::new(),
            });
            continue;
        }
        let Some(report) = said.last_mut() else {
            continue;
        };
        if let Some((_, rest)) = line.split_once(" of the collective: waits for rank ") {
            report.collective = alone(rest);
            continue;
        }
        let is_operation = ["receive, ", "send, ", ": waits for ", "collective or"];
        if line.contains("VCI ") && is_operation.iter().any(|what| line.contains(what)) {
            report.operations += 1;
            report.awaited.extend(partner(line));
            report.comms.push(communicator(line));
        }
    }
    said.into_iter()
        .map(|report| {
            let Report { wait, comms, .. } = report;
            let alone = report.operations == 1;
            let awaited = report.awaited.first().copied().filter(|_| alone);
            let same = |name: &String| comms.iter().all(|other| other.as_ref() == Some(name));
            let place = match comms.first() {
                Some(Some(name)) if same(name) => on(&wait.place, name),
                _ => wait.place,
            };
            RankWait {
                awaited: report.collective.or(awaited),
                place,
                ..wait
            }
        })
        .collect()
}

/// Parses the process in `5 (process 7)`. Returns `None` if the text names others, too.
fn alone(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("(process ")?;
    let (process, rest) = rest.split_once(')')?;
    let others = rest.starts_with(" and ");
    process.parse().ok().filter(|_| !others)
}

/// Returns the name that the program has given to an operation's communicator.
fn communicator(line: &str) -> Option<String> {
    let (_, name) = line.rsplit_once(", on '")?;
    let name = name.strip_suffix('\'')?;
    (name != "MPI_COMM_WORLD").then(|| name.to_owned())
}

/// Inserts a communicator into a place: `in MPI_Bcast on 'solver', called by main`.
fn on(place: &str, name: &str) -> String {
    match place.split_once(", called by ") {
        Some((function, caller)) => format!("{function} on '{name}', called by {caller}"),
        None => format!("{place} on '{name}'"),
    }
}

/// Returns the peer of an operation on `MPI_COMM_WORLD`, whose contexts are 0 and 1.
fn partner(line: &str) -> Option<usize> {
    let number = |key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split([',', ' ']).next()?.parse::<usize>().ok()
    };
    let process = number(" bytes, to process ").or_else(|| number(" bytes, from process "));
    if process.is_some() {
        return process;
    }
    let of_world = line.contains("context 0x0,") || line.contains("context 0x1,");
    if of_world { number(": rank ") } else { None }
}

/// Returns a cycle of ranks that each wait for the next; the lowest rank is first and last.
fn cycle(waits: &[RankWait]) -> Option<Vec<usize>> {
    let awaits: BTreeMap<usize, usize> = waits
        .iter()
        .filter_map(|wait| Some((wait.rank, wait.awaited?)))
        .collect();
    awaits.keys().find_map(|&first| {
        let mut path = vec![first];
        while let Some(&next) = awaits.get(path.last()?) {
            if let Some(at) = path.iter().position(|&rank| rank == next) {
                let mut cycle = path.split_off(at);
                let least = cycle.iter().enumerate().min_by_key(|(_, rank)| **rank)?.0;
                cycle.rotate_left(least);
                cycle.push(cycle[0]);
                return Some(cycle);
            }
            path.push(next);
        }
        None
    })
}

/// Formats ascending numbers as `0-2, 5`.
fn runs(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<String> {
        summary(texts.iter().map(|text| text.as_bytes()))
    }

    #[test]
    fn who_waits_for_whom() {
        let reduce = |rank: usize, of: usize| {
            format!(
                "Weft: process {rank} is waiting in MPI_Allreduce, called by main at a.c:3. Pending operations:\n  \
                 VCI 0: receive, not matched: rank {of}, tag 0, context 0x1, room for 4 bytes\n  \
                 VCI 0: 1 receives posted, 0 messages unexpected\n"
            )
        };
        let receive = "noise\n[3] Weft: process 3 is waiting in MPI_Recv, called by main at a.c:2. Pending operations:\n  \
             VCI 0: receive, not matched: rank 1, tag 7, context 0x0, room for 4 bytes\n  \
             VCI 0: unexpected message: rank 1, tag 0, context 0x1, 4 bytes, from process 1\n";
        let text = of(&[&reduce(0, 2), &reduce(1, 3), &reduce(2, 3), receive]);
        assert_eq!(
            text.as_deref(),
            Some(
                "ranks 0-2 wait in MPI_Allreduce, called by main at a.c:3; rank 3 waits in MPI_Recv, called by \
                 main at a.c:2. They wait for each other: 1 -> 3 -> 1"
            )
        );
    }

    #[test]
    fn collectives_wait_for_processes() {
        let text = |rank: usize, rest: &str| {
            format!(
                "Weft: process {rank} is waiting in MPI_Barrier. Pending operations:\n  \
                 VCI 0: 0 receives posted, 0 messages unexpected\n  \
                 round 1 of 2 of the collective: waits for rank 0 (process {rest}, on 'halves'\n"
            )
        };
        let both = of(&[&text(4, "5)"), &text(5, "4)")]);
        let expected = "ranks 4-5 wait in MPI_Barrier. They wait for each other: 4 -> 5 -> 4";
        assert_eq!(both.as_deref(), Some(expected));
        let several = of(&[&text(4, "5)"), &text(5, "4) and 1 other")]);
        assert_eq!(several.as_deref(), Some("ranks 4-5 wait in MPI_Barrier"));
    }

    #[test]
    fn who_waits_for_one_of_several_is_in_no_cycle() {
        let two = "Weft: process 0 is waiting. Pending operations:\n  \
             VCI 0: receive, not matched: rank 0, tag 1, context 0x0, room for 4 bytes\n  \
             VCI 0: receive, not matched: rank 0, tag 2, context 0x0, room for 4 bytes\n";
        assert_eq!(of(&[two]).as_deref(), Some("rank 0 waits in MPI"));
        let other = "Weft: process 0 is waiting. Pending operations:\n  \
             VCI 0: receive, not matched: rank 0, tag 1, context 0x5, room for 4 bytes\n";
        assert_eq!(of(&[other]).as_deref(), Some("rank 0 waits in MPI"));
        let send = "Weft: process 4 is waiting in MPI_Ssend. Pending operations:\n  \
             VCI 0: send, waiting for its receive: from rank 4, tag 1, context 0x8, 0 of 4 bytes, to process 4\n";
        let expected = "rank 4 waits in MPI_Ssend. They wait for each other: 4 -> 4";
        assert_eq!(of(&[send]).as_deref(), Some(expected));
    }

    #[test]
    fn communicators_are_named() {
        let text = |rank: usize, name: &str| {
            format!(
                "Weft: process {rank} is waiting in MPI_Bcast, called by main at a.c:3. Pending operations:\n  \
                 VCI 0: receive, not matched: rank 0, tag 0, context 0x9, room for 4 bytes, on '{name}'\n"
            )
        };
        assert_eq!(
            of(&[
                &text(0, "solver"),
                &text(1, "solver"),
                &text(2, "MPI_COMM_WORLD")
            ])
            .as_deref(),
            Some(
                "ranks 0-1 wait in MPI_Bcast on 'solver', called by main at a.c:3; rank 2 waits in MPI_Bcast, \
                 called by main at a.c:3"
            )
        );
    }

    #[test]
    fn nothing_from_nothing() {
        assert_eq!(
            of(&["", "some text\n  VCI 0: receive, not matched: rank 0\n"]),
            None
        );
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
    }
}
