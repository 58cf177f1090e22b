//! Emulates get, put and atomics by messages, for networks that have none.
//!
//! The initiator sends a [`Request`]; the target carries it out ([`serve`]) and sends an answer,
//! from which the initiator takes the result ([`remote::answered`](crate::remote::answered)). Each
//! request has one answer, and an initiator has at most 64 unanswered, so the answers that a target owes are
//! bounded by the number of lanes that talk to it. The transport decides how requests travel.

use netmod::{Action, LaneError, Peer};

use crate::exposures::Exposures;

/// Most unanswered requests of a lane; bounds the answers that targets owe it.
pub(crate) const MOST_REQUESTS: usize = 64;

/// Status of an answer: carried out.
pub const DONE: u8 = 0;
/// Status of an answer: the target does not expose that memory.
pub const NOT_EXPOSED: u8 = 1;

/// The fields of an emulation message. `exposure` is unused in answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Names the operation at its initiator; echoed by the answer.
    pub cookie: u64,
    /// Names the exposed memory at the target: the second word of its key.
    pub exposure: u64,
    /// Offset in the exposed memory; in an answer to a get, offset in the operation's data.
    pub offset: u64,
    /// Get: length. Atomic: operand. Answer to an atomic: previous value.
    pub value: u64,
    /// Atomic: value to compare with. Get: offset in the operation's data.
    pub extra: u64,
}

impl Request {
    /// Length on the wire, in bytes.
    pub const SIZE: usize = 40;

    /// Returns the request as bytes, in native byte order: the processes of a job run on machines
    /// of one architecture.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let words = [
            self.cookie,
            self.exposure,
            self.offset,
            self.value,
            self.extra,
        ];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Reads the request at the front of `bytes`. Returns it and the bytes after it, or `None` if
    /// there are too few.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (request, rest) = bytes.split_first_chunk::<{ Self::SIZE }>()?;
        let word = |i: usize| u64::from_ne_bytes(request[8 * i..8 * i + 8].try_into().unwrap());
        let request = Request {
            cookie: word(0),
            exposure: word(1),
            offset: word(2),
            value: word(3),
            extra: word(4),
        };
        Some((request, rest))
    }
}

/// The operation that a request asks of its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// An atomic, by its [`AtomicOp`](netmod::AtomicOp) as a byte.
    Atomic(u8),
    /// Send memory back.
    Get,
    /// Write memory.
    Put,
}

/// The target's answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    status: u8,
    request: Request,
    /// Get: exposure, offset and length of the data to send.
    source: Option<(u64, u64, usize)>,
}

impl Answer {
    /// Returns status, request and data to send. Looks the exposure up again: it may have been
    /// withdrawn since the request was served.
    pub fn now<'a, R>(&self, exposures: &'a Exposures<R>) -> (u8, Request, &'a [u8]) {
        let Some((exposure, offset, len)) = self.source else {
            return (self.status, self.request, &[]);
        };
        match exposures.find(exposure, offset, len) {
            // SAFETY: `find` checks that all of it is exposed, so it is valid memory by the
            // contract of `expose`; races with the owner's writes are the program's error, as on
            // any network.
            Some(place) => unsafe {
                let data = std::slice::from_raw_parts(place, len);
                (self.status, self.request, data)
            },
            None => (NOT_EXPOSED, self.request, &[]),
        }
    }
}

/// Carries out a request with `data`. `most` is the greatest length of data that an answer can
/// bring.
pub fn serve<R>(
    exposures: &Exposures<R>,
    ask: Ask,
    request: &Request,
    data: &[u8],
    most: usize,
) -> Answer {
    let mut answer = Request {
        cookie: request.cookie,
        ..Request::default()
    };
    let mut source = None;
    let found = match ask {
        Ask::Atomic(code) => {
            let operands = [request.value, request.extra];
            let found = exposures.atomic(request.exposure, request.offset, code, operands);
            found.map(|found| answer.value = found)
        }
        Ask::Put => {
            // SAFETY: `with` checks that all of it is exposed, so it is valid memory by the contract
            // of `expose`; `data` is the transport's receive buffer, which does not overlap it.
            let act = |place| unsafe { crate::copy(data.as_ptr(), place, data.len()) };
            exposures.with(request.exposure, request.offset, data.len(), act)
        }
        Ask::Get => {
            answer.offset = request.extra;
            let len = usize::try_from(request.value).ok();
            len.filter(|&len| len <= most)
                .map(|len| source = Some((request.exposure, request.offset, len)))
        }
    };
    Answer {
        status: found.map_or(NOT_EXPOSED, |()| DONE),
        request: answer,
        source,
    }
}

