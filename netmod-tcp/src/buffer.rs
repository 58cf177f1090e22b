//! A page-aligned receive buffer. The kernel's memory is page-aligned, too, and processors copy
//! slowly between addresses that differ by a few bytes within their pages
//! ([`clash`](crate::wire::clash)).

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// Page-aligned memory; empty by default.
#[derive(Default)]
pub(crate) struct Buffer {
    all: Box<[u8]>,
    from: usize,
    len: usize,
}

impl Buffer {
    /// Allocates `len` bytes.
    pub fn new(len: usize) -> Buffer {
        let all = vec![0; len + PAGE].into_boxed_slice();
        let start = all.as_ptr().addr();
        let from = start.next_multiple_of(PAGE) - start;
        Buffer { all, from, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.all[self.from..self.from + self.len]
    }
}

impl DerefMut for Buffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.from..self.from + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_page_aligned() {
        let mut buffer = Buffer::new(100);
        assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE), (100, 0));
        buffer[99] = 7;
        let taken = std::mem::take(&mut buffer);
        assert_eq!((buffer.len(), taken[99]), (0, 7));
    }
}
