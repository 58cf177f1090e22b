//! Which way long messages of a peer come: read by the kernel at once, or through a pipe. What is quicker depends
//! on where the two processes run (whether their cores share a cache, which a virtual machine doesn't tell and
//! may change), on how long the message is, and on whether the peer is there to help. So it is measured: from when
//! the receiver knows both sides to be there to when it has the data, by the receiver, which decides.
//!
//! Each class of lengths begins with a few messages by each way. Then the better one is used, its time followed,
//! and the other one looked at again now and then, or soon if the one in use has become slower than the other
//! was.

/// A way for the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The kernel copies it once, when the receiver asks.
    Single,
    /// Both sides copy it, through shared memory.
    Pipe,
}

/// Shorter messages are in the first class.
const SHORTEST: u32 = 14;
const CLASSES: usize = 9;
/// Messages by each way at first; the first of them meets cold memory and doesn't count.
const TRIALS: u32 = 4;
/// Messages of a look at the other way, of which the best counts.
const LOOK: u32 = 3;
/// After so many messages the other way is looked at, at first and at most.
const INTERVALS: (u32, u32) = (256, 4096);
/// Time is counted in units of which a nanosecond has so many, per 64 KiB.
const UNITS: u64 = 16;

/// How long a way takes, per 64 KiB, and how often it was used in this state.
#[derive(Clone, Copy, Default, Debug)]
struct Score {
    time: u64,
    begun: u32,
    ended: u32,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    single: Score,
    pipe: Score,
    /// The way in use; none while both are tried.
    used: Option<Way>,
    /// Messages till the next look.
    until_look: u32,
    interval: u32,
    looking: bool,
}

/// What is known of one peer.
#[derive(Debug)]
pub(crate) struct Choice {
    classes: [Class; CLASSES],
}

impl Choice {
    pub fn new() -> Choice {
        let class = Class {
            single: Score::default(),
            pipe: Score::default(),
            used: None,
            until_look: 0,
            interval: INTERVALS.0,
            looking: false,
        };
        Choice {
            classes: [class; CLASSES],
        }
    }

    fn class(&mut self, len: usize) -> &mut Class {
        let class = len.max(1).ilog2().saturating_sub(SHORTEST) as usize;
        &mut self.classes[class.min(CLASSES - 1)]
    }

    /// The way for the next message.
    pub fn next(&mut self, len: usize) -> Way {
        self.class(len).next()
    }

    /// A message that went this way took so long.
    pub fn note(&mut self, len: usize, way: Way, nanoseconds: u64) {
        let time = nanoseconds.saturating_mul(UNITS << 16) / len.max(1) as u64;
        self.class(len).note(way, time);
    }
}

impl Class {
    fn score(&mut self, way: Way) -> &mut Score {
        match way {
            Way::Single => &mut self.single,
            Way::Pipe => &mut self.pipe,
        }
    }

    fn next(&mut self) -> Way {
        let way = match self.used {
            // Reading is the way that needs nobody else: it comes first.
            None if self.single.begun <= self.pipe.begun => Way::Single,
            None => Way::Pipe,
            Some(used) if self.looking => {
                let other = used.other();
                match self.score(other).begun < LOOK {
                    true => other,
                    false => used,
                }
            }
            Some(used) => {
                self.until_look = self.until_look.saturating_sub(1);
                if self.until_look == 0 {
                    self.look();
                }
                used
            }
        };
        let score = self.score(way);
        score.begun = score.begun.saturating_add(1);
        way
    }

    fn look(&mut self) {
        if let Some(used) = self.used {
            self.looking = true;
            let score = self.score(used.other());
            (score.begun, score.ended) = (0, 0);
        }
    }

    fn note(&mut self, way: Way, time: u64) {
        let (used, looking) = (self.used, self.looking);
        let score = self.score(way);
        score.ended = score.ended.saturating_add(1);
        match used {
            None => {
                // The best of the trials: what disturbed one of them is not the way's.
                match score.ended {
                    1 => {}
                    2 => score.time = time,
                    _ => score.time = score.time.min(time),
                }
                if self.single.ended >= TRIALS && self.pipe.ended >= TRIALS {
                    self.settle();
                }
            }
            Some(used) if used == way => {
                // One that was disturbed counts for little, a way that has become slower is noticed soon.
                let bounded = time.min(score.time.saturating_mul(4));
                score.time = (score.time * 7 + bounded) / 8;
                let now = score.time;
                let other = self.score(used.other()).time;
                if !self.looking && now > other + other / 4 && self.until_look > LOOK {
                    self.until_look = 1;
                }
            }
            Some(_) => {
                match score.ended {
                    1 => score.time = time,
                    _ => score.time = score.time.min(time),
                }
                if looking && score.ended >= LOOK {
                    self.settle();
                }
            }
        }
    }

