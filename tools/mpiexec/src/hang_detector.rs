//! Detects a hang (`WEFT_HANG`): all ranks keep reporting that they wait without progress.

use std::time::{Duration, Instant};

/// Time after which a rank without a further notice has made progress. Ranks send notices twice a
/// second, less often on a busy machine.
const LAPSE: Duration = Duration::from_secs(4);

/// The ranks' notices that they wait without progress.
#[derive(Default)]
pub struct HangDetector {
    /// The time of each rank's last notice.
    noticed: Vec<Option<Instant>>,
    /// The time since which no rank has made progress.
    all: Option<Instant>,
    /// Whether this hang has been reported to the user.
    is_reported: bool,
    /// Ranks that have not been asked yet what they wait for.
    unasked: Vec<usize>,
}

/// The launcher's reaction to a notice.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Reaction {
    /// Report the hang to the user, which happens once per hang.
    pub hang: bool,
    /// Ask the rank what it waits for.
    pub asked: bool,
}

impl HangDetector {
    /// Records a rank's notice. `are_in_mpi` are the ranks that are in MPI; `None` if some may not
    /// be, so that there is no hang.
    pub fn hear(&mut self, rank: usize, now: Instant, are_in_mpi: Option<Vec<usize>>) -> Reaction {
        if self.noticed.len() <= rank {
            self.noticed.resize(rank + 1, None);
        }
        self.noticed[rank] = Some(now);
        let noticed = |other: &usize| self.noticed.get(*other).copied().flatten();
        let since = |from: Instant| {
            let all = are_in_mpi.as_ref();
            all.is_some_and(|all| {
                all.iter()
                    .all(|other| noticed(other).is_some_and(|at| at >= from))
            })
        };
        let mut hang = false;
        if now.checked_sub(LAPSE).is_some_and(since) {
            // Each rank must send one more notice, which proves that none went on in between.
            let all = *self.all.get_or_insert(now);
            hang = !self.is_reported && all < now && since(all);
        } else {
            (self.all, self.is_reported) = (None, false);
        }
        if hang {
            self.is_reported = true;
            self.unasked = are_in_mpi.unwrap_or_default();
        }
        let index = self.unasked.iter().position(|one| *one == rank);
        Reaction {
            hang,
            asked: index.map(|index| self.unasked.swap_remove(index)).is_some(),
        }
    }
}

/// Returns the first line of a hang's report.
pub fn text(seconds: u64) -> String {
    let unit = if seconds == 1 { "second" } else { "seconds" };
    format!(
        "no rank has made progress for {seconds} {unit} (WEFT_HANG); the job goes on until it is ended"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Reaction = Reaction {
        hang: false,
        asked: false,
    };
    const ASKED: Reaction = Reaction {
        hang: false,
        asked: true,
    };
    const HANG: Reaction = Reaction {
        hang: true,
        asked: true,
    };

    #[test]
    fn all_must_have_said_it_twice_and_are_asked_once() {
        let begin = Instant::now() + LAPSE * 2;
        let mut still = HangDetector::default();
        let mut hear =
            |rank, at: u64| still.hear(rank, begin + Duration::from_millis(at), Some(vec![0, 1]));
        assert_eq!(hear(0, 0), NO);
        assert_eq!(hear(1, 100), NO);
        assert_eq!(hear(0, 500), HANG);
        assert_eq!(hear(1, 600), ASKED);
        assert_eq!((hear(0, 1000), hear(1, 1100)), (NO, NO));
        // One goes on, and hangs again.
        assert_eq!((hear(1, 4000), hear(1, 7000)), (NO, NO));
        assert_eq!((hear(0, 7100), hear(1, 7200)), (NO, HANG));
    }

    #[test]
    fn one_that_says_nothing_is_not_known_to_wait() {
        let begin = Instant::now() + LAPSE * 2;
        let mut still = HangDetector::default();
        for at in 0..20 {
            let now = begin + Duration::from_millis(at * 500);
            assert_eq!(still.hear(0, now, Some(vec![0, 1])), NO);
            assert_eq!(still.hear(0, now, None), NO);
        }
    }
}
