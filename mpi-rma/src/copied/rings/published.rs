//! An origin's record of the entries that it has published in a ring.

use std::collections::VecDeque;
use std::ptr;

use mpi_types::error::Result;

use super::{EntryRequest, Memory, Ring, lines_for};

/// The entries that an origin has published in a ring and not completed.
#[derive(Default)]
pub(crate) struct Published {
    /// Line of the next entry.
    next: u32,
    entries: VecDeque<Entry>,
}

/// A published entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its first line.
    pub number: u32,
    lines: u32,
    /// Buffer for the data that it reads; NULL for none.
    pub output: *mut u8,
}

impl Entry {
    /// Whether the target has served it.
    #[inline(always)]
    fn is_served(self, ring: Ring<impl Memory>) -> bool {
        let end = self.number.wrapping_add(self.lines);
        ring.served().wrapping_sub(end) as i32 >= 0
    }
}

/// The side that carries out an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The target has carried it out, or has refused it.
    Target,
    /// The origin has taken it back, and must carry it out.
    Origin,
}

// SAFETY: `output` is a buffer that the program leaves to the library until the access is complete,
// by whichever thread.
unsafe impl Send for Published {}

impl Published {
    /// Makes an empty record of a ring that begins at this line.
    #[cfg(loom)]
    pub fn at(next: u32) -> Published {
        Published {
            next,
            ..Published::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Publishes an entry. Returns false if the ring has no space.
    ///
    /// # Safety
    /// All calls must be for the same ring, whose origin is this process. `input` must be valid for
    /// `len` bytes.
    pub unsafe fn push(
        &mut self,
        ring: Ring<impl Memory>,
        request: EntryRequest,
        (input, len): (*const u8, usize),
        output: *mut u8,
    ) -> bool {
        let lines = lines_for(usize::from(request.len));
        let filler = ring.filler(self.next, lines);
        let first = self.entries.front().map_or(self.next, |entry| entry.number);
        if !ring.has_room(first, self.next, filler + lines) {
            return false;
        }
        // SAFETY: the ring has space, so the lines are free, and `filler` lines keep the entry from
        // wrapping around; `input` is valid by this function's contract.
        unsafe {
            if filler > 0 {
                self.add(filler, ptr::null_mut());
                let number = self.next.wrapping_sub(filler);
                ring.publish(number, filler, EntryRequest::default(), ptr::null(), 0);
            }
            self.add(lines, output);
            let number = self.next.wrapping_sub(lines);
            ring.publish(number, lines, request, input, len);
        }
        true
    }

    fn add(&mut self, lines: u32, output: *mut u8) {
        self.entries.push_back(Entry {
            number: self.next,
            lines,
            output,
        });
        self.next = self.next.wrapping_add(lines);
    }

    /// Removes the earliest entry, which was served, and frees its lines.
    fn end(&mut self, ring: Ring<impl Memory>) {
        if let Some(entry) = self.entries.pop_front() {
            ring.free(entry.number, entry.lines);
        }
    }

    /// Removes the entries that the target has served, after calling `take_in` for each. Returns
    /// whether no entry is left.
    #[inline(always)]
    pub fn end_served(&mut self, ring: Ring<impl Memory>, mut take_in: impl FnMut(Entry)) -> bool {
        while let Some(&first) = self.entries.front() {
            if !first.is_served(ring) {
                return false;
            }
            take_in(first);
            self.end(ring);
        }
        true
    }

    /// Removes all entries: takes back those that the target has not taken, and waits for the others.
    ///
    /// Calls `settle` for each entry in order, with the side that carries it out. Calls `wait` with a
    /// count while the target carries an entry out.
    ///
    /// # Errors
    /// Those of `wait`. The remaining entries stay.
    // Not inlined: it follows many polls, which would save registers for it.
    #[inline(never)]
    pub fn end_all(
        &mut self,
        ring: Ring<impl Memory>,
        mut settle: impl FnMut(Entry, Side),
        mut wait: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let taken = self.take_back(ring);
        for _ in 0..taken {
            let Some(&first) = self.entries.front() else {
                break;
            };
            let mut tries = 0u32;
            while !first.is_served(ring) {
                tries = tries.wrapping_add(1);
                wait(tries)?;
            }
            settle(first, Side::Target);
            self.end(ring);
        }
        for entry in &self.entries {
            settle(*entry, Side::Origin);
        }
        // The next entry is published where the earliest of those taken back was.
        if let Some(first) = self.entries.front() {
            self.next = first.number;
        }
        for entry in self.entries.drain(..) {
            ring.free(entry.number, entry.lines);
        }
        Ok(())
    }

    /// Takes back the entries that the target has not taken. Returns the number of those that it has
    /// taken, which are the first ones.
    fn take_back(&self, ring: Ring<impl Memory>) -> usize {
        let later = self.entries.iter().rev();
        let back = later.take_while(|entry| ring.take_back(entry.number));
        self.entries.len() - back.count()
    }
}
