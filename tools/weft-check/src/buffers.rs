//! Buffers of operations: overlaps, and changes of a buffer during a send.

use std::ffi::c_void;

use crate::types::Type;

/// The buffer of an operation.
#[derive(Clone)]
pub struct Region {
    /// Contiguous blocks (address, length), in ascending order.
    pieces: Vec<(usize, usize)>,
    /// Whether the operation writes to it.
    pub written: bool,
    /// The checksum at the start of the operation.
    sum: Option<u64>,
}

/// The state of a send buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Unchanged, or unknown.
    Same,
    /// Changed.
    Changed,
    /// Unmapped.
    Gone,
}

impl Region {
    /// Returns the buffer of `count` elements; `None` if it is empty or too complex.
    pub fn of(from: usize, count: u64, datatype: &Type, written: bool) -> Option<Region> {
        let pieces = datatype.pieces(from, count)?;
        let is_some = !pieces.is_empty();
        is_some.then_some(Region {
            pieces,
            written,
            sum: None,
        })
    }

    /// Stores the checksum of a buffer that is sent.
    pub fn note(&mut self) {
        if !self.written {
            self.sum = self.read();
        }
    }

    /// Compares the buffer with the stored checksum.
    pub fn look(&self) -> Sent {
        match (self.sum, self.sum.and_then(|_| self.read())) {
            (Some(before), Some(now)) if before != now => Sent::Changed,
            (Some(_), None) => Sent::Gone,
            _ => Sent::Same,
        }
    }

    /// Returns the checksum. Returns `None` if memory is unmapped: the kernel reads it, so that is
    /// no fault.
    fn read(&self) -> Option<u64> {
        let mut sum = 0xcbf2_9ce4_8422_2325;
        let mut scratch = [0u64; 2048];
        let room = size_of_val(&scratch);
        for &(begin, length) in &self.pieces {
            let mut done = 0;
            while done < length {
                let now = (length - done).min(room);
                scratch[(now - 1) / 8] = 0;
                let local = libc::iovec {
                    iov_base: scratch.as_mut_ptr().cast(),
                    iov_len: now,
                };
                let remote = libc::iovec {
                    iov_base: (begin + done) as *mut c_void,
                    iov_len: now,
                };
                // SAFETY: `scratch` has room for `now` bytes; the kernel checks the other address.
                let got = unsafe {
                    libc::process_vm_readv(
                        libc::getpid(),
                        &raw const local,
                        1,
                        &raw const remote,
                        1,
                        0,
                    )
                };
                if usize::try_from(got) != Ok(now) {
                    return None;
                }
                for word in &scratch[..now.div_ceil(8)] {
                    sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    sum ^= sum >> 29;
                }
                done += now;
            }
        }
        Some(sum)
    }

    /// Returns whether the buffers overlap and at least one operation writes.
    pub fn collides(&self, other: &Region) -> bool {
        if !self.written && !other.written {
            return false;
        }
        let (mut mine, mut theirs) = (
            self.pieces.iter().peekable(),
            other.pieces.iter().peekable(),
        );
        while let (Some((a, length_a)), Some((b, length_b))) = (mine.peek(), theirs.peek()) {
            if a.saturating_add(*length_a) <= *b {
                mine.next();
            } else if b.saturating_add(*length_b) <= *a {
                theirs.next();
            } else {
                return true;
            }
        }
        false
    }
}
