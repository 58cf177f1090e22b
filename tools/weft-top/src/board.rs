//! The last reports of all ranks, with a summary and a warning of hangs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::message::{Doing, Message};
use crate::text;

/// Time without a report after which a rank is silent: it has died, is stopped, or can't reach this
/// process.
const SILENT: Duration = Duration::from_secs(5);
/// Time without a returning call after which the view warns.
const STILL: Duration = Duration::from_secs(3);
/// Most past shares that are kept of a rank.
const PAST: usize = 60;

/// A rank's last report.
pub struct Rank {
    pub last: Message,
    /// Time in MPI between the last two reports, in percent.
    pub share: f64,
    /// The shares of earlier reports, oldest first.
    pub past: Vec<u64>,
    said: Instant,
    /// The time at which its number of calls changed last.
    still: Instant,
}

impl Rank {
    /// Returns whether the rank has stopped reporting without finalizing.
    pub fn is_silent(&self, now: Instant) -> bool {
        self.last.doing != Doing::Finalized && now.duration_since(self.said) >= SILENT
    }
}

/// The reports of all ranks. Ranks of spawned jobs come last; several may have one number.
#[derive(Default)]
pub struct Board {
    pub ranks: BTreeMap<(bool, u32, String, u32), Rank>,
    /// Number of ranks of the job, without spawned ones.
    pub size: u32,
}

impl Board {
    /// Records a rank's report.
    pub fn hear(&mut self, message: Message, now: Instant) {
        if !message.spawned {
            self.size = self.size.max(message.size);
        }
        let pid = if message.spawned { message.pid } else { 0 };
        let host = if message.spawned {
            message.host.clone()
        } else {
            String::new()
        };
        let key = (message.spawned, message.rank, host, pid);
        let Some(rank) = self.ranks.get_mut(&key) else {
            let new = Rank {
                last: message,
                share: 0.0,
                past: Vec::new(),
                said: now,
                still: now,
            };
            self.ranks.insert(key, new);
            return;
        };
        rank.said = now;
        let time = message.elapsed.saturating_sub(rank.last.elapsed);
        // A copy of the last report, sent to another address of this host.
        if time == 0 {
            return;
        }
        let inside = message.inside.saturating_sub(rank.last.inside) as f64;
        let all = time as f64 * message.threads.max(1) as f64;
        rank.share = (100.0 * inside / all).min(100.0);
        rank.past.push(rank.share as u64);
        if rank.past.len() > PAST {
            rank.past.remove(0);
        }
        if message.calls != rank.last.calls || message.doing == Doing::Computing {
            rank.still = now;
        }
        rank.last = message;
    }

    /// Returns the time since a call of any rank has returned, if it is at least [`STILL`].
    pub fn still(&self, now: Instant) -> Option<Duration> {
        let live = || {
            self.ranks
                .values()
                .filter(|rank| rank.last.doing != Doing::Finalized)
        };
        let all = live().all(|rank| matches!(rank.last.doing, Doing::In(..)));
        let last = live().map(|rank| rank.still).max()?;
        let known = self.ranks.len() >= self.size as usize;
        let since = now.duration_since(last);
        (all && known && since >= STILL).then_some(since)
    }

    /// Returns a cycle of ranks that each wait for the next; the lowest rank is first and last.
    fn cycle(&self) -> Option<Vec<u32>> {
        let waits: BTreeMap<u32, u32> = self
            .ranks
            .values()
            .filter(|rank| !rank.last.spawned && matches!(rank.last.doing, Doing::In(..)))
            .filter_map(|rank| Some((rank.last.rank, rank.last.peer?)))
            .collect();
        waits.keys().find_map(|&first| {
            let mut path = vec![first];
            while let Some(&next) = waits.get(path.last()?) {
                if next == first {
                    path.push(next);
                    return Some(path);
                }
                if path.contains(&next) {
                    return None;
                }
                path.push(next);
            }
            None
        })
    }

    /// Returns the number of ranks without a report so far.
    pub fn missing(&self) -> usize {
        let known = self.ranks.keys().filter(|key| !key.0).count();
        (self.size as usize).saturating_sub(known)
    }

