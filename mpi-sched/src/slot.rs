//! Slots of remote memory, named by owner, cell and phase.

/// A slot of remote memory.
///
/// Phases of schedules are numbered consecutively across calls, identically on all ranks. A cell is
/// a ring of slots; a phase uses the slot at its number modulo the ring's depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The rank that owns its memory.
    pub of: u32,
    /// The cell.
    pub cell: u32,
    /// The phase, relative to the start of the schedule; negative for earlier schedules.
    pub phase: i32,
}

impl Slot {
    /// Returns the slot of `phase` in rank `of`'s first cell.
    pub fn first(of: u32, phase: i32) -> Slot {
        Slot { of, cell: 0, phase }
    }
}

/// The cell of slots that the ranks of one node share, in schedules in which the nodes' leaders
/// write to other slots over a network. Its ranks and phases are numbered separately.
pub const NODE: u32 = u32::MAX;

/// The cell of chunks sent to the next rank: slots there, one phase for each chunk.
pub const SENT: u32 = NODE - 1;
/// The cell of chunks received from the previous rank: own slots, one phase for each chunk.
pub const CAME: u32 = NODE - 2;
/// The cell that acknowledges received chunks to the previous rank, with the phases of [`CAME`].
/// One flag acknowledges each half of the slots, see [`Reach::ends_half`](super::Reach::ends_half).
pub const FREE: u32 = NODE - 3;
/// The own cell in which the next rank acknowledges chunks, with the phases of [`SENT`].
pub const FREED: u32 = NODE - 4;

/// The direction of a schedule's data, which decides how its phases are numbered (see
/// [`Pace`](super::rdma::Pace)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Course {
    /// Data goes from one rank to all: completion implies nothing about the other ranks.
    #[default]
    Down,
    /// Data goes from all ranks to one.
    Up,
    /// No rank completes the schedule before all have entered it.
    Meets,
}

/// Bytes of data that share a slot's first cache line with its flag and the length of the data.
pub const SLOT_INLINE: usize = 48;

/// Returns the offset of `len` bytes of data in a slot: in the first line, behind flag and length,
/// if they fit.
pub fn slot_offset(len: usize) -> isize {
    if len <= SLOT_INLINE { 16 } else { 64 }
}
