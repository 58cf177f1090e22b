//! What the members of a file tell each other in a collective access, of which there are two kinds.
//!
//! One whose caller waits does so at each step, by the collectives of the file's communicator. One that was only
//! started goes on when the process makes progress: it is a future, which is polled then, and its accesses are
//! made by threads. Its members tell each other by messages with tags of their own, because collectives must come
//! in the same order everywhere, and others may be called between its steps.

#![allow(unsafe_code, reason = "buffers are lent to messages")]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mpi_core::comm::Comm;
use mpi_core::{Buffer, Process};
use mpi_types::Result;
use parking_lot::Mutex;

use crate::agree::{self, TEXT};
use crate::exchange::{Messages, bytes_of};
use crate::files::Files;
use crate::lent::Lent;

/// The tags of what was only started are so much higher.
const STARTED: i32 = 16;
/// More tags than those of the two phases.
const GATHER: i32 = 5;
const AGREE: i32 = 6;
const REASON: i32 = 7;

/// The members of a file, and how they are talked to.
pub(crate) struct Talk<'a> {
    lent: Arc<Lent>,
    comm: &'a Comm,
    waits: bool,
}

impl<'a> Talk<'a> {
    /// In a call that returns when the access is over; the process is lent until then.
    pub fn waiting(lent: Arc<Lent>, comm: &'a Comm) -> Talk<'a> {
        let waits = true;
        Talk { lent, comm, waits }
    }

    /// In an access that was started, and goes on whenever the process is lent.
    pub fn started(lent: Arc<Lent>, comm: &'a Comm) -> Talk<'a> {
        let waits = false;
        Talk { lent, comm, waits }
    }

    /// The members.
    pub fn comm(&self) -> &Comm {
        self.comm
    }

    /// Whether the caller waits.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Does something with the process.
    pub fn with<T>(&self, work: impl FnOnce(&Process) -> T) -> T {
        self.lent.with(work)
    }

    /// The tag of a kind of message.
    pub fn tag(&self, kind: i32) -> i32 {
        match self.waits {
            true => kind,
            false => STARTED + kind,
        }
    }

    /// Collects what each member contributes, by rank.
    pub async fn gather<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>> {
        if self.waits {
            return self.with(|process| mpi_coll::gather_all_u64(process, self.comm, own));
        }
        let (me, size) = (self.comm.rank() as usize, self.comm.size() as usize);
        // Those of the ranks behind this one, which doubles in number with each round.
        let mut held = vec![own; size];
        let mut count = 1;
        while count < size {
            let more = count.min(size - count);
            let (to, from) = ((me + size - count) % size, (me + count) % size);
            let (have, rest) = held.split_at_mut(count);
            let mut messages = Messages::new(self);
            let mut exchange = || {
                // SAFETY: the words stay until the messages are finished.
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

    /// A number that the first member gives.
    pub async fn first(&self, number: u64) -> Result<u64> {
        if self.waits {
            let mut told = [number];
            let comm = self.comm;
            self.with(|process| mpi_coll::broadcast_u64(process, comm, &mut told))?;
            return Ok(told[0]);
        }
        Ok(self.gather([number]).await?[0][0])
    }

    /// The result of each member, if all have one; the error of one of them, if not.
    pub async fn agree<T>(&self, own: Result<T>) -> Result<T> {
        if self.waits || self.comm.size() == 1 {
            return self.with(|process| agree::agree(process, self.comm, own));
        }
        let mine = agree::word(self.comm, &own);
        match (own, self.greatest(mine).await) {
            (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
            (own, Ok(0)) => own,
            (own, Ok(word)) => {
                let root = agree::root(self.comm, word);
                let mut text = agree::text(&own);
                let told = self.spread(root, &mut text).await;
                match (own, told) {
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                    (Ok(_), Ok(())) => Err(agree::of_other(root, word, &text)),
                }
            }
        }
    }

    /// The greatest of the members' numbers.
    async fn greatest(&self, mut number: u64) -> Result<u64> {
        let (me, size) = (self.comm.rank() as usize, self.comm.size() as usize);
        let mut distance = 1;
        while distance < size {
            let (to, from) = ((me + distance) % size, (me + size - distance) % size);
            let (mut told, mut heard) = ([number], [0]);
            let mut messages = Messages::new(self);
            let mut exchange = || {
                // SAFETY: the words stay until the messages are finished.
                unsafe {
                    messages.receive(bytes_of(&mut heard), from, AGREE)?;
                    messages.send(bytes_of(&mut told), to, AGREE)
                }
            };
            let started = exchange();
            messages.finish(started).await?;
            number = number.max(heard[0]);
            distance *= 2;
        }
        Ok(number)
    }

    /// Sends the text of one member to all.
    async fn spread(&self, root: u32, text: &mut [u8; TEXT]) -> Result<()> {
        let mut messages = Messages::new(self);
        let me = self.comm.rank();
        let mut started = Ok(());
        for rank in (0..self.comm.size()).filter(|rank| *rank != me) {
            if started.is_err() || (me != root && rank != root) {
                continue;
            }
            // SAFETY: the text stays until the messages are finished.
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

    /// Has a thread do something that moves so many bytes, or does it here if the caller waits.
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

/// What comes of something that a thread does.
pub(crate) struct Outcome<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Outcome<T> {
    /// Of what has been done already.
    pub fn is(result: T) -> Outcome<T> {
        Outcome(Arc::new(Mutex::new(Some(result))))
    }

    /// Has a thread of the process do something that moves so many bytes.
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

    /// Waits for it. (Who polls for something that a thread does is told in [`Files`].)
    pub async fn wait(self) -> T {
        poll_fn(|_| match self.0.lock().take() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        })
        .await
    }
}
