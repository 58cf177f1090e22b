//! What a pipe's name says, and rows of units.

use netmod::Pipe;

use crate::segment::{PIPES, UNITS};

/// What a pipe's name says: which words, and which use of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub generation: u32,
    pub slot: usize,
    /// Whether the receiver may keep the units.
    pub may_keep: bool,
    /// Whether its time counts.
    pub timed: bool,
    /// All is written, in units one behind the other from this one on.
    pub row: Option<u8>,
    /// The end of the number of the last pipe from there that this process was through with.
    pub heard: u8,
}

/// The bit of a name that says that the receiver may keep the units.
const MAY_KEEP: u32 = 1 << 31;
/// The one that says that its time counts.
const IS_TIMED: u32 = 1 << 29;
/// The one that says that there is a row, and where the number of its first unit is.
const ROW: u32 = 1 << 30;
const FIRST: u32 = 8;
/// Where the end of a generation is.
const HEARD: u32 = 16;
/// A place in the receiver's room: a unit of its own that this process has kept.
pub(crate) const THEIRS: u8 = UNITS as u8;

impl Shape {
    #[inline]
    pub fn name(self) -> Pipe {
        let may_keep = if self.may_keep { MAY_KEEP } else { 0 };
        let timed = if self.timed { IS_TIMED } else { 0 };
        let row = self.row.map_or(0, |first| ROW | u32::from(first) << FIRST);
        let heard = u32::from(self.heard) << HEARD;
        let said = may_keep | timed | row | heard | self.slot as u32;
        Pipe(u64::from(self.generation) << 32 | u64::from(said))
    }

    /// `None`: it is no pipe's name.
    #[inline]
    pub fn parse(Pipe(name): Pipe) -> Option<Shape> {
        let (generation, low) = ((name >> 32) as u32, name as u32);
        let first = (low >> FIRST) as u8;
        let shape = Shape {
            generation,
            slot: usize::from(low as u8),
            may_keep: low & MAY_KEEP != 0,
            timed: low & IS_TIMED != 0,
            row: (low & ROW != 0).then_some(first),
            heard: (low >> HEARD) as u8,
        };
        (generation != 0 && shape.slot < PIPES && shape.name() == Pipe(name)).then_some(shape)
    }
}

/// The units that come next, from `next` on, if so many lie one behind the other: the first, all of them, and what comes
/// then.
pub(crate) fn ahead(free: u128, next: u32, count: u32) -> Option<(u8, u128, u32)> {
    let first = next + (free >> next).trailing_zeros();
    let end = first + count;
    if end > u128::BITS {
        return None;
    }
    let units = row(first, count);
    (free & units == units).then_some((first as u8, units, end % u128::BITS))
}

/// So many units from one on, of which all are below [`UNITS`] and there is one.
pub(crate) fn row(first: u32, count: u32) -> u128 {
    u128::MAX >> (u128::BITS - count) << first
}
