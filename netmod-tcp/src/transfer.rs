//! Chooses how a peer sends long answers: copied into the kernel, or spliced from its own pages.
//!
//! Which one is faster depends on the cores (whether they share a cache), the length, the kernel
//! and the network. So the requester measures both and names its choice in each request. It
//! measures *spells*: one request and its answer, or, where more requests are issued meanwhile,
//! several in a row, from the end of the previous spell to the last answer. All requests of a spell
//! use the same transfer. Answers come in the order of the requests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How the data of an answer is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    Copied,
    /// Spliced from the pages of the answering process.
    Lent,
}

/// Bytes. Shorter answers are always copied.
pub(crate) const LEAST: usize = 48 << 10;

/// Length classes: answers up to 64 KiB, 128 KiB and so on.
const CLASSES: usize = 8;
/// Requests and bytes after which a spell ends although more follow: by then the data of the
/// previous spell that the kernel still holds is negligible.
const SPELL: (u32, usize) = (4, 8 << 20);
/// Initial spells of each transfer; the first one meets cold memory and does not count.
const TRIALS: u32 = 4;
/// Spells of a probe of the other transfer; the best counts.
const PROBE: u32 = 3;
/// Initial and largest number of spells between two probes.
const INTERVALS: (u32, u32) = (128, 2048);

/// Picoseconds per byte of a transfer, and the number of spells in the current state.
#[derive(Clone, Copy, Default)]
struct Score {
    time: u64,
    begun: u32,
    ended: u32,
}

/// Statistics of answers of about the same length, one by one or many at a time, whose source and
/// target addresses clash or not.
#[derive(Clone, Copy)]
struct Class {
    scores: [Score; 2],
    /// The transfer in use; `None` while both are measured.
    used: Option<Transfer>,
    probing: bool,
    until_probe: u32,
    interval: u32,
}

/// A pending spell.
struct Spell {
    /// Start of the measurement: later than the request if others were pending then.
    began: Instant,
    transfer: Transfer,
    length: usize,
    clash: bool,
    /// Whether the spell was expected to have many requests.
    expects_many: bool,
    is_many: bool,
    bytes: usize,
    asked: u32,
    answered: u32,
    /// Whether an answer was refused, so that the spell is not measured.
    spoilt: bool,
}

/// The choice for one connection.
pub(crate) struct TransferChoice {
    /// By clash, length class, and one by one or many at a time.
    classes: [[[Class; 2]; CLASSES]; 2],
    /// Whether the last spell of each length class had many requests.
    many: [bool; CLASSES],
    /// Spells with unanswered requests, in order.
    spells: VecDeque<Spell>,
}

fn length_class(len: usize) -> usize {
    let above = len.div_ceil(64 << 10).max(1);
    (above.next_power_of_two().ilog2() as usize).min(CLASSES - 1)
}

impl TransferChoice {
    pub fn new() -> TransferChoice {
        let class = Class {
            scores: [Score::default(); 2],
            used: None,
            probing: false,
            until_probe: 0,
            interval: INTERVALS.0,
        };
        TransferChoice {
            classes: [[[class; 2]; CLASSES]; 2],
            many: [false; CLASSES],
            spells: VecDeque::new(),
        }
    }

    /// Chooses the transfer for a request of this length. `clash`: processors copy slowly between
    /// the source and the target address.
    pub fn ask(&mut self, len: usize, clash: bool, now: Instant) -> Transfer {
        let length = length_class(len);
        if let Some(last) = self.spells.back_mut()
            && (last.length, last.clash) == (length, clash)
            && (last.asked < SPELL.0 || last.bytes < SPELL.1)
        {
            last.asked += 1;
            last.bytes += len;
            last.is_many = true;
            return last.transfer;
        }
        let is_many = !self.spells.is_empty();
        let expects_many = is_many || self.many[length];
        let transfer = self.classes[usize::from(clash)][length][usize::from(expects_many)].next();
        self.spells.push_back(Spell {
            began: now,
            transfer,
            length,
            clash,
            expects_many,
            is_many,
            bytes: len,
            asked: 1,
            answered: 0,
            spoilt: false,
        });
        transfer
    }

