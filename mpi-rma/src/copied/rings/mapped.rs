//! Memory of rings in segments that processes share.

use std::marker::PhantomData;

use super::{EntryRequest, Memory};
use crate::primitives::AtomicU32;

/// Maximum number of members of a window with rings: their memory, and the time of polling, grow
/// with the square of the number.
const MOST_MEMBERS: usize = 16;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

#[repr(C)]
struct Head {
    state: AtomicU32,
    /// Number of lines of the entry.
    lines: u32,
    request: EntryRequest,
}

/// Offset of an entry's data: the size of its head (without loom).
pub(super) const DATA: usize = 32;

#[cfg(not(loom))]
const _: () = assert!(DATA == size_of::<Head>() && std::mem::offset_of!(Head, state) == 0);

/// Number of lines of a ring in a window of `members`: a power of two, or 0 if it has no rings.
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

/// Bytes of a ring. The target's count has a line of its own before the others.
fn bytes(members: usize) -> usize {
    match lines(members) {
        0 => 0,
        lines => (lines as usize + 1) * LINE,
    }
}

/// Bytes of all rings of a window of `members`: one from each member to each other.
pub(crate) fn all_bytes(members: usize) -> usize {
    members * members.saturating_sub(1) * bytes(members)
}

/// A ring's memory.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a> {
    start: *mut u8,
    lines: u32,
    _memory: PhantomData<&'a AtomicU32>,
}

impl Mapped<'_> {
    /// Returns the memory of the ring from `origin` to `target`. `None` if the window has no rings.
    ///
    /// # Safety
    /// `rings` must be a multiple of 64, and the address of [`all_bytes`] bytes that were initially
    /// zero, are used only by rings, and outlive the result.
    pub unsafe fn of(rings: *mut u8, members: usize, origin: usize, target: usize) -> Option<Self> {
        let lines = lines(members);
        // The rings to a target are adjacent, since it polls them in sequence.
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
        // SAFETY: the first line of the ring holds a word that is only accessed atomically (contract
        // of `of`).
        unsafe { &*self.start.cast() }
    }

    fn state(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the line lies in the ring's memory (contract of `of`). Data overwrites this word only
        // while the other side does not access the line (contract of `write`).
        unsafe { &*self.line(number).cast() }
    }

    unsafe fn write(
        self,
        number: u32,
        lines: u32,
        request: EntryRequest,
        input: *const u8,
        len: usize,
    ) {
        let head = self.head(number);
        // SAFETY: the lines belong to the caller, and `input` is valid (this function's contract).
        unsafe {
            (&raw mut (*head).lines).write(lines);
            (&raw mut (*head).request).write(request);
            netmod_kit::copy(input, self.data(number), len);
        }
    }

    unsafe fn lines_of(self, number: u32) -> u32 {
        // SAFETY: the other side does not write to the entry (this function's contract).
        unsafe { (*self.head(number)).lines }
    }

    unsafe fn request(self, number: u32) -> EntryRequest {
        // SAFETY: the other side does not write to the entry (this function's contract).
        unsafe { (*self.head(number)).request }
    }

    unsafe fn refuse(self, number: u32) {
        // SAFETY: the other side does not access the entry (this function's contract).
        unsafe { (&raw mut (*self.head(number)).request.refused).write(true) };
    }

    fn data(self, number: u32) -> *mut u8 {
        self.line(number).wrapping_add(DATA)
    }
}
