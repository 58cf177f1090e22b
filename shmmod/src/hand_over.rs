//! Whether messages between two that send by turns had better go by memory that changes hands (see [`crate::lent`]), or
//! by the way that is the quickest for all other messages ([`crate::choice`]).
//!
//! Which is quicker depends on what the kernel's copy costs: on some processors the units from hand to hand win wherever
//! the two run, on others one copy does. So both are timed, each in a row: a message that goes another way than those
//! around it finds cold code and its data elsewhere, and takes half as long again. And it depends on both sides, since
//! only together they make a row. So whoever gets a message answers in kind, and either side may begin a *look*: some
//! messages the other way, with which the pair stays if they are quicker.

use crate::choice::{CLASSES, Choice, TIMED};

/// Messages of a look whose times are known, of which the best counts but for the first.
const LOOK: u32 = 4;
/// After so many a look of which too little is heard is over.
const PATIENCE: u32 = 32;
/// So many messages of one way go before the first look.
const FIRST: u32 = 16;
/// And so many between two looks, at first and at most.
const INTERVALS: (u32, u32) = (128, 1024);

/// How long messages take, per 64 KiB, in the units of [`Choice`].
#[derive(Clone, Copy, Debug)]
struct Time {
    value: u64,
    heard: u32,
}

impl Time {
    const UNKNOWN: Time = Time {
        value: u64::MAX / 16,
        heard: 0,
    };

    /// The best of the first ones; then a mean for which one that was disturbed counts for little.
    fn note(&mut self, time: u64) {
        self.heard = self.heard.saturating_add(1);
        self.value = match self.heard <= LOOK {
            true => self.value.min(time),
            false => (self.value * 7 + time.min(self.value * 2)) / 8,
        };
    }
}

/// What is known of a class of lengths.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Whether the pair goes by hand, but for a look.
    by_hand: bool,
    /// By [`usize::from`] of whether it is by hand.
    times: [Time; 2],
    /// A look at the other way is under way: so many messages have begun, and this is known of them.
    look: Option<(u32, Time)>,
    /// A look has ended, and the next message says what is to be done.
    says: bool,
    /// Messages till the next look.
    until_look: u32,
    interval: u32,
}

/// What is known of one peer.
#[derive(Debug)]
pub(crate) struct HandOver {
    classes: [Class; CLASSES],
}

impl Default for HandOver {
    fn default() -> HandOver {
        let class = Class {
            by_hand: false,
            times: [Time::UNKNOWN; 2],
            look: None,
            says: false,
            until_look: FIRST,
            interval: INTERVALS.0,
        };
        HandOver {
            classes: [class; CLASSES],
        }
    }
}

impl HandOver {
    /// Whether the next message of this length goes by hand; `last`: the length of the one that has come, and whether that
    /// did.
    pub fn next(&mut self, len: usize, last: Option<(usize, bool)>) -> bool {
        let number = Choice::class(len);
        let same = last.filter(|last| Choice::class(last.0) == number);
        self.classes[number].next(same.map(|last| last.1))
    }

    /// Whether the message that [`HandOver::next`] was last asked about is to be timed.
    pub fn is_timed(&self, len: usize) -> bool {
        let class = &self.classes[Choice::class(len)];
        let known = class.times[usize::from(class.by_hand)].heard > LOOK;
        !known || class.look.is_some() || class.until_look.is_multiple_of(TIMED)
    }

    /// A message that was sent by turns took so long.
    pub fn note(&mut self, len: usize, by_hand: bool, nanoseconds: u64) {
        let time = Choice::per_unit(len, nanoseconds);
        self.classes[Choice::class(len)].note(by_hand, time);
    }
}

impl Class {
    fn next(&mut self, last: Option<bool>) -> bool {
        if let Some((begun, _)) = &mut self.look {
            *begun += 1;
            if *begun <= PATIENCE {
                return !self.by_hand;
            }
            self.settle();
        }
        if self.says {
            self.says = false;
            return self.by_hand;
        }
        if let Some(last) = last
            && last != self.by_hand
        {
            // The other side looks, or has found something out: not both at once.
            self.by_hand = last;
            self.until_look = self.until_look.max(PATIENCE);
        }
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look == 0 {
            self.look = Some((1, Time::UNKNOWN));
            return !self.by_hand;
        }
        self.by_hand
    }

