//! The pipes that this lane has opened, and their memory: units of one size, each of which holds a
//! chunk of a message.
//!
//! Units are assigned round and round. All of them together are twice as large as a core's own
//! cache, since what lies in another core's own cache is read at a quarter of the speed of what had
//! to leave it (docs/performance.md, "Long messages within a node"). Memory that no process has
//! touched is slower still: the first messages get as few units as they need, and more are
//! allocated as messages go through them.

use std::collections::VecDeque;
use std::mem;

use netmod::{Peer, Pipe, PushProgress, Source, VciId};
use shmring::{RING, ReceiverProgress};

use crate::open_pipe::{OpenPipe, PipeName, next_row, row};
use crate::segment::{PIPES, Segment, UNIT, UNITS, more_units};

/// Most units that a pipe without space for its whole message gets at a time: each look at the
/// receiver's progress costs a cache line.
const AT_ONCE: usize = 8;
/// Chunks that go through the units for each unit that is allocated without need. A new one takes as
/// long as some ten copies; while the units fit into the sender's own cache, a near receiver takes
/// two to three times as long for each chunk (docs/performance.md#a-static-choice-for-long-messages).
const PAYS: usize = 4;
/// The same for streaming stores, which gain a tenth by more units.
const PAYS_STREAMING: usize = 64;
/// Pipes that a search for free units looks at in vain before it ends.
const PATIENCE: usize = 8;
/// Searches of which one looks at all pipes.
const EVERY: u32 = 16;

/// The open pipes of a lane.
#[derive(Default)]
pub(crate) struct Sending {
    /// Number of chunks that have had a unit, wrapping.
    given: usize,
    /// Number of allocated units.
    units: usize,
    /// Whether there was no memory for more units.
    is_refused: bool,
    /// The pipes, by slot.
    pipes: Vec<Option<OpenPipe>>,
    /// Slots in use, in the order in which they were opened.
    order: VecDeque<usize>,
    /// The other slots.
    slots: Vec<usize>,
    /// A bit for each free unit.
    free: u128,
    /// The unit at which the search for a free one begins.
    next: u32,
    generation: u32,
    searches: u32,
    /// Holds data with gaps before streaming stores move it.
    scratch: Vec<u8>,
}

impl Sending {
    /// Returns whether there is space for a pipe with this many units.
    #[inline]
    pub fn has_space(&mut self, own: &Segment, units: usize) -> bool {
        let is_row = || next_row(self.free, self.next, units as u32).is_some();
        !self.slots.is_empty() && (units == 0 || is_row()) || self.makes_space(own, units)
    }

    /// Frees what receivers are done with, or allocates more units, until there is space.
    #[inline(never)]
    fn makes_space(&mut self, own: &Segment, units: usize) -> bool {
        if self.units == 0 && !self.grow(own) {
            return false;
        }
        if !self.has(units) {
            self.search(own);
        }
        while !self.slots.is_empty() && !self.has(units) && self.grow(own) {}
        self.has(units)
    }

    fn has(&self, units: usize) -> bool {
        !self.slots.is_empty() && (units == 0 || self.free.count_ones() as usize >= units)
    }

    /// Allocates more units, if there may be more.
    #[cold]
    fn grow(&mut self, own: &Segment) -> bool {
        if self.is_refused || self.units == UNITS {
            return false;
        }
        let units = more_units(self.units);
        if !own.reserve_units(self.units, units) {
            self.is_refused = true;
            return false;
        }
        if self.units == 0 {
            self.pipes.resize_with(PIPES, || None);
            self.slots = (0..PIPES).rev().collect();
        }
        for unit in self.units..units {
            self.free |= 1 << unit;
        }
        self.units = units;
        true
    }

    /// Opens a pipe after [`Sending::has_space`]: with units for the `whole` message, or with the
    /// first one only.
    pub fn open(
        &mut self,
        own: &Segment,
        to: (Peer, VciId),
        len: usize,
        is_streaming: bool,
        whole: bool,
    ) -> Option<PipeName> {
        let chunks = u32::try_from(len.div_ceil(UNIT)).ok()?;
        let slot = self.slots.pop()?;
        self.generation = self.generation.wrapping_add(1).max(1);
        let generation = self.generation;
        let mut pipe = OpenPipe::new(to, generation, (len, chunks), is_streaming);
        self.given = self.given.wrapping_add(chunks as usize);
        match whole
            .then(|| next_row(self.free, self.next, chunks))
            .flatten()
        {
            Some(first) => {
                self.free &= !row(first, chunks);
                self.next = (first + chunks) % u128::BITS;
                (first..first + chunks).for_each(|unit| pipe.assign(unit as u8));
                pipe.row = Some(first as u8);
            }
            None => {
                for _ in 0..if whole { chunks } else { 1 } {
                    self.take_unit(own, is_streaming)
                        .into_iter()
                        .for_each(|unit| pipe.assign(unit));
                }
            }
        }
        self.pipes[slot] = Some(pipe);
        self.order.push_back(slot);
        Some(PipeName {
            generation,
            slot,
            row: None,
        })
    }

