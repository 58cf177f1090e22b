//! Control words of pipelines: long messages that sender and receiver copy chunk by chunk.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;

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
