//! Communication between the members of a file in a collective access.
//!
//! An access whose caller waits uses the collectives of the file's communicator. A nonblocking
//! access is a future, polled when the process makes progress, with threads for its transfers. Its
//! members exchange messages with tags of their own: collectives must come in the same order on all
//! members, and others may be called between its steps.

#![allow(unsafe_code, reason = "buffers are lent to messages")]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mpi_core::comm::Comm;
use mpi_core::{Buffer, Process};
use mpi_types::Result;
use parking_lot::Mutex;

use crate::agree::{self, TEXT};
use crate::files::Files;
use crate::lent::Lent;
use crate::messages::{Messages, bytes_of};

/// Offset of the tags of nonblocking accesses.
const STARTED: i32 = 16;
/// Tags above those of the two phases.
const GATHER: i32 = 5;
const REASON: i32 = 7;

/// The members of a file and their means of communication.
pub(crate) struct Exchange<'a> {
    lent: Arc<Lent>,
    comm: &'a Comm,
    waits: bool,
}

impl<'a> Exchange<'a> {
    /// Creates it for a call that waits; the process is lent until it returns.
    pub fn waiting(lent: Arc<Lent>, comm: &'a Comm) -> Exchange<'a> {
        let waits = true;
        Exchange { lent, comm, waits }
    }

    /// Creates it for a nonblocking access, which continues whenever the process is lent.
    pub fn started(lent: Arc<Lent>, comm: &'a Comm) -> Exchange<'a> {
        let waits = false;
        Exchange { lent, comm, waits }
    }

    /// Returns the members' communicator.
    pub fn comm(&self) -> &Comm {
        self.comm
    }

    /// Returns whether the caller waits.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Passes the process to `work`.
    pub fn with<T>(&self, work: impl FnOnce(&Process) -> T) -> T {
        self.lent.with(work)
    }

    /// Returns the tag of a type of message.
    pub fn tag(&self, kind: i32) -> i32 {
        match self.waits {
            true => kind,
            false => STARTED + kind,
        }
    }

    /// Collects each member's contribution, by rank.
    pub async fn gather<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>> {
        if self.waits {
            return self.with(|process| mpi_coll::gather_all_u64(process, self.comm, own));
        }
        let (me, size) = (self.comm.rank() as usize, self.comm.size() as usize);
        // The contributions of this rank and those behind it; their number doubles in each round.
        let mut held = vec![own; size];
        let mut count = 1;
        while count < size {
            let more = count.min(size - count);
            let (to, from) = ((me + size - count) % size, (me + count) % size);
            let (have, rest) = held.split_at_mut(count);
            let mut messages = Messages::new(self);
            let mut exchange = || {
                // SAFETY: `held` stays until `messages` are finished.
                unsafe {
                    messages.receive(bytes_of(rest[..more].as_flattened_mut()), from, GATHER)?;
                    messages.send(bytes_of(have[..more].as_flattened_mut()), to, GATHER)
                }
            };
            let started = exchange();
            messages.finish(started).await?;
            count += more;
        }
        held.rotate_right(me);
        Ok(held)
    }

    /// Returns the first member's number on all members.
    pub async fn first(&self, number: u64) -> Result<u64> {
        if self.waits {
            let mut first = [number];
            let comm = self.comm;
            self.with(|process| mpi_coll::broadcast_u64(process, comm, &mut first))?;
            return Ok(first[0]);
        }
        Ok(self.gather([number]).await?[0][0])
    }

    /// Returns each member's own result if all succeeded, otherwise the error of one of them on
    /// all.
    pub async fn agree<T>(&self, own: Result<T>) -> Result<T> {
        if self.waits || self.comm.size() == 1 {
            return self.with(|process| agree::agree(process, self.comm, own));
        }
        let mine = agree::word(self.comm, &own);
        let words = self.gather([mine]).await;
        let greatest = words.map(|words| words.into_iter().flatten().max().unwrap_or(0));
        match (own, greatest) {
            (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
            (own, Ok(0)) => own,
            (own, Ok(word)) => {
                let root = agree::root(self.comm, word);
                let mut text = agree::text(&own);
                let sent = self.broadcast_text(root, &mut text).await;
                match (own, sent) {
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                    (Ok(_), Ok(())) => Err(agree::of_other(root, word, &text)),
                }
            }
        }
    }

    /// Broadcasts the text of one member.
    async fn broadcast_text(&self, root: u32, text: &mut [u8; TEXT]) -> Result<()> {
        let mut messages = Messages::new(self);
        let me = self.comm.rank();
        let mut started = Ok(());
        for rank in (0..self.comm.size()).filter(|rank| *rank != me) {
            if started.is_err() || (me != root && rank != root) {
                continue;
            }
            // SAFETY: `text` stays until `messages` are finished.
            started = unsafe {
                let text = Buffer::bytes(text.as_mut_ptr(), TEXT);
                match me == root {
                    true => messages.send(text, rank as usize, REASON),
                    false => messages.receive(text, rank as usize, REASON),
                }
            };
        }
        messages.finish(started).await
    }

    /// Makes a thread do work on `len` bytes, or does it here if the caller waits.
    pub async fn apart<T: Send + 'static>(
        &self,
        len: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if self.waits {
            return work();
        }
        let outcome = self.with(|process| Outcome::of(process, len, work));
        outcome.wait().await
    }
}

/// The result of a thread's work.
pub(crate) struct Outcome<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Outcome<T> {
    /// Creates the result of work that is done already.
    pub fn is(result: T) -> Outcome<T> {
        Outcome(Arc::new(Mutex::new(Some(result))))
    }

    /// Makes a thread of the process do work on `len` bytes.
    pub fn of(
        process: &Process,
        len: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let outcome = Outcome(Arc::new(Mutex::new(None)));
        let place = outcome.0.clone();
        Files::apart(process, len, move || {
            let result = work();
            *place.lock() = Some(result);
        });
        outcome
    }

    /// Waits for the result. [`Files`] describes polling for threads' work.
    pub async fn wait(self) -> T {
        poll_fn(|_| match self.0.lock().take() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        })
        .await
    }
}
