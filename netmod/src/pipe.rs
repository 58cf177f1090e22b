//! Pipelines: long messages through shared memory, chunk by chunk, with sender and receiver copying
//! at the same time.
//!
//! A pipe serves one message. The sender opens it, names it in the message that announces the data,
//! and writes chunks as far as there is space. The pipe's control words ([`PipeWords`]) hold where
//! each chunk is and how far the receiver is. If the whole message fits, it has left as soon as it
//! is written.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;
use crate::{LaneError, Peer, VciId};

/// Names a pipe between its sender and its receiver; only the transport interprets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe(pub u64);

/// The data that a pipe is filled with.
pub enum Source<'a> {
    /// A contiguous message.
    Bytes(&'a [u8]),
    /// A function that fills a buffer with the message's bytes from an offset on.
    Parts(&'a mut dyn FnMut(usize, &mut [u8])),
}

impl Source<'_> {
    /// Returns whether the data is contiguous.
    pub fn is_contiguous(&self) -> bool {
        matches!(self, Source::Bytes(_))
    }
}

/// Progress of the receiver, from [`Pipes::pull`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PullProgress {
    /// All of the message has been read, and the pipe is released.
    Whole,
    /// The message is incomplete; whether any bytes came now.
    Part(bool),
}

/// Progress of the sender, from [`Pipes::push`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushProgress {
    /// All of the message is in the pipe; the sender's memory is no longer needed.
    Whole,
    /// The pipe is full; whether any bytes went in now.
    Part(bool),
    /// The receiver has released the pipe: it does not want the rest.
    Released,
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
    /// Chunks read.
    pub taken: u32,
}

impl PipeReader {
    /// Makes the state for reading `len` of the `total` bytes that a pipe of `from`'s VCI `vci`
    /// brings, before its first chunk is read.
    pub fn new(from: Peer, vci: VciId, pipe: Pipe, (len, total): (usize, usize)) -> PipeReader {
        PipeReader {
            from,
            vci,
            pipe,
            len,
            total,
            taken: 0,
        }
    }
}

/// Opens, fills and empties pipes between processes of a node.
pub trait Pipes {
    /// Returns whether a message of `len` bytes is to go through a pipe. If not, its receiver is to
    /// read it from the sender's memory.
    fn carries(&mut self, to: Peer, vci: VciId, len: usize, is_contiguous: bool) -> bool;

    /// Opens a pipe for a message that pipes carry. Returns `None` if there is no space: for all of
    /// the message if the receiver can read it from the sender's memory instead, else for a chunk.
    /// The receiver must be notified of the pipe before the first [`Pipes::push`].
    fn open(&mut self, to: Peer, vci: VciId, len: usize, is_contiguous: bool) -> Option<Pipe>;

    /// Opens a pipe that has space for the whole message, which pipes carry; returns `None` if
    /// there is none. If the receiver most likely does not wait for the message yet (`is_behind`),
    /// everything is written now and the second value is `true`; the receiver is notified
    /// afterwards. Otherwise it is notified before the data is pushed, so that it matches the
    /// message meanwhile.
    fn begin(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        source: Source<'_>,
        is_behind: bool,
    ) -> Option<(Pipe, bool)>;

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
}

/// Most chunks of a pipe that are written and not yet read.
pub const RING: usize = if cfg!(loom) { 2 } else { 64 };

/// Value of `taken` when the receiver is done with the pipe.
const DONE: u32 = u32::MAX;

fn word(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// Progress of the receiver as the sender sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverProgress {
    /// Chunks that the receiver has read.
    Chunks(u32),
    /// The receiver is done with the pipe, whether it has read all or not.
    Done,
}

/// Control words of a pipe, in shared memory. Each holds the generation of the pipe's use, which is
/// not 0, so that no word needs a store when the pipe is opened.
///
/// Invariant: chunk `n` is written only when `taken > n - RING`, to memory that no other chunk uses
/// until `taken > n`; it is read only when its word says where it is.
#[repr(C)]
pub struct PipeWords {
    taken: Padded<AtomicU64>,
    chunks: Padded<[AtomicU64; RING]>,
}

