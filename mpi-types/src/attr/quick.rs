//! The attributes of an object that are found without its lock: programs and libraries look for theirs with each call of
//! them.
//!
//! Who changes them has the lock. It makes the number of changes odd meanwhile, so that who looks knows that it may have seen
//! a part of a change (a sequence lock).

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// So many.
const WORDS: usize = if cfg!(loom) { 2 } else { 4 };

#[derive(Default)]
pub(super) struct Quick {
    changes: AtomicUsize,
    /// Whether there are others.
    others: AtomicBool,
    /// The marks of keys, or 0, and values.
    words: [(AtomicUsize, AtomicUsize); WORDS],
}

impl Quick {
    /// The value of the attribute whose key has this mark, if it is set; `None` if that can't be told.
    #[inline]
    pub fn find(&self, mark: usize) -> Option<Option<usize>> {
        let before = self.changes.load(Ordering::Acquire);
        // Acquire, here and below: the number of changes is looked at after these.
        let found = self.words.iter().find_map(|(key, value)| {
            (key.load(Ordering::Acquire) == mark).then(|| value.load(Ordering::Acquire))
        });
        let known = found.is_some() || !self.others.load(Ordering::Acquire);
        let whole = before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before;
        (known && whole).then_some(found)
    }

    /// Whether there are none, nor others.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let before = self.changes.load(Ordering::Acquire);
        let none = self.words[0].0.load(Ordering::Acquire) == 0;
        let none = none && !self.others.load(Ordering::Acquire);
        none && before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before
    }

    /// From now on there are these: marks and values, or none for one that is not told of here. With the lock.
    pub fn publish(&self, all: impl Iterator<Item = Option<(usize, usize)>>) {
        let before = self.changes.load(Ordering::Relaxed);
        self.changes
            .store(before.wrapping_add(1), Ordering::Relaxed);
        // Release, here and below: who sees one of these sees that there is a change.
        let (mut used, mut others) = (0, false);
        for one in all {
            match one {
                Some((mark, value)) if mark != 0 && used < WORDS => {
                    self.words[used].0.store(mark, Ordering::Release);
                    self.words[used].1.store(value, Ordering::Release);
                    used += 1;
                }
                _ => others = true,
            }
        }
        for (mark, _) in &self.words[used..] {
            mark.store(0, Ordering::Release);
        }
        self.others.store(others, Ordering::Release);
        self.changes
            .store(before.wrapping_add(2), Ordering::Release);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-types --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Marks of keys.
    const A: usize = 1;
    const B: usize = 2;
    const C: usize = 3;

    /// All attributes at a time, as [`Quick::publish`] has them.
    type State = &'static [Option<(usize, usize)>];

    /// What a look comes to.
    #[derive(Debug)]
    enum Seen {
        Attribute(usize, Option<usize>),
        Nothing,
    }

    impl Seen {
        /// Whether it is true of a state. An attribute that is not among those told of may be one of the others.
        fn is_true_of(&self, state: State) -> bool {
            match *self {
                Seen::Attribute(mark, None) => state
                    .iter()
                    .all(|one| one.is_some_and(|(key, _)| key != mark)),
                Seen::Attribute(mark, Some(value)) => state.contains(&Some((mark, value))),
                Seen::Nothing => state.is_empty(),
            }
        }
    }

    fn look(quick: &Quick, mark: usize) -> Option<Seen> {
        let found = quick.find(mark)?;
        Some(Seen::Attribute(mark, found))
    }

    fn look_for_any(quick: &Quick) -> Option<Seen> {
        quick.is_empty().then_some(Seen::Nothing)
    }

    type Look = fn(&Quick) -> Option<Seen>;

    const FOR_A: Look = |quick| look(quick, A);
    const FOR_B: Look = |quick| look(quick, B);
    const FOR_ANY: Look = look_for_any;

    /// One thread goes from each state to the next, while another looks. What that sees is true of one of them, and of none
    /// before one that it has seen.
    fn look_while_they_change(states: &'static [State], looks: &'static [Look]) {
        loom::model(move || {
            let quick = Arc::new(Quick::default());
            quick.publish(states[0].iter().copied());
            let theirs = quick.clone();
            // It is the other thread that looks: loom runs the first one on, and then tries what may be seen of it where.
            let thread = thread::spawn(move || {
                let mut from = 0;
                for seen in looks.iter().filter_map(|look| look(&theirs)) {
                    let mut rest = (from..states.len()).filter(|at| seen.is_true_of(states[*at]));
                    from = rest
                        .next()
                        .unwrap_or_else(|| panic!("{seen:?} after state {from}"));
                }
            });
            for state in &states[1..] {
                quick.publish(state.iter().copied());
            }
            thread.join().unwrap();
            let last = *states.last().unwrap();
            for seen in [FOR_A, FOR_B].map(|look| look(&quick)) {
                let known = seen.map(|seen| assert!(seen.is_true_of(last), "{seen:?} at last"));
                assert!(known.is_some() || last.len() > WORDS || last.contains(&None));
            }
            assert_eq!(quick.is_empty(), last.is_empty());
        });
    }

    /// As where a value is set anew: it goes behind the others.
    #[test]
    fn values_are_those_of_their_keys_while_they_change_places() {
        const STATES: &[State] = &[&[Some((A, 1)), Some((B, 2))], &[Some((B, 2)), Some((A, 3))]];
        look_while_they_change(STATES, &[FOR_A, FOR_B]);
        look_while_they_change(STATES, &[FOR_B, FOR_A]);
    }

    /// As where a value is set anew whose old one has a callback, which may ask for it.
    #[test]
    fn what_is_set_throughout_is_never_found_missing() {
        const STATES: &[State] = &[&[Some((A, 1))], &[None], &[Some((A, 2))]];
        look_while_they_change(STATES, &[FOR_A, FOR_A]);
        look_while_they_change(STATES, &[FOR_ANY]);
        look_while_they_change(&STATES[1..], &[FOR_ANY]);
    }

    #[test]
    fn what_has_no_place_here_is_never_found_missing() {
        const STATES: &[State] = &[
            &[Some((A, 1)), Some((B, 2)), Some((C, 3))],
            &[Some((B, 2)), Some((C, 3)), Some((A, 4))],
        ];
        look_while_they_change(STATES, &[FOR_A, FOR_B]);
    }

    #[test]
    fn what_is_gone_is_not_found_again() {
        const STATES: &[State] = &[&[], &[Some((A, 1))], &[]];
        look_while_they_change(STATES, &[FOR_A, FOR_ANY]);
    }
}
