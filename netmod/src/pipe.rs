//! Long messages that go through memory that both processes see, chunk by chunk: the sender copies in, the
//! receiver copies out, both at the same time.
//!
//! A pipe is one message's: the receiver opens it and tells the sender its name. Its words ([`Words`]) say how
//! far both are. The sender claims each chunk before it writes it, so the receiver can take back what has not
//! been claimed ([`Words::revoke`]) and get the data another way, if the sender has something else to do.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;
use crate::{LaneError, Peer, VciId};

/// Names a pipe between its receiver and its sender: what only the transport understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe(pub u64);

/// What is asked of [`Pipes::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A pipe if that is the better way.
    Better,
    /// A pipe if the sender's memory can't be read.
    Needed,
    /// What was promised by [`Opened::Later`].
    Promised,
}

/// What became of the wish for a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// The sender is to be told of this one.
    Open(Pipe),
    /// There is one as soon as others are through.
    Later,
    /// The message better comes another way.
    Other,
}

/// How far the receiver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// All of the message is there, and the pipe closed.
    Whole,
    /// Some of it is to come; whether some came now.
    Part(bool),
    /// The sender does not come to it. The pipe is closed; so many bytes have come and the rest is to be read
    /// from the sender's memory.
    Stalled(usize),
}

/// How far the sender is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// All of the message is in the pipe; nobody needs the sender's memory any more.
    Whole,
    /// There is no more room now; whether some went in.
    Part(bool),
    /// The receiver has taken the rest upon itself, and will tell when it has read it.
    Revoked,
}

/// Pipes between processes of a node.
pub trait Pipes {
    /// Opens a pipe for a message of `len` bytes from there, if it is to come so.
    fn open(&mut self, from: Peer, vci: VciId, len: usize, wish: Wish) -> Opened;

    /// Hands what has come to `take`, which is told where in the message it belongs.
    fn pull(&mut self, pipe: Pipe, take: &mut dyn FnMut(usize, &[u8])) -> Pulled;

    /// Closes a pipe that is no longer needed before all has come.
    fn close(&mut self, pipe: Pipe);

    /// Has `fill` write the message, of which `moved` bytes have gone, to the pipe, as far as there is room;
    /// `fill` is told from where in the message. `moved` is counted on.
    fn push(
        &mut self,
        to: Peer,
        vci: VciId,
        pipe: Pipe,
        len: usize,
        moved: &mut usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<Pushed, LaneError>;
}

const COUNT: u64 = u32::MAX as u64;
/// No generation's.
const NOBODY: u64 = u64::MAX;

fn word(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// The words of a pipe, in memory that both see. Each holds the generation of the pipe's use and counts chunks.
///
/// Invariant: chunk `n` of a pipe of `m` chunks is written only when it was claimed by this generation and
/// `taken > n - m`; it is read only when `written > n`.
///
/// Invariant: the memory is used again only when all that was claimed is written, so a sender that sleeps
/// over a chunk meets nobody else's.
#[repr(C)]
pub struct Words {
    claimed: Padded<AtomicU64>,
    written: Padded<AtomicU64>,
    taken: Padded<AtomicU64>,
}

impl Words {
    /// Of a pipe that is not open.
    #[cfg(test)]
    fn new() -> Words {
        Words {
            claimed: Padded(AtomicU64::new(NOBODY)),
            written: Padded(AtomicU64::new(0)),
            taken: Padded(AtomicU64::new(0)),
        }
    }

    /// The receiver opens the pipe, which is nobody's.
    pub fn open(&self, generation: u32) {
        self.taken.0.store(word(generation, 0), Ordering::Relaxed);
        self.written.0.store(word(generation, 0), Ordering::Relaxed);
        self.claimed.0.store(word(generation, 0), Ordering::Release);
    }

    /// The sender: whether there is room for chunk `chunk` in a pipe of `chunks`.
    pub fn has_room(&self, generation: u32, chunk: u32, chunks: u32) -> bool {
        // Acquire: the receiver's reads come before our writes to the same place.
        let taken = self.taken.0.load(Ordering::Acquire);
        taken >> 32 != u64::from(generation) || chunk.wrapping_sub(taken as u32) < chunks
    }

    /// The sender takes a chunk upon itself; `false`: it is too late.
    pub fn claim(&self, generation: u32, chunk: u32) -> bool {
        let (from, to) = (word(generation, chunk), word(generation, chunk + 1));
        let claimed = &self.claimed.0;
        claimed
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The sender has written the chunk that it claimed.
    pub fn publish(&self, generation: u32, chunk: u32) {
        let written = word(generation, chunk + 1);
        self.written.0.store(written, Ordering::Release);
    }

    /// The receiver: how many chunks are written.
    pub fn written(&self) -> u32 {
        self.written.0.load(Ordering::Acquire) as u32
    }

    /// The receiver has read so many chunks.
    pub fn take(&self, generation: u32, chunks: u32) {
        self.taken
            .0
            .store(word(generation, chunks), Ordering::Release);
    }

    /// The receiver takes back what has not been claimed: how many chunks had been.
    pub fn revoke(&self) -> u32 {
        (self.claimed.0.swap(NOBODY, Ordering::AcqRel) & COUNT) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_can_not_be_claimed() {
        let words = Words::new();
        assert!(!words.claim(1, 0));
        words.open(7);
        assert!(!words.claim(6, 0) && words.claim(7, 0) && !words.claim(7, 0));
        words.publish(7, 0);
        assert_eq!(words.written(), 1);
        assert!(words.has_room(7, 1, 2) && words.claim(7, 1));
        assert!(!words.has_room(7, 2, 2));
        words.take(7, 1);
        assert!(words.has_room(7, 2, 2));
        assert_eq!(words.revoke(), 2);
        assert!(!words.claim(7, 2));
        words.open(8);
        assert!(!words.claim(7, 0) && words.claim(8, 0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::sync::Arc;

    /// A pipe of two chunks, and a message of three; loom finds accesses that nothing orders.
    struct Shared {
        words: Words,
        places: [UnsafeCell<u32>; 2],
    }

    #[test]
    fn no_chunk_is_lost_or_read_before_it_is_written() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                words: Words::new(),
                places: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            shared.words.open(1);
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let mut pushed = 0;
                    for _ in 0..4 {
                        if pushed < 3 && shared.words.has_room(1, pushed, 2) {
                            if !shared.words.claim(1, pushed) {
                                break;
                            }
                            // SAFETY: claimed, and there is room.
                            shared.places[pushed as usize % 2]
                                .with_mut(|at| unsafe { *at = pushed + 10 });
                            shared.words.publish(1, pushed);
                            pushed += 1;
                        }
                        loom::thread::yield_now();
                    }
                    pushed
                })
            };
            let mut taken = 0;
            let mut pull = || {
                while taken < shared.words.written() {
                    // SAFETY: written, and not taken.
                    let value = shared.places[taken as usize % 2].with(|at| unsafe { *at });
                    assert_eq!(value, taken + 10);
                    taken += 1;
                    shared.words.take(1, taken);
                }
                taken
            };
            pull();
            loom::thread::yield_now();
            pull();
            let claimed = shared.words.revoke();
            let pushed = sender.join().unwrap();
            // All that was claimed is published, and nothing after it.
            assert_eq!((pushed, shared.words.written()), (claimed, claimed));
            assert_eq!(pull(), claimed);
        });
    }
}
