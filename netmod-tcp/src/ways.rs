//! Which way long answers come: copied into the kernel by the peer, or read from the peer's own pages.
//!
//! What is quicker depends on where the processes run (whether their cores share a cache), on the length, on the
//! kernel, and on the network. So the one that asks measures it, and says in each question which way it wants. What it
//! measures are *spells*: one question and its answer, or, where more is asked for meanwhile, several questions in
//! a row, from the end of the spell before to the last answer. All of a spell go the same way. Answers come in the
//! order of the questions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A way for the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Copied,
    /// From the pages of the one that was asked.
    Lent,
}

/// Shorter answers are always copied, in bytes.
pub(crate) const LEAST: usize = 48 << 10;

/// Answers up to 64 KiB, 128 KiB and so on.
const CLASSES: usize = 8;
/// Questions and bytes after which a spell is over although more is asked for: what the kernel holds of the one before is
/// little against it.
const SPELL: (u32, usize) = (4, 8 << 20);
/// Spells of each way at first; the first of them meets cold memory and doesn't count.
const TRIALS: u32 = 4;
/// Spells of a look at the other way, of which the best counts.
const LOOK: u32 = 3;
/// Spells after which the other way is looked at, at first and at most.
const INTERVALS: (u32, u32) = (128, 2048);

/// How long a way takes, in picoseconds per byte, and how often it was used in this state.
#[derive(Clone, Copy, Default)]
struct Score {
    time: u64,
    begun: u32,
    ended: u32,
}

/// What is known of answers of about the same length, one by one or many at a time, to places that clash with those of
/// the data or don't.
#[derive(Clone, Copy)]
struct Class {
    scores: [Score; 2],
    /// The way in use; none while both are tried.
    used: Option<Way>,
    looking: bool,
    until_look: u32,
    interval: u32,
}

/// What is under way.
struct Spell {
    /// From when on it counts: later than the question if others were under way then.
    began: Instant,
    way: Way,
    length: usize,
    clash: bool,
    /// Whether it was taken for one of many.
    expects_many: bool,
    is_many: bool,
    bytes: usize,
    asked: u32,
    answered: u32,
    /// Something was refused, so that nothing is learned.
    spoilt: bool,
}

/// What is known of one connection.
pub(crate) struct Ways {
    /// By clashes, by length, and one by one or many at a time.
    classes: [[[Class; 2]; CLASSES]; 2],
    /// Whether there were many at a time when last there were such lengths.
    many: [bool; CLASSES],
    /// Those with questions that are not answered, in their order.
    spells: VecDeque<Spell>,
}

fn length_class(len: usize) -> usize {
    let above = len.div_ceil(64 << 10).max(1);
    (above.next_power_of_two().ilog2() as usize).min(CLASSES - 1)
}

impl Ways {
    pub fn new() -> Ways {
        let class = Class {
            scores: [Score::default(); 2],
            used: None,
            looking: false,
            until_look: 0,
            interval: INTERVALS.0,
        };
        Ways {
            classes: [[[class; 2]; CLASSES]; 2],
            many: [false; CLASSES],
            spells: VecDeque::new(),
        }
    }

    /// Something of this length is asked for now: which way it is to come. `clash`: processors copy slowly from where
    /// it lies to where it is to be.
    pub fn ask(&mut self, len: usize, clash: bool, now: Instant) -> Way {
        let length = length_class(len);
        if let Some(last) = self.spells.back_mut()
            && (last.length, last.clash) == (length, clash)
            && (last.asked < SPELL.0 || last.bytes < SPELL.1)
        {
            last.asked += 1;
            last.bytes += len;
            last.is_many = true;
            return last.way;
        }
        let is_many = !self.spells.is_empty();
        let expects_many = is_many || self.many[length];
        let way = self.classes[usize::from(clash)][length][usize::from(expects_many)].next();
        self.spells.push_back(Spell {
            began: now,
            way,
            length,
            clash,
            expects_many,
            is_many,
            bytes: len,
            asked: 1,
            answered: 0,
            spoilt: false,
        });
        way
    }