    /// Takes the better way, as far as is known, the one in use if there is little between them.
    fn settle(&mut self) {
        let (single, pipe) = (self.single.time, self.pipe.time);
        let better = match self.used {
            Some(Way::Pipe) if pipe <= single + single / 16 => Way::Pipe,
            _ if pipe + pipe / 16 < single => Way::Pipe,
            _ => Way::Single,
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
            Way::Single => Way::Pipe,
            Way::Pipe => Way::Single,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 16;

    /// Messages one after the other, each as long as `clock` says of its number and way. How many took the pipe.
    fn run(choice: &mut Choice, count: u64, mut clock: impl FnMut(u64, Way) -> u64) -> u64 {
        (0..count)
            .filter(|&message| {
                let way = choice.next(LEN);
                choice.note(LEN, way, clock(message, way));
                way == Way::Pipe
            })
            .count() as u64
    }

    fn takes(single: u64, pipe: u64) -> impl FnMut(u64, Way) -> u64 {
        move |_, way| match way {
            Way::Single => single,
            Way::Pipe => pipe,
        }
    }

    #[test]
    fn the_quicker_way_is_taken_and_the_other_hardly() {
        let mut near = Choice::new();
        assert_eq!(run(&mut near, 8, takes(7000, 2500)), 4);
        assert!(run(&mut near, 10_000, takes(7000, 2500)) > 9_900);
        let mut far = Choice::new();
        run(&mut far, 8, takes(7000, 30_000));
        assert!(run(&mut far, 10_000, takes(7000, 30_000)) < 100);
    }

    #[test]
    fn ways_that_become_slower_are_left_soon() {
        let mut choice = Choice::new();
        run(&mut choice, 1000, takes(7000, 2500));
        // The processes are moved apart.
        let lost = run(&mut choice, 100, takes(7000, 30_000));
        assert!(lost < 20, "{lost} of 100");
        // And together again: noticed at the next look.
        run(&mut choice, 300, takes(7000, 2500));
        assert_eq!(run(&mut choice, 100, takes(7000, 2500)), 100);
    }

    #[test]
    fn what_disturbs_one_message_in_ten_decides_nothing() {
        for (single, pipe, expected) in [(7000, 2500, true), (7000, 30_000, false)] {
            let mut choice = Choice::new();
            let mut times = takes(single, pipe);
            let noisy = |message: u64, way| match message % 10 {
                3 => 4_000_000,
                _ => times(message, way),
            };
            let pipes = run(&mut choice, 10_000, noisy);
            assert_eq!(pipes > 9_000, expected, "{pipes}");
            assert_eq!(pipes > 1_000, expected, "{pipes}");
        }
    }

    #[test]
    fn a_sender_that_is_mostly_late_is_read_from() {
        let mut choice = Choice::new();
        let late = |message: u64, way| match (way, message % 3) {
            (Way::Single, _) => 7000,
            (Way::Pipe, 0) => 2500,
            (Way::Pipe, _) => 20_000,
        };
        run(&mut choice, 1000, late);
        assert!(run(&mut choice, 10_000, late) < 2_000);
    }

    #[test]
    fn several_messages_may_be_under_way() {
        let mut choice = Choice::new();
        for _ in 0..100 {
            let ways: Vec<Way> = (0..16).map(|_| choice.next(LEN)).collect();
            for way in ways {
                choice.note(LEN, way, takes(7000, 2500)(0, way));
            }
        }
        assert_eq!(run(&mut choice, 100, takes(7000, 2500)), 100);
    }

    #[test]
    fn lengths_have_ways_of_their_own() {
        let mut choice = Choice::new();
        for len in [1, LEN, 1 << 20, usize::MAX] {
            for _ in 0..8 {
                let way = choice.next(len);
                let quick = (way == Way::Pipe) == (len == LEN);
                choice.note(len, way, if quick { 10_000 } else { 1_000_000 });
            }
        }
        assert_eq!(choice.next(LEN), Way::Pipe);
        assert_eq!(choice.next(1 << 20), Way::Single);
    }
}
