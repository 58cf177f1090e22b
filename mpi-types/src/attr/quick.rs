//! The attributes of an object that are found without its lock: programs and libraries look for theirs with each call of
//! them.
//!
//! Who changes them has the lock. It makes the number of changes odd meanwhile, so that who looks knows that it may have seen
//! a part of a change (a sequence lock).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// So many.
const WORDS: usize = 4;

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
