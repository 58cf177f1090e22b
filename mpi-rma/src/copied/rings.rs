//! Rings in shared memory for requests of an origin to a target on its node, one per pair.
//!
//! A ring consists of cache lines. An *entry* is one or more consecutive lines: a head with the
//! request, and its data. The origin *publishes* entries in order. The target *takes* them in the
//! same order, carries them out, writes results to their data, and adds their lines to its count of
//! served lines. Served entries belong to the origin again.
//!
//! The origin may *take back* entries that the target has not taken, from the latest to the
//! earliest. It continues at the earliest of these, where the target expects the next entry. So one
//! side carries out each entry, and the target carries out the earlier ones.
//!
//! The origin may write to free lines, whose first word is [`EMPTY`]. One line is always free, so
//! that a target that has taken all entries finds an empty line next.

#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod mapped;
pub(crate) mod published;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::primitives::{AtomicU32, Ordering};
use mapped::{DATA, LINE};

/// Bytes of data per entry of a longer access: the target carries out one entry while the origin
/// writes the next.
pub(crate) const PIECE: usize = 4096;

/// Lines. The target publishes its count after each entry of at least this length, since the origin
/// may need the space, and otherwise after several entries.
const LONG: u32 = 8;

// States of a line, in its first word.
const EMPTY: u32 = 0;
const PUBLISHED: u32 = 1;
const TAKEN: u32 = 2;

/// The request of an entry.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct EntryRequest {
    /// Offset in the target's memory.
    pub at: u64,
    /// Bytes, or elements of accumulates.
    pub count: u32,
    /// Bytes of data.
    pub len: u16,
    /// [`kind`].
    pub kind: u8,
    pub op: u8,
    pub element: u8,
    /// Whether the target could not carry it out.
    pub refused: bool,
}

/// Types of requests.
pub(crate) mod kind {
    /// No request; fills the rest of the ring.
    pub const FILLER: u8 = 0;
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ACCUMULATE: u8 = 3;
    pub const GET_ACCUMULATE: u8 = 4;
    /// The data is the compared value and the new value.
    pub const COMPARE_AND_SWAP: u8 = 5;
}

/// The memory of a ring: a count, and lines that begin with their state. Line numbers grow without
/// bound; they are taken modulo the number of lines.
pub(crate) trait Memory: Copy {
    /// Number of lines, a power of two.
    fn lines(self) -> u32;

    /// The target's count of lines that it has served.
    fn count(&self) -> &AtomicU32;

    /// The first word of a line.
    fn state(&self, number: u32) -> &AtomicU32;

    /// Writes an entry of `lines` lines except its state.
    ///
    /// # Safety
    /// The other side must not access the lines, which must not wrap around the end. `input` must be
    /// valid for `len` bytes, which must fit.
    unsafe fn write(
        self,
        number: u32,
        lines: u32,
        request: EntryRequest,
        input: *const u8,
        len: usize,
    );

    /// Number of lines of an entry.
    ///
    /// # Safety
    /// The other side must not write to the entry.
    unsafe fn lines_of(self, number: u32) -> u32;

    /// Returns the request of an entry.
    ///
    /// # Safety
    /// The other side must not write to the entry.
    unsafe fn request(self, number: u32) -> EntryRequest;

    /// Marks an entry as refused.
    ///
    /// # Safety
    /// The other side must not access the entry.
    unsafe fn refuse(self, number: u32);

    /// Returns the address of an entry's data.
    fn data(self, number: u32) -> *mut u8;
}

/// Number of lines of an entry with `len` bytes of data.
fn lines_for(len: usize) -> u32 {
    (DATA + len).div_ceil(LINE) as u32
}

/// A ring, with the operations of both sides.
#[derive(Clone, Copy)]
pub(crate) struct Ring<M>(pub M);

impl<M: Memory> Ring<M> {
    /// Maximum bytes of data of an entry.
    pub fn most(self) -> usize {
        // Half of the ring, so that an entry that does not fit before the end fits at the beginning.
        self.0.lines() as usize / 2 * LINE - DATA
    }

