//! Which way long messages go to a peer: read by its kernel at once, or copied through a pipe, by plain stores or by
//! stores that go past the caches. What is quicker depends on where the two processes run (whether their cores share
//! a cache, which a virtual machine doesn't tell and may change), on how long the message is, and on whether both are
//! there at the same time. So it is measured by the receivers, from when they know of the message to when they have
//! the data, and told to the sender, who decides.
//!
//! Each class of lengths begins with a few messages by each way, or where the next shorter one has got to. Then the best
//! way is used, its time followed, and another one looked at again now and then, or soon if the one in use has become
//! slower than another was.

/// A way for the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The kernel copies it once, when the receiver asks.
    Single,
    /// Both sides copy it, through shared memory.
    Cached,
    /// As that, and the sender's stores go past the caches.
    Past,
}

const WAYS: [Way; 3] = [Way::Single, Way::Cached, Way::Past];

/// Of messages whose way is settled one in so many is timed: reading the clock four times takes as long as 5 KiB.
pub(crate) const TIMED: u32 = 16;

/// So long messages may be quicker past the caches where whole lines are overwritten without fetching them: both ways at
/// once 64 KiB had 31 GB/s so, and 33 by the instruction, 1 MiB one way 32 and 28 (AMD's Zen 5, cores that share no cache).
const PAST_WHOLE_LINES: usize = 1 << 19;

/// Shorter messages are in the first class.
const SHORTEST: u32 = 14;
pub(crate) const CLASSES: usize = 9;
/// Messages by each way at first; the first of them meets cold memory and doesn't count.
const TRIALS: u32 = 4;
/// Messages of a look at another way, of which the best counts.
const LOOK: u32 = 3;
/// After so many messages another way is looked at, at first and at most.
const INTERVALS: (u32, u32) = (128, 1024);
/// After so many messages of a look without word of their times, the look is over.
const PATIENCE: u32 = 64;
/// Time is counted in units of which a nanosecond has so many, per 64 KiB.
const UNITS: u64 = 16;

/// How long a way takes, per 64 KiB: where messages go in one direction, and where they go both ways. And how often it was
/// used in this state.
#[derive(Clone, Copy, Default, Debug)]
struct Score {
    times: [u64; 2],
    begun: u32,
    ended: u32,
}

/// What all classes go by.
#[derive(Clone, Copy)]
struct Known {
    single: bool,
    past: bool,
    both: bool,
}

impl Known {
    /// The ways that there are.
    fn ways(self) -> &'static [Way] {
        match (self.single, self.past) {
            (true, true) => &WAYS,
            (true, false) => &WAYS[..2],
            (false, true) => &WAYS[1..],
            (false, false) => &WAYS[1..2],
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Class {
    scores: [Score; 3],
    /// The way in use; none while all are tried.
    used: Option<Way>,
    /// Messages till the next look.
    until_look: u32,
    interval: u32,
    /// The way that is looked at.
    looking: Option<Way>,
    /// Messages since that began.
    looked: u32,
    /// The way that was looked at last.
    last: Way,
}

/// What a message has taken, in nanoseconds: the work of the one that sent it, and of the one that received it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub sending: u64,
    pub receiving: u64,
}

impl Work {
    /// In a row of messages the slower side is what the next one waits for: what one reads may have been written before.
    pub fn slower(self) -> u64 {
        self.sending.max(self.receiving)
    }

    /// Where messages go both ways each process is both sides.
    fn times(self, len: usize) -> [u64; 2] {
        let both = self.sending.saturating_add(self.receiving);
        [self.slower(), both].map(|time| Choice::per_unit(len, time))
    }
}

/// What is known of one peer.
#[derive(Debug)]
pub(crate) struct Choice {
    classes: [Class; CLASSES],
    /// By [`usize::from`] of whether messages go both ways: what counts.
    both: bool,
    /// Whether the kernel's copy is one of the ways.
    single: bool,
    /// From this class on stores past the caches are.
    past: usize,
}

impl Choice {
    /// Among all ways, or those by pipes alone. `whole_lines`: plain copies overwrite lines without fetching them.
    pub fn new(single: bool, whole_lines: bool) -> Choice {
        let class = Class {
            scores: [Score::default(); 3],
            used: None,
            until_look: 0,
            interval: INTERVALS.0,
            looking: None,
            looked: 0,
            last: Way::Single,
        };
        Choice {
            classes: [class; CLASSES],
            both: false,
            single,
            past: match whole_lines {
                true => Choice::class(PAST_WHOLE_LINES),
                false => 0,
            },
        }
    }

