//! An open pipe at its sender: a message on its way, and the units that hold it.

use netmod::{Peer, Pipe, VciId};
use shmring::RING;

use crate::segment::{PIPES, UNITS};

/// Most chunks that are published together.
const GROUP: u32 = 4;
/// Least groups of a message with groups of several chunks, so that the receiver starts early.
const GROUPS: u32 = 8;

/// What the name of a pipe says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PipeName {
    /// The use of the control words; not 0.
    pub generation: u32,
    /// The number of the control words.
    pub slot: usize,
    /// The first unit of a message that is completely written, to adjacent units.
    pub row: Option<u8>,
}

/// Flag of a name that has a row.
const ROW: u32 = 1 << 30;
/// Position of the first unit's number.
const FIRST: u32 = 8;

impl PipeName {
    #[inline]
    pub fn word(self) -> Pipe {
        let row = self.row.map_or(0, |first| ROW | u32::from(first) << FIRST);
        Pipe(u64::from(self.generation) << 32 | u64::from(row | self.slot as u32))
    }

    /// Parses a name. Returns `None` if no pipe can have it.
    #[inline]
    pub fn parse(Pipe(word): Pipe) -> Option<PipeName> {
        let (generation, low) = ((word >> 32) as u32, word as u32);
        let first = (low >> FIRST) as u8;
        let name = PipeName {
            generation,
            slot: usize::from(low as u8),
            row: (low & ROW != 0).then_some(first),
        };
        (generation != 0 && name.slot < PIPES && name.word() == Pipe(word)).then_some(name)
    }
}

const _: () = assert!(UNITS == u128::BITS as usize && UNITS <= 1 << 8 && PIPES <= 1 << 8);

/// Returns `count` adjacent units from `first` on, a bit each; at least one, and all below
/// [`UNITS`].
pub(crate) fn row(first: u32, count: u32) -> u128 {
    u128::MAX >> (u128::BITS - count) << first
}

/// Finds the first free unit from `next` on, if `count` adjacent ones are free there.
pub(crate) fn next_row(free: u128, next: u32, count: u32) -> Option<u32> {
    let first = next + (free >> next).trailing_zeros();
    if first + count > u128::BITS {
        return None;
    }
    let units = row(first, count);
    (free & units == units).then_some(first)
}

/// A message in a pipe.
pub(crate) struct OpenPipe {
    pub to: Peer,
    pub vci: VciId,
    pub generation: u32,
    /// Bytes.
    pub len: usize,
    pub chunks: u32,
    /// Whether stores to its units bypass the caches.
    pub is_streaming: bool,
    /// Chunks that the receiver has read, whose units are free again.
    pub freed: u32,
    /// Chunks that are written.
    pub written: u32,
    /// Chunks that have a unit.
    pub assigned: u32,
    /// The unit of each chunk that has one and is not freed, by its number modulo [`RING`].
    units: [u8; RING],
    /// The first unit, if all chunks have adjacent units.
    pub row: Option<u8>,
    /// A unit reserved for this message, so that it progresses whatever the receivers of others do.
    pub spare: Option<u8>,
}

impl OpenPipe {
    pub fn new(
        (to, vci): (Peer, VciId),
        generation: u32,
        (len, chunks): (usize, u32),
        is_streaming: bool,
    ) -> OpenPipe {
        OpenPipe {
            to,
            vci,
            generation,
            len,
            chunks,
            is_streaming,
            freed: 0,
            written: 0,
            assigned: 0,
            units: [0; RING],
            row: None,
            spare: None,
        }
    }

    /// Returns the unit of a chunk.
    pub fn unit(&self, chunk: u32) -> u8 {
        self.units[chunk as usize % RING]
    }

    /// Returns the number of chunks to be written next, which have adjacent units: several of a long
    /// message if publishing one waits until all of its stores are done.
    pub fn next_row(&self) -> u32 {
        let group = match self.is_streaming {
            true => (self.chunks / GROUPS).clamp(1, GROUP),
            false => 1,
        };
        let most = group.min(self.assigned - self.written);
        let first = self.unit(self.written);
        let is_next = |number: &u32| {
            let unit = self.unit(self.written + number);
            u32::from(unit) == u32::from(first) + number
        };
        (0..most).take_while(is_next).count() as u32
    }

    /// Gives the next chunk its unit.
    pub fn assign(&mut self, unit: u8) {
        self.units[self.assigned as usize % RING] = unit;
        self.assigned += 1;
    }

    /// Returns the units of the message, and the spare one.
    pub fn held(&self) -> u128 {
        let units = (self.freed..self.assigned).map(|chunk| self.unit(chunk));
        units
            .chain(self.spare)
            .fold(0, |held, unit| held | 1 << unit)
    }
}
