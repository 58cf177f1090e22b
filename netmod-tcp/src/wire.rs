//! The wire format: a sequence of frames.
//!
//! A frame is a *prefix* of 8 bytes (length of the rest, kind, code), a *fixed part* whose length
//! is given by the kind, and data. Both ends belong to one job and one architecture, so numbers are
//! in native byte order. Received bytes are not trusted: [`next`] returns frames of known kinds and
//! valid lengths, or the error.

use netmod::{Header, MAX_WORDS};

/// Length of a prefix, in bytes.
pub(crate) const PREFIX: usize = 8;

/// Largest payload of an active message, in bytes: 256 KiB of a program's data, and a few numbers.
pub(crate) const MAX_PAYLOAD: usize = (256 << 10) + 64;

/// Most data of one [`FrameKind::Put`] or [`FrameKind::Data`] frame, in bytes.
pub(crate) const PART: usize = 1 << 30;

/// Most data of a signal, in bytes.
pub(crate) const MAX_SIGNAL: usize = 64 << 10;

/// Length of the longest fixed part, in bytes.
pub(crate) const MAX_FIXED: usize = 40;

/// The kinds of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// An active message: header, payload.
    Message = 1,
    /// Data for exposed memory: exposure, offset; data.
    Put,
    /// A request for exposed memory: exposure, offset, length, cookie.
    Get,
    /// An atomic, named by the code: exposure, offset, operand, compare, cookie.
    Atomic,
    /// A request to confirm that everything before it has been done: cookie.
    Flush,
    /// Answer to [`FrameKind::Get`], in order: cookie; data.
    Data,
    /// Answer to [`FrameKind::Atomic`]: cookie, previous value.
    Found,
    /// Answer to [`FrameKind::Flush`]: cookie. The code is 1 if a put did not fit exposed memory.
    Flushed,
    /// Answer to a request for memory that is not exposed: cookie.
    Refused,
    /// Data and words for exposed memory, their number is the code: exposure and offset of the
    /// data, exposure and offset of the words; words, data.
    Signal,
    /// The farewell of a process that finalizes; no frame follows.
    Bye,
    /// A question to close the connection; the sender sends nothing more until the answer.
    Park,
    /// Answer to [`FrameKind::Park`]: with code 1 no frame follows, and the connection can be
    /// closed; with code 0 it is needed.
    Parked,
    /// Padding that moves the next frame in memory ([`begin_at`]).
    Pad,
}

const FRAME_KINDS: [FrameKind; 14] = [
    FrameKind::Message,
    FrameKind::Put,
    FrameKind::Get,
    FrameKind::Atomic,
    FrameKind::Flush,
    FrameKind::Data,
    FrameKind::Found,
    FrameKind::Flushed,
    FrameKind::Refused,
    FrameKind::Signal,
    FrameKind::Bye,
    FrameKind::Park,
    FrameKind::Parked,
    FrameKind::Pad,
];

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        FRAME_KINDS.get(usize::from(byte).wrapping_sub(1)).copied()
    }

    /// Returns the length of the fixed part and the most data, in bytes.
    pub(crate) const fn sizes(self) -> (usize, usize) {
        match self {
            FrameKind::Message => (Header::SIZE, MAX_PAYLOAD),
            FrameKind::Put => (16, PART),
            FrameKind::Get => (32, 0),
            FrameKind::Atomic => (40, 0),
            FrameKind::Flush => (8, 0),
            FrameKind::Data => (8, PART),
            FrameKind::Found => (16, 0),
            FrameKind::Flushed => (8, 0),
            FrameKind::Refused => (8, 0),
            FrameKind::Signal => (32, MAX_SIGNAL + 8 * MAX_WORDS),
            FrameKind::Bye | FrameKind::Park | FrameKind::Parked => (0, 0),
            FrameKind::Pad => (0, PAD - PREFIX),
        }
    }
}

/// Makes the prefix of a frame.
pub(crate) fn prefix(kind: FrameKind, code: u8, data: usize) -> [u8; PREFIX] {
    let len = (kind.sizes().0 + data) as u32;
    let [a, b, c, d] = len.to_ne_bytes();
    [a, b, c, d, kind as u8, code, 0, 0]
}