    /// Bytes of all lines.
    pub fn room(self) -> usize {
        self.0.lines() as usize * LINE
    }

    /// Whether an entry was ever published. Must be called only when no entry can be published any
    /// more.
    pub fn is_used(self) -> bool {
        // SAFETY: the caller ensures that the origin does not write; the first entry was at line 0.
        unsafe { self.0.lines_of(0) != 0 }
    }

    /// Number of lines served, of all that were published and not taken back.
    pub fn served(self) -> u32 {
        self.0.count().load(Ordering::Acquire)
    }

    /// Returns the address of an entry's data.
    pub fn data(self, number: u32) -> *mut u8 {
        self.0.data(number)
    }

    /// Number of lines to skip so that an entry of `lines` lines does not wrap around the end.
    fn filler(self, number: u32, lines: u32) -> u32 {
        let rest = self.0.lines() - (number & (self.0.lines() - 1));
        if lines > rest { rest } else { 0 }
    }

    /// Whether `lines` more lines fit if those from `first` to `next` are in use.
    fn has_room(self, first: u32, next: u32, lines: u32) -> bool {
        next.wrapping_sub(first) + lines < self.0.lines()
    }

    /// Publishes an entry of `lines` lines at line `number`.
    ///
    /// # Safety
    /// The caller must be the origin. The lines must be free and must not wrap around the end.
    /// `input` must be valid for `len` bytes, which must fit.
    unsafe fn publish(
        self,
        number: u32,
        lines: u32,
        request: EntryRequest,
        input: *const u8,
        len: usize,
    ) {
        // SAFETY: the lines are free by this function's contract, and the target reads them only after
        // the store below.
        unsafe { self.0.write(number, lines, request, input, len) };
        // Release: a target that sees this state sees the entry, and the free line behind it.
        self.0.state(number).store(PUBLISHED, Ordering::Release);
    }

    /// Takes an entry back. Returns false if the target has taken it.
    fn take_back(self, number: u32) -> bool {
        let state = self.0.state(number);
        // Relaxed: the entry contains only what this side has written.
        state
            .compare_exchange(PUBLISHED, EMPTY, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Frees lines that belong to the origin again.
    fn free(self, number: u32, lines: u32) {
        for line in 0..lines {
            let state = self.0.state(number.wrapping_add(line));
            state.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Returns the request of an entry that belongs to the caller: one that the target has taken, or
    /// that the origin has taken back or finds served.
    pub fn request(self, number: u32) -> EntryRequest {
        // SAFETY: the entry belongs to the caller, so the other side does not write to it.
        unsafe { self.0.request(number) }
    }

    /// Takes the target's next entry, at line `number`. Returns its number of lines.
    #[inline(always)]
    fn take(self, number: u32) -> Option<u32> {
        let state = self.0.state(number);
        if state.load(Ordering::Relaxed) != PUBLISHED {
            return None;
        }
        // Acquire: the target sees the entry that the origin wrote.
        state
            .compare_exchange(PUBLISHED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: taken above, so that it belongs to the target until it is served.
        Some(unsafe { self.0.lines_of(number) }.clamp(1, self.0.lines()))
    }

    /// Takes all entries from line `next` on, and calls `carry_out` with the number of each, which
    /// returns whether it succeeded. Returns whether there were any.
    #[inline(always)]
    pub fn serve(self, next: &mut u32, mut carry_out: impl FnMut(u32) -> bool) -> bool {
        let Some(mut lines) = self.take(*next) else {
            return false;
        };
        loop {
            if !carry_out(*next) {
                // SAFETY: the target has taken the entry, which belongs to it until it is served.
                unsafe { self.0.refuse(*next) };
            }
            *next = next.wrapping_add(lines);
            if lines >= LONG {
                // Release: an origin that sees this count sees the results in the entries.
                self.0.count().store(*next, Ordering::Release);
            }
            match self.take(*next) {
                Some(more) => lines = more,
                None => break,
            }
        }
        // Release: an origin that sees this count sees the results in the entries, and may then
        // overwrite these.
        self.0.count().store(*next, Ordering::Release);
        true
    }
}
