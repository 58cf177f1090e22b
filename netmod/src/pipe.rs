//! Pipelines: long messages through shared memory, chunk by chunk, with sender and receiver copying
//! at the same time.
//!
//! A pipe serves one message. The sender opens it, names it in the message that announces the data,
//! and writes chunks as far as there is space. The pipe's control words ([`PipeWords`]) hold where each
//! chunk is and how far both ends are. If the whole message fits, it has left as soon as it is
//! written. Otherwise the sender claims each chunk before writing it, so that the receiver can
//! revoke the unclaimed rest ([`PipeWords::revoke`]) and read it by another protocol while the sender
//! is busy.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;
use crate::{LaneError, Peer, VciId};

/// Names a pipe between its sender and its receiver; only the transport interprets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe(pub u64);

/// How strongly a pipe is requested from [`Pipes::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeRequest {
    /// A pipe if that is faster than CMA.
    IfFaster,
    /// A pipe in any case: the receiver cannot read the sender's memory.
    Required,
}

/// The data that a pipe is filled with.
pub enum Source<'a> {
    /// A contiguous message.
    Bytes(&'a [u8]),
    /// A function that fills a buffer with the message's bytes from an offset on.
    Parts(&'a mut dyn FnMut(usize, &mut [u8])),
}

/// Progress of the receiver, from [`Pipes::pull`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PullProgress {
    /// All of the message has been read, and the pipe is released.
    Whole,
    /// The message is incomplete; whether any bytes came now.
    Part(bool),
    /// The sender is busy. The pipe is released; this many bytes have come, and the rest is to be
    /// read from the sender's memory.
    Stalled(usize),
}

/// Progress of the sender, from [`Pipes::push`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushProgress {
    /// All of the message is in the pipe; the sender's memory is no longer needed.
    Whole,
    /// The pipe is full; whether any bytes went in now.
    Part(bool),
    /// The receiver has revoked the rest and will report when it has read it.
    Revoked,
}

/// The receiver's state of a pipe.
#[derive(Clone, Copy, Debug)]
pub struct PipeReader {
    /// The sender.
    pub from: Peer,
    /// The sender's VCI.
    pub vci: VciId,
    /// The sender's pipe.
    pub pipe: Pipe,
    /// Bytes that the receive wants.
    pub len: usize,
    /// Bytes of the whole message.
    pub total: usize,
    /// Whether the rest can be read from the sender's memory.
    pub replaceable: bool,
    /// Start of reading, in nanoseconds; 0 before it.
    pub begun: u64,
    /// For the transport: nanoseconds spent in reading.
    pub spent: u64,
    /// Chunks read.
    pub taken: u32,
    /// Chunks that the sender had claimed when the rest was revoked.
    pub claimed: Option<u32>,
    /// For the transport: buffers that held chunks, one bit each.
    pub places: u128,
    /// For the transport: whether those buffers belong to the receiver.
    pub is_own: bool,
}

impl PipeReader {
    /// Makes the state for reading `len` of the `total` bytes that a pipe of `from`'s VCI `vci`
    /// brings, before its first chunk is read.
    pub fn new(
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        (len, total): (usize, usize),
        replaceable: bool,
    ) -> PipeReader {
        PipeReader {
            from,
            vci,
            pipe,
            len,
            total,
            replaceable,
            begun: 0,
            spent: 0,
            taken: 0,
            claimed: None,
            places: 0,
            is_own: false,
        }
    }
}

/// Why [`Pipes::begin`] opened no pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPipe {
    /// There is no space for the message, or there never is for one of this length.
    NoRoom,
    /// The receiver is to read the message by CMA.
    Read {
        /// Whether the receiver is to report how long that took.
        timed: bool,
    },
}

/// Opens, fills and empties pipes between processes of a node.
pub trait Pipes {
    /// Opens a pipe for a message of `len` bytes to a peer's VCI, unless another protocol is
    /// better. The receiver must be notified of it before the first [`Pipes::push`].
    fn open(&mut self, to: Peer, vci: VciId, len: usize, request: PipeRequest) -> Option<Pipe>;

