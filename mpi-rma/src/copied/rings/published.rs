//! What an origin keeps of the entries that it has in a ring.

use std::collections::VecDeque;
use std::ptr;

use mpi_types::error::Result;

use super::{Memory, Ring, Wish, lines_for};

/// What an origin has published in a ring and not taken in yet.
#[derive(Default)]
pub(crate) struct Published {
    /// Where the next entry goes, counted in lines.
    next: u32,
    entries: VecDeque<Entry>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its first line.
    pub number: u32,
    lines: u32,
    /// Where what it asks for goes; NULL for nothing.
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

/// Who carries an entry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The target has done it, or has refused to.
    Target,
    /// The origin has taken it back, and must.
    Origin,
}

// SAFETY: the program has lent the memory, to whichever thread takes the entry in.
unsafe impl Send for Published {}

impl Published {
    /// Nothing, in a ring that begins with this line.
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

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Publishes one more, if there is room.
    ///
    /// # Safety
    /// The ring is always the same, whose origin this is. `input` is valid for `len` bytes.
    pub unsafe fn push(
        &mut self,
        ring: Ring<impl Memory>,
        wish: Wish,
        (input, len): (*const u8, usize),
        output: *mut u8,
    ) -> bool {
        let lines = lines_for(usize::from(wish.len));
        let filler = ring.filler(self.next, lines);
        let first = self.entries.front().map_or(self.next, |entry| entry.number);
        if !ring.has_room(first, self.next, filler + lines) {
            return false;
        }
        // SAFETY: there is room, so the lines are free; the caller's promise for the data.
        unsafe {
            if filler > 0 {
                self.add(filler, ptr::null_mut());
                let number = self.next.wrapping_sub(filler);
                ring.publish(number, filler, Wish::default(), ptr::null(), 0);
            }
            self.add(lines, output);
            let number = self.next.wrapping_sub(lines);
            ring.publish(number, lines, wish, input, len);
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

    /// Ends the earliest, which was served.
    fn end(&mut self, ring: Ring<impl Memory>) {
        if let Some(entry) = self.entries.pop_front() {
            ring.free(entry.number, entry.lines);
        }
    }

    /// Ends all that the target has served; before that, `take_in` looks at each. Returns whether none is left.
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

    /// Ends all. The target is waited for where it has taken an entry; those that it has not are taken back. `settle` is given
    /// each in order, with the side that carries it out; `wait` is called while the target is at one, with a count of how often.
    ///
    /// # Errors
    /// Those of `wait`, with which all that is not ended stays as it is.
    // Not inlined: it comes after many looks, which would save registers for it.
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
        // What is published next comes where the earliest of those taken back was.
        if let Some(first) = self.entries.front() {
            self.next = first.number;
        }
        for entry in self.entries.drain(..) {
            ring.free(entry.number, entry.lines);
        }
        Ok(())
    }

    /// Takes back what the target has not taken. Returns how many entries it has taken, which come first and are to be waited
    /// for.
    fn take_back(&self, ring: Ring<impl Memory>) -> usize {
        let later = self.entries.iter().rev();
        let back = later.take_while(|entry| ring.take_back(entry.number));
        self.entries.len() - back.count()
    }
}
