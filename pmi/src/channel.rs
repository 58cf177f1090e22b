//! A lock-step exchange over a socket: one request, one answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::PmiError;
use crate::connection::Connection;

/// Cuts a stream of bytes into answers.
pub(crate) trait Frames: Default + std::fmt::Debug + Send {
    /// Adds bytes that arrived.
    fn push(&mut self, bytes: &[u8]);
    /// The next whole answer; the error says why what arrived can't be one.
    fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str>;
}

/// A socket to the launcher, which threads use by turns.
#[derive(Debug)]
pub(crate) struct Channel<F> {
    connection: Connection,
    /// Held by whoever waits for an answer.
    talk: Mutex<Talk<F>>,
    /// Held while a request is being sent, so that abort can pass a thread that waits.
    sending: Mutex<()>,
}

#[derive(Debug)]
struct Talk<F> {
    frames: F,
    /// Why the exchange is over, if it is.
    over: Option<String>,
}

const FINALIZED: &str = "finalize";

impl<F: Frames> Channel<F> {
    pub(crate) fn new(connection: Connection, frames: F) -> Channel<F> {
        Channel {
            connection,
            talk: Mutex::new(Talk { frames, over: None }),
            sending: Mutex::new(()),
        }
    }

    /// Sends a request and takes the answer, which must satisfy `is_answer`; any other breaks the
    /// exchange.
    pub(crate) fn exchange(
        &self,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        self.exchange_in(&mut lock(&self.talk), command, request, is_answer)
    }

    /// As [`Channel::exchange`], after [`Channel::finish`], too: with a launcher that still answers then.
    pub(crate) fn exchange_late(
        &self,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        let mut talk = lock(&self.talk);
        let finalized = talk.over.take_if(|why| why == FINALIZED);
        let answer = self.exchange_in(&mut talk, command, request, is_answer);
        talk.over = talk.over.take().or(finalized);
        answer
    }

    fn exchange_in(
        &self,
        talk: &mut Talk<F>,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        if let Some(reason) = &talk.over {
            return Err(PmiError::Over(format!("{command} came after {reason}")));
        }
        self.send(request, command)
            .and_then(|()| next(&self.connection, &mut talk.frames, command))
            .and_then(|bytes| match is_answer(&bytes) {
                Ok(()) => Ok(bytes),
                Err(detail) => Err(nonsense(command, &detail, &bytes)),
            })
            .inspect_err(|e| talk.over = Some(format!("an earlier error ({e})")))
    }

    /// Sends something that has no answer, whoever waits for one.
    pub(crate) fn send(&self, request: &[u8], command: &'static str) -> Result<(), PmiError> {
        let _sending = lock(&self.sending);
        self.connection.send(request, command)
    }

    /// Whether nobody waits for an answer at the moment.
    pub(crate) fn is_free(&self) -> bool {
        self.talk.try_lock().is_ok_and(|talk| talk.over.is_none())
    }

    /// Whether [`Channel::finish`] was called.
    pub(crate) fn is_finalized(&self) -> bool {
        lock(&self.talk).over.as_deref() == Some(FINALIZED)
    }

    /// Makes all further exchanges errors.
    pub(crate) fn finish(&self) {
        lock(&self.talk).over = Some(FINALIZED.to_owned());
    }

    /// The bare connection and what has arrived, to go on with another protocol.
    pub(crate) fn into_parts(self) -> (Connection, F) {
        let talk = self.talk.into_inner();
        let talk = talk.unwrap_or_else(PoisonError::into_inner);
        (self.connection, talk.frames)
    }
}

/// Waits for the next answer.
pub(crate) fn next<F: Frames>(
    connection: &Connection,
    frames: &mut F,
    doing: &'static str,
) -> Result<Vec<u8>, PmiError> {
    loop {
        match frames.next() {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => connection.receive(|bytes| frames.push(bytes), doing)?,
            Err(detail) => return Err(nonsense(doing, detail, b"")),
        }
    }
}

pub(crate) fn nonsense(command: &'static str, detail: &str, answer: &[u8]) -> PmiError {
    let shown = &answer[..answer.len().min(200)];
    PmiError::Protocol {
        command,
        detail: detail.to_owned(),
        line: String::from_utf8_lossy(shown).into_owned(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever a panicking thread left half done shows up as an error of the exchange.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
