//! What an origin asks of a target that shares no memory with it: a message of words and data.
//!
//! Messages of one origin are carried out in the order in which they were sent. An answer goes to
//! the receive that the origin has posted for the tag that it gave.

use std::alloc::alloc_zeroed;

use netmod_kit::copy;

use crate::window::runs::{Group, Run};

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
    /// Compare the element in the only run with `a`, replace it by `b`, answer with what was there. Of an element of
    /// 16 bytes `a` and `b` are the lower halves, and the data is the upper ones.
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
    /// Answer with the keys by which the network reaches the window's words and memory here.
    Record = 11,
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
            11 => Kind::Record,
            _ => return None,
        })
    }
}

const WORDS: usize = 5;
/// With the number of runs: they are grouped.
const GROUPED: u64 = 1 << 63;

/// How a message tells of its runs.
#[derive(Clone, Copy)]
pub(crate) enum Layout<'a> {
    Runs(&'a [Run]),
    Groups(&'a [Group]),
}

impl Layout<'_> {
    /// No runs.
    pub const NONE: Layout<'static> = Layout::Runs(&[]);

    fn bytes(self) -> usize {
        match self {
            Layout::Runs(runs) => 16 * runs.len(),
            Layout::Groups(groups) => Group::BYTES * groups.len(),
        }
    }

    /// Bytes of a message with these and so much data.
    pub fn message_len(self, data: usize) -> usize {
        WORDS * 8 + self.bytes() + data
    }
}

/// Makes a message, in memory that holds nothing, whose data, `len` bytes, `fill` writes.
pub(crate) fn encode(
    mut bytes: Vec<u8>,
    kind: Kind,
    tag: i32,
    [a, b]: [u64; 2],
    layout: Layout<'_>,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let all = layout.message_len(len);
    bytes.reserve_exact(all);
    let count = match layout {
        Layout::Runs(runs) => runs.len() as u64,
        Layout::Groups(groups) => groups.len() as u64 | GROUPED,
    };
    for word in [kind as u64, tag as u64, a, b, count] {
        bytes.extend(word.to_ne_bytes());
    }
    match layout {
        Layout::Runs(runs) => {
            for &(at, count) in runs {
                bytes.extend(at.to_ne_bytes());
                bytes.extend((count as u64).to_ne_bytes());
            }
        }
        Layout::Groups(groups) => {
            for group in groups {
                bytes.extend(group.to_bytes());
            }
        }
    }
    let head = bytes.len();
    bytes.resize(all, 0);
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
    grouped: bool,
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// `None` if the bytes are no message.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let word = |i: usize| Some(u64::from_ne_bytes(*bytes.get(8 * i..)?.first_chunk()?));
        let grouped = word(4)? & GROUPED != 0;
        let count = usize::try_from(word(4)? & !GROUPED).ok()?;
        let rest = bytes.get(8 * WORDS..)?;
        let each = if grouped { Group::BYTES } else { 16 };
        let (runs, data) = rest.split_at_checked(count.checked_mul(each)?)?;
        // Runs of nothing can't be told from none, and would be gone through for ever.
        let empty = |group: &[u8]| Group::from_bytes(group).len == 0;
        if grouped && runs.chunks_exact(Group::BYTES).any(empty) {
            return None;
        }
        Some(Request {
            kind: Kind::from_word(word(0)?)?,
            tag: word(1)? as i32,
            a: word(2)?,
            b: word(3)?,
            runs,
            grouped,
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
            Kind::Lock | Kind::Unlock | Kind::Key | Kind::Record => self.tag > 0,
        }
    }

    fn groups(&self) -> impl Iterator<Item = Group> + use<'a> {
        let each = if self.grouped { Group::BYTES } else { 16 };
        let grouped = self.grouped;
        self.runs.chunks_exact(each).map(move |bytes| {
            if grouped {
                return Group::from_bytes(bytes);
            }
            let mut words = [0u64; 2];
            // SAFETY: both are 16 bytes long and apart.
            unsafe { copy(bytes.as_ptr(), words.as_mut_ptr().cast(), 16) };
            Group {
                at: words[0] as i64,
                len: words[1],
                times: 1,
                stride: 0,
            }
        })
    }

    /// Its runs.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        self.groups().flat_map(Group::runs)
    }

    /// What the lengths of all its runs come to, without going through them; `None` if that is no number.
    pub fn length(&self) -> Option<usize> {
        self.groups().try_fold(0usize, |sum, group| {
            let all = group.len.checked_mul(group.times)?;
            sum.checked_add(usize::try_from(all).ok()?)
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
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
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

    #[test]
    fn grouped_runs_round_trip() {
        let mut groups = Vec::new();
        let runs: Vec<Run> = (0..50).map(|i| (8 * i, 2)).chain([(1, 7)]).collect();
        runs.iter()
            .for_each(|run| crate::window::runs::push(&mut groups, *run));
        let layout = Layout::Groups(&groups);
        let bytes = encode(Vec::new(), Kind::Put, 0, [1, 2], layout, 107, |out| {
            out.fill(9)
        });
        assert_eq!(bytes.len(), layout.message_len(107));
        let request = Request::parse(&bytes).unwrap();
        assert_eq!(request.runs().collect::<Vec<_>>(), runs);
        assert_eq!((request.length(), request.data), (Some(107), &[9; 107][..]));
        let absurd = [(3, u64::MAX), (0, 1 << 62)];
        for (len, times) in absurd {
            let group = Group {
                at: 0,
                len,
                times,
                stride: 0,
            };
            let layout = Layout::Groups(std::slice::from_ref(&group));
            let bytes = encode(Vec::new(), Kind::Put, 0, [0; 2], layout, 0, |_| {});
            assert!(Request::parse(&bytes).is_none_or(|request| request.length().is_none()));
        }
    }

    proptest! {
        #[test]
        fn requests_round_trip(
            tag: i32, a: u64, b: u64, runs: Vec<(i64, usize)>, data: Vec<u8>,
        ) {
            let bytes = encode(Vec::new(), Kind::Get, tag, [a, b], Layout::Runs(&runs), data.len(), |out| {
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
            let mut bytes = encode(Vec::new(), Kind::Put, 0, [0, 0], Layout::NONE, 40, |_| {});
            bytes[32..40].copy_from_slice(&count.to_ne_bytes());
            if let Some(request) = Request::parse(&bytes) {
                prop_assert!(request.groups().count() <= 2);
                let _ = request.length();
            }
        }
    }
}