/// Appends prefix and fixed part of a frame with `data` bytes.
#[inline]
pub(crate) fn begin(to: &mut Vec<u8>, kind: FrameKind, code: u8, fixed: &[u8], data: usize) {
    debug_assert_eq!(fixed.len(), kind.sizes().0);
    to.extend_from_slice(&prefix(kind, code, data));
    to.extend_from_slice(fixed);
}

/// Length of a [`FrameKind::Pad`], in bytes.
const PAD: usize = 64;

/// Bytes. Data of this length is worth padding.
const PADDED: usize = 4 << 10;

/// Returns whether processors copy slowly between two addresses: if one is a few bytes ahead of the
/// other by the address bits within a page, loads falsely depend on earlier stores.
fn clash(one: usize, other: usize) -> bool {
    const PAGE: usize = 4096;
    let ahead = one.wrapping_sub(other) % PAGE;
    (1..32).contains(&ahead) || ahead > PAGE - 32
}

/// Appends prefix and fixed part of a frame whose data is sent from `at`. The kernel's buffer
/// begins with the first byte sent, so the length before the data determines the address that the
/// kernel copies it to; programs use similar addresses at both ends. If source and target clash,
/// padding comes first.
pub(crate) fn begin_at(
    to: &mut Vec<u8>,
    kind: FrameKind,
    code: u8,
    fixed: &[u8],
    data: usize,
    at: *const u8,
) {
    let place = to.len() + PREFIX + fixed.len();
    if data >= PADDED && clash(place, at.addr()) {
        to.extend_from_slice(&prefix(FrameKind::Pad, 0, PAD - PREFIX));
        to.resize(to.len() + PAD - PREFIX, 0);
    }
    begin(to, kind, code, fixed, data);
}

/// Returns words as bytes, in native byte order.
pub(crate) fn words<const N: usize, const B: usize>(words: [u64; N]) -> [u8; B] {
    let mut bytes = [0; B];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Returns a word of a fixed part; 0 beyond its end.
#[inline]
pub(crate) fn word(fixed: &[u8], index: usize) -> u64 {
    let bytes = fixed.get(8 * index..8 * index + 8);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

/// The next frame in received bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next<'a> {
    /// More bytes are needed.
    Short,
    /// A frame; `data` is the received part of its `len` bytes of data.
    Frame {
        kind: FrameKind,
        code: u8,
        fixed: &'a [u8],
        len: usize,
        data: &'a [u8],
    },
    /// A malformed frame.
    Bad(Bad),
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bad {
    FrameKind(u8),
    Length(FrameKind, u32),
    Code(FrameKind, u8),
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::FrameKind(kind) => write!(f, "a frame of unknown kind {kind}"),
            Bad::Length(kind, len) => write!(f, "a frame {kind:?} of {len} bytes"),
            Bad::Code(kind, code) => write!(f, "a frame {kind:?} with code {code}"),
        }
    }
}

