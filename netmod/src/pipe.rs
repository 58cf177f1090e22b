//! Pipelines: long messages through shared memory, chunk by chunk, with sender and receiver copying
//! at the same time.
//!
//! A pipe serves one message. The sender opens it, names it in the message that announces the data,
//! and writes chunks as far as there is space. The pipe's control words ([`shmring::PipeWords`]) hold where
//! each chunk is and how far the receiver is. If the whole message fits, it has left as soon as it
//! is written.

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
