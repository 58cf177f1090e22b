//! Rings in shared memory by which an origin leaves small accesses for a target of its node: one for each pair.
//!
//! A ring has lines as long as a cache's. An *entry* is one line or several in a row: a head, which says what is to be done,
//! and the data behind it. The origin *publishes* entries one behind the other; the target *takes* them in the same order,
//! carries them out, writes what was asked for to their data, and counts their lines as served. Served entries are the
//! origin's again.
//!
//! The origin may also *take back* what the target has not taken, from the latest to the earliest, and goes on where the
//! earliest of these was, which is where the target looks for the next: so each entry is carried out by one of the two, and
//! those that the target carries out are the earlier ones.
//!
//! A line is the origin's to write to while it is free, and the first word of a free line is [`EMPTY`]. One line is always
//! free: the target looks there for the next entry when it has taken all, and finds none.

#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod mapped;
pub(crate) mod published;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::primitives::{AtomicU32, Ordering};
use mapped::{DATA, LINE};

/// Bytes of an entry's data, where an access has more: the target carries out one while the origin writes the next.
pub(crate) const PIECE: usize = 4096;

/// The origin hears at once that an entry of so many lines is served, as it may wait for its room; of others together.
const LONG: u32 = 8;

/// The first word of a line.
const EMPTY: u32 = 0;
const PUBLISHED: u32 = 1;
const TAKEN: u32 = 2;

/// What is to be done.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct Wish {
    /// Where in the target's memory.
    pub at: u64,
    /// Bytes, or elements of accumulates.
    pub count: u32,
    /// Bytes of data.
    pub len: u16,
    /// [`kind`].
    pub kind: u8,
    pub op: u8,
    pub element: u8,
    /// The target could not do it.
    pub refused: bool,
}

/// What an entry asks for.
pub(crate) mod kind {
    /// Nothing: it fills the rest of the ring.
    pub const FILLER: u8 = 0;
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ACCUMULATE: u8 = 3;
    pub const GET_ACCUMULATE: u8 = 4;
    /// The data is what is compared, and what replaces it.
    pub const COMPARE_AND_SWAP: u8 = 5;
}

/// What a ring consists of: a count, and lines, at whose heads are their states. Numbers of lines are counted on around and
/// around.
pub(crate) trait Memory: Copy {
    /// How many lines there are: a power of two.
    fn lines(self) -> u32;

    /// The target's count of lines that it has served.
    fn count(&self) -> &AtomicU32;

    /// The first word of a line.
    fn state(&self, number: u32) -> &AtomicU32;

    /// Writes an entry of so many lines, all but its state.
    ///
    /// # Safety
    /// Nobody else looks at the lines meanwhile, which don't go around the end. `input` is valid for `len` bytes, which fit.
    unsafe fn write(self, number: u32, lines: u32, wish: Wish, input: *const u8, len: usize);

    /// How many lines an entry has.
    ///
    /// # Safety
    /// Nobody else writes to the entry.
    unsafe fn lines_of(self, number: u32) -> u32;

    /// What an entry asks for.
    ///
    /// # Safety
    /// Nobody else writes to the entry.
    unsafe fn wish(self, number: u32) -> Wish;

    /// Writes to an entry that it is refused.
    ///
    /// # Safety
    /// Nobody else looks at the entry.
    unsafe fn refuse(self, number: u32);

    /// The data of the entry at a line.
    fn data(self, number: u32) -> *mut u8;
}

/// The lines of an entry with so much data.
fn lines_for(len: usize) -> u32 {
    (DATA + len).div_ceil(LINE) as u32
}

/// A ring, as both sides see it.
#[derive(Clone, Copy)]
pub(crate) struct Ring<M>(pub M);

impl<M: Memory> Ring<M> {
    /// Bytes of data that an entry can have.
    pub fn most(self) -> usize {
        // Half of it, so that one that doesn't fit behind the others fits before them.
        self.0.lines() as usize / 2 * LINE - DATA
    }

