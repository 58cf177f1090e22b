//! Long messages that go through memory that both processes see, chunk by chunk: the sender copies in, the
//! receiver copies out, both at the same time.
//!
//! A pipe is one message's. Its sender opens it, names it in what tells the receiver of the message, and writes as much
//! as there is room for. Its words ([`Words`]) say where each chunk is and how far both are. Where all of a message
//! has room, it has left when it is written. Otherwise the sender claims each chunk before it writes it, so that the
//! receiver can take back what has not been claimed ([`Words::revoke`]) and get the data another way, if the sender
//! has something else to do.

use crate::ring::{AtomicU64, Padded};
use crate::sync::Ordering;
use crate::{LaneError, Peer, VciId};

/// Names a pipe between its sender and its receiver: what only the transport understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe(pub u64);

/// What is asked of [`Pipes::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A pipe if that is the quicker way.
    Better,
    /// A pipe, since the receiver can't read the message where it is.
    Needed,
}

/// What a pipe is filled from.
pub enum Source<'a> {
    /// The message lies in one piece.
    Bytes(&'a [u8]),
    /// Parts of the message are asked for by where they begin.
    Parts(&'a mut dyn FnMut(usize, &mut [u8])),
}

/// How far the receiver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// All of the message is there, and the pipe given back.
    Whole,
    /// Some of it is to come; whether some came now.
    Part(bool),
    /// The sender does not come to it. The pipe is given back; so many bytes have come and the rest is to be read
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

/// A pipe that the receiver pulls from.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Who sends.
    pub from: Peer,
    /// By which VCI.
    pub vci: VciId,
    /// Which pipe of his.
    pub pipe: Pipe,
    /// Bytes that are wanted.
    pub len: usize,
    /// Bytes that the pipe brings if it is emptied.
    pub total: usize,
    /// Whether the rest can be read from the sender's memory.
    pub replaceable: bool,
    /// When it was begun, in nanoseconds; 0 before.
    pub begun: u64,
    /// For the transport: nanoseconds that it has taken to read.
    pub spent: u64,
    /// Chunks taken.
    pub taken: u32,
    /// Chunks that the sender has claimed, if it can claim no more.
    pub claimed: Option<u32>,
    /// For the transport: where chunks were, a bit for each place.
    pub places: u128,
    /// For the transport: these places are the receiver's own.
    pub is_own: bool,
}

