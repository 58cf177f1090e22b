//! Page-aligned buffers, as in the OSU micro-benchmarks. The speed of copies depends on the
//! alignment, which allocators choose differently under each library.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// A page-aligned array.
pub struct Pages<T> {
    room: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy> Pages<T> {
    /// Creates an array of `len` copies of `value`.
    pub fn of(value: T, len: usize) -> Pages<T> {
        let room = vec![value; len + PAGE / size_of::<T>()];
        let first = room.as_ptr().align_offset(PAGE);
        Pages { room, first, len }
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.room[self.first..][..self.len]
    }
}

impl<T> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.room[self.first..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_with_a_page_and_hold_what_they_are_to() {
        for len in [0, 1, 100, 5000] {
            let mut floats = Pages::of(1.5_f32, len);
            assert_eq!(floats.as_ptr().addr() % PAGE, 0);
            assert_eq!(*floats, vec![1.5; len]);
            floats.fill(2.0);
            assert_eq!(floats.iter().sum::<f32>(), 2.0 * len as f32);
        }
    }
}