    /// Bytes of all lines.
    pub fn room(self) -> usize {
        self.0.lines() as usize * LINE
    }

    /// Whether anything was ever published. To be asked when nobody publishes any more.
    pub fn is_used(self) -> bool {
        // SAFETY: nobody writes to it; the first entry was at this line.
        unsafe { self.0.lines_of(0) != 0 }
    }

    /// How many lines the target has served, of all that were ever published and not taken back.
    pub fn served(self) -> u32 {
        self.0.count().load(Ordering::Acquire)
    }

    /// The data of the entry at a line.
    pub fn data(self, number: u32) -> *mut u8 {
        self.0.data(number)
    }

    /// How many lines must be left out before an entry of so many, which is not to go around the end.
    fn filler(self, number: u32, lines: u32) -> u32 {
        let rest = self.0.lines() - (number & (self.0.lines() - 1));
        if lines > rest { rest } else { 0 }
    }

    /// Whether there is room for so many lines more where those from `first` to `next` are in use.
    fn has_room(self, first: u32, next: u32, lines: u32) -> bool {
        next.wrapping_sub(first) + lines < self.0.lines()
    }

    /// Publishes an entry of so many lines at line `number`.
    ///
    /// # Safety
    /// The caller is the origin, and the lines are free and don't go around the end. `input` is valid for `len` bytes, which
    /// fit.
    unsafe fn publish(self, number: u32, lines: u32, wish: Wish, input: *const u8, len: usize) {
        // SAFETY: free lines are the origin's; the target reads them when the state says so.
        unsafe { self.0.write(number, lines, wish, input, len) };
        // Release: the target comes to what was written, and to the line behind the entry as a free one, after it.
        self.0.state(number).store(PUBLISHED, Ordering::Release);
    }

    /// Takes an entry back. Returns whether it was not taken.
    fn take_back(self, number: u32) -> bool {
        let state = self.0.state(number);
        // Relaxed: what is here then is what this side has published, and no other has written to.
        state
            .compare_exchange(PUBLISHED, EMPTY, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Makes lines free that the origin has again.
    fn free(self, number: u32, lines: u32) {
        for line in 0..lines {
            let state = self.0.state(number.wrapping_add(line));
            state.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// What an entry asks for that the caller has: the target one that it has taken, the origin any that it has taken back or
    /// that is served.
    pub fn wish(self, number: u32) -> Wish {
        // SAFETY: nobody else writes to it.
        unsafe { self.0.wish(number) }
    }

    /// Has the target take the entry at line `number`, where it has come to. Gives how many lines it has.
    #[inline(always)]
    fn take(self, number: u32) -> Option<u32> {
        let state = self.0.state(number);
        if state.load(Ordering::Relaxed) != PUBLISHED {
            return None;
        }
        // Acquire: what the origin wrote before is read here.
        state
            .compare_exchange(PUBLISHED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: taken, so it is the target's until it is served.
        Some(unsafe { self.0.lines_of(number) }.clamp(1, self.0.lines()))
    }

    /// Has the target take all that there is from line `next` on, where it has come to, and have it carried out by
    /// `carry_out`, which is given the number of each and says whether it could. Returns whether there was something.
    #[inline(always)]
    pub fn serve(self, next: &mut u32, mut carry_out: impl FnMut(u32) -> bool) -> bool {
        let Some(mut lines) = self.take(*next) else {
            return false;
        };
        loop {
            if !carry_out(*next) {
                // SAFETY: it is the target's until it is served.
                unsafe { self.0.refuse(*next) };
            }
            *next = next.wrapping_add(lines);
            if lines >= LONG {
                // Release: as below.
                self.0.count().store(*next, Ordering::Release);
            }
            match self.take(*next) {
                Some(more) => lines = more,
                None => break,
            }
        }
        // Release: the origin comes to what was written to entries, and writes to them itself, after it.
        self.0.count().store(*next, Ordering::Release);
        true
    }
}