    /// The class of a length.
    pub fn class(len: usize) -> usize {
        let class = len.max(1).ilog2().saturating_sub(SHORTEST) as usize;
        class.min(CLASSES - 1)
    }

    /// The way for the next message. `in_kind`: it answers one that was read by the kernel.
    pub fn next(&mut self, len: usize, in_kind: bool) -> Way {
        let class = Choice::class(len);
        if class > 0 && self.classes[class].is_new() {
            // What is best for half the length is most likely best here.
            self.classes[class].inherit(self.classes[class - 1]);
        }
        let known = self.known(class);
        if in_kind && known.single {
            self.classes[class].join(known);
        }
        self.classes[class].next(known)
    }

    /// As [`Choice::next`] of a message that can't be read where it is; it is not measured.
    pub fn next_by_pipe(&mut self, len: usize) -> Way {
        let [_, cached, past] = self.classes[Choice::class(len)].scores;
        match past.times[0] < cached.times[0] && past.ended > 0 {
            true => Way::Past,
            false => Way::Cached,
        }
    }

    /// A message that went this way took so long; `both`: about as many go back, and not by turns.
    pub fn note(&mut self, len: usize, way: Way, work: Work, both: bool) {
        self.both = both;
        let class = Choice::class(len);
        self.classes[class].note(way, work.times(len), self.known(class));
    }

    fn known(&self, class: usize) -> Known {
        Known {
            single: self.single,
            past: class >= self.past,
            both: self.both,
        }
    }

    /// The time per 64 KiB of a message.
    pub fn per_unit(len: usize, nanoseconds: u64) -> u64 {
        nanoseconds.saturating_mul(UNITS << 16) / len.max(1) as u64
    }

    /// Whether the message that got its way last is to be timed.
    pub fn is_timed(&self, len: usize) -> bool {
        let class = self.classes[Choice::class(len)];
        class.used.is_none() || class.looking.is_some() || class.until_look.is_multiple_of(TIMED)
    }

    /// Whether all ways were tried, and one is in use.
    pub fn is_settled(&self, len: usize) -> bool {
        self.classes[Choice::class(len)].used.is_some()
    }

    /// Whether the peer's core seems to share no cache with this one.
    pub fn is_far(&self) -> bool {
        self.classes[0].used == Some(Way::Past) || self.classes[1].used == Some(Way::Past)
    }
}

impl Score {
    fn time(self, known: Known) -> u64 {
        self.times[usize::from(known.both)]
    }

    fn best(&mut self, times: [u64; 2]) {
        for (best, time) in self.times.iter_mut().zip(times) {
            *best = time.min(*best);
        }
    }
}

impl Class {
    fn is_new(&self) -> bool {
        self.used.is_none() && self.scores.iter().all(|score| score.begun == 0)
    }

    fn inherit(&mut self, shorter: Class) {
        if shorter.used.is_some() {
            *self = shorter;
            self.looking = None;
            self.interval = INTERVALS.0;
            // The times may be others for this length: they are had soon.
            self.until_look = TRIALS;
        }
    }

    /// The other side has its messages read, by turns with those of this one: then so are these, if that is not much slower.
    /// Where each goes another way, both find the units of pipes in their caches in place of their data.
    fn join(&mut self, known: Known) {
        let time = |way: Way| self.scores[way as usize].time(known);
        if let Some(used) = self.used
            && used != Way::Single
            && self.looking.is_none()
            && self.scores[Way::Single as usize].ended > 0
            && time(Way::Single) <= time(used) + time(used) / 3
        {
            self.used = Some(Way::Single);
            self.interval = INTERVALS.0;
            self.until_look = self.interval;
        }
    }