    /// Records that the next request has been answered completely, or refused.
    pub fn answered(&mut self, well: bool, now: Instant) {
        let Some(spell) = self.spells.front_mut() else {
            return;
        };
        spell.answered += 1;
        spell.spoilt |= !well;
        if spell.answered < spell.asked {
            return;
        }
        let Some(spell) = self.spells.pop_front() else {
            return;
        };
        if let Some(next) = self.spells.front_mut() {
            next.began = now;
        }
        let class = &mut self.classes[usize::from(spell.clash)][spell.length]
            [usize::from(spell.expects_many)];
        self.many[spell.length] = spell.is_many;
        if spell.is_many == spell.expects_many && !spell.spoilt {
            let took = now.saturating_duration_since(spell.began);
            class.note(spell.transfer, per_byte(took, spell.bytes));
        } else {
            class.forget(spell.transfer);
        }
    }
}

fn per_byte(took: Duration, bytes: usize) -> u64 {
    let picoseconds = took.as_nanos().saturating_mul(1000);
    u64::try_from(picoseconds / bytes.max(1) as u128).unwrap_or(u64::MAX)
}

impl Class {
    fn score(&mut self, transfer: Transfer) -> &mut Score {
        &mut self.scores[transfer as usize]
    }

    /// Chooses the transfer for the next spell.
    fn next(&mut self) -> Transfer {
        let [copied, lent] = self.scores;
        let transfer = match self.used {
            // Copies always work, so they are measured first.
            None if copied.begun <= lent.begun => Transfer::Copied,
            None => Transfer::Lent,
            Some(used) if self.probing => match self.score(used.other()).begun < PROBE {
                true => used.other(),
                false => used,
            },
            Some(used) => {
                self.until_probe = self.until_probe.saturating_sub(1);
                if self.until_probe == 0 {
                    self.probing = true;
                    let score = self.score(used.other());
                    (score.begun, score.ended) = (0, 0);
                }
                used
            }
        };
        let score = self.score(transfer);
        score.begun = score.begun.saturating_add(1);
        transfer
    }

    /// Drops a spell from the statistics.
    fn forget(&mut self, transfer: Transfer) {
        let score = self.score(transfer);
        score.begun = score.begun.saturating_sub(1);
    }

    fn note(&mut self, transfer: Transfer, time: u64) {
        let used = self.used;
        let probing = self.probing;
        let score = self.score(transfer);
        score.ended = score.ended.saturating_add(1);
        match used {
            // The best time counts: disturbances are not the transfer's.
            None => {
                score.time = match score.ended {
                    1 | 2 => time,
                    _ => score.time.min(time),
                };
                if self.scores.iter().all(|score| score.ended >= TRIALS) {
                    self.settle();
                }
            }
            Some(used) if used == transfer => {
                // A disturbed spell counts little; a transfer that has become slower is noticed
                // soon.
                let bounded = time.min(score.time.saturating_mul(4));
                score.time = (score.time.saturating_mul(7) + bounded) / 8;
                let now = score.time;
                let other = self.score(used.other()).time;
                if !probing && now > other + other / 4 && self.until_probe > PROBE {
                    self.until_probe = 1;
                }
            }
            Some(_) => {
                score.time = match score.ended {
                    1 => time,
                    _ => score.time.min(time),
                };
                if probing && score.ended >= PROBE {
                    self.settle();
                }
            }
        }
    }

    /// Selects the better transfer by the times known, or keeps the current one if they differ
    /// little.
    fn settle(&mut self) {
        let times = [Transfer::Copied, Transfer::Lent].map(|transfer| self.score(transfer).time);
        let [copied, lent] = times;
        let better = match self.used {
            Some(Transfer::Lent) if lent <= copied + copied / 16 => Transfer::Lent,
            _ if lent + lent / 16 < copied => Transfer::Lent,
            _ => Transfer::Copied,
        };
        self.interval = match self.used {
            Some(used) if used == better => (self.interval * 2).min(INTERVALS.1),
            _ => INTERVALS.0,
        };
        self.used = Some(better);
        self.until_probe = self.interval;
        self.probing = false;
    }
}