impl Reading {
    /// Of `len` bytes of the `total` that a pipe of VCI `vci` of `from` brings, before the first has been taken.
    pub fn new(
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        (len, total): (usize, usize),
        replaceable: bool,
    ) -> Reading {
        Reading {
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

/// Why a message does not go by a pipe as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPipe {
    /// There is no room for it, or none ever is for one so long.
    NoRoom,
    /// Its receiver is to read it where it is.
    Read {
        /// And to say how long that took.
        timed: bool,
    },
}

/// Pipes between processes of a node.
pub trait Pipes {
    /// Opens a pipe for a message of `len` bytes to there, if it is to go so. The receiver is told of it before anything is
    /// pushed.
    fn open(&mut self, to: Peer, vci: VciId, len: usize, wish: Wish) -> Option<Pipe>;

    /// Opens a pipe for all of a message, if it is to go so and has room as a whole; it can't be taken back then. If the
    /// receiver most likely does not wait for it yet (`is_behind`, or what the transport knows says so), all is written: the
    /// second value says whether. The receiver is told of the pipe after that; if nothing is written, before the message is
    /// pushed, so that it finds its place for the message meanwhile.
    ///
    /// # Errors
    /// It does not go so.
    fn begin(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        wish: Wish,
        source: Source<'_>,
        is_behind: bool,
    ) -> Result<(Pipe, bool), NoPipe>;

    /// Whether there is no room at the moment for all of a message of `len` bytes, for which there may be later.
    fn are_full(&mut self, len: usize) -> bool;

    /// Writes the message, of which `moved` bytes have gone, to an open pipe, as far as there is room. `moved` is counted
    /// on. The receiver has been told of it, and may wait for each chunk.
    fn push(
        &mut self,
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> Result<Pushed, LaneError>;

    /// The pipe is given up by its sender: its receiver does not know of it, or no longer wants it.
    fn abandon(&mut self, pipe: Pipe);

    /// Whether the receivers are through with all pipes, so that this process's memory is needed no more.
    fn are_taken(&mut self) -> bool;

    /// Hands a message of which the pipe's name says that it is written, and where, to `take` as a whole: `lengths` are
    /// what is wanted, of which there is some, and what the pipe brings. `false`: the name does not say so, and it is to be pulled.
    ///
    /// # Errors
    /// As those of [`Pipes::pull`].
    fn take_written(
        &mut self,
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        lengths: (usize, usize),
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, LaneError>;

    /// Hands what has come to `take`, which is told where in the message it belongs. Of a pipe that [`Pipes::take_written`]
    /// does not know.
    ///
    /// # Errors
    /// The pipe's name, or what is in its words, can't be: the sender can't be relied on.
    fn pull(
        &mut self,
        reading: &mut Reading,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<Pulled, LaneError>;

    /// Gives back a pipe of a peer's that is not, or no longer, wanted.
    fn forgo(&mut self, from: Peer, vci: VciId, pipe: Pipe);

    /// A message of `len` bytes to there, for which no pipe was opened, has been read by its receiver in so many
    /// nanoseconds.
    fn was_read(&mut self, to: Peer, vci: VciId, len: usize, nanoseconds: u64);
}

/// The most chunks of a pipe that have been written and not been taken.
pub const RING: usize = if cfg!(loom) { 2 } else { 64 };

const COUNT: u64 = u32::MAX as u64;
/// No generation's.
const NOBODY: u64 = u64::MAX;
/// So many chunks are taken when the receiver is done with the pipe, by how it has ended.
const READ: u32 = u32::MAX;
const KEPT: u32 = u32::MAX - 1;
const FORGONE: u32 = u32::MAX - 2;

fn word(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// How a receiver has ended a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All has been read, and the memory is its owner's.
    Read,
    /// All has been read, and the receiver keeps the memory for its answer.
    Kept,
    /// Something has not been read.
    Forgone,
}

/// How far the receiver of a pipe is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It has taken so many chunks.
    Chunks(u32),
    /// It is done, after so many nanoseconds, or without saying.
    All(Ending, Option<u64>),
}

/// The words of a pipe, in memory that both see. Each holds the generation of the pipe's use.
///
/// Invariant: chunk `n` is written only when it was claimed, or nobody may claim, and `taken > n - RING`, to memory that
/// is no other chunk's until `taken > n`; it is read only when its word says where it is.
///
/// Invariant: the sender alone gives memory out. So one who sleeps over a chunk meets nobody else's.
#[repr(C)]
pub struct Words {
    claimed: Padded<AtomicU64>,
    taken: Padded<(AtomicU64, AtomicU64)>,
    chunks: Padded<[AtomicU64; RING]>,
}

impl Words {
    #[cfg(test)]
    fn new() -> Words {
        Words {
            claimed: Padded(AtomicU64::new(NOBODY)),
            taken: Padded((AtomicU64::new(0), AtomicU64::new(0))),
            chunks: Padded(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// The sender has chunks of the pipe, which is nobody's, claimed one by one. Without that none can be taken back.
    /// `generation` is not 0. The receiver hears of it by a message.
    ///
    /// The other words need no store, which would have to wait for their lines: each says of which use it is.
    pub fn open(&self, generation: u32) {
        let none = word(generation, 0);
        self.claimed.0.store(none, Ordering::Release);
    }

    /// The sender: how far the receiver is.
    pub fn taken(&self, generation: u32) -> Taken {
        // Acquire: the receiver's reads come before our writes to the same places.
        let taken = self.taken.0.0.load(Ordering::Acquire);
        if taken >> 32 != u64::from(generation) {
            return Taken::Chunks(0);
        }
        let ending = match taken as u32 {
            READ => Ending::Read,
            KEPT => Ending::Kept,
            FORGONE => Ending::Forgone,
            chunks => return Taken::Chunks(chunks),
        };
        let time = self.taken.0.1.load(Ordering::Relaxed);
        Taken::All(ending, (time != 0).then_some(time))
    }

    /// The sender takes `count` chunks from this one on upon itself; `false`: it is too late.
    pub fn claim(&self, generation: u32, chunk: u32, count: u32) -> bool {
        let (from, to) = (word(generation, chunk), word(generation, chunk + count));
        let claimed = &self.claimed.0;
        claimed
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The sender has written the chunk to this place, below 256.
    pub fn publish(&self, generation: u32, chunk: u32, place: u8) {
        let name = word(generation, (chunk & 0xffff) << 8 | u32::from(place));
        self.chunks.0[chunk as usize % RING].store(name, Ordering::Release);
    }

    /// The receiver: where a chunk is, once it is written. It has taken those that are `RING` before it.
    pub fn place(&self, generation: u32, chunk: u32) -> Option<u8> {
        let name = self.chunks.0[chunk as usize % RING].load(Ordering::Acquire);
        let wanted = word(generation, (chunk & 0xffff) << 8);
        (name & !0xff == wanted).then_some(name as u8)
    }

    /// Where the receiver will say that it is done: to be asked for ahead.
    pub fn end_word(&self) -> *const u8 {
        std::ptr::from_ref(&self.taken).cast()
    }

    /// The receiver has read so many chunks.
    pub fn take(&self, generation: u32, chunks: u32) {
        let taken = &self.taken.0.0;
        taken.store(word(generation, chunks), Ordering::Release);
    }

    /// The receiver is done with the pipe, after so many nanoseconds if that says anything of the way.
    pub fn end(&self, generation: u32, ending: Ending, nanoseconds: Option<u64>) {
        let time = nanoseconds.map_or(0, |time| time.max(1));
        self.taken.0.1.store(time, Ordering::Relaxed);
        let count = match ending {
            Ending::Read => READ,
            Ending::Kept => KEPT,
            Ending::Forgone => FORGONE,
        };
        self.take(generation, count);
    }

    /// The receiver takes back what has not been claimed: how many chunks had been. `None`: nothing of the pipe can be
    /// taken back.
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
        let words = Words::new();
        assert!(!words.claim(1, 0, 1));
        words.open(7);
        assert!(!words.claim(6, 0, 1) && words.claim(7, 0, 1) && !words.claim(7, 0, 1));
        assert_eq!(words.place(7, 0), None);
        words.publish(7, 0, 255);
        assert_eq!((words.place(7, 0), words.place(7, 1)), (Some(255), None));
        assert!(words.claim(7, 1, 1));
        assert_eq!(words.taken(7), Taken::Chunks(0));
        words.take(7, 1);
        assert_eq!(
            (words.taken(7), words.taken(8)),
            (Taken::Chunks(1), Taken::Chunks(0))
        );
        assert_eq!((words.revoke(6), words.revoke(7)), (None, Some(2)));
        assert!(!words.claim(7, 2, 1));
        words.end(7, Ending::Read, Some(0));
        assert_eq!(words.taken(7), Taken::All(Ending::Read, Some(1)));
        words.open(8);
        assert!(!words.claim(7, 0, 1) && words.claim(8, 0, 1));
        // Several at once; from where the last ones end.
        assert!(!words.claim(8, 0, 4) && words.claim(8, 1, 4) && !words.claim(8, 4, 4));
        assert_eq!((words.revoke(8), words.claim(8, 5, 4)), (Some(5), false));
        // What the one before has written in the same place is not taken for this one's.
        assert_eq!(words.place(8, 0), None);
        for ending in [Ending::Read, Ending::Kept, Ending::Forgone] {
            words.end(8, ending, None);
            assert_eq!(words.taken(8), Taken::All(ending, None));
        }
    }

    #[test]
    fn chunks_are_told_from_those_a_ring_before() {
        let words = Words::new();
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
        words: Words,
        places: [UnsafeCell<u32>; 2],
    }

    // SAFETY: the places are reached as the words allow it, which is what is tested.
    unsafe impl Sync for Shared {}

    #[test]
    fn chunks_are_read_as_written_and_no_place_is_used_twice() {
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
                        let room = match shared.words.taken(1) {
                            Taken::Chunks(taken) => pushed < taken + RING as u32,
                            Taken::All(..) => false,
                        };
                        if pushed < 3 && room {
                            if !shared.words.claim(1, pushed, 1) {
                                break;
                            }
                            // The places are used by turns, so this one is free: the ring is as long.
                            let place = pushed as usize % 2;
                            // SAFETY: claimed, and there is room.
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
                    // SAFETY: written, and not taken.
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
            // All that was claimed is published, and nothing after it.
            assert_eq!(pushed, claimed);
            assert_eq!(shared.words.place(1, claimed), None);
            assert_eq!(pull(), claimed);
        });
    }
}
