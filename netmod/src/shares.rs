//! A copy between two processes that both carry out: the reader takes chunks from the front, the
//! owner of the memory from the back.
//!
//! The control words lie in shared memory of the owner. A reader that finds them free describes the
//! copy ([`CopyShares::begin`]) and copies chunk by chunk. An owner that polls meanwhile copies others
//! ([`CopyShares::take_back`]). The reader never waits for an owner that does not poll, but it does
//! wait for chunks that the owner has taken, since they are written to the reader's memory.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;

/// Describes a shared copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedCopy {
    /// The reader, as the owner identifies it.
    pub reader: u64,
    /// Address in the owner's memory.
    pub from: u64,
    /// Address in the reader's memory.
    pub to: u64,
    /// Bytes, not 0.
    pub len: usize,
    /// Bytes of a chunk; the last one may be shorter.
    pub chunk: usize,
}

impl SharedCopy {
    /// Returns the number of chunks.
    pub fn chunks(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// Returns a chunk's offset and its length.
    pub fn place(&self, number: usize) -> (usize, usize) {
        let at = (number * self.chunk).min(self.len);
        (at, (self.len - at).min(self.chunk))
    }
}

/// The owner's share of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Helped {
    /// Number of chunks at the end of the copy.
    pub chunks: usize,
    /// Whether any of them could not be copied.
    pub failed: bool,
}

/// Most chunks of a copy.
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

/// The words that the owner polls, in one cache line.
#[repr(C)]
struct Offer {
    /// Number of chunks, number taken from the front, and number taken from the back.
    claims: AtomicU64,
    /// The fields of [`SharedCopy`].
    copy: [AtomicU64; 5],
}

/// Control words of shared copies, one copy at a time. All zero: no copy.
///
/// Invariant: the description is written before the first chunk can be taken, and stays until the
/// last chunk taken from the back is done. So a process that has taken a chunk may read the
/// description.
#[repr(C)]
pub struct CopyShares {
    offer: Padded<Offer>,
    /// 1 while a reader holds the words.
    held: Padded<AtomicU64>,
    /// Finished chunks from the back, and the failed ones among them.
    done: Padded<AtomicU64>,
}

impl CopyShares {
    #[cfg(test)]
    fn new() -> CopyShares {
        let offer = Offer {
            claims: AtomicU64::new(0),
            copy: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        CopyShares {
            offer: Padded(offer),
            held: Padded(AtomicU64::new(0)),
            done: Padded(AtomicU64::new(0)),
        }
    }

    /// Begins a copy for the reader, and takes its first chunk. `false`: another copy is under way,
    /// or this one has too many chunks.
    pub fn begin(&self, copy: &SharedCopy) -> bool {
        let held = &self.held.0;
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        // Load first: an exchange would take the cache line from the reader that holds the words.
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
        // Release: a process that takes a chunk sees the description.
        let claims = (copy.chunks() as u64) << CHUNKS | FRONT;
        self.offer.0.claims.store(claims, Ordering::Release);
        true
    }

    /// Takes the next chunk from the front for the reader. `None`: all are taken, for good.
    pub fn take_front(&self) -> Option<usize> {
        let claims = self.take(FRONT)?;
        Some(front(claims) as usize)
    }

    /// Returns whether the owner may find a chunk to take.
    #[inline(always)]
    pub fn are_offered(&self) -> bool {
        any_left(self.offer.0.claims.load(Ordering::Relaxed))
    }

    /// Takes the last remaining chunk for the owner, which must report it by [`CopyShares::finish`]
    /// whether it copied it or not.
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
            // Acquire: the description was written before. If the word has the same value because
            // of a later copy, the chunk belongs to that copy.
            match claims.compare_exchange(found, found + end, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(found),
                Err(now) => found = now,
            }
        }
    }

    /// Finishes a chunk that the owner has taken.
    pub fn finish(&self, copied: bool) {
        let word = if copied { 1 } else { 1 + FAILED };
        // Release: the reader accesses the copied memory after this.
        self.done.0.fetch_add(word, Ordering::Release);
    }

    /// Returns the owner's share once it is done, for a reader that has found all chunks taken.
    pub fn owner_share(&self) -> Option<Helped> {
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

    /// Returns the share of an owner that has died: the chunks that it took count as failed.
    pub fn given_up(&self) -> Helped {
        let taken = back(self.offer.0.claims.load(Ordering::Relaxed));
        Helped {
            chunks: taken as usize,
            failed: true,
        }
    }

    /// Frees the words for other readers: all chunks were taken, and the reader knows the owner's
    /// share or that the owner has died.
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
        let shares = CopyShares::new();
        assert!(!shares.are_offered() && shares.take_back().is_none());
        assert!(shares.begin(&COPY) && shares.are_offered() && !shares.begin(&COPY));
        assert_eq!(shares.take_back(), Some((COPY, 2)));
        assert_eq!(shares.take_back(), Some((COPY, 1)));
        assert_eq!((shares.take_front(), shares.take_back()), (None, None));
        assert_eq!(shares.owner_share(), None);
        shares.finish(true);
        assert_eq!(shares.owner_share(), None);
        shares.finish(false);
        let (chunks, failed) = (2, true);
        assert_eq!(shares.owner_share(), Some(Helped { chunks, failed }));
        shares.end();
        assert!(shares.begin(&COPY));
        assert_eq!([0; 2].map(|_| shares.take_front().unwrap()), [1, 2]);
        let (chunks, failed) = (0, false);
        assert_eq!(shares.owner_share(), Some(Helped { chunks, failed }));
    }

    #[test]
    fn chunks_cover_the_whole_copy() {
        assert_eq!(COPY.chunks(), 3);
        let places = [0, 1, 2, 3].map(|number| COPY.place(number));
        assert_eq!(places, [(0, 1000), (1000, 1000), (2000, 500), (2500, 0)]);
        let many = SharedCopy {
            len: 70_000,
            chunk: 1,
            ..COPY
        };
        assert!(!CopyShares::new().begin(&many));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;
    use crate::sync::UnsafeCell;

    struct Shared {
        shares: CopyShares,
        to: [UnsafeCell<u64>; 2],
    }

    // SAFETY: the chunks are accessed only as the control words allow, which is what the test
    // checks.
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

    /// One reader, two copies, an owner that polls now and then: each chunk is copied once, in its
    /// own round.
    #[test]
    fn chunks_are_copied_once_and_while_the_reader_waits() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                shares: CopyShares::new(),
                to: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let owner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some((copy, number)) = shared.shares.take_back() {
                            let value = copy.from + number as u64;
                            // SAFETY: the owner has taken the chunk and not yet finished it.
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
                    // SAFETY: the reader has taken the chunk.
                    shared.to[number].with_mut(|at| unsafe { *at = value });
                    next = shared.shares.take_front();
                }
                while shared.shares.owner_share().is_none() {
                    loom::thread::yield_now();
                }
                shared.shares.end();
                for (number, at) in shared.to.iter().enumerate() {
                    // SAFETY: all chunks are finished, and the reader has not ended the copy for
                    // the next round.
                    let value = at.with(|at| unsafe { *at });
                    assert_eq!(value, 10 * round + number as u64);
                }
            }
            owner.join().unwrap();
        });
    }

    /// Two readers: only one holds the words at a time.
    #[test]
    fn one_reader_holds_the_words_at_a_time() {
        loom::model(|| {
            let shares = Arc::new(CopyShares::new());
            let reader = |round: u64, shares: Arc<CopyShares>| {
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