    fn find(&mut self, pipe: Pipe) -> Option<(usize, &mut OpenPipe)> {
        let name = PipeName::parse(pipe)?;
        let open = self.pipes.get_mut(name.slot)?.as_mut()?;
        (open.generation == name.generation).then_some((name.slot, open))
    }

    /// Returns the receiver of an open pipe.
    pub fn receiver(&mut self, pipe: Pipe) -> Option<(Peer, VciId)> {
        self.find(pipe).map(|(_, open)| (open.to, open.vci))
    }

    /// Writes a whole message to a pipe that was just opened and has the units for it, before the
    /// receiver is notified. Returns the name for the receiver, which may say where the data is.
    pub fn write(&mut self, own: &Segment, name: PipeName, mut source: Source<'_>) -> Pipe {
        let pipe = name.word();
        let Some(open) = self.pipes.get_mut(name.slot).and_then(Option::as_mut) else {
            return pipe;
        };
        let Some(first) = open.row else {
            self.push(own, pipe, &mut 0, source);
            return pipe;
        };
        open.written = open.chunks;
        let (is_streaming, len) = (open.is_streaming, open.len);
        // SAFETY: the units are within the segment and were assigned to this message by `open`;
        // their last readers have ended their pipes.
        let units = unsafe {
            let start = own.room().add(usize::from(first) * UNIT);
            std::slice::from_raw_parts_mut(start, len)
        };
        self.fill(is_streaming, units, 0, &mut source);
        let row = Some(first);
        PipeName { row, ..name }.word()
    }

    /// Writes and publishes chunks as [`netmod::Pipes::push`] does, without waking the receiver.
    pub fn push(
        &mut self,
        own: &Segment,
        pipe: Pipe,
        moved: &mut usize,
        mut source: Source<'_>,
    ) -> PushProgress {
        let mut any = false;
        loop {
            let Some((slot, open)) = self.find(pipe) else {
                return PushProgress::Released;
            };
            let chunk = open.written;
            *moved = (chunk as usize * UNIT).min(open.len);
            if *moved == open.len {
                return PushProgress::Whole;
            }
            if chunk == open.assigned {
                match self.assign(own, slot) {
                    Some(true) => continue,
                    Some(false) => return PushProgress::Part(any),
                    None => return PushProgress::Released,
                }
            }
            let (generation, unit) = (open.generation, open.unit(chunk));
            let chunks = open.next_row();
            let len = (open.len - *moved).min(chunks as usize * UNIT);
            let is_streaming = open.is_streaming;
            open.written += chunks;
            // SAFETY: the units are within the segment and were assigned to these chunks; their last
            // readers have reported that they are done with them.
            let out = unsafe {
                let start = own.room().add(usize::from(unit) * UNIT);
                std::slice::from_raw_parts_mut(start, len)
            };
            self.fill(is_streaming, out, *moved, &mut source);
            for number in 0..chunks {
                own.words(slot)
                    .publish(generation, chunk + number, unit + number as u8);
            }
            any = true;
        }
    }

    /// Writes the message's bytes from `at` on to `out`.
    fn fill(&mut self, is_streaming: bool, out: &mut [u8], at: usize, source: &mut Source<'_>) {
        let len = out.len();
        match (source, is_streaming) {
            (Source::Bytes(data), true) => stream(&data[at..at + len], out),
            (Source::Bytes(data), false) => {
                let data = &data[at..at + len];
                // SAFETY: two slices of the same length, of which the mutable one overlaps no other.
                unsafe { netmod_kit::copy_to_shared(data.as_ptr(), out.as_mut_ptr(), len) };
            }
            (Source::Parts(fill), true) => {
                self.scratch.resize(len.max(UNIT), 0);
                fill(at, &mut self.scratch[..len]);
                stream(&self.scratch[..len], out);
            }
            (Source::Parts(fill), false) => fill(at, out),
        }
    }

    /// Assigns units to the next chunks of a pipe. Returns whether there was one, or `None` if the
    /// receiver is done with the pipe.
    fn assign(&mut self, own: &Segment, slot: usize) -> Option<bool> {
        if self.is_over(own, slot) {
            self.order.retain(|&one| one != slot);
            return None;
        }
        let open = self.pipes[slot].as_ref()?;
        let is_streaming = open.is_streaming;
        let in_flight = (open.assigned - open.freed) as usize;
        let most = (RING - in_flight)
            .min((open.chunks - open.assigned) as usize)
            .min(AT_ONCE);
        if self.free == 0 && most > 0 {
            self.search(own);
        }
        let mut any = false;
        for _ in 0..most {
            let unit = self.take_unit(own, is_streaming);
            let open = self.pipes[slot].as_mut()?;
            let Some(unit) = unit.or_else(|| open.spare.take()) else {
                break;
            };
            open.assign(unit);
            any = true;
        }
        Some(any)
    }