    /// Groups ranks by state: "ranks 0-2 in MPI_Allreduce on 'solver' for 3.2 s; rank 3 computing".
    pub fn summary(&self, now: Instant) -> String {
        let mut groups: BTreeMap<String, (Vec<u32>, u64)> = BTreeMap::new();
        for rank in self.ranks.values() {
            let (what, lasts) = match &rank.last.doing {
                _ if rank.is_silent(now) => ("silent".to_owned(), 0),
                Doing::Computing => ("computing".to_owned(), 0),
                Doing::Finalized => ("finalized".to_owned(), 0),
                Doing::In(name, lasts) => {
                    let comm = match rank.last.comm.as_str() {
                        "" | "MPI_COMM_WORLD" => String::new(),
                        comm => format!(" on '{comm}'"),
                    };
                    (format!("in {name}{comm}"), *lasts)
                }
            };
            let what = if rank.last.spawned {
                format!("{what} (spawned)")
            } else {
                what
            };
            let group = groups.entry(what).or_default();
            group.0.push(rank.last.rank);
            group.1 = group.1.max(lasts);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, (ranks, _))| ranks[0]);
        let mut parts: Vec<String> = groups
            .into_iter()
            .map(|(what, (ranks, lasts))| {
                let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
                let lasts = match lasts {
                    0 => String::new(),
                    lasts => format!(" for {}", text::span(lasts)),
                };
                format!("{noun} {} {what}{lasts}", text::runs(ranks))
            })
            .collect();
        match self.missing() {
            _ if self.size == 0 => parts.push("no rank has left MPI_Init yet".to_owned()),
            0 => {}
            1 => parts.push("1 rank has not reported yet".to_owned()),
            missing => parts.push(format!("{missing} ranks have not reported yet")),
        }
        parts.join("; ")
    }

    /// Returns a warning if all ranks are in MPI and none makes progress.
    pub fn warning(&self, now: Instant) -> Option<String> {
        let seconds = self.still(now)?.as_secs();
        let mut text = format!("no call of any rank has returned for {seconds} s");
        if let Some(cycle) = self.cycle() {
            let cycle: Vec<String> = cycle.iter().map(u32::to_string).collect();
            text += &format!("; they wait for each other: {}", cycle.join(" -> "));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::of;

    #[test]
    fn ranks_that_do_the_same_are_together() {
        let now = Instant::now();
        let mut board = Board::default();
        assert_eq!(board.summary(now), "no rank has left MPI_Init yet");
        board.hear(of(0, "MPI_Barrier", 2, None), now);
        board.hear(of(1, "MPI_Barrier", 3, None), now);
        board.hear(of(3, "", 0, None), now);
        let text =
            "ranks 0-1 in MPI_Barrier for 3.0 s; rank 3 computing; 1 rank has not reported yet";
        assert_eq!(board.summary(now), text);
        let later = now + SILENT;
        assert!(board.summary(later).starts_with("ranks 0-1, 3 silent"));
    }

    #[test]
    fn who_waits_for_each_other_is_said() {
        let begin = Instant::now();
        let mut board = Board::default();
        let hear = |board: &mut Board, seconds: u64, last: &str| {
            let now = begin + Duration::from_secs(seconds);
            for (rank, peer) in [(0, 3), (1, 2), (2, 1)] {
                let mut message = of(rank, "MPI_Recv", seconds, Some(peer));
                message.elapsed += seconds;
                board.hear(message, now);
            }
            let mut message = of(3, last, seconds, None);
            message.elapsed += seconds;
            board.hear(message, now);
            board.warning(now)
        };
        assert_eq!(hear(&mut board, 0, "MPI_Barrier"), None);
        assert_eq!(hear(&mut board, 2, "MPI_Barrier"), None);
        let text =
            "no call of any rank has returned for 4 s; they wait for each other: 1 -> 2 -> 1";
        assert_eq!(hear(&mut board, 4, "MPI_Barrier").as_deref(), Some(text));
        // One computes.
        assert_eq!(hear(&mut board, 5, ""), None);
    }

    #[test]
    fn numbers_without_measure_are_no_overflow() {
        let now = Instant::now();
        let mut board = Board::default();
        let mut message = of(0, "", 0, None);
        (message.inside, message.elapsed) = (0, 1000);
        board.hear(message.clone(), now);
        (message.inside, message.elapsed, message.threads) = (u64::MAX, u64::MAX, u64::MAX);
        board.hear(message, now);
        let rank = board.ranks.values().next().unwrap();
        assert!((0.0..=100.0).contains(&rank.share));
    }

    #[test]
    fn the_part_of_the_time_in_mpi() {
        let now = Instant::now();
        let mut board = Board::default();
        let mut message = of(0, "", 0, None);
        (message.inside, message.elapsed) = (100, 1000);
        board.hear(message.clone(), now);
        (message.inside, message.elapsed) = (400, 2000);
        board.hear(message.clone(), now);
        // A copy by another address.
        board.hear(message, now);
        let rank = board.ranks.values().next().unwrap();
        assert_eq!((rank.share, rank.past.as_slice()), (30.0, &[30][..]));
    }
}
