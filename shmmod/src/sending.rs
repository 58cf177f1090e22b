//! The pipes that this lane has opened, and the room for them: units of one size, of which a chunk of a message takes
//! one each.
//!
//! Units are given out round and round. The whole room is twice what a core's own cache holds, for a reason: what lies in
//! another core's own cache is fetched at a quarter of the speed of what had to leave it
//! (docs/decisions/long-messages.md). But memory that nobody has used takes longer still: the first messages go round as few
//! as they need, and more is had by and by, as rounds have gone by it.

use std::collections::VecDeque;
use std::mem;

use netmod::{Peer, Pipe, PipeEnd, PushProgress, RING, ReceiverProgress, Source, VciId};

use crate::choice::{Way, Work};
use crate::lent::{Kept, Lent, bits};
use crate::live::{Hands, Live};
use crate::pipes::now;
use crate::segment::{PIPES, Segment, UNIT, UNITS, more_units};
use crate::shape::{Shape, THEIRS, ahead, row};

/// So many pipes may be open before it is looked whether their receivers are through: each look costs a cache line.
const OPEN: usize = 16;
/// Units that a pipe gets at once when it needs one.
const AT_ONCE: usize = 8;
/// Chunks that are written together, at most, where nobody waits for each: what is claimed, told and begun costs once.
const TOGETHER: u32 = 4;
/// Units that messages have had for each that is had without need: a new one takes as long as copying some ten.
const PAYS: usize = 256;
/// A message of so many chunks is not through much later for that, if its receiver waits for it.
const LONG: u32 = 32;
/// Pipes whose words are asked for before it is looked whether their receivers are through.
const ASKED: usize = 8;
/// Pipes that are looked at for room without having found any, before the search ends; now and then all are.
const PATIENCE: usize = 8;
const EVERY: u32 = 16;

/// A message whose receiver is through.
pub(crate) struct Ended {
    pub to: Peer,
    pub vci: VciId,
    pub len: usize,
    pub way: Way,
    pub hands: Hands,
    /// Whether it was sent by turns.
    pub by_turns: bool,
    pub work: Work,
}

/// The pipes that are open.
#[derive(Default)]
pub(crate) struct Sending {
    /// Units that messages have had.
    given: usize,
    /// Units that there are.
    units: usize,
    /// There is no memory for more.
    refused: bool,
    /// There are more than when the last message got its own. New memory takes time, of which no way is the cause.
    has_grown: bool,
    /// By slot.
    live: Vec<Option<Live>>,
    /// Slots in use, in the order in which they were opened.
    order: VecDeque<usize>,
    /// The others.
    slots: Vec<usize>,
    /// A bit for each unit that is free.
    free: u128,
    /// Where the search for one begins.
    next: u32,
    generation: u32,
    searches: u32,
    /// Units that receivers have kept.
    lent: Lent,
    /// To be taken note of.
    pub ended: Vec<Ended>,
    /// Units of others that they have not read: to be given back.
    pub unread: Vec<(Peer, VciId, Kept)>,
    /// Parts are put together here before they go past the caches.
    scratch: Vec<u8>,
}

const _: () = assert!(UNITS == u128::BITS as usize);

impl Sending {
    /// Whether there are a pipe and so many units.
    #[inline]
    pub fn has_room(&mut self, own: &Segment, units: usize) -> bool {
        let is_ready = self.order.len() < OPEN && !self.slots.is_empty();
        let is_row = || ahead(self.free, self.next, units as u32).is_some();
        is_ready && (units == 0 || is_row()) || self.makes_room(own, units)
    }

    /// As [`Sending::has_room`], after a look whether receivers are through with some.
    #[inline(never)]
    fn makes_room(&mut self, own: &Segment, units: usize) -> bool {
        if self.units == 0 && !self.grow(own) {
            return false;
        }
        if self.order.len() >= OPEN || !self.has(units) {
            self.search(own);
        }
        if !self.has(units) {
            self.free |= self.lent.returned(own);
        }
        while !self.slots.is_empty() && !self.has(units) && self.grow(own) {}
        self.has(units)
    }

    fn has(&self, units: usize) -> bool {
        !self.slots.is_empty() && (units == 0 || self.free.count_ones() as usize >= units)
    }