    /// The next question has been answered as a whole, or refused.
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
            class.note(spell.way, per_byte(took, spell.bytes));
        } else {
            class.forget(spell.way);
        }
    }
}

fn per_byte(took: Duration, bytes: usize) -> u64 {
    let picoseconds = took.as_nanos().saturating_mul(1000);
    u64::try_from(picoseconds / bytes.max(1) as u128).unwrap_or(u64::MAX)
}

impl Class {
    fn score(&mut self, way: Way) -> &mut Score {
        &mut self.scores[way as usize]
    }

    /// The way for the next spell.
    fn next(&mut self) -> Way {
        let [copied, lent] = self.scores;
        let way = match self.used {
            // Copies are what always works: they come first.
            None if copied.begun <= lent.begun => Way::Copied,
            None => Way::Lent,
            Some(used) if self.looking => match self.score(used.other()).begun < LOOK {
                true => used.other(),
                false => used,
            },
            Some(used) => {
                self.until_look = self.until_look.saturating_sub(1);
                if self.until_look == 0 {
                    self.looking = true;
                    let score = self.score(used.other());
                    (score.begun, score.ended) = (0, 0);
                }
                used
            }
        };
        let score = self.score(way);
        score.begun = score.begun.saturating_add(1);
        way
    }

    /// A spell that began teaches nothing.
    fn forget(&mut self, way: Way) {
        let score = self.score(way);
        score.begun = score.begun.saturating_sub(1);
    }

    fn note(&mut self, way: Way, time: u64) {
        let used = self.used;
        let looking = self.looking;
        let score = self.score(way);
        score.ended = score.ended.saturating_add(1);
        match used {
            // The best counts: what disturbed one of them is not the way's.
            None => {
                score.time = match score.ended {
                    1 | 2 => time,
                    _ => score.time.min(time),
                };
                if self.scores.iter().all(|score| score.ended >= TRIALS) {
                    self.settle();
                }
            }
            Some(used) if used == way => {
                // One that was disturbed counts for little, a way that has become slower is noticed soon.
                let bounded = time.min(score.time.saturating_mul(4));
                score.time = (score.time.saturating_mul(7) + bounded) / 8;
                let now = score.time;
                let other = self.score(used.other()).time;
                if !looking && now > other + other / 4 && self.until_look > LOOK {
                    self.until_look = 1;
                }
            }
            Some(_) => {
                score.time = match score.ended {
                    1 => time,
                    _ => score.time.min(time),
                };
                if looking && score.ended >= LOOK {
                    self.settle();
                }
            }
        }
    }

    /// Takes the better way, as far as is known, the one in use if there is little between them.
    fn settle(&mut self) {
        let times = [Way::Copied, Way::Lent].map(|way| self.score(way).time);
        let [copied, lent] = times;
        let better = match self.used {
            Some(Way::Lent) if lent <= copied + copied / 16 => Way::Lent,
            _ if lent + lent / 16 < copied => Way::Lent,
            _ => Way::Copied,
        };
        self.interval = match self.used {
            Some(used) if used == better => (self.interval * 2).min(INTERVALS.1),
            _ => INTERVALS.0,
        };
        self.used = Some(better);
        self.until_look = self.interval;
        self.looking = false;
    }
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Copied => Way::Lent,
            Way::Lent => Way::Copied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 20;

    /// A clock, and what is asked.
    struct World {
        ways: Ways,
        now: Instant,
    }

    impl World {
        fn new() -> World {
            World {
                ways: Ways::new(),
                now: Instant::now(),
            }
        }

        fn wait(&mut self, microseconds: u64) {
            self.now += Duration::from_micros(microseconds);
        }