impl Transfer {
    fn other(self) -> Transfer {
        match self {
            Transfer::Copied => Transfer::Lent,
            Transfer::Lent => Transfer::Copied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 20;

    /// A simulated clock and connection.
    struct World {
        transfers: TransferChoice,
        now: Instant,
    }

    impl World {
        fn new() -> World {
            World {
                transfers: TransferChoice::new(),
                now: Instant::now(),
            }
        }

        fn wait(&mut self, microseconds: u64) {
            self.now += Duration::from_micros(microseconds);
        }

        /// Runs spells of `many` answers each, which take as long as `clock` says. Returns the
        /// number of spliced spells.
        fn run(&mut self, spells: u64, many: u32, clock: impl Fn(u64, Transfer) -> u64) -> u64 {
            let mut lent = 0;
            for spell in 0..spells {
                let mut transfers = Vec::new();
                for _ in 0..many {
                    transfers.push(self.transfers.ask(LEN, false, self.now));
                }
                lent += u64::from(transfers[0] == Transfer::Lent);
                for transfer in transfers {
                    self.wait(clock(spell, transfer));
                    self.transfers.answered(true, self.now);
                }
                self.wait(1000);
            }
            lent
        }
    }

    fn takes(copied: u64, lent: u64) -> impl Fn(u64, Transfer) -> u64 {
        move |_, transfer| match transfer {
            Transfer::Copied => copied,
            Transfer::Lent => lent,
        }
    }

    #[test]
    fn the_faster_transfer_is_used_and_the_other_rarely() {
        for many in [1, 16, 100] {
            let mut far = World::new();
            far.run(12, many, takes(250, 150));
            assert!(far.run(5000, many, takes(250, 150)) > 4900, "{many}");
            let mut near = World::new();
            near.run(12, many, takes(120, 150));
            assert!(near.run(5000, many, takes(120, 150)) < 100, "{many}");
        }
    }

    #[test]
    fn one_by_one_and_many_at_a_time_are_chosen_separately() {
        let mut world = World::new();
        for _ in 0..20 {
            world.run(10, 1, takes(100, 150));
            world.run(10, 16, takes(150, 100));
        }
        // The first spell after a change counts for the previous pattern, and there are probes.
        assert!(world.run(100, 1, takes(100, 150)) <= u64::from(1 + PROBE));
        assert!(world.run(100, 16, takes(150, 100)) >= u64::from(99 - PROBE));
    }

    #[test]
    fn endless_requests_are_measured_too() {
        let mut world = World::new();
        let mut pending = std::collections::VecDeque::new();
        let mut lent = 0;
        for number in 0..20_000 {
            while pending.len() < 4 {
                pending.push_back(world.transfers.ask(LEN, false, world.now));
            }
            let transfer = pending.pop_front().unwrap();
            world.wait(takes(250, 150)(0, transfer));
            world.transfers.answered(true, world.now);
            lent += u32::from(number >= 10_000 && transfer == Transfer::Lent);
        }
        assert!(lent > 9_500, "{lent}");
    }

    #[test]
    fn transfers_that_become_slower_are_replaced_soon() {
        let mut world = World::new();
        world.run(1000, 1, takes(250, 150));
        let lost = world.run(100, 1, takes(120, 400));
        assert!(lost < 20, "{lost} of 100");
        world.run(300, 1, takes(250, 150));
        assert!(world.run(50, 1, takes(250, 150)) >= u64::from(50 - PROBE));
    }

    #[test]
    fn rare_disturbances_do_not_change_the_choice() {
        for (copied, lent, expected) in [(250, 150, true), (120, 200, false)] {
            let mut world = World::new();
            let times = takes(copied, lent);
            let noisy = |spell: u64, transfer| match spell % 10 {
                3 => 4_000_000,
                _ => times(spell, transfer),
            };
            let count = world.run(10_000, 1, noisy);
            assert_eq!(count > 9_000, expected, "{count}");
            assert_eq!(count > 1_000, expected, "{count}");
        }
    }

    #[test]
    fn refusals_are_not_measured() {
        let mut world = World::new();
        for _ in 0..10 {
            world.transfers.ask(LEN, false, world.now);
            world.transfers.ask(LEN, false, world.now);
            world.transfers.answered(false, world.now);
            world.transfers.answered(true, world.now);
        }
        assert!(world.transfers.spells.is_empty());
        world.run(12, 1, takes(250, 150));
        assert_eq!(world.run(50, 1, takes(250, 150)), 50);
    }

    #[test]
    fn clashing_addresses_are_chosen_separately() {
        let mut world = World::new();
        world.run(100, 1, takes(250, 150));
        for number in 0..200 {
            let transfer = world.transfers.ask(LEN, true, world.now);
            world.wait(takes(250, 500)(0, transfer));
            world.transfers.answered(true, world.now);
            assert!(number < 2 * u64::from(TRIALS) || number > 100 || transfer == Transfer::Copied);
        }
        assert!(world.run(50, 1, takes(250, 150)) >= u64::from(50 - PROBE));
    }

    #[test]
    fn lengths_map_to_classes() {
        let classes = [
            1,
            LEAST,
            64 << 10,
            (64 << 10) + 1,
            1 << 20,
            8 << 20,
            usize::MAX / 2,
        ];
        assert_eq!(classes.map(length_class), [0, 0, 0, 1, 4, 7, 7]);
    }
}
