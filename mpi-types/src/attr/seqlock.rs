//! The first attributes of an object, readable without its lock: programs look theirs up at each
//! MPI call.
//!
//! A sequence lock. The writer holds the lock of the list and keeps the change counter odd during a
//! change; a reader discards what it read if the counter was odd or has moved.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// Attributes that are readable without the lock; further ones need it.
const CAPACITY: usize = if cfg!(loom) { 2 } else { 4 };

#[derive(Default)]
pub(super) struct Seqlock {
    changes: AtomicUsize,
    /// Whether some attributes are not in `entries`.
    has_more: AtomicBool,
    /// Each key's mark, or 0, and its value.
    entries: [(AtomicUsize, AtomicUsize); CAPACITY],
}

impl Seqlock {
    /// Looks up an attribute by its key's mark. Returns `None` if only the locked list can answer.
    #[inline]
    pub fn find(&self, mark: usize) -> Option<Option<usize>> {
        let before = self.changes.load(Ordering::Acquire);
        // Acquire, here and below: the counter must be read again after these.
        let found = self.entries.iter().find_map(|(key, value)| {
            (key.load(Ordering::Acquire) == mark).then(|| value.load(Ordering::Acquire))
        });
        let known = found.is_some() || !self.has_more.load(Ordering::Acquire);
        let whole = before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before;
        (known && whole).then_some(found)
    }

    /// Returns whether the object has no attributes. False if a change is in progress.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let before = self.changes.load(Ordering::Acquire);
        let none = self.entries[0].0.load(Ordering::Acquire) == 0;
        let none = none && !self.has_more.load(Ordering::Acquire);
        none && before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before
    }

    /// Publishes all attributes as (mark, value), `None` for one without a word. The caller holds
    /// the list's lock.
    pub fn publish(&self, all: impl Iterator<Item = Option<(usize, usize)>>) {
        let before = self.changes.load(Ordering::Relaxed);
        self.changes
            .store(before.wrapping_add(1), Ordering::Relaxed);
        // Release, here and below: a reader that sees one of these stores sees the odd counter.
        let (mut used, mut has_more) = (0, false);
        for one in all {
            match one {
                Some((mark, value)) if mark != 0 && used < CAPACITY => {
                    self.entries[used].0.store(mark, Ordering::Release);
                    self.entries[used].1.store(value, Ordering::Release);
                    used += 1;
                }
                _ => has_more = true,
            }
        }
        for (mark, _) in &self.entries[used..] {
            mark.store(0, Ordering::Release);
        }
        self.has_more.store(has_more, Ordering::Release);
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

    /// Keys' marks.
    const A: usize = 1;
    const B: usize = 2;
    const C: usize = 3;

    /// All attributes at one time, in the form that `publish` takes.
    type State = &'static [Option<(usize, usize)>];

    /// The outcome of a lookup.
    #[derive(Debug)]
    enum Seen {
        Attribute(usize, Option<usize>),
        Nothing,
    }

    impl Seen {
        /// Returns whether the outcome fits a state. An unpublished attribute (`None`) may have any
        /// key.
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

    fn look(seqlock: &Seqlock, mark: usize) -> Option<Seen> {
        let found = seqlock.find(mark)?;
        Some(Seen::Attribute(mark, found))
    }

    fn look_for_any(seqlock: &Seqlock) -> Option<Seen> {
        seqlock.is_empty().then_some(Seen::Nothing)
    }

    type Look = fn(&Seqlock) -> Option<Seen>;

    const FOR_A: Look = |seqlock| look(seqlock, A);
    const FOR_B: Look = |seqlock| look(seqlock, B);
    const FOR_ANY: Look = look_for_any;

    /// One thread publishes one state after the other while another looks up. Each outcome must fit
    /// a state, and no outcome an older state than the one before it.
    fn look_while_they_change(states: &'static [State], looks: &'static [Look]) {
        loom::model(move || {
            let seqlock = Arc::new(Seqlock::default());
            seqlock.publish(states[0].iter().copied());
            let theirs = seqlock.clone();
            // The spawned thread looks up: loom runs the first thread ahead and then tries which
            // stores the other may see.
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
                seqlock.publish(state.iter().copied());
            }
            thread.join().unwrap();
            let last = *states.last().unwrap();
            for seen in [FOR_A, FOR_B].map(|look| look(&seqlock)) {
                let known = seen.map(|seen| assert!(seen.is_true_of(last), "{seen:?} at last"));
                assert!(known.is_some() || last.len() > CAPACITY || last.contains(&None));
            }
            assert_eq!(seqlock.is_empty(), last.is_empty());
        });
    }

    /// A value that is set again moves behind the others.
    #[test]
    fn values_are_those_of_their_keys_while_they_change_places() {
        const STATES: &[State] = &[&[Some((A, 1)), Some((B, 2))], &[Some((B, 2)), Some((A, 3))]];
        look_while_they_change(STATES, &[FOR_A, FOR_B]);
        look_while_they_change(STATES, &[FOR_B, FOR_A]);
    }

    /// While a value with a delete callback is replaced, it is unpublished, and the callback may
    /// look it up.
    #[test]
    fn an_attribute_set_throughout_is_never_reported_missing() {
        const STATES: &[State] = &[&[Some((A, 1))], &[None], &[Some((A, 2))]];
        look_while_they_change(STATES, &[FOR_A, FOR_A]);
        look_while_they_change(STATES, &[FOR_ANY]);
        look_while_they_change(&STATES[1..], &[FOR_ANY]);
    }

    #[test]
    fn an_attribute_beyond_the_published_ones_is_never_reported_missing() {
        const STATES: &[State] = &[
            &[Some((A, 1)), Some((B, 2)), Some((C, 3))],
            &[Some((B, 2)), Some((C, 3)), Some((A, 4))],
        ];
        look_while_they_change(STATES, &[FOR_A, FOR_B]);
    }

    #[test]
    fn a_deleted_attribute_is_not_found_again() {
        const STATES: &[State] = &[&[], &[Some((A, 1))], &[]];
        look_while_they_change(STATES, &[FOR_A, FOR_ANY]);
    }
}