impl PipeWords {
    #[cfg(test)]
    fn new() -> PipeWords {
        PipeWords {
            taken: Padded(AtomicU64::new(0)),
            chunks: Padded(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Returns the receiver's progress, for the sender.
    pub fn taken(&self, generation: u32) -> ReceiverProgress {
        // Acquire: the receiver's reads come before our writes to the same memory.
        let taken = self.taken.0.load(Ordering::Acquire);
        if taken >> 32 != u64::from(generation) {
            return ReceiverProgress::Chunks(0);
        }
        match taken as u32 {
            DONE => ReceiverProgress::Done,
            chunks => ReceiverProgress::Chunks(chunks),
        }
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

    /// Returns the address of the word by which the receiver reports, for prefetching.
    pub fn end_word(&self) -> *const u8 {
        std::ptr::from_ref(&self.taken).cast()
    }

    /// Publishes the number of chunks that the receiver has read.
    pub fn take(&self, generation: u32, chunks: u32) {
        let taken = word(generation, chunks);
        self.taken.0.store(taken, Ordering::Release);
    }

    /// Ends the pipe for the receiver.
    pub fn end(&self, generation: u32) {
        self.take(generation, DONE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_generations_do_not_count() {
        let words = PipeWords::new();
        assert_eq!(words.place(7, 0), None);
        words.publish(7, 0, 255);
        assert_eq!((words.place(7, 0), words.place(7, 1)), (Some(255), None));
        assert_eq!(words.place(8, 0), None);
        assert_eq!(words.taken(7), ReceiverProgress::Chunks(0));
        words.take(7, 1);
        assert_eq!(
            (words.taken(7), words.taken(8)),
            (ReceiverProgress::Chunks(1), ReceiverProgress::Chunks(0))
        );
        words.end(7);
        assert_eq!(
            (words.taken(7), words.taken(8)),
            (ReceiverProgress::Done, ReceiverProgress::Chunks(0))
        );
    }

    #[test]
    fn chunks_are_distinguished_from_those_one_ring_earlier() {
        let words = PipeWords::new();
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

    /// Chunks of the message.
    const CHUNKS: u32 = 3;

    struct Shared {
        words: PipeWords,
        places: [UnsafeCell<u32>; 2],
    }

    // SAFETY: the buffers are accessed only as the control words allow, which is what the test
    // checks.
    unsafe impl Sync for Shared {}

    /// Writes as many chunks as there is space for, at a few looks. Returns their number.
    fn send(shared: &Shared, generation: u32) -> u32 {
        let mut pushed = 0;
        for _ in 0..4 {
            let has_space = match shared.words.taken(generation) {
                ReceiverProgress::Chunks(taken) => pushed < taken + RING as u32,
                ReceiverProgress::Done => break,
            };
            if pushed < CHUNKS && has_space {
                // The buffers are used in turn and are as many as the ring has chunks, so this one
                // is free.
                let place = pushed as usize % 2;
                // SAFETY: the receiver is done with the buffer.
                shared.places[place].with_mut(|at| unsafe { *at = 10 * generation + pushed });
                shared.words.publish(generation, pushed, place as u8);
                pushed += 1;
            }
            loom::thread::yield_now();
        }
        pushed
    }

    /// Reads the chunks that have come, up to `CHUNKS` with those that `taken` counts.
    fn receive(shared: &Shared, generation: u32, taken: &mut u32) {
        while *taken < CHUNKS
            && let Some(place) = shared.words.place(generation, *taken)
        {
            // SAFETY: the chunk is published and not yet taken.
            let value = shared.places[usize::from(place)].with(|at| unsafe { *at });
            assert_eq!(value, 10 * generation + *taken);
            *taken += 1;
            shared.words.take(generation, *taken);
        }
    }

    #[test]
    fn chunks_are_read_as_written_and_no_buffer_is_used_twice() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                words: PipeWords::new(),
                places: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || send(&shared, 1))
            };
            let mut taken = 0;
            receive(&shared, 1, &mut taken);
            loom::thread::yield_now();
            receive(&shared, 1, &mut taken);
            let pushed = sender.join().unwrap();
            receive(&shared, 1, &mut taken);
            assert_eq!(taken, pushed);
        });
    }

    /// The receiver ends a pipe without reading it; the sender reuses words and buffers.
    #[test]
    fn a_released_pipe_may_be_reused_at_once() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                words: PipeWords::new(),
                places: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    send(&shared, 1);
                    match shared.words.taken(1) {
                        ReceiverProgress::Done => send(&shared, 2),
                        ReceiverProgress::Chunks(_) => 0,
                    }
                })
            };
            let mut taken = 0;
            if let Some(place) = shared.words.place(1, 0) {
                // SAFETY: the chunk is published and the pipe is not ended.
                let value = shared.places[usize::from(place)].with(|at| unsafe { *at });
                assert_eq!(value, 10);
            }
            shared.words.end(1);
            loom::thread::yield_now();
            receive(&shared, 2, &mut taken);
            let pushed = sender.join().unwrap();
            receive(&shared, 2, &mut taken);
            assert_eq!(taken, pushed);
        });
    }
}