    fn take_unit(&mut self, own: &Segment, is_streaming: bool) -> Option<u8> {
        let is_lap_over = self.free >> self.next == 0;
        let chunks = match is_streaming {
            true => PAYS_STREAMING,
            false => PAYS,
        };
        let pays = || self.given / chunks > self.units;
        if self.free == 0 || is_lap_over && pays() {
            self.grow(own);
        }
        if self.free == 0 {
            return None;
        }
        let ahead = self.free.rotate_right(self.next).trailing_zeros();
        let unit = (self.next + ahead) % u128::BITS;
        self.free &= !(1 << unit);
        self.next = (unit + 1) % u128::BITS;
        Some(unit as u8)
    }

    /// Frees the units that receivers are done with, oldest pipes first.
    fn search(&mut self, own: &Segment) {
        self.searches = self.searches.wrapping_add(1);
        let all = self.searches.is_multiple_of(EVERY);
        let (mut at, mut in_vain) = (0, 0);
        while let Some(&slot) = self.order.get(at) {
            let free = self.free;
            if self.is_over(own, slot) {
                self.order.remove(at);
            } else {
                at += 1;
            }
            in_vain = if self.free == free { in_vain + 1 } else { 0 };
            if in_vain > PATIENCE && !all {
                break;
            }
        }
    }

    /// Frees the units of a pipe that its receiver is done with. Returns whether the receiver is
    /// done with all; then the slot is free, and the caller removes it from `order`.
    fn is_over(&mut self, own: &Segment, slot: usize) -> bool {
        let Some(open) = &mut self.pipes[slot] else {
            return true;
        };
        match own.words(slot).taken(open.generation) {
            ReceiverProgress::Chunks(taken) => {
                while open.freed < taken.min(open.written) {
                    let unit = open.unit(open.freed);
                    open.freed += 1;
                    match open.spare {
                        None if open.assigned < open.chunks => open.spare = Some(unit),
                        _ => self.free |= 1 << unit,
                    }
                }
                false
            }
            ReceiverProgress::Done => {
                self.close(slot);
                true
            }
        }
    }

    /// Frees the slot and the units of a pipe. The caller removes it from `order`.
    fn close(&mut self, slot: usize) {
        if let Some(open) = self.pipes[slot].take() {
            self.free |= open.held();
            self.slots.push(slot);
        }
    }

    /// Gives up a pipe that its receiver does not read.
    pub fn abandon(&mut self, pipe: Pipe) {
        if let Some((slot, _)) = self.find(pipe) {
            self.close(slot);
            self.order.retain(|&one| one != slot);
        }
    }

    /// Returns whether the receivers are done with all pipes.
    pub fn is_empty(&mut self, own: &Segment) -> bool {
        let mut order = mem::take(&mut self.order);
        order.retain(|&slot| !self.is_over(own, slot));
        self.order = order;
        self.order.is_empty()
    }

    /// Closes the pipes to a lost peer, which reads no more.
    pub fn forget(&mut self, peer: Peer) {
        for slot in 0..self.pipes.len() {
            let open = self.pipes[slot].as_ref();
            if open.is_some_and(|open| open.to == peer) {
                self.close(slot);
                self.order.retain(|&one| one != slot);
            }
        }
    }
}

/// Copies by stores that bypass the caches.
fn stream(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: two slices of the same length, of which the mutable one overlaps no other.
    unsafe { netmod_kit::copy_non_temporal(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::STEP;

    /// Opens and ends pipes of one unit, one after the other. Returns the number of units.
    fn units_after(sending: &mut Sending, own: &Segment, messages: usize) -> usize {
        for _ in 0..messages {
            assert!(sending.has_space(own, 1));
            let name = sending.open(own, (1, 0), UNIT, false, true).unwrap();
            sending.abandon(name.word());
        }
        sending.units
    }

    #[test]
    fn memory_is_allocated_as_it_pays_or_when_it_is_needed() {
        let own = Segment::create().unwrap();
        let mut sending = Sending::default();
        let mut units = more_units(0);
        // At most one step in each lap.
        for message in 0..UNITS * (PAYS + UNITS / STEP) {
            let now = units_after(&mut sending, &own, 1);
            assert!(now == units || now == more_units(units) && message / PAYS >= units);
            units = now;
        }
        assert_eq!(units, UNITS);

        let mut sending = Sending::default();
        let mut units = more_units(0);
        while units < RING {
            units = more_units(units);
        }
        assert!(sending.has_space(&own, RING) && sending.units == units);
        assert!(!sending.has_space(&own, UNITS + 1) && sending.units == UNITS);
    }
}
