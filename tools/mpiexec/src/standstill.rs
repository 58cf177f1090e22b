//! Whether all ranks stand still: they say so themselves, again and again (`WEFT_HANG`).

use std::time::{Duration, Instant};

/// Who has not said it for so long has gone on. Ranks say it twice a second, but on a machine that is busy later.
const LAPSE: Duration = Duration::from_secs(4);

/// What ranks have said of late.
#[derive(Default)]
pub struct Standstill {
    /// When each rank has last said that it waits in vain.
    said: Vec<Option<Instant>>,
    /// Since when that is true of all.
    all: Option<Instant>,
    /// Whether that has been told.
    told: bool,
    /// Ranks that are still to be asked what they wait for.
    asked: Vec<usize>,
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Heard {
    /// All ranks stand still, which has not been told yet.
    pub hang: bool,
    /// The rank is to say what it waits for.
    pub asked: bool,
}

impl Standstill {
    /// A rank of those that `are_in_mpi` says that nothing happens. With `None` it can't be known of all.
    pub fn hear(&mut self, rank: usize, now: Instant, are_in_mpi: Option<Vec<usize>>) -> Heard {
        if self.said.len() <= rank {
            self.said.resize(rank + 1, None);
        }
        self.said[rank] = Some(now);
        let said = |other: &usize| self.said.get(*other).copied().flatten();
        let since = |from: Instant| {
            let all = are_in_mpi.as_ref();
            all.is_some_and(|all| {
                all.iter()
                    .all(|other| said(other).is_some_and(|at| at >= from))
            })
        };
        let mut hang = false;
        if now.checked_sub(LAPSE).is_some_and(since) {
            // Once more, so that nobody has gone on in between.
            let all = *self.all.get_or_insert(now);
            hang = !self.told && all < now && since(all);
        } else {
            (self.all, self.told) = (None, false);
        }
        if hang {
            self.told = true;
            self.asked = are_in_mpi.unwrap_or_default();
        }
        let place = self.asked.iter().position(|one| *one == rank);
        Heard {
            hang,
            asked: place.map(|place| self.asked.swap_remove(place)).is_some(),
        }
    }
}

/// What is told before who waits where.
pub fn text(seconds: u64) -> String {
    let unit = if seconds == 1 { "second" } else { "seconds" };
    format!(
        "no rank has made progress for {seconds} {unit} (WEFT_HANG); the job goes on until it is ended"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Heard = Heard {
        hang: false,
        asked: false,
    };
    const ASKED: Heard = Heard {
        hang: false,
        asked: true,
    };
    const HANG: Heard = Heard {
        hang: true,
        asked: true,
    };

    #[test]
    fn all_must_have_said_it_twice_and_are_asked_once() {
        let begin = Instant::now() + LAPSE * 2;
        let mut still = Standstill::default();
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
        let mut still = Standstill::default();
        for at in 0..20 {
            let now = begin + Duration::from_millis(at * 500);
            assert_eq!(still.hear(0, now, Some(vec![0, 1])), NO);
            assert_eq!(still.hear(0, now, None), NO);
        }
    }
}
