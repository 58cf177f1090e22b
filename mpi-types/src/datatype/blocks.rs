//! Iteration over the runs of a buffer, for iovecs, and cursors for transfers in several steps.

#![allow(unsafe_code, reason = "addresses in callers' memory are passed on")]

use super::Datatype;
use super::walk::{self, Sink};

/// Runs found by one walk.
const BATCH: usize = 16;

/// Iterator over the runs of a buffer: addresses and lengths, in the order of the packed data.
///
/// Adjacent runs are merged within a batch.
pub struct Blocks<'a> {
    datatype: &'a Datatype,
    base: *mut u8,
    /// Position in the packed data of the first byte that is not in `batch`, and the end.
    position: usize,
    end: usize,
    /// Runs that may still be returned.
    left: usize,
    batch: Batch,
    next: usize,
}

struct Batch {
    runs: [(i64, usize); BATCH],
    filled: usize,
}

impl Sink for Batch {
    fn run(&mut self, at: i64, len: usize) -> bool {
        if let Some(last) = self.filled.checked_sub(1) {
            let last = &mut self.runs[last];
            if last.0.wrapping_add(last.1 as i64) == at {
                last.1 += len;
                return true;
            }
        }
        if self.filled == BATCH {
            return false;
        }
        self.runs[self.filled] = (at, len);
        self.filled += 1;
        true
    }
}

impl Blocks<'_> {
    /// Returns the bytes of packed data before the next run: the `skip` to continue with after
    /// `max` runs.
    pub fn position(&self) -> usize {
        let ahead = &self.batch.runs[self.next..self.batch.filled];
        self.position - ahead.iter().map(|run| run.1).sum::<usize>()
    }
}

impl Iterator for Blocks<'_> {
    type Item = (*mut u8, usize);

    fn next(&mut self) -> Option<(*mut u8, usize)> {
        if self.left == 0 {
            return None;
        }
        if self.next == self.batch.filled {
            self.batch.filled = 0;
            self.next = 0;
            let (position, len) = (self.position, self.end - self.position);
            self.datatype.walk(position, len, &mut self.batch);
            let found = &self.batch.runs[..self.batch.filled];
            self.position += found.iter().map(|run| run.1).sum::<usize>();
        }
        let (at, len) = *self.batch.runs[..self.batch.filled].get(self.next)?;
        self.next += 1;
        self.left -= 1;
        Some((self.base.wrapping_offset(at as isize), len))
    }
}

impl Datatype {
    /// Iterates over at most `max` runs of `count` elements at `base`, from byte `skip` of the
    /// packed data on.
    pub fn blocks(&self, base: *mut u8, count: usize, skip: usize, max: usize) -> Blocks<'_> {
        let end = self.size().saturating_mul(count);
        Blocks {
            datatype: self,
            base,
            position: skip.min(end),
            end,
            left: max,
            batch: Batch {
                runs: [(0, 0); BATCH],
                filled: 0,
            },
            next: 0,
        }
    }

    /// Passes `len` bytes of packed data from `skip` on to `sink`.
    #[inline]
    pub(super) fn walk<S: Sink>(&self, skip: usize, len: usize, sink: &mut S) {
        let inner = self.inner();
        let program = inner.program();
        walk::elements(program.node(), inner.shape.extent(), skip, len, sink);
    }
}

/// A position in the packed data of a buffer, for transfers in several steps.
#[derive(Clone, Debug)]
pub struct Cursor {
    datatype: Datatype,
    position: usize,
    end: usize,
}

impl Cursor {
    /// Creates a cursor at the start of `count` elements.
    pub fn new(datatype: Datatype, count: usize) -> Cursor {
        let end = datatype.size().saturating_mul(count);
        Cursor {
            datatype,
            position: 0,
            end,
        }
    }

    /// Returns the bytes before the cursor.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the bytes after the cursor.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Moves the cursor to byte `position` of the packed data, or to the end if `position` is
    /// beyond it.
    pub fn seek(&mut self, position: usize) {
        self.position = position.min(self.end);
    }

    /// Packs as many of the remaining bytes as fit into `out` and returns their number.
    ///
    /// # Safety
    /// The cursor's elements at `base` must be readable and not overlap `out`.
    pub unsafe fn pack(&mut self, base: *const u8, out: &mut [u8]) -> usize {
        let len = out.len().min(self.remaining());
        // SAFETY: the caller promises readable elements (`# Safety`); no more than the remaining
        // bytes are packed.
        unsafe {
            self.datatype
                .pack(base, self.count(), self.position, &mut out[..len])
        };
        self.position += len;
        len
    }

    /// Unpacks as much of `data` as remaining elements take and returns the number of bytes.
    ///
    /// # Safety
    /// The cursor's elements at `base` must be writable and not overlap `data`.
    pub unsafe fn unpack(&mut self, base: *mut u8, data: &[u8]) -> usize {
        let len = data.len().min(self.remaining());
        // SAFETY: the caller promises writable elements (`# Safety`); no more than the remaining
        // bytes are unpacked.
        unsafe {
            self.datatype
                .unpack(base, self.count(), self.position, &data[..len])
        };
        self.position += len;
        len
    }

    fn count(&self) -> usize {
        self.end.checked_div(self.datatype.size()).unwrap_or(0)
    }
}
