//! The memory of operations: whether two use the same, and whether what is being sent was changed.

use std::ffi::c_void;

use crate::types::Type;

/// The memory of an operation.
#[derive(Clone)]
pub struct Region {
    /// Addresses and lengths, in their order in memory.
    pieces: Vec<(usize, usize)>,
    /// Whether the operation writes there.
    pub written: bool,
    /// A sum over what was there when the operation began.
    sum: Option<u64>,
}

/// What has become of memory that is being sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is as it was, or nothing is known.
    Same,
    /// It has other contents.
    Changed,
    /// It is there no more.
    Gone,
}

impl Region {
    /// That of so many elements.
    pub fn of(from: usize, count: u64, datatype: &Type, written: bool) -> Option<Region> {
        let pieces = datatype.pieces(from, count)?;
        let is_some = !pieces.is_empty();
        is_some.then_some(Region {
            pieces,
            written,
            sum: None,
        })
    }

    /// Remembers what is there.
    pub fn note(&mut self) {
        if !self.written {
            self.sum = self.read();
        }
    }

    /// Whether it is what it was.
    pub fn look(&self) -> Sent {
        match (self.sum, self.sum.and_then(|_| self.read())) {
            (Some(before), Some(now)) if before != now => Sent::Changed,
            (Some(_), None) => Sent::Gone,
            _ => Sent::Same,
        }
    }

    /// A sum; none if it can't be read. The kernel reads, since memory may be gone.
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
                // SAFETY: the place has room, and the kernel finds out whether the other can be read.
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

    /// Whether both have bytes in common, and somebody writes there.
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
