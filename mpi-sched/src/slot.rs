//! Slots of remote memory, by their owners, cells and phases.

/// A slot of remote memory: who has it, which of its cells, and for which phase of the schedule.
///
/// Each phase of a schedule is numbered, on from call to call, the same on all ranks. A cell is a
/// ring of slots, and a phase has the slot of its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The rank in whose memory it is.
    pub of: u32,
    /// Which cell.
    pub cell: u32,
    /// Which phase, counted from the start of the schedule; negative for what was before.
    pub phase: i32,
}

impl Slot {
    /// Phase `phase` of rank `of`'s first cell.
    pub fn first(of: u32, phase: i32) -> Slot {
        Slot { of, cell: 0, phase }
    }
}

/// The cell of slots that the ranks of one node see, in schedules in which leaders of nodes write to other
/// slots over a network. Ranks are numbered within the node there, and phases for themselves.
pub const NODE: u32 = u32::MAX;

/// The cell of what goes to the next rank: of slots there, whose phases are the pieces that this rank sends.
pub const SENT: u32 = NODE - 1;
/// The cell of what comes from the rank before: of own slots, whose phases are the pieces that have come.
pub const CAME: u32 = NODE - 2;
/// The cell by which the rank before is told that the slots of pieces are free; phases are those of [`CAME`]. It is
/// told with the last of each half of the slots, see [`Reach::ends_half`](super::Reach::ends_half).
pub const FREE: u32 = NODE - 3;
/// The own cell by which the next rank says that; phases are those of [`SENT`].
pub const FREED: u32 = NODE - 4;

/// By which numbers the phases of a schedule go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Course {
    /// From one rank to all: nobody is told that others have come.
    #[default]
    Down,
    /// From all to one.
    Up,
    /// Nobody comes to the end of it before all have come to its beginning.
    Meets,
}

/// Bytes of data that share a slot's first cache line with its flag and the length of the data.
pub const SLOT_INLINE: usize = 48;

/// Where data of `len` bytes begins in a slot: behind flag and length in one line with them, if it
/// fits.
pub fn slot_offset(len: usize) -> isize {
    if len <= SLOT_INLINE { 16 } else { 64 }
}