    fn note(&mut self, by_hand: bool, time: u64) {
        match &mut self.look {
            Some((_, looked)) if by_hand != self.by_hand => {
                match looked.heard {
                    0 => looked.heard = 1,
                    _ => looked.note(time),
                }
                if looked.heard >= LOOK {
                    self.settle();
                }
            }
            _ => self.times[usize::from(by_hand)].note(time),
        }
    }

    /// Ends a look.
    fn settle(&mut self) {
        let Some((_, looked)) = self.look.take() else {
            return;
        };
        let other = !self.by_hand;
        let now = self.times[usize::from(self.by_hand)].value;
        let is_better = looked.value + looked.value / 16 < now;
        if looked.heard > 1 {
            self.times[usize::from(other)] = looked;
        }
        if is_better {
            self.by_hand = other;
        }
        self.interval = match is_better {
            true => INTERVALS.0,
            false => (self.interval * 2).min(INTERVALS.1),
        };
        (self.says, self.until_look) = (true, self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 16;

    /// An exchange by turns: how many of `messages` of both sides together went by hand. A message that goes by another way
    /// than the one before it takes half as long again as `times`, of those that go otherwise and by hand.
    fn exchange(sides: &mut [HandOver; 2], messages: usize, times: [u64; 2]) -> usize {
        let mut last = sides[1].classes[Choice::class(LEN)].by_hand;
        let mut count = 0;
        for message in 0..messages {
            let side = &mut sides[message % 2];
            let by_hand = side.next(LEN, Some((LEN, last)));
            let time = times[usize::from(by_hand)];
            side.note(
                LEN,
                by_hand,
                if by_hand == last { time } else { time * 3 / 2 },
            );
            count += usize::from(by_hand);
            last = by_hand;
        }
        count
    }

    #[test]
    fn the_quicker_is_taken_and_the_other_hardly() {
        let mut sides = <[HandOver; 2]>::default();
        let count = exchange(&mut sides, 4000, [1800, 1500]);
        assert!(count > 3900, "{count}");
        let mut sides = <[HandOver; 2]>::default();
        let count = exchange(&mut sides, 4000, [4000, 5500]);
        assert!((4..100).contains(&count), "{count}");
    }

    #[test]
    fn what_becomes_quicker_is_found() {
        let mut sides = <[HandOver; 2]>::default();
        for (times, least) in [([4000, 5500], 0), ([6800, 3000], 3000), ([4000, 5500], 0)] {
            exchange(&mut sides, 4000, times);
            let count = exchange(&mut sides, 4000, times);
            assert!(count >= least && count < least + 1001, "{count} {times:?}");
        }
    }

    #[test]
    fn who_gets_a_message_answers_in_kind_if_it_was_as_long() {
        let mut side = HandOver::default();
        assert!(side.next(LEN, Some((LEN, true))) && side.next(LEN, Some((LEN + 1, true))));
        assert!(side.next(LEN, None) && side.next(LEN, Some((8 * LEN, false))));
        assert!(!side.next(LEN, Some((LEN, false))));
    }

    #[test]
    fn looks_of_which_nothing_is_heard_end() {
        let mut side = HandOver::default();
        let count = (0..10_000)
            .filter(|_| side.next(LEN, Some((LEN, false))))
            .count();
        assert!(count < 1000, "{count}");
        assert!(!side.next(LEN, Some((LEN, false))));
    }

    #[test]
    fn disturbances_decide_nothing() {
        for (times, most) in [([4000, 2000], 10_000), ([4000, 5500], 1000)] {
            let mut side = HandOver::default();
            let (mut last, mut count) = (false, 0);
            for message in 0..10_000 {
                let by_hand = side.next(LEN, Some((LEN, last)));
                let time = times[usize::from(by_hand)];
                side.note(
                    LEN,
                    by_hand,
                    if message % 10 == 3 { 4_000_000 } else { time },
                );
                count += usize::from(by_hand);
                last = by_hand;
            }
            assert!(count <= most && count + 1000 >= most, "{count} {times:?}");
        }
    }
}
