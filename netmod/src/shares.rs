//! A copy from one process's memory to another's of which both do a share: the reader takes chunks from the front, the owner
//! of the memory from the back.
//!
//! The words lie in memory of the owner that both see. A reader that finds them free says what is to be copied
//! ([`Shares::begin`]), and copies chunk by chunk. If the owner comes by meanwhile it copies others
//! ([`Shares::take_back`]). Nobody waits for one who doesn't come; but the reader waits for chunks that the owner has taken,
//! since they are written to its memory.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;

/// What is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedCopy {
    /// Who reads: what the owner knows it by.
    pub reader: u64,
    /// Where in the owner's memory.
    pub from: u64,
    /// Where to, in the reader's.
    pub to: u64,
    /// Bytes, not 0.
    pub len: usize,
    /// Bytes of a chunk; the last one may be shorter.
    pub chunk: usize,
}

impl SharedCopy {
    /// Chunks that it consists of.
    pub fn chunks(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// Where a chunk begins, and its length.
    pub fn place(&self, number: usize) -> (usize, usize) {
        let at = (number * self.chunk).min(self.len);
        (at, (self.len - at).min(self.chunk))
    }
}

/// What the owner has done of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Helped {
    /// The last so many chunks.
    pub chunks: usize,
    /// Whether it could not copy all of them.
    pub failed: bool,
}

/// The most chunks of a copy.
pub const MOST_CHUNKS: usize = MASK as usize;

const MASK: u64 = 0xffff;
const FRONT: u64 = 1 << 16;
const CHUNKS: u32 = 32;
const FAILED: u64 = 1 << 32;

fn front(claims: u64) -> u64 {
    claims >> 16 & MASK
}

fn back(claims: u64) -> u64 {
    claims & MASK
}

fn any_left(claims: u64) -> bool {
    front(claims) + back(claims) < claims >> CHUNKS
}

/// What the owner looks at: in one line of the caches.
#[repr(C)]
struct Offer {
    /// How many chunks there are, how many are taken from the front, and how many from the back.
    claims: AtomicU64,
    /// What is copied, as in [`SharedCopy`].
    copy: [AtomicU64; 5],
}

/// The words of shared copies, one copy at a time. All zero: there is none.
///
/// Invariant: what is copied is said before the first chunk can be taken, and stays until the last one that was taken from the
/// back is done. So whoever has taken a chunk may read it.
#[repr(C)]
pub struct Shares {
    offer: Padded<Offer>,
    /// 1 while a reader has the words.
    held: Padded<AtomicU64>,
    /// Chunks from the back that are done, and those that could not be copied.
    done: Padded<AtomicU64>,
}