        /// Spells of so many answers at a time, each answer as long as `clock` says of its spell and way. How many of
        /// the spells were lent.
        fn run(&mut self, spells: u64, many: u32, clock: impl Fn(u64, Way) -> u64) -> u64 {
            let mut lent = 0;
            for spell in 0..spells {
                let mut ways = Vec::new();
                for _ in 0..many {
                    ways.push(self.ways.ask(LEN, false, self.now));
                }
                lent += u64::from(ways[0] == Way::Lent);
                for way in ways {
                    self.wait(clock(spell, way));
                    self.ways.answered(true, self.now);
                }
                self.wait(1000);
            }
            lent
        }
    }

    fn takes(copied: u64, lent: u64) -> impl Fn(u64, Way) -> u64 {
        move |_, way| match way {
            Way::Copied => copied,
            Way::Lent => lent,
        }
    }

    #[test]
    fn the_quicker_way_is_taken_and_the_other_hardly() {
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
    fn one_by_one_and_many_at_a_time_have_ways_of_their_own() {
        let mut world = World::new();
        for _ in 0..20 {
            world.run(10, 1, takes(100, 150));
            world.run(10, 16, takes(150, 100));
        }
        // The first after a change is taken for one of those before, and there are looks.
        assert!(world.run(100, 1, takes(100, 150)) <= u64::from(1 + LOOK));
        assert!(world.run(100, 16, takes(150, 100)) >= u64::from(99 - LOOK));
    }

    #[test]
    fn questions_that_never_cease_are_measured_too() {
        let mut world = World::new();
        let mut under_way = std::collections::VecDeque::new();
        let mut lent = 0;
        for number in 0..20_000 {
            while under_way.len() < 4 {
                under_way.push_back(world.ways.ask(LEN, false, world.now));
            }
            let way = under_way.pop_front().unwrap();
            world.wait(takes(250, 150)(0, way));
            world.ways.answered(true, world.now);
            lent += u32::from(number >= 10_000 && way == Way::Lent);
        }
        assert!(lent > 9_500, "{lent}");
    }

    #[test]
    fn ways_that_become_slower_are_left_soon() {
        let mut world = World::new();
        world.run(1000, 1, takes(250, 150));
        let lost = world.run(100, 1, takes(120, 400));
        assert!(lost < 20, "{lost} of 100");
        world.run(300, 1, takes(250, 150));
        assert!(world.run(50, 1, takes(250, 150)) >= u64::from(50 - LOOK));
    }

    #[test]
    fn what_disturbs_one_in_ten_decides_nothing() {
        for (copied, lent, expected) in [(250, 150, true), (120, 200, false)] {
            let mut world = World::new();
            let times = takes(copied, lent);
            let noisy = |spell: u64, way| match spell % 10 {
                3 => 4_000_000,
                _ => times(spell, way),
            };
            let count = world.run(10_000, 1, noisy);
            assert_eq!(count > 9_000, expected, "{count}");
            assert_eq!(count > 1_000, expected, "{count}");
        }
    }

    #[test]
    fn refusals_teach_nothing_and_leave_nothing() {
        let mut world = World::new();
        for _ in 0..10 {
            world.ways.ask(LEN, false, world.now);
            world.ways.ask(LEN, false, world.now);
            world.ways.answered(false, world.now);
            world.ways.answered(true, world.now);
        }
        assert!(world.ways.spells.is_empty());
        world.run(12, 1, takes(250, 150));
        assert_eq!(world.run(50, 1, takes(250, 150)), 50);
    }

    #[test]
    fn places_that_clash_have_ways_of_their_own() {
        let mut world = World::new();
        world.run(100, 1, takes(250, 150));
        for number in 0..200 {
            let way = world.ways.ask(LEN, true, world.now);
            world.wait(takes(250, 500)(0, way));
            world.ways.answered(true, world.now);
            assert!(number < 2 * u64::from(TRIALS) || number > 100 || way == Way::Copied);
        }
        assert!(world.run(50, 1, takes(250, 150)) >= u64::from(50 - LOOK));
    }

    #[test]
    fn lengths_have_classes_of_their_own() {
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