/// Stores the result of an operation of `len` bytes at `local` from its answer.
///
/// # Errors
/// The peer does not expose the memory.
///
/// # Safety
/// `local` is valid for writes of `len` bytes if the operation is a get, of 8 bytes if it is an
/// atomic.
pub(crate) unsafe fn take_answer(
    action: Action,
    local: *mut u8,
    len: usize,
    status: u8,
    answer: &Request,
    data: &[u8],
) -> Result<(), NotExposed> {
    if status != DONE {
        return Err(NotExposed);
    }
    match action {
        Action::Put => {}
        Action::Get => {
            let skip = usize::try_from(answer.offset).unwrap_or(usize::MAX);
            match skip.checked_add(data.len()) {
                // SAFETY: `skip + data.len()` is at most `len`, for which the caller promised that
                // `local` is valid.
                Some(end) if end <= len && !data.is_empty() => unsafe {
                    std::ptr::copy_nonoverlapping(data.as_ptr(), local.add(skip), data.len());
                },
                _ => return Err(NotExposed),
            }
        }
        // SAFETY: the caller promised that `local` is valid for 8 bytes.
        Action::Atomic { .. } => unsafe {
            local.cast::<u64>().write_unaligned(answer.value);
        },
    }
    Ok(())
}

/// The peer does not expose the accessed memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotExposed;

impl NotExposed {
    /// Returns the error of an operation on that peer's memory.
    pub fn at(self, peer: Peer) -> LaneError {
        let why = format!(
            "process {peer} does not expose the accessed memory (it was withdrawn, or the access \
             goes beyond its end)"
        );
        LaneError::lost(peer, why)
    }
}

#[cfg(test)]
mod tests {
    use netmod::AtomicOp;

    use super::*;

    fn answer(ask: Ask, words: &mut [u64; 2], request: Request, data: &[u8]) -> (u8, u64, Vec<u8>) {
        let exposures = Exposures::default();
        let number = exposures.insert(words.as_mut_ptr().cast(), 16, ());
        let request = Request {
            exposure: number,
            ..request
        };
        let answer = serve(&exposures, ask, &request, data, 16);
        let (status, answer, data) = answer.now(&exposures);
        (status, answer.value, data.to_vec())
    }

    #[test]
    fn requests_survive_the_wire_and_are_carried_out() {
        let request = Request {
            cookie: 1,
            exposure: 2,
            offset: 8,
            value: 4,
            extra: 5,
        };
        let mut bytes = request.to_bytes().to_vec();
        assert_eq!(Request::parse(&bytes[..39]), None);
        bytes.push(9);
        assert_eq!(Request::parse(&bytes), Some((request, &[9][..])));

        let mut words = [6, 7];
        let add = Ask::Atomic(AtomicOp::Add as u8);
        assert_eq!(answer(add, &mut words, request, &[]), (DONE, 7, vec![]));
        assert_eq!(words, [6, 11]);
        assert_eq!(answer(Ask::Put, &mut words, request, &[0; 8]).0, DONE);
        assert_eq!(words, [6, 0]);
        let got = answer(Ask::Get, &mut words, request, &[]);
        assert_eq!(got, (DONE, 0, vec![0; 4]));
        let beyond = Request {
            offset: 12,
            value: 17,
            ..request
        };
        for ask in [add, Ask::Put, Ask::Get, Ask::Atomic(99)] {
            assert_eq!(answer(ask, &mut words, beyond, &[1; 5]).0, NOT_EXPOSED);
        }
        assert_eq!(words, [6, 0]);
    }

    #[test]
    fn answers_that_do_not_fit_are_refused() {
        let mut local = [0_u8; 8];
        let mut answer = Request {
            offset: 4,
            ..Request::default()
        };
        let place = local.as_mut_ptr();
        // SAFETY: `local` has 8 bytes.
        let take = |status, answer: &Request, data: &[u8]| unsafe {
            take_answer(Action::Get, place, 8, status, answer, data)
        };
        assert_eq!(take(DONE, &answer, &[1, 2, 3, 4]), Ok(()));
        assert_eq!(take(DONE, &answer, &[1; 5]), Err(NotExposed));
        assert_eq!(take(DONE, &answer, &[]), Err(NotExposed));
        assert_eq!(take(NOT_EXPOSED, &answer, &[1]), Err(NotExposed));
        answer.offset = u64::MAX;
        assert_eq!(take(DONE, &answer, &[1]), Err(NotExposed));
        assert_eq!(local, [0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