    /// Opens a pipe that has space for the whole message; it cannot be revoked. If the receiver
    /// most likely does not wait for the message yet (`is_behind`, or the transport's own
    /// knowledge), everything is written now and the second value is `true`; the receiver is
    /// notified afterwards. Otherwise it is notified before the data is pushed, so that it matches
    /// the message meanwhile.
    ///
    /// # Errors
    /// The message does not go through a pipe, see [`NoPipe`].
    fn begin(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        request: PipeRequest,
        source: Source<'_>,
        is_behind: bool,
    ) -> Result<(Pipe, bool), NoPipe>;

    /// Returns whether a message of `len` bytes does not fit now but may fit later.
    fn is_full(&mut self, len: usize) -> bool;

    /// Writes the message to an open pipe from offset `moved` on, as far as there is space, and
    /// advances `moved`. The receiver has been notified of the pipe and may wait for each chunk.
    fn push(
        &mut self,
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> Result<PushProgress, LaneError>;

    /// Gives up a pipe at its sender: the receiver does not know of it or no longer wants it.
    fn abandon(&mut self, pipe: Pipe);

    /// Returns whether the receivers are done with all pipes, so that this process's memory is no
    /// longer needed.
    fn is_drained(&mut self) -> bool;

    /// Hands a whole message to `take` if the pipe's name says that it is completely written, and
    /// where. `lengths` are the bytes wanted, at least 1, and the bytes that the pipe brings.
    /// `false`: the message must be pulled.
    ///
    /// # Errors
    /// The pipe's name is impossible: the sender cannot be trusted.
    fn take_written(
        &mut self,
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        lengths: (usize, usize),
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, LaneError>;

    /// Hands the bytes that have arrived to `take`, with their offset in the message. For pipes for
    /// which [`Pipes::take_written`] returned `false`.
    ///
    /// # Errors
    /// The pipe's name, or the content of its control words, is impossible: the sender cannot be
    /// trusted.
    fn pull(
        &mut self,
        reading: &mut PipeReader,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<PullProgress, LaneError>;

    /// Releases a peer's pipe that is not, or no longer, wanted.
    fn release(&mut self, from: Peer, vci: VciId, pipe: Pipe);

    /// Records that the receiver took this long to read a message of `len` bytes for which no pipe
    /// was opened.
    fn record_read(&mut self, to: Peer, vci: VciId, len: usize, nanoseconds: u64);
}

/// Most chunks of a pipe that are written and not yet read.
pub const RING: usize = if cfg!(loom) { 2 } else { 64 };

const COUNT: u64 = u32::MAX as u64;
/// Value of `claimed` while no chunk can be claimed; the word of no generation.
const NOBODY: u64 = u64::MAX;
/// Values of `taken` when the receiver is done with the pipe, by its [`PipeEnd`].
const READ: u32 = u32::MAX;
const KEPT: u32 = u32::MAX - 1;
const FORGONE: u32 = u32::MAX - 2;

fn word(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// How a receiver ended a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeEnd {
    /// The whole message was read; the memory is its owner's again.
    Read,
    /// The whole message was read; the receiver keeps the memory for its reply.
    Kept,
    /// Part of the message was not read.
    Forgone,
}

/// Progress of the receiver as the sender sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverProgress {
    /// Chunks that the receiver has read.
    Chunks(u32),
    /// The receiver is done; with the nanoseconds that it took, if reported.
    All(PipeEnd, Option<u64>),
}

/// Control words of a pipe, in shared memory. Each holds the generation of the pipe's use.
///
/// Invariant: chunk `n` is written only when it was claimed (or the pipe cannot be revoked) and
/// `taken > n - RING`, to memory that no other chunk uses until `taken > n`; it is read only when
/// its word says where it is.
///
/// Invariant: only the sender assigns memory, so a sender that sleeps over a chunk never writes
/// into another chunk's memory.
#[repr(C)]
pub struct PipeWords {
    claimed: Padded<AtomicU64>,
    taken: Padded<(AtomicU64, AtomicU64)>,
    chunks: Padded<[AtomicU64; RING]>,
}

impl PipeWords {
    #[cfg(test)]
    fn new() -> PipeWords {
        PipeWords {
            claimed: Padded(AtomicU64::new(NOBODY)),
            taken: Padded((AtomicU64::new(0), AtomicU64::new(0))),
            chunks: Padded(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Makes the pipe revocable: from now on the sender claims its chunks. Called by the sender
    /// while the pipe is unused; the receiver learns of the pipe by a message. `generation` is not
    /// 0.
    ///
    /// The other words need no store, which would wait for their cache lines: each carries its
    /// generation.
    pub fn open(&self, generation: u32) {
        let none = word(generation, 0);
        self.claimed.0.store(none, Ordering::Release);
    }

    /// Returns the receiver's progress, for the sender.
    pub fn taken(&self, generation: u32) -> ReceiverProgress {
        // Acquire: the receiver's reads come before our writes to the same memory.
        let taken = self.taken.0.0.load(Ordering::Acquire);
        if taken >> 32 != u64::from(generation) {
            return ReceiverProgress::Chunks(0);
        }
        let ending = match taken as u32 {
            READ => PipeEnd::Read,
            KEPT => PipeEnd::Kept,
            FORGONE => PipeEnd::Forgone,
            chunks => return ReceiverProgress::Chunks(chunks),
        };
        let time = self.taken.0.1.load(Ordering::Relaxed);
        ReceiverProgress::All(ending, (time != 0).then_some(time))
    }

    /// Claims `count` chunks from `chunk` on for the sender. `false`: the receiver has revoked
    /// them.
    pub fn claim(&self, generation: u32, chunk: u32, count: u32) -> bool {
        let (from, to) = (word(generation, chunk), word(generation, chunk + count));
        let claimed = &self.claimed.0;
        claimed
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Publishes that the sender has written the chunk to buffer `place`.
    pub fn publish(&self, generation: u32, chunk: u32, place: u8) {
        let name = word(generation, (chunk & 0xffff) << 8 | u32::from(place));
        self.chunks.0[chunk as usize % RING].store(name, Ordering::Release);
    }

    /// Returns the buffer of a chunk once it is written, for a receiver that has read the chunk
    /// `RING` before it.
    pub fn place(&self, generation: u32, chunk: u32) -> Option<u8> {
        let name = self.chunks.0[chunk as usize % RING].load(Ordering::Acquire);
        let wanted = word(generation, (chunk & 0xffff) << 8);
        (name & !0xff == wanted).then_some(name as u8)
    }

    /// Returns the address of the word by which the receiver will report its end, for prefetching.
    pub fn end_word(&self) -> *const u8 {
        std::ptr::from_ref(&self.taken).cast()
    }

    /// Publishes the number of chunks that the receiver has read.
    pub fn take(&self, generation: u32, chunks: u32) {
        let taken = &self.taken.0.0;
        taken.store(word(generation, chunks), Ordering::Release);
    }

    /// Ends the pipe for the receiver. `nanoseconds` is the time it took, if that says something
    /// about the protocol.
    pub fn end(&self, generation: u32, ending: PipeEnd, nanoseconds: Option<u64>) {
        let time = nanoseconds.map_or(0, |time| time.max(1));
        self.taken.0.1.store(time, Ordering::Relaxed);
        let count = match ending {
            PipeEnd::Read => READ,
            PipeEnd::Kept => KEPT,
            PipeEnd::Forgone => FORGONE,
        };
        self.take(generation, count);
    }

    /// Revokes the unclaimed chunks for the receiver. Returns the number of claimed chunks, or
    /// `None` if the pipe cannot be revoked.
    pub fn revoke(&self, generation: u32) -> Option<u32> {
        let claimed = self.claimed.0.load(Ordering::Acquire);
        if claimed >> 32 != u64::from(generation) {
            return None;
        }
        let claimed = self.claimed.0.swap(NOBODY, Ordering::AcqRel);
        (claimed >> 32 == u64::from(generation)).then_some((claimed & COUNT) as u32)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_can_not_be_claimed() {
        let words = PipeWords::new();
        assert!(!words.claim(1, 0, 1));
        words.open(7);
        assert!(!words.claim(6, 0, 1) && words.claim(7, 0, 1) && !words.claim(7, 0, 1));
        assert_eq!(words.place(7, 0), None);
        words.publish(7, 0, 255);
        assert_eq!((words.place(7, 0), words.place(7, 1)), (Some(255), None));
        assert!(words.claim(7, 1, 1));
        assert_eq!(words.taken(7), ReceiverProgress::Chunks(0));
        words.take(7, 1);
        assert_eq!(
            (words.taken(7), words.taken(8)),
            (ReceiverProgress::Chunks(1), ReceiverProgress::Chunks(0))
        );
        assert_eq!((words.revoke(6), words.revoke(7)), (None, Some(2)));
        assert!(!words.claim(7, 2, 1));
        words.end(7, PipeEnd::Read, Some(0));
        assert_eq!(
            words.taken(7),
            ReceiverProgress::All(PipeEnd::Read, Some(1))
        );
        words.open(8);
        assert!(!words.claim(7, 0, 1) && words.claim(8, 0, 1));
        // Several chunks in one claim, from the end of the last claim on.
        assert!(!words.claim(8, 0, 4) && words.claim(8, 1, 4) && !words.claim(8, 4, 4));
        assert_eq!((words.revoke(8), words.claim(8, 5, 4)), (Some(5), false));
        // A chunk published in an earlier generation does not count for this one.
        assert_eq!(words.place(8, 0), None);
        for ending in [PipeEnd::Read, PipeEnd::Kept, PipeEnd::Forgone] {
            words.end(8, ending, None);
            assert_eq!(words.taken(8), ReceiverProgress::All(ending, None));
        }
    }

    #[test]
    fn chunks_are_distinguished_from_those_one_ring_earlier() {
        let words = PipeWords::new();
        words.open(1);
        for chunk in 0..200_000u32 {
            assert_eq!(words.place(1, chunk), None);
            words.publish(1, chunk, chunk as u8);
            assert_eq!(words.place(1, chunk), Some(chunk as u8));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;
    use crate::sync::UnsafeCell;

    struct Shared {
        words: PipeWords,
        places: [UnsafeCell<u32>; 2],
    }

    // SAFETY: the buffers are accessed only as the control words allow, which is what the test
    // checks.
    unsafe impl Sync for Shared {}

    #[test]
    fn chunks_are_read_as_written_and_no_buffer_is_used_twice() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                words: PipeWords::new(),
                places: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            shared.words.open(1);
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let mut pushed = 0;
                    for _ in 0..4 {
                        let room = match shared.words.taken(1) {
                            ReceiverProgress::Chunks(taken) => pushed < taken + RING as u32,
                            ReceiverProgress::All(..) => false,
                        };
                        if pushed < 3 && room {
                            if !shared.words.claim(1, pushed, 1) {
                                break;
                            }
                            // The buffers are used in turn and are as many as the ring has chunks,
                            // so this one is free.
                            let place = pushed as usize % 2;
                            // SAFETY: the chunk is claimed, and the receiver is done with the
                            // buffer.
                            shared.places[place].with_mut(|at| unsafe { *at = pushed + 10 });
                            shared.words.publish(1, pushed, place as u8);
                            pushed += 1;
                        }
                        loom::thread::yield_now();
                    }
                    pushed
                })
            };
            let mut taken = 0;
            let mut pull = || {
                while let Some(place) = shared.words.place(1, taken) {
                    // SAFETY: the chunk is published and not yet taken.
                    let value = shared.places[usize::from(place)].with(|at| unsafe { *at });
                    assert_eq!(value, taken + 10);
                    taken += 1;
                    shared.words.take(1, taken);
                }
                taken
            };
            pull();
            loom::thread::yield_now();
            pull();
            let claimed = shared.words.revoke(1).unwrap();
            let pushed = sender.join().unwrap();
            // All claimed chunks are published, and none after them.
            assert_eq!(pushed, claimed);
            assert_eq!(shared.words.place(1, claimed), None);
            assert_eq!(pull(), claimed);
        });
    }
}
