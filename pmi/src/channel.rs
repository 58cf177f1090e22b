//! A lock-step exchange over a socket: one request, one answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::PmiError;
use crate::connection::Connection;

/// Cuts a stream of bytes into answers.
pub(crate) trait Frames: Default + std::fmt::Debug + Send {
    /// Adds received bytes.
    fn push(&mut self, bytes: &[u8]);
    /// Returns the next complete answer. The error says why the received bytes cannot be one.
    fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str>;
}

/// A socket to the launcher, which threads use in turn.
#[derive(Debug)]
pub(crate) struct Channel<F> {
    connection: Connection,
    /// Held by the thread that waits for an answer.
    exchange: Mutex<Exchange<F>>,
    /// Held while a request is being sent, so that an abort need not wait for another thread's
    /// answer.
    sending: Mutex<()>,
}

#[derive(Debug)]
struct Exchange<F> {
    frames: F,
    /// The reason if no further exchange is possible.
    over: Option<String>,
}

const FINALIZED: &str = "finalize";

impl<F: Frames> Channel<F> {
    pub(crate) fn new(connection: Connection, frames: F) -> Channel<F> {
        Channel {
            connection,
            exchange: Mutex::new(Exchange { frames, over: None }),
            sending: Mutex::new(()),
        }
    }

    /// Sends a request and returns the answer, which must satisfy `is_answer`; any other answer
    /// breaks the exchange.
    pub(crate) fn exchange(
        &self,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        self.exchange_in(&mut lock(&self.exchange), command, request, is_answer)
    }

    /// Exchanges like [`Channel::exchange`], also after [`Channel::finish`], with a launcher that
    /// still answers then.
    pub(crate) fn exchange_late(
        &self,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        let mut exchange = lock(&self.exchange);
        let finalized = exchange.over.take_if(|why| why == FINALIZED);
        let answer = self.exchange_in(&mut exchange, command, request, is_answer);
        exchange.over = exchange.over.take().or(finalized);
        answer
    }

    fn exchange_in(
        &self,
        exchange: &mut Exchange<F>,
        command: &'static str,
        request: &[u8],
        is_answer: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<Vec<u8>, PmiError> {
        if let Some(reason) = &exchange.over {
            return Err(PmiError::Over(format!("{command} came after {reason}")));
        }
        self.send(request, command)
            .and_then(|()| next(&self.connection, &mut exchange.frames, command))
            .and_then(|bytes| match is_answer(&bytes) {
                Ok(()) => Ok(bytes),
                Err(detail) => Err(nonsense(command, &detail, &bytes)),
            })
            .inspect_err(|e| exchange.over = Some(format!("an earlier error ({e})")))
    }

    /// Sends a message without an answer, even while another thread waits for one.
    pub(crate) fn send(&self, request: &[u8], command: &'static str) -> Result<(), PmiError> {
        let _sending = lock(&self.sending);
        self.connection.send(request, command)
    }

    /// Returns whether no thread waits for an answer.
    pub(crate) fn is_free(&self) -> bool {
        self.exchange
            .try_lock()
            .is_ok_and(|exchange| exchange.over.is_none())
    }

    /// Returns whether [`Channel::finish`] was called.
    pub(crate) fn is_finalized(&self) -> bool {
        lock(&self.exchange).over.as_deref() == Some(FINALIZED)
    }

    /// Makes all further exchanges errors.
    pub(crate) fn finish(&self) {
        lock(&self.exchange).over = Some(FINALIZED.to_owned());
    }

    /// Returns the connection and the received bytes, for another protocol.
    pub(crate) fn into_parts(self) -> (Connection, F) {
        let exchange = self.exchange.into_inner();
        let exchange = exchange.unwrap_or_else(PoisonError::into_inner);
        (self.connection, exchange.frames)
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
    // An exchange that a panicking thread has interrupted shows as an error of the next one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