    /// Has more units, if there may be more.
    #[cold]
    fn grow(&mut self, own: &Segment) -> bool {
        if self.refused || self.units == UNITS {
            return false;
        }
        let units = more_units(self.units);
        if !own.reserve_units(self.units, units) {
            self.refused = true;
            return false;
        }
        if self.units == 0 {
            self.live.resize_with(PIPES, || None);
            self.slots = (0..PIPES).rev().collect();
        }
        for unit in self.units..units {
            self.free |= 1 << unit;
        }
        (self.units, self.has_grown) = (units, true);
        true
    }

    /// Opens a pipe, for which there is room: for all of the message at once, or for what there is. `heard`: see [`Shape`].
    pub fn open(
        &mut self,
        own: &Segment,
        (to, vci): (Peer, VciId),
        len: usize,
        (way, measured): (Way, bool),
        all: bool,
        (hands, by_turns): (Hands, bool),
        heard: u8,
    ) -> Option<Shape> {
        let chunks = u32::try_from(len.div_ceil(UNIT)).ok()?;
        let hands = match hands {
            Hands::MayKeep if !all || !self.lent.may_grow(chunks as usize) => Hands::Own,
            hands => hands,
        };
        let slot = self.slots.pop()?;
        self.generation = self.generation.wrapping_add(1).max(1);
        let generation = self.generation;
        let live = self.live[slot].insert(Live {
            to,
            vci,
            generation,
            len,
            chunks,
            way,
            measured,
            writing: 0,
            all,
            hands,
            by_turns,
            freed: 0,
            written: 0,
            assigned: 0,
            units: [0; RING],
            row: None,
            spare: None,
        });
        self.given = self.given.wrapping_add(chunks as usize);
        match hands {
            Hands::Kept(Kept { units, .. }) => {
                let first = units.trailing_zeros();
                if units == row(first, chunks) {
                    live.set_row(THEIRS | first as u8);
                } else {
                    for unit in bits(units) {
                        *live.unit(live.assigned) = THEIRS | unit as u8;
                        live.assigned += 1;
                    }
                }
            }
            _ if all => self.take_all(own, slot),
            _ => {
                if let Some(unit) = self.take_unit(own)
                    && let Some(live) = &mut self.live[slot]
                {
                    (live.units[0], live.assigned) = (unit, 1);
                }
            }
        }
        let has_grown = mem::take(&mut self.has_grown);
        let live = self.live[slot].as_mut()?;
        live.measured &= !has_grown;
        if !all {
            own.words(slot).open(generation);
        }
        let shape = Shape {
            generation,
            slot,
            may_keep: hands == Hands::MayKeep,
            timed: live.measured,
            row: None,
            heard,
        };
        self.order.push_back(slot);
        Some(shape)
    }

    /// Gives all of a message its units, as far as there are any: those that come next, if they lie one behind the other.
    fn take_all(&mut self, own: &Segment, slot: usize) {
        let Some(live) = &mut self.live[slot] else {
            return;
        };
        if let Some((first, units, end)) = ahead(self.free, self.next, live.chunks) {
            (self.free, self.next) = (self.free & !units, end);
            return live.set_row(first);
        }
        for chunk in 0..live.chunks {
            let Some(unit) = self.take_unit(own) else {
                return;
            };
            if let Some(live) = &mut self.live[slot] {
                *live.unit(chunk) = unit;
                live.assigned += 1;
            }
        }
        if let Some(live) = &mut self.live[slot] {
            live.find_row();
        }
    }

    fn find(&mut self, pipe: Pipe) -> Option<(usize, &mut Live)> {
        let shape = Shape::parse(pipe)?;
        let live = self.live.get_mut(shape.slot)?.as_mut()?;
        (live.generation == shape.generation).then_some((shape.slot, live))
    }

    /// Who an open pipe is for.
    pub fn receiver(&mut self, pipe: Pipe) -> Option<(Peer, VciId)> {
        self.find(pipe).map(|(_, live)| (live.to, live.vci))
    }