    fn next(&mut self, known: Known) -> Way {
        let way = match (self.used, self.looking) {
            (None, _) => {
                // Each way has its trials in a row: between messages of other ways it would find their data in its
                // caches. Who hears late of the last one goes on by turns.
                let begun = |way: &Way| self.scores[*way as usize].begun;
                let ways = known.ways();
                let trial = ways.iter().find(|way| begun(way) < TRIALS);
                let least = || ways.iter().min_by_key(|way| begun(way));
                *trial.or_else(least).unwrap_or(&Way::Cached)
            }
            (Some(used), Some(other)) => {
                self.looked += 1;
                if self.looked > PATIENCE {
                    self.settle(known);
                }
                match self.scores[other as usize].begun < LOOK {
                    true => other,
                    false => used,
                }
            }
            (Some(used), None) => {
                self.until_look = self.until_look.saturating_sub(1);
                if self.until_look == 0 {
                    self.look(used, known);
                }
                used
            }
        };
        let score = &mut self.scores[way as usize];
        score.begun = score.begun.saturating_add(1);
        way
    }

    /// The other ways are looked at by turns.
    fn look(&mut self, used: Way, known: Known) {
        let ways = known.ways();
        let after = ways.iter().position(|way| *way == self.last).unwrap_or(0);
        let turn = ways.iter().cycle().skip(after + 1).take(ways.len());
        let Some(&other) = turn.copied().find(|way| *way != used).as_ref() else {
            return;
        };
        (self.looking, self.looked, self.last) = (Some(other), 0, other);
        let score = &mut self.scores[other as usize];
        (score.begun, score.ended) = (0, 0);
    }

    fn note(&mut self, way: Way, times: [u64; 2], known: Known) {
        let score = &mut self.scores[way as usize];
        score.ended = score.ended.saturating_add(1);
        match self.used {
            None => {
                // The best of the trials: what disturbed one of them is not the way's.
                match score.ended {
                    1 => {}
                    2 => score.times = times,
                    _ => score.best(times),
                }
                let tried = |way: &Way| self.scores[*way as usize].ended >= TRIALS;
                if known.ways().iter().all(tried) {
                    self.settle(known);
                }
            }
            Some(used) if used == way => {
                // One that was disturbed counts for little, a way that has become slower is noticed soon.
                for (usual, time) in score.times.iter_mut().zip(times) {
                    let bounded = match *usual {
                        0 => time,
                        usual => time.min(usual.saturating_mul(2)),
                    };
                    *usual = (*usual * 7 + bounded) / 8;
                }
                let now = score.time(known);
                let better = |way: &&Way| {
                    let other = self.scores[**way as usize];
                    let time = other.time(known);
                    **way != used && other.ended > 0 && now > time + time / 4
                };
                if self.looking.is_none()
                    && self.until_look > LOOK
                    && let Some(way) = known.ways().iter().find(better)
                {
                    self.until_look = 1;
                    self.last = Self::before(*way, known);
                }
            }
            Some(_) => {
                match score.ended {
                    1 => score.times = times,
                    _ => score.best(times),
                }
                if self.looking == Some(way) && score.ended >= LOOK {
                    self.settle(known);
                }
            }
        }
    }

    /// The way after which this one is looked at.
    fn before(way: Way, known: Known) -> Way {
        let ways = known.ways();
        let at = ways.iter().position(|one| *one == way).unwrap_or(0);
        ways[(at + ways.len() - 1) % ways.len()]
    }

