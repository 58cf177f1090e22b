//! Memory layout for debuggers that inspect a stopped process: names and numbers, collected once at
//! start-up. Each module adds its own; `weft-mqs` reads them.
//!
//! The compiler may lay out Rust structures in any order, so offsets come from the compiler, and
//! those of standard types from an inspection of a value.

use std::sync::{Arc, OnceLock};

use mpi_types::local::Local;

/// Named numbers: offsets of fields, addresses of statics, sizes and values.
#[derive(Default)]
pub struct Layout(Vec<(&'static str, u64)>);

impl Layout {
    /// Adds a number.
    pub fn add(&mut self, name: &'static str, value: usize) {
        self.0.push((name, value as u64));
    }

    /// Returns all numbers.
    pub fn all(&self) -> &[(&'static str, u64)] {
        &self.0
    }
}

/// Returns the offset of `part` in `whole`.
pub fn offset_in<T, P: ?Sized>(whole: &T, part: &P) -> usize {
    let part = std::ptr::from_ref(part).cast::<u8>() as usize;
    part.wrapping_sub(std::ptr::from_ref(whole) as usize)
}

/// Returns the offsets of a vector's pointer and length.
pub fn of_vec() -> (usize, usize) {
    const WORDS: usize = size_of::<Vec<u64>>() / 8;
    let mut one: Vec<u64> = Vec::with_capacity(5);
    one.extend([1, 2, 3]);
    // SAFETY: a vector is three initialised words without padding.
    let words = unsafe { std::ptr::from_ref(&one).cast::<[usize; WORDS]>().read() };
    let place = |wanted| words.iter().position(|word| *word == wanted).unwrap_or(0) * 8;
    (place(one.as_ptr() as usize), place(one.len()))
}

/// Returns the offsets of a boxed slice's pointer and length.
pub fn of_slice() -> (usize, usize) {
    let one: Box<[u64]> = Box::new([1, 2, 3]);
    // SAFETY: a pointer to a slice is two initialised words, the address and the length.
    let words = unsafe { std::ptr::from_ref(&one).cast::<[usize; 2]>().read() };
    let pointer = usize::from(words[0] != one.as_ptr() as usize);
    (pointer * 8, (1 - pointer) * 8)
}

/// Returns the offset of an [`Arc`]'s contents from its pointer.
pub fn of_arc<T>(one: &Arc<T>) -> usize {
    // SAFETY: an `Arc` of a sized type is one word, a non-null pointer.
    let word = unsafe { std::ptr::from_ref(one).cast::<usize>().read() };
    (Arc::as_ptr(one) as usize).wrapping_sub(word)
}

/// Returns the offset of the boxed slice in a `OnceLock`.
pub fn of_once<T>() -> usize {
    let cell: OnceLock<Box<[T]>> = OnceLock::from(Box::<[T]>::from([]));
    cell.get().map_or(0, |contents| offset_in(&cell, contents))
}

/// Returns the offset of the text in a locked text.
pub fn of_locked_text() -> usize {
    let lock = Local::new(String::new());
    let text = lock.lock();
    offset_in(&lock, &*text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a word as a debugger would.
    fn word(at: usize) -> usize {
        // SAFETY: the tests below pass addresses of words in live values.
        unsafe { (at as *const usize).read() }
    }

    #[test]
    fn words_of_the_standard_librarys_types_are_found() {
        let vec = vec![7_u64; 9];
        let (pointer, length) = of_vec();
        let at = std::ptr::from_ref(&vec) as usize;
        assert_eq!(word(at + pointer), vec.as_ptr() as usize);
        assert_eq!(word(at + length), 9);

        let slice: Box<[u64]> = vec.into_boxed_slice();
        let (pointer, length) = of_slice();
        let at = std::ptr::from_ref(&slice) as usize;
        assert_eq!(word(at + pointer), slice.as_ptr() as usize);
        assert_eq!(word(at + length), 9);

        let arc = Arc::new(0x1234_5678_usize);
        let at = std::ptr::from_ref(&arc) as usize;
        assert_eq!(word(word(at) + of_arc(&arc)), 0x1234_5678);

        let cell: OnceLock<Box<[u64]>> = OnceLock::from(Box::<[u64]>::from([5]));
        let at = std::ptr::from_ref(&cell) as usize + of_once::<u64>();
        assert_eq!(word(word(at + pointer)), 5);

        let text = Local::new("text".to_owned());
        let at = std::ptr::from_ref(&text) as usize + of_locked_text();
        let (_, length) = of_vec();
        assert_eq!(word(at + length), 4);
    }
}