/// Parses the frame at the front of `bytes`.
#[inline]
pub(crate) fn next(bytes: &[u8]) -> Next<'_> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Next::Short;
    };
    let [a, b, c, d, kind, code, ..] = *prefix;
    let total = u32::from_ne_bytes([a, b, c, d]);
    let Some(kind) = FrameKind::from_byte(kind) else {
        return Next::Bad(Bad::FrameKind(kind));
    };
    let (fixed, most) = kind.sizes();
    let Some(len) = (total as usize)
        .checked_sub(fixed)
        .filter(|len| *len <= most)
    else {
        return Next::Bad(Bad::Length(kind, total));
    };
    let fits = match kind {
        FrameKind::Atomic => netmod_kit::atomic_op(code).is_some(),
        FrameKind::Signal => (1..=MAX_WORDS).contains(&usize::from(code)),
        FrameKind::Get | FrameKind::Flushed | FrameKind::Parked => code <= 1,
        _ => code == 0,
    };
    if !fits {
        return Next::Bad(Bad::Code(kind, code));
    }
    if kind == FrameKind::Signal && len < 8 * usize::from(code) {
        return Next::Bad(Bad::Length(kind, total));
    }
    match rest.split_at_checked(fixed) {
        None => Next::Short,
        Some((fixed, data)) => Next::Frame {
            kind,
            code,
            fixed,
            len,
            data: &data[..data.len().min(len)],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: FrameKind, code: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fixed: Vec<u8> = (0..kind.sizes().0 as u8).collect();
        begin(&mut bytes, kind, code, &fixed, data.len());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn every_kind_round_trips() {
        for kind in FRAME_KINDS {
            let (fixed, most) = kind.sizes();
            let data = vec![7; most.min(100)];
            let code = u8::from(kind == FrameKind::Signal);
            let bytes = frame(kind, code, &data);
            for end in 0..bytes.len() {
                match next(&bytes[..end]) {
                    Next::Short => assert!(end < PREFIX + fixed),
                    Next::Frame { data: some, .. } => assert_eq!(some.len(), end - PREFIX - fixed),
                    Next::Bad(bad) => panic!("{bad}"),
                }
            }
            let Next::Frame { data: all, len, .. } = next(&bytes) else {
                panic!("no frame")
            };
            assert_eq!((all, len), (&data[..], data.len()));
        }
    }

    #[test]
    fn data_does_not_clash_with_its_target_address() {
        let memory = vec![0_u8; 3 * 4096];
        let page = memory.as_ptr().addr().next_multiple_of(4096) - memory.as_ptr().addr();
        for (at, held) in (0..4096).flat_map(|at| [(at, 0), (at, 24)]) {
            let mut bytes = vec![0; held];
            let fixed = [1; Header::SIZE];
            begin_at(
                &mut bytes,
                FrameKind::Message,
                0,
                &fixed,
                PADDED,
                &memory[page + at],
            );
            assert!(!clash(bytes.len(), at), "{at} {held}");
            let mut rest = &bytes[held..];
            if let Next::Frame {
                kind: FrameKind::Pad,
                len,
                ..
            } = next(rest)
            {
                rest = &rest[PREFIX + len..];
            }
            assert!(matches!(
                next(rest),
                Next::Frame {
                    kind: FrameKind::Message,
                    len: PADDED,
                    ..
                }
            ));
            assert_eq!(bytes.len() - held > 32, clash(held + 32, at));
        }
        assert!(clash(16, 0) && clash(0, 16) && clash(4095, 0) && !clash(0, 0) && !clash(32, 0));
    }

    #[test]
    fn malformed_frames_are_reported() {
        assert_eq!(
            next(&[9, 0, 0, 0, 0, 0, 0, 0]),
            Next::Bad(Bad::FrameKind(0))
        );
        assert_eq!(
            next(&[9, 0, 0, 0, 15, 0, 0, 0]),
            Next::Bad(Bad::FrameKind(15))
        );
        let long = (MAX_PAYLOAD + Header::SIZE + 1) as u32;
        let mut bytes = prefix(FrameKind::Message, 0, 0);
        bytes[..4].copy_from_slice(&long.to_ne_bytes());
        assert_eq!(
            next(&bytes),
            Next::Bad(Bad::Length(FrameKind::Message, long))
        );
        assert_eq!(
            next(&prefix(FrameKind::Atomic, 7, 0)),
            Next::Bad(Bad::Code(FrameKind::Atomic, 7))
        );
        assert_eq!(
            next(&prefix(FrameKind::Signal, 2, 15)),
            Next::Bad(Bad::Length(FrameKind::Signal, 47))
        );
    }

    proptest! {
        /// For any input, the result lies within it and within the bounds of its kind.
        #[test]
        fn any_bytes_are_read(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), small in any::<bool>()) {
            if small {
                // Mostly valid lengths and kinds.
                for (at, most) in [(1, 1), (2, 1), (3, 1), (4, 16), (5, 9)] {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte %= most;
                    }
                }
            }
            match next(&bytes) {
                Next::Short => prop_assert!(bytes.len() < PREFIX + MAX_FIXED),
                Next::Frame { kind, code, fixed, len, data } => {
                    let (size, most) = kind.sizes();
                    prop_assert!(fixed.len() == size && len <= most && data.len() <= len);
                    prop_assert!(PREFIX + size + data.len() <= bytes.len());
                    if kind == FrameKind::Signal {
                        prop_assert!(8 * usize::from(code) <= len);
                    }
                }
                Next::Bad(_) => {}
            }
        }
    }
}
