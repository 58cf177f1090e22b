//! Wire format of requests from an origin to a target that shares no memory with it.
//!
//! An origin's requests are carried out in the order in which they were sent. A request carries the
//! tag of the receive that the origin has posted for the answer.

use std::alloc::alloc_zeroed;

use netmod_kit::copy;

use crate::window::runs::{Group, Run};

/// Type of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Kind {
    /// Writes the data to the runs, which are offsets and lengths in bytes. `a`: 1 plus the index of
    /// a counter to increment then, or 0.
    Put = 1,
    /// Returns the data in the runs. `a` as for a put.
    Get = 2,
    /// Reduces the data into the runs, which are offsets and numbers of elements. `a` is the
    /// operation, `b` the element's datatype. With a tag: returns the previous values.
    Accumulate = 3,
    /// Compares the element in the only run with `a`, replaces it by `b`, and returns the previous
    /// value. For elements of 16 bytes `a` and `b` are the lower halves, and the data is the upper
    /// halves.
    CompareAndSwap = 4,
    /// Returns the number of this origin's operations that failed since the last such answer.
    Flush = 5,
    /// Answered when the lock is granted. Bit 0 of `a`: exclusive; bit 1: the origin holds other
    /// locks of the window.
    Lock = 6,
    /// Releases the lock, and is answered as `Flush`.
    Unlock = 7,
    /// Announces that the sender exposes its memory to the receiver.
    Post = 8,
    /// Announces that the sender's access epoch is complete.
    Complete = 9,
    /// Returns the key of the memory on the transport that `a` names.
    Key = 10,
    /// Returns the keys of the target's block of words and of its memory.
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
/// Flag in the word with the number of runs: the runs are grouped.
const GROUPED: u64 = 1 << 63;

/// Encoding of a request's runs.
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

    /// Bytes of a message with these runs and `data` bytes of data.
    pub fn message_len(self, data: usize) -> usize {
        WORDS * 8 + self.bytes() + data
    }
}

/// Encodes a message into the empty vector `bytes`. `fill` writes its data, `len` bytes.
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

/// A decoded message.
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
    /// Decodes a message. Returns `None` if it is malformed.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let word = |i: usize| Some(u64::from_ne_bytes(*bytes.get(8 * i..)?.first_chunk()?));
        let grouped = word(4)? & GROUPED != 0;
        let count = usize::try_from(word(4)? & !GROUPED).ok()?;
        let rest = bytes.get(8 * WORDS..)?;
        let each = if grouped { Group::BYTES } else { 16 };
        let (runs, data) = rest.split_at_checked(count.checked_mul(each)?)?;
        // A group of 2^64 empty runs would pass the check of the total length, and iterating over it
        // would not end.
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

    /// Whether the answer, if there is one, has a tag that no request has.
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
            // SAFETY: both are 16 bytes long; `words` is a local, so they do not overlap.
            unsafe { copy(bytes.as_ptr(), words.as_mut_ptr().cast(), 16) };
            Group {
                at: words[0] as i64,
                len: words[1],
                times: 1,
                stride: 0,
            }
        })
    }

    /// Returns its runs, ungrouped.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        self.groups().flat_map(Group::runs)
    }

    /// Returns the sum of the lengths of all runs, without iterating over them. `None` if it
    /// overflows.
    pub fn length(&self) -> Option<usize> {
        self.groups().try_fold(0usize, |sum, group| {
            let all = group.len.checked_mul(group.times)?;
            sum.checked_add(usize::try_from(all).ok()?)
        })
    }
}

/// Allocates `len` zeros, whose pages are committed when first written. `None` if that fails.
pub(crate) fn zeroed(len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
    // SAFETY: the length is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    // SAFETY: the global allocator returned `start` for `len` bytes of alignment 1, as `Vec` requires;
    // they are zeroed.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn failed_allocations_return_none() {
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
