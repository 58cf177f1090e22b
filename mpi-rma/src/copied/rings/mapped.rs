//! The memory of rings where processes share it.

use std::marker::PhantomData;

use super::{Memory, Wish};
use crate::primitives::AtomicU32;

/// Windows of more members have no rings: they would take memory, and time for looking, by the square of the number.
const MOST_MEMBERS: usize = 16;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

#[repr(C)]
struct Head {
    state: AtomicU32,
    /// How many lines the entry has.
    lines: u32,
    wish: Wish,
}

/// Where the data of an entry begins: behind its head, as long as that is without loom.
pub(super) const DATA: usize = 32;

#[cfg(not(loom))]
const _: () = assert!(DATA == size_of::<Head>() && std::mem::offset_of!(Head, state) == 0);

/// How many lines a ring has in a window of so many members: a power of two; none where there are no rings.
fn lines(members: usize) -> u32 {
    match members {
        0..2 => 0,
        2 => 512,
        3 => 256,
        4 => 128,
        5..9 => 32,
        9..=MOST_MEMBERS => 4,
        _ => 0,
    }
}

/// Bytes of a ring; before its lines is one for the target's count.
fn bytes(members: usize) -> usize {
    match lines(members) {
        0 => 0,
        lines => (lines as usize + 1) * LINE,
    }
}

/// Bytes of all rings of a window of so many members: from each to each other.
pub(crate) fn all_bytes(members: usize) -> usize {
    members * members.saturating_sub(1) * bytes(members)
}

/// A ring's memory, as both sides see it.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a> {
    start: *mut u8,
    lines: u32,
    _memory: PhantomData<&'a AtomicU32>,
}

impl Mapped<'_> {
    /// That of the ring from `origin` to `target`; none where a window of so many members has none.
    ///
    /// # Safety
    /// `rings` is the address, a multiple of 64, of [`all_bytes`] that were zero at first, are used by nothing but rings, and
    /// outlive this.
    pub unsafe fn of(rings: *mut u8, members: usize, origin: usize, target: usize) -> Option<Self> {
        let lines = lines(members);
        // Those to one target lie together, since it looks at them one after the other.
        let number = target * members.saturating_sub(1) + origin - usize::from(origin > target);
        (lines > 0 && origin != target).then(|| Mapped {
            start: rings.wrapping_add(number * bytes(members)),
            lines,
            _memory: PhantomData,
        })
    }

    fn line(self, number: u32) -> *mut u8 {
        let place = (number & (self.lines - 1)) as usize + 1;
        self.start.wrapping_add(place * LINE)
    }

    fn head(self, number: u32) -> *mut Head {
        self.line(number).cast()
    }
}

impl Memory for Mapped<'_> {
    fn lines(self) -> u32 {
        self.lines
    }

    fn count(&self) -> &AtomicU32 {
        // SAFETY: the promise of `of`: the first line of the ring holds a word that is used as an atomic one.
        unsafe { &*self.start.cast() }
    }

    fn state(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the promise of `of`; data is written over this word only while no other side looks at it.
        unsafe { &*self.line(number).cast() }
    }

    unsafe fn write(self, number: u32, lines: u32, wish: Wish, input: *const u8, len: usize) {
        let head = self.head(number);
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*head).lines).write(lines);
            (&raw mut (*head).wish).write(wish);
            netmod_kit::copy(input, self.data(number), len);
        }
    }

    unsafe fn lines_of(self, number: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { (*self.head(number)).lines }
    }

    unsafe fn wish(self, number: u32) -> Wish {
        // SAFETY: the caller's promise.
        unsafe { (*self.head(number)).wish }
    }

    unsafe fn refuse(self, number: u32) {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*self.head(number)).wish.refused).write(true) };
    }

    fn data(self, number: u32) -> *mut u8 {
        self.line(number).wrapping_add(DATA)
    }
}