impl Shares {
    #[cfg(test)]
    fn new() -> Shares {
        let offer = Offer {
            claims: AtomicU64::new(0),
            copy: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Shares {
            offer: Padded(offer),
            held: Padded(AtomicU64::new(0)),
            done: Padded(AtomicU64::new(0)),
        }
    }

    /// The reader: begins a copy, and takes its first chunk. `false`: there is another one, or it has too many chunks.
    pub fn begin(&self, copy: &SharedCopy) -> bool {
        let held = &self.held.0;
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        // A look first: an exchange takes the line from who has the words.
        if copy.chunks() > MOST_CHUNKS
            || held.load(relaxed) != 0
            || held.compare_exchange(0, 1, acquire, relaxed).is_err()
        {
            return false;
        }
        let SharedCopy {
            reader,
            from,
            to,
            len,
            chunk,
        } = *copy;
        let words = [reader, from, to, len as u64, chunk as u64];
        for (word, value) in self.offer.0.copy.iter().zip(words) {
            word.store(value, relaxed);
        }
        self.done.0.store(0, relaxed);
        // Release: who takes a chunk sees what is copied.
        let claims = (copy.chunks() as u64) << CHUNKS | FRONT;
        self.offer.0.claims.store(claims, Ordering::Release);
        true
    }

    /// The reader takes the next chunk from the front; `None`: all are taken, and stay so.
    pub fn take_front(&self) -> Option<usize> {
        let claims = self.take(FRONT)?;
        Some(front(claims) as usize)
    }

    /// Whether there is a chunk that the owner could take, as far as it sees.
    #[inline(always)]
    pub fn are_offered(&self) -> bool {
        any_left(self.offer.0.claims.load(Ordering::Relaxed))
    }

    /// The owner takes the last chunk that is left, if there is one, and does it or not, but says so
    /// ([`Shares::finish`]).
    pub fn take_back(&self) -> Option<(SharedCopy, usize)> {
        let claims = self.take(1)?;
        let [reader, from, to, len, chunk] =
            std::array::from_fn(|word| self.offer.0.copy[word].load(Ordering::Relaxed));
        let number = (claims >> CHUNKS) - 1 - back(claims);
        let copy = SharedCopy {
            reader,
            from,
            to,
            len: len as usize,
            chunk: chunk as usize,
        };
        Some((copy, number as usize))
    }

    fn take(&self, end: u64) -> Option<u64> {
        let claims = &self.offer.0.claims;
        let mut found = claims.load(Ordering::Relaxed);
        loop {
            if !any_left(found) {
                return None;
            }
            // Acquire: what is copied was said before. That the word may have come to the same value by another copy
            // than the one that was seen does no harm: the chunk is that one's then.
            match claims.compare_exchange(found, found + end, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(found),
                Err(now) => found = now,
            }
        }
    }

    /// The owner is done with a chunk that it has taken.
    pub fn finish(&self, copied: bool) {
        let word = if copied { 1 } else { 1 + FAILED };
        // Release: the reader comes to what was copied, or to its memory, after it.
        self.done.0.fetch_add(word, Ordering::Release);
    }

    /// The reader, when it has found all chunks taken: what the owner has done, once it is done.
    pub fn helped(&self) -> Option<Helped> {
        let taken = back(self.offer.0.claims.load(Ordering::Relaxed));
        if taken == 0 {
            let (chunks, failed) = (0, false);
            return Some(Helped { chunks, failed });
        }
        let done = self.done.0.load(Ordering::Acquire);
        (done & (FAILED - 1) == taken).then_some(Helped {
            chunks: taken as usize,
            failed: done >= FAILED,
        })
    }

    /// As [`Shares::helped`] of an owner that has ended: what it has taken counts as not copied.
    pub fn given_up(&self) -> Helped {
        let taken = back(self.offer.0.claims.load(Ordering::Relaxed));
        Helped {
            chunks: taken as usize,
            failed: true,
        }
    }

    /// The reader lets others have the words: all chunks were taken, and it knows what the owner has done, or that it has
    /// ended.
    pub fn end(&self) {
        self.held.0.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const COPY: SharedCopy = SharedCopy {
        reader: 7,
        from: 1 << 40,
        to: 1 << 41,
        len: 2500,
        chunk: 1000,
    };

    #[test]
    fn chunks_are_taken_from_both_ends() {
        let shares = Shares::new();
        assert!(!shares.are_offered() && shares.take_back().is_none());
        assert!(shares.begin(&COPY) && shares.are_offered() && !shares.begin(&COPY));
        assert_eq!(shares.take_back(), Some((COPY, 2)));
        assert_eq!(shares.take_back(), Some((COPY, 1)));
        assert_eq!((shares.take_front(), shares.take_back()), (None, None));
        assert_eq!(shares.helped(), None);
        shares.finish(true);
        assert_eq!(shares.helped(), None);
        shares.finish(false);
        let (chunks, failed) = (2, true);
        assert_eq!(shares.helped(), Some(Helped { chunks, failed }));
        shares.end();
        assert!(shares.begin(&COPY));
        assert_eq!([0; 2].map(|_| shares.take_front().unwrap()), [1, 2]);
        let (chunks, failed) = (0, false);
        assert_eq!(shares.helped(), Some(Helped { chunks, failed }));
    }

    #[test]
    fn places_are_all_of_the_copy() {
        assert_eq!(COPY.chunks(), 3);
        let places = [0, 1, 2, 3].map(|number| COPY.place(number));
        assert_eq!(places, [(0, 1000), (1000, 1000), (2000, 500), (2500, 0)]);
        let many = SharedCopy {
            len: 70_000,
            chunk: 1,
            ..COPY
        };
        assert!(!Shares::new().begin(&many));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;
    use crate::sync::UnsafeCell;

    struct Shared {
        shares: Shares,
        to: [UnsafeCell<u64>; 2],
    }

    // SAFETY: the places are reached as the words allow it, which is what is tested.
    unsafe impl Sync for Shared {}

    fn copy(round: u64) -> SharedCopy {
        SharedCopy {
            reader: round,
            from: 10 * round,
            to: 0,
            len: 2,
            chunk: 1,
        }
    }

    /// One reader, two copies, an owner that comes by now and then: each chunk is copied once, in its own round.
    #[test]
    fn chunks_are_copied_once_and_while_the_reader_waits() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                shares: Shares::new(),
                to: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let owner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some((copy, number)) = shared.shares.take_back() {
                            let value = copy.from + number as u64;
                            // SAFETY: taken, and not done.
                            shared.to[number].with_mut(|at| unsafe { *at = value });
                            shared.shares.finish(true);
                        }
                        loom::thread::yield_now();
                    }
                })
            };
            for round in 1..3 {
                assert!(shared.shares.begin(&copy(round)));
                let mut next = Some(0);
                while let Some(number) = next {
                    let value = 10 * round + number as u64;
                    // SAFETY: taken.
                    shared.to[number].with_mut(|at| unsafe { *at = value });
                    next = shared.shares.take_front();
                }
                while shared.shares.helped().is_none() {
                    loom::thread::yield_now();
                }
                shared.shares.end();
                for (number, at) in shared.to.iter().enumerate() {
                    // SAFETY: all is done.
                    let value = at.with(|at| unsafe { *at });
                    assert_eq!(value, 10 * round + number as u64);
                }
            }
            owner.join().unwrap();
        });
    }

    /// Two readers: the words are one's at a time.
    #[test]
    fn one_reader_has_the_words_at_a_time() {
        loom::model(|| {
            let shares = Arc::new(Shares::new());
            let reader = |round: u64, shares: Arc<Shares>| {
                if !shares.begin(&copy(round)) {
                    return;
                }
                let mut taken = 1;
                while shares.take_front().is_some() {
                    taken += 1;
                }
                assert_eq!(taken, 2);
                assert_eq!(shares.offer.0.copy[0].load(Ordering::Relaxed), round);
                shares.end();
            };
            let other = {
                let shares = shares.clone();
                loom::thread::spawn(move || reader(1, shares))
            };
            reader(2, shares);
            other.join().unwrap();
        });
    }
}
