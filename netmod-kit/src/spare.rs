//! Reused short buffers, so that a steady flow of messages allocates none.

#![deny(unsafe_code)]

/// Largest buffer that is kept, in bytes; longer ones are allocated and freed each time.
const LONGEST: usize = 1024;
/// Most buffers that are kept.
const MANY: usize = 64;

/// Buffers that are not in use.
#[derive(Default, Debug)]
pub struct Spare {
    list: Vec<Vec<u8>>,
}

impl Spare {
    /// Returns an empty vector with capacity for `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = match len <= LONGEST {
            true => self.list.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        bytes.reserve_exact(len);
        bytes
    }

    /// Takes back a vector from [`Spare::take`], or any other.
    #[inline]
    pub fn give(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() != 0 && bytes.capacity() <= LONGEST && self.list.len() < MANY {
            bytes.clear();
            self.list.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_buffers_are_reused_and_long_ones_freed() {
        let mut spare = Spare::default();
        let mut first = spare.take(100);
        first.extend([1; 100]);
        let place = first.as_ptr();
        spare.give(first);
        let again = spare.take(40);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        spare.give(again);
        let long = spare.take(LONGEST + 1);
        assert_ne!(long.as_ptr(), place);
        spare.give(Vec::with_capacity(LONGEST + 1));
        spare.give(Vec::new());
        assert_eq!(spare.list.len(), 1);
        for _ in 0..2 * MANY {
            spare.give(vec![0; 8]);
        }
        assert_eq!(spare.list.len(), MANY);
    }
}
