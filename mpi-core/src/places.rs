//! Where things lie in memory, for debuggers that look at a process which stands still: names and numbers, collected
//! once when the process has come up. Each room tells its own; `weft-mqs` reads them.
//!
//! The compiler may lay structures of Rust out as it likes, so offsets are what it says, and for types of the
//! standard library what is found by looking at one of them.

use std::sync::{Arc, OnceLock};

use mpi_types::local::Local;

/// Names and numbers: offsets within things, addresses of things there are one of, sizes and values.
#[derive(Default)]
pub struct Places(Vec<(&'static str, u64)>);

impl Places {
    /// Tells of one.
    pub fn add(&mut self, name: &'static str, value: usize) {
        self.0.push((name, value as u64));
    }

    /// All of them.
    pub fn all(&self) -> &[(&'static str, u64)] {
        &self.0
    }
}

/// How far into `whole` its part `part` begins.
pub fn within<T, P: ?Sized>(whole: &T, part: &P) -> usize {
    let part = std::ptr::from_ref(part).cast::<u8>() as usize;
    part.wrapping_sub(std::ptr::from_ref(whole) as usize)
}

/// The words of a vector: where its pointer is, and where its length.
pub fn of_vec() -> (usize, usize) {
    const WORDS: usize = size_of::<Vec<u64>>() / 8;
    let mut one: Vec<u64> = Vec::with_capacity(5);
    one.extend([1, 2, 3]);
    // SAFETY: a vector is a pointer and two numbers, without gaps: all bit patterns are good words.
    let words = unsafe { std::ptr::from_ref(&one).cast::<[usize; WORDS]>().read() };
    let place = |wanted| words.iter().position(|word| *word == wanted).unwrap_or(0) * 8;
    (place(one.as_ptr() as usize), place(one.len()))
}

/// The words of a boxed slice, in the same way.
pub fn of_slice() -> (usize, usize) {
    let one: Box<[u64]> = Box::new([1, 2, 3]);
    // SAFETY: a pointer to a slice is two words, the address and the length.
    let words = unsafe { std::ptr::from_ref(&one).cast::<[usize; 2]>().read() };
    let pointer = usize::from(words[0] != one.as_ptr() as usize);
    (pointer * 8, (1 - pointer) * 8)
}

/// How far behind the word that an [`Arc`] is its contents begin.
pub fn of_arc<T>(one: &Arc<T>) -> usize {
    // SAFETY: an `Arc` of a sized type is one word, a pointer that is not null.
    let word = unsafe { std::ptr::from_ref(one).cast::<usize>().read() };
    (Arc::as_ptr(one) as usize).wrapping_sub(word)
}

/// How far into a cell that is filled once its boxed slice lies.
pub fn of_once<T>() -> usize {
    let cell: OnceLock<Box<[T]>> = OnceLock::from(Box::<[T]>::from([]));
    cell.get().map_or(0, |contents| within(&cell, contents))
}

/// How far into a locked text the text lies.
pub fn of_locked_text() -> usize {
    let lock = Local::new(String::new());
    let text = lock.lock();
    within(&lock, &*text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a debugger would find at an address.
    fn word(at: usize) -> usize {
        // SAFETY: the tests below ask for words of things that live.
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