    /// As [`netmod::Pipes::push`], but that nobody is woken. `theirs` is the receiver's room.
    pub fn push(
        &mut self,
        rooms: (&Segment, *mut u8),
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> PushProgress {
        let (before, begun) = (*moved, self.begins(pipe));
        let is_long = self.find(pipe).is_some_and(|(_, live)| live.chunks >= LONG);
        let most = if is_long { TOGETHER } else { 1 };
        let pushed = self.push_chunks(rooms, (pipe, most), moved, source);
        if *moved > before {
            self.ends(pipe, begun);
        }
        pushed
    }

    /// Writes all of a message to a pipe that was just opened and has the units for it, before the receiver is told. Returns the name that it is
    /// to be told: that may say where the data is, which the receiver then need not look for.
    pub fn write(
        &mut self,
        (own, theirs): (&Segment, *mut u8),
        shape: Shape,
        mut source: Source<'_>,
    ) -> Pipe {
        let pipe = shape.name();
        let Some(live) = self.live.get_mut(shape.slot).and_then(Option::as_mut) else {
            return pipe;
        };
        let begun = live.measured.then(now);
        let Some(first) = live.row else {
            self.push_chunks((own, theirs), (pipe, TOGETHER), &mut 0, source);
            self.ends(pipe, begun);
            return pipe;
        };
        live.written = live.chunks;
        let (way, len) = (live.way, live.len);
        let room = if first < THEIRS { own.room() } else { theirs };
        // SAFETY: within the room. The units were given to this message, or kept, and their last readers are done with them.
        let chunks = unsafe {
            let start = room.add(usize::from(first % THEIRS) * UNIT);
            std::slice::from_raw_parts_mut(start, len)
        };
        self.fill(way, chunks, 0, &mut source);
        if let (Some(begun), Some(live)) = (begun, &mut self.live[shape.slot]) {
            live.writing = now().saturating_sub(begun);
        }
        let row = Some(first);
        Shape { row, ..shape }.name()
    }

    /// When the writing of a message whose time counts begins.
    fn begins(&mut self, pipe: Pipe) -> Option<u64> {
        let (_, live) = self.find(pipe)?;
        live.measured.then(now)
    }

    /// It has begun then.
    fn ends(&mut self, pipe: Pipe, begun: Option<u64>) {
        if let (Some(begun), Some((_, live))) = (begun, self.find(pipe)) {
            live.writing += now().saturating_sub(begun);
        }
    }

    /// Writes at most so many chunks before it publishes them.
    fn push_chunks(
        &mut self,
        (own, theirs): (&Segment, *mut u8),
        (pipe, most): (Pipe, u32),
        moved: &mut usize,
        mut source: Source<'_>,
    ) -> PushProgress {
        let mut any = false;
        loop {
            let Some((slot, live)) = self.find(pipe) else {
                return PushProgress::Revoked;
            };
            let number = live.written;
            *moved = (number as usize * UNIT).min(live.len);
            if *moved == live.len {
                return PushProgress::Whole;
            }
            if number == live.assigned {
                match self.assign(own, slot) {
                    Some(true) => continue,
                    Some(false) => return PushProgress::Part(any),
                    None => return PushProgress::Revoked,
                }
            }
            let words = own.words(slot);
            let unit = *live.unit(number);
            // Units that lie together.
            let most = most.min(live.assigned - number);
            let goes_on = |chunk: &u32| {
                let next = live.units[(number + chunk) as usize % RING];
                next == unit.wrapping_add(*chunk as u8) && (next < THEIRS) == (unit < THEIRS)
            };
            let together = 1 + (1..most).take_while(goes_on).count() as u32;
            if !live.all && !words.claim(live.generation, number, together) {
                return PushProgress::Revoked;
            }
            let count = (live.len - *moved).min(together as usize * UNIT);
            let (generation, way) = (live.generation, live.way);
            let room = if unit < THEIRS { own.room() } else { theirs };
            // SAFETY: within the room. The units were given to these chunks, or kept, and their last readers are done with them.
            let chunks = unsafe {
                let start = room.add(usize::from(unit % THEIRS) * UNIT);
                std::slice::from_raw_parts_mut(start, count)
            };
            self.fill(way, chunks, *moved, &mut source);
            for chunk in 0..together {
                words.publish(generation, number + chunk, unit + chunk as u8);
            }
            if let Some(live) = &mut self.live[slot] {
                live.written += together;
            }
            any = true;
        }
    }

    fn fill(&mut self, way: Way, chunk: &mut [u8], at: usize, source: &mut Source<'_>) {
        let len = chunk.len();
        match (source, way) {
            (Source::Bytes(data), Way::Past) => past(&data[at..at + len], chunk),
            (Source::Bytes(data), _) => {
                let data = &data[at..at + len];
                // SAFETY: two slices of one length; what may be written is apart from all else.
                unsafe { netmod_kit::copy_to_shared(data.as_ptr(), chunk.as_mut_ptr(), len) };
            }
            (Source::Parts(fill), Way::Past) => {
                self.scratch.resize(len.max(UNIT), 0);
                fill(at, &mut self.scratch[..len]);
                past(&self.scratch[..len], chunk);
            }
            (Source::Parts(fill), _) => fill(at, chunk),
        }
    }

    /// Gives the next chunks of a pipe their units. `Some(false)`: there is none now; `None`: the receiver is done with it.
    fn assign(&mut self, own: &Segment, slot: usize) -> Option<bool> {
        if self.is_over(own, slot) {
            self.order.retain(|&one| one != slot);
            return None;
        }
        let live = self.live[slot].as_ref()?;
        // Several at once: each look how far the receiver is costs a cache line.
        let room = RING - (live.assigned - live.freed) as usize;
        let most = room
            .min((live.chunks - live.assigned) as usize)
            .min(AT_ONCE);
        if self.free == 0 && most > 0 {
            self.search(own);
        }
        let mut any = false;
        for _ in 0..most {
            let unit = self.take_unit(own);
            let has_grown = mem::take(&mut self.has_grown);
            let live = self.live[slot].as_mut()?;
            live.measured &= !has_grown;
            let Some(unit) = unit.or_else(|| live.spare.take()) else {
                break;
            };
            *live.unit(live.assigned) = unit;
            live.assigned += 1;
            any = true;
        }
        Some(any)
    }

    fn take_unit(&mut self, own: &Segment) -> Option<u8> {
        let is_lap_over = self.free >> self.next == 0;
        let pays = || self.given / PAYS > self.units;
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

    /// Takes back what the receivers are through with. Returns whether that was something.
    fn search(&mut self, own: &Segment) -> bool {
        self.searches = self.searches.wrapping_add(1);
        let all = self.searches.is_multiple_of(EVERY);
        let before = self.free;
        if all || before == 0 {
            self.free |= self.lent.returned(own);
        }
        // The receivers have their lines: those of the oldest pipes come together.
        for &slot in self.order.iter().take(ASKED) {
            netmod_kit::prefetch(own.words(slot).end_word());
        }
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
        self.free != before
    }

    /// Looks how far the receiver of a pipe is, and takes back what it is through with. Returns whether that is all,
    /// and the pipe nobody's.
    fn is_over(&mut self, own: &Segment, slot: usize) -> bool {
        let Some(live) = &mut self.live[slot] else {
            return true;
        };
        match own.words(slot).taken(live.generation) {
            ReceiverProgress::Chunks(taken) => {
                // Those that change hands do so together.
                let some = if live.hands == Hands::Own { taken } else { 0 };
                while live.freed < some.min(live.written) {
                    let unit = *live.unit(live.freed);
                    live.freed += 1;
                    match live.spare {
                        None if live.assigned < live.chunks => live.spare = Some(unit),
                        _ => self.free |= 1 << unit,
                    }
                }
                false
            }
            ReceiverProgress::All(ending, time) => {
                if let (Some(receiving), true) = (time, live.measured) {
                    self.ended.push(Ended {
                        to: live.to,
                        vci: live.vci,
                        len: live.len,
                        way: live.way,
                        hands: live.hands,
                        by_turns: live.by_turns,
                        work: Work {
                            sending: live.writing,
                            receiving,
                        },
                    });
                }
                self.release(slot, ending);
                true
            }
        }
    }

    /// A pipe's slot is free again, and the caller takes it out of the order; so are its units, but for those that the
    /// receiver keeps.
    fn release(&mut self, slot: usize, ending: PipeEnd) {
        let Some(live) = &mut self.live[slot] else {
            return;
        };
        let (to, hands, generation) = ((live.to, live.vci), live.hands, live.generation);
        let mut units = live.held();
        if let Some(unit) = live.spare {
            units |= 1 << unit;
        }
        self.live[slot] = None;
        self.slots.push(slot);
        match (hands, ending) {
            // What has been read is its owner's again, who knows.
            (Hands::Kept(_), PipeEnd::Read) => {}
            (Hands::Kept(kept), _) => self.unread.push((to.0, to.1, kept)),
            (_, PipeEnd::Kept) => self.lent.add(to, Kept { generation, units }),
            _ => self.free |= units,
        }
    }

    /// Units of this process's that a peer has kept have been read with its message. `false`: he hadn't them.
    pub fn take_back(&mut self, own: &Segment, from: (Peer, VciId), units: u128) -> bool {
        if !self.lent.take_back(from, units) && !self.notice(own, from, units) {
            return false;
        }
        self.free |= units;
        // They are at hand: the next message goes by them.
        self.next = units.trailing_zeros() % u128::BITS;
        true
    }

    /// A peer has kept the units of a message, which has not been noticed yet, and given them back. `false`: he hadn't them.
    fn notice(&mut self, own: &Segment, from: (Peer, VciId), units: u128) -> bool {
        let has = |&slot: &usize, live: &mut [Option<Live>]| {
            let Some(live) = &mut live[slot] else {
                return false;
            };
            live.hands == Hands::MayKeep && (live.to, live.vci) == from && live.held() == units
        };
        let live = &mut self.live;
        // The one that was opened last, mostly.
        let Some(at) = self.order.iter().rposition(|slot| has(slot, live)) else {
            return false;
        };
        let slot = self.order[at];
        let is_measured = self.live[slot].as_ref().is_none_or(|live| live.measured);
        if !is_measured {
            // That he has answered there says it: the line of the words need not be fetched.
            self.release(slot, PipeEnd::Kept);
        } else if !self.is_over(own, slot) {
            return false;
        }
        self.order.remove(at);
        self.lent.take_back(from, units)
    }

    /// As [`netmod::Pipes::abandon`].
    pub fn abandon(&mut self, pipe: Pipe) {
        if let Some((slot, _)) = self.find(pipe) {
            self.release(slot, PipeEnd::Forgone);
            self.order.retain(|&one| one != slot);
        }
    }

    /// Whether the receivers are through with all pipes.
    pub fn is_empty(&mut self, own: &Segment) -> bool {
        let mut order = mem::take(&mut self.order);
        order.retain(|&slot| !self.is_over(own, slot));
        self.order = order;
        self.order.is_empty()
    }

    /// A peer is lost, and reads nothing any more.
    pub fn forget(&mut self, peer: Peer) {
        for slot in 0..self.live.len() {
            if self.live[slot].as_ref().is_some_and(|live| live.to == peer) {
                self.release(slot, PipeEnd::Read);
                self.order.retain(|&one| one != slot);
            }
        }
        self.free |= self.lent.forget(peer);
    }
}

fn past(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: two slices of the same length, of which one may be written and so is apart from the other.
    unsafe { netmod_kit::copy_non_temporal(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::STEP;

    /// Opens and ends pipes of a unit, one after the other, and gives how many units there are after so many of them.
    fn units_after(sending: &mut Sending, own: &Segment, messages: usize) -> usize {
        for message in 0..messages {
            let before = sending.units;
            assert!(sending.has_room(own, 1));
            let measured = (Way::Cached, true);
            let shape = sending
                .open(own, (1, 0), UNIT, measured, true, (Hands::Own, false), 0)
                .expect("there is room");
            let (_, live) = sending.find(shape.name()).expect("it is open");
            let is_measured = live.measured;
            assert_eq!(is_measured, sending.units == before, "message {message}");
            sending.abandon(shape.name());
        }
        sending.units
    }

    #[test]
    fn memory_is_had_with_a_round_or_when_it_is_needed() {
        let own = Segment::create().unwrap();
        let mut sending = Sending::default();
        let mut units = more_units(0);
        for message in 0..UNITS * PAYS + 2 * UNITS {
            let now = units_after(&mut sending, &own, 1);
            assert!(now == units || now == more_units(units) && message / PAYS >= units);
            assert!(message / PAYS <= units + STEP, "{message}: {units}");
            units = now;
        }
        assert_eq!(units, UNITS);

        let mut sending = Sending::default();
        let mut units = more_units(0);
        while units < RING {
            units = more_units(units);
        }
        assert!(sending.has_room(&own, RING) && sending.units == units);
        assert!(!sending.has_room(&own, UNITS + 1) && sending.units == UNITS);
    }
}
