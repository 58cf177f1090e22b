//! What an origin asks of a target that shares no memory with it: a message of words and data.
//!
//! Messages of one origin are carried out in the order in which they were sent. An answer goes to
//! the receive that the origin has posted for the tag that it gave.

use std::alloc::{Layout, alloc_zeroed};

use netmod_kit::copy;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Kind {
    /// Write the data to the runs, which are offsets and lengths in bytes.
    Put = 1,
    /// Answer with what is in the runs.
    Get = 2,
    /// Reduce the data into the runs, which are offsets and numbers of elements. `a` is the
    /// operation, `b` the element's datatype. With a tag: answer with what was there.
    Accumulate = 3,
    /// Compare the element in the only run with `a`, replace it by `b`, answer with what was there.
    CompareAndSwap = 4,
    /// Answer how many operations of this origin failed since the last such answer.
    Flush = 5,
    /// Answer when the lock is granted; bit 0 of `a` asks for an exclusive one, bit 1 says that the
    /// sender holds other locks of the window.
    Lock = 6,
    /// Give the lock back, and answer as for `Flush`.
    Unlock = 7,
    /// The sender exposes its memory to the addressee.
    Post = 8,
    /// The sender's access is complete.
    Complete = 9,
    /// Answer with the key of the memory on the transport that `a` names.
    Key = 10,
}

impl Kind {
    fn from_word(word: u64) -> Option<Kind> {
        Some(match word {
            1 => Kind::Put,
            2 => Kind::Get,
            3 => Kind::Accumulate,
            4 => Kind::CompareAndSwap,
            5 => Kind::Flush,
            6 => Kind::Lock,
            7 => Kind::Unlock,
            8 => Kind::Post,
            9 => Kind::Complete,
            10 => Kind::Key,
            _ => return None,
        })
    }
}

const WORDS: usize = 5;

/// Makes a message whose data, `len` bytes, `fill` writes.
pub(crate) fn encode(
    kind: Kind,
    tag: i32,
    [a, b]: [u64; 2],
    runs: &[(i64, usize)],
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let head = (WORDS + 2 * runs.len()) * 8;
    let mut bytes = Vec::with_capacity(head + len);
    for word in [kind as u64, tag as u64, a, b, runs.len() as u64] {
        bytes.extend(word.to_ne_bytes());
    }
    for &(at, count) in runs {
        bytes.extend(at.to_ne_bytes());
        bytes.extend((count as u64).to_ne_bytes());
    }
    bytes.resize(head + len, 0);
    fill(&mut bytes[head..]);
    bytes
}

/// A message, taken apart.
pub(crate) struct Request<'a> {
    pub kind: Kind,
    /// 0 for none.
    pub tag: i32,
    pub a: u64,
    pub b: u64,
    runs: &'a [u8],
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// `None` if the bytes are no message.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let word = |i: usize| Some(u64::from_ne_bytes(*bytes.get(8 * i..)?.first_chunk()?));
        let count = usize::try_from(word(4)?).ok()?;
        let rest = bytes.get(8 * WORDS..)?;
        let (runs, data) = rest.split_at_checked(count.checked_mul(16)?)?;
        Some(Request {
            kind: Kind::from_word(word(0)?)?,
            tag: word(1)? as i32,
            a: word(2)?,
            b: word(3)?,
            runs,
            data,
        })
    }

    /// Whether an answer, if the kind has one, would reach a receive of the origin's and not be taken
    /// for a request.
    pub fn can_be_answered(&self) -> bool {
        match self.kind {
            Kind::Put | Kind::Post | Kind::Complete => true,
            Kind::Accumulate => self.tag >= 0,
            Kind::Get | Kind::CompareAndSwap | Kind::Flush => self.tag > 0,
            Kind::Lock | Kind::Unlock | Kind::Key => self.tag > 0,
        }
    }

    /// Its runs.
    pub fn runs(&self) -> impl Iterator<Item = (i64, usize)> + use<'a> {
        self.runs.chunks_exact(16).map(|run| {
            let mut words = [0u64; 2];
            // SAFETY: both are 16 bytes long and apart.
            unsafe { copy(run.as_ptr(), words.as_mut_ptr().cast(), 16) };
            (words[0] as i64, words[1] as usize)
        })
    }
}

/// So many zeros, of which none takes memory before it is written to; `None` if there is no room for
/// them.
pub(crate) fn zeroed(len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(len).ok()?;
    // SAFETY: the length is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    // SAFETY: allocated as a vector of this capacity is, and bytes of zero are bytes.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_that_is_not_to_be_had_is_no_panic() {
        assert_eq!(zeroed(0).unwrap(), []);
        assert_eq!(zeroed(5).unwrap(), [0; 5]);
        assert!(zeroed(u64::MAX).is_none());
        assert!(zeroed(i64::MAX as u64).is_none());
    }

    proptest! {
        #[test]
        fn requests_round_trip(
            tag: i32, a: u64, b: u64, runs: Vec<(i64, usize)>, data: Vec<u8>,
        ) {
            let bytes = encode(Kind::Get, tag, [a, b], &runs, data.len(), |out| {
                out.copy_from_slice(&data);
            });
            let request = Request::parse(&bytes).unwrap();
            prop_assert_eq!((request.kind, request.tag), (Kind::Get, tag));
            prop_assert_eq!((request.a, request.b), (a, b));
            prop_assert_eq!(request.runs().collect::<Vec<_>>(), runs);
            prop_assert_eq!(request.data, data);
        }

        #[test]
        fn any_bytes_parse_or_are_refused(bytes: Vec<u8>, count: u64) {
            let _ = Request::parse(&bytes);
            let mut bytes = encode(Kind::Put, 0, [0, 0], &[], 40, |_| {});
            bytes[32..40].copy_from_slice(&count.to_ne_bytes());
            if let Some(request) = Request::parse(&bytes) {
                prop_assert!(request.runs().count() <= 2);
            }
        }
    }
}