    /// Takes the best way, as far as is known, the one in use if there is little between them.
    fn settle(&mut self, known: Known) {
        let heard = |way: &&Way| self.scores[**way as usize].ended > 0 || self.used == Some(**way);
        let time = |way: &&Way| self.scores[**way as usize].time(known);
        let ways = known.ways().iter().filter(heard);
        let Some(&best) = ways.min_by_key(time) else {
            return;
        };
        let best = match self.used {
            Some(used) => {
                let (now, other) = (time(&&used), time(&&best));
                if other + other / 16 < now { best } else { used }
            }
            None => best,
        };
        self.interval = match self.used == Some(best) {
            true => (self.interval * 2).min(INTERVALS.1),
            false => INTERVALS.0,
        };
        self.used = Some(best);
        self.until_look = self.interval;
        self.looking = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 16;

    /// All work is the receiver's.
    fn alone(receiving: u64) -> Work {
        let sending = 0;
        Work { sending, receiving }
    }

    /// Messages one after the other, each as long as `clock` says of its number and way. How many took each way.
    fn run(choice: &mut Choice, count: u64, mut clock: impl FnMut(u64, Way) -> u64) -> [u64; 3] {
        let mut taken = [0; 3];
        for message in 0..count {
            let way = choice.next(LEN, false);
            choice.note(LEN, way, alone(clock(message, way)), false);
            taken[way as usize] += 1;
        }
        taken
    }

    fn takes(times: [u64; 3]) -> impl FnMut(u64, Way) -> u64 {
        move |_, way| times[way as usize]
    }

    const NEAR: [u64; 3] = [7000, 2500, 7400];
    const FAR: [u64; 3] = [9000, 25_000, 6800];
    /// The sender is never there at the same time.
    const APART: [u64; 3] = [7000, 30_000, 28_000];

    #[test]
    fn the_quickest_way_is_taken_and_the_others_hardly() {
        for (times, best) in [(NEAR, Way::Cached), (FAR, Way::Past), (APART, Way::Single)] {
            let mut choice = Choice::new(true, false);
            assert_eq!(run(&mut choice, 12, takes(times)), [4, 4, 4]);
            assert!(run(&mut choice, 10_000, takes(times))[best as usize] > 9_900);
            assert!(!choice.is_far());
            assert_eq!(choice.next_by_pipe(LEN) == Way::Past, times != NEAR);
        }
    }

    #[test]
    fn of_messages_of_a_settled_way_some_are_timed() {
        let mut choice = Choice::new(true, false);
        let mut clock = takes(NEAR);
        let mut timed = |choice: &mut Choice, count| {
            let mut timed = 0;
            for message in 0..count {
                let way = choice.next(LEN, false);
                if choice.is_timed(LEN) {
                    timed += 1;
                    choice.note(LEN, way, alone(clock(message, way)), false);
                }
            }
            timed
        };
        assert_eq!(timed(&mut choice, 12), 12);
        let share = 1000 / TIMED;
        assert!((share..share + 40).contains(&timed(&mut choice, 1000)));
        assert_eq!(choice.next(LEN, false), Way::Cached);
    }

    #[test]
    fn where_lines_are_overwritten_unread_only_the_longest_go_past_the_caches() {
        for single in [true, false] {
            let mut choice = Choice::new(single, true);
            let taken = run(&mut choice, 1000, takes(FAR));
            assert!(taken[Way::Past as usize] == 0, "{taken:?}");
            let mut long = |count| {
                let mut past = 0;
                for _ in 0..count {
                    let way = choice.next(1 << 20, false);
                    let time = FAR[way as usize] << 4;
                    choice.note(1 << 20, way, alone(time), false);
                    past += u32::from(way == Way::Past);
                }
                past
            };
            long(50);
            assert!(long(100) > 90);
        }
    }

    #[test]
    fn where_memory_can_not_be_read_it_is_not_tried() {
        let mut choice = Choice::new(false, false);
        let taken = run(&mut choice, 1000, takes(FAR));
        assert!(taken[0] == 0 && taken[2] > 950, "{taken:?}");
        let taken = run(&mut choice, 4000, takes(NEAR));
        assert!(taken[0] == 0 && taken[1] > 2500, "{taken:?}");
    }

    #[test]
    fn ways_that_become_slower_are_left_soon() {
        let mut choice = Choice::new(true, false);
        run(&mut choice, 1000, takes(NEAR));
        // The processes are moved apart.
        let lost = run(&mut choice, 100, takes(FAR))[Way::Cached as usize];
        assert!(lost < 40, "{lost} of 100");
        run(&mut choice, 100, takes(FAR));
        assert!(run(&mut choice, 100, takes(FAR))[Way::Past as usize] > 90);
        // And together again: noticed at a look.
        run(&mut choice, 2000, takes(NEAR));
        assert!(run(&mut choice, 100, takes(NEAR))[Way::Cached as usize] > 90);
    }

    #[test]
    fn what_disturbs_one_message_in_ten_decides_nothing() {
        for (ways, best) in [(NEAR, Way::Cached), (FAR, Way::Past), (APART, Way::Single)] {
            let mut choice = Choice::new(true, false);
            let mut times = takes(ways);
            let noisy = |message: u64, way| match message % 10 {
                3 => 4_000_000,
                _ => times(message, way),
            };
            let taken = run(&mut choice, 10_000, noisy);
            assert!(taken[best as usize] > 9_000, "{taken:?}");
        }
    }

    #[test]
    fn what_is_read_is_answered_in_kind_unless_that_is_much_slower() {
        for (times, joins) in [([7000, 5800, 9000], true), ([7000, 5000, 9000], false)] {
            let mut choice = Choice::new(true, false);
            run(&mut choice, 200, takes(times));
            assert_eq!(choice.next(LEN, false), Way::Cached);
            for _ in 0..40 {
                let way = choice.next(LEN, true);
                assert_eq!(way == Way::Single, joins, "{times:?}");
                choice.note(LEN, way, alone(times[way as usize]), false);
            }
        }
        let mut choice = Choice::new(false, false);
        run(&mut choice, 200, takes([0, 5800, 9000]));
        assert_eq!(choice.next(LEN, true), Way::Cached);
    }

    #[test]
    fn several_messages_may_be_under_way() {
        let mut choice = Choice::new(true, false);
        for _ in 0..100 {
            let ways: Vec<Way> = (0..16).map(|_| choice.next(LEN, false)).collect();
            for way in ways {
                choice.note(LEN, way, alone(NEAR[way as usize]), false);
            }
        }
        assert!(run(&mut choice, 100, takes(NEAR))[Way::Cached as usize] > 90);
    }

    #[test]
    fn looks_of_which_nothing_is_heard_end() {
        let mut choice = Choice::new(true, false);
        run(&mut choice, 20, takes(NEAR));
        let silent = (0..10_000)
            .filter(|_| choice.next(LEN, false) != Way::Cached)
            .count();
        assert!(silent < 200, "{silent}");
    }

    #[test]
    fn lengths_have_ways_of_their_own_and_begin_with_those_of_shorter_ones() {
        let mut choice = Choice::new(true, false);
        run(&mut choice, 100, takes(NEAR));
        assert_eq!(choice.next(2 * LEN, false), Way::Cached);
        for len in [1, 2 * LEN, 1 << 20, usize::MAX] {
            for _ in 0..1000 {
                let way = choice.next(len, false);
                let quick = (way == Way::Cached) == (len == 2 * LEN);
                let time = if quick { 10_000 } else { 1_000_000 };
                choice.note(len, way, alone(time), false);
            }
        }
        let count = |choice: &mut Choice, len: usize| {
            let ways: Vec<Way> = (0..100).map(|_| choice.next(len, false)).collect();
            ways.iter().filter(|way| **way == Way::Cached).count()
        };
        assert!(count(&mut choice, 2 * LEN) > 90);
        assert!(count(&mut choice, 1 << 20) < 10);
        assert!(count(&mut choice, 1) < 10);
    }

    #[test]
    fn where_messages_go_both_ways_the_work_of_both_sides_counts() {
        // The kernel's copy is the receiver's; two copies are each one's half, and quicker than it by themselves.
        let work = |way: Way| match way {
            Way::Single => alone(4000),
            Way::Cached => Work {
                sending: 3000,
                receiving: 3100,
            },
            Way::Past => Work {
                sending: 4000,
                receiving: 5000,
            },
        };
        let mut choice = Choice::new(true, false);
        let mut run = |both: bool, count: u32| {
            let mut single = 0;
            for _ in 0..count {
                let way = choice.next(LEN, false);
                single += u32::from(way == Way::Single);
                choice.note(LEN, way, work(way), both);
            }
            single
        };
        assert!(run(false, 100) < 20);
        // It is noticed soon that they do.
        assert!(run(true, 100) > 70 && run(true, 1000) > 950);
        assert!(run(false, 100) < 30 && run(false, 1000) < 50);
        let mut choice = Choice::new(true, false);
        for _ in 0..12 {
            let way = choice.next(LEN, false);
            choice.note(LEN, way, work(way), true);
        }
        assert_eq!(choice.next(LEN, false), Way::Single);
    }
}
