//! The ring of slots of each rank: how many there are, how long, and where the data of a phase lies.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::slots::slot_flag::PieceFlag;
use mpi_sched::run::has_come;

/// Slots of each rank, at least and at most; powers of two.
pub(crate) const DEPTHS: (u32, u32) = (4, 64);
/// Bytes of data of all ranks in one phase, if ranks are many.
const TOTAL: usize = 1 << 20;
/// The most bytes of a slot: what each rank puts there before the others have something to read.
const MOST: usize = 32 << 10;
/// Bytes of all slots of all ranks. More than cores' own caches hold, for a reason: what has had to leave them
/// is fetched at four times the speed of what lies in another core's (docs/performance.md).
const ALL: usize = 4 << 20;
/// The same at first: a page that nobody has used takes 1 to 5 µs, and the first round of a ring meets all of its.
const ALL_AT_FIRST: usize = 1 << 20;
/// So many slots each rank has at first all the same, where it has as many at all.
const LEAST_AT_FIRST: u32 = 8;
/// The first phase of a communicator. Numbers may wrap, and soon do.
pub(super) const FIRST: u64 = u64::MAX - 10_000;
/// Calls in which a rank stores so much ...
pub(super) const LONG: usize = 8 << 10;
/// ... after which data goes round in all the memory that there is: so many gain what its pages cost.
pub(super) const MANY: u32 = 6000;
/// Phases from when that is settled until it is done. Who writes data then has seen a flag that was raised since by who has
/// settled it, as by all ranks, and who reads it has seen the writer's: so both know.
pub(super) const SOON: u64 = 1024;
/// A phase that never comes.
const NEVER: u64 = FIRST.wrapping_add(1 << 62);
/// How many calls a rank says something about; a power of two.
pub(super) const SAID: u32 = 64;
/// Bytes of a head: a line for the word about disagreement, then what is said about calls, two words each.
pub(super) const HEAD: usize = (64 + 16 * SAID as usize).next_multiple_of(LINES);
/// Bytes of a slot that lie with those of the others before all data: the flag and short data. Who is short of time shall
/// not meet a page for the first time with each phase.
pub(super) const FRONT: usize = 64;
/// From the front of a slot to the next one's: lines are fetched by pairs.
pub(super) const LINES: usize = 128;
/// Bytes of a piece, where long data is told of by pieces, and pieces of the longest.
pub(crate) const PIECE: usize = 2 << 10;
const PIECES: usize = MOST / PIECE;
/// From the flags of the pieces of a slot to those of the next one's.
pub(super) const PIECE_FLAGS: usize = PIECES * size_of::<PieceFlag>();
/// Pages, in which the memory of ranks begins.
pub(super) const PAGE: usize = 4096;

/// The ring of slots of each rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    /// Bytes of data of a slot; a multiple of 64.
    pub room: usize,
    /// Slots; a power of two.
    pub depth: u32,
    /// Places for data, which takes them by turns after [`MANY`] calls; a power of two, not less than slots.
    pub places: u32,
}

impl Ring {
    /// That of each of so many ranks, for all their calls.
    pub fn of(size: u32) -> Ring {
        let room = (TOTAL / size as usize).min(MOST) & !63;
        let depth = |all: usize| {
            let fit = all / (size as usize * room);
            1 << fit.clamp(DEPTHS.0 as usize, DEPTHS.1 as usize).ilog2()
        };
        let places = depth(ALL);
        let depth = depth(ALL_AT_FIRST).max(LEAST_AT_FIRST).min(places);
        Ring {
            room,
            depth,
            places,
        }
    }

    /// Bytes of memory of each rank.
    pub fn bytes(self) -> usize {
        let (fronts, data) = (
            (LINES + PIECE_FLAGS) * self.depth as usize,
            (64 + self.room) * self.places as usize,
        );
        (HEAD + fronts + data).next_multiple_of(PAGE)
    }
}

/// From which phase on data goes round in all places: a word in rank 0's head.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct AllPlaces(AtomicU64);

impl AllPlaces {
    /// To be called by rank 0 before others use it.
    pub fn never_begin(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }

    /// Settles it in phase `number`, unless somebody has. The first phase begins a round of all places: so who writes there has
    /// seen that all ranks are through with what was there, as it has with slots.
    pub fn begin_soon_after(&self, number: u64) {
        let first = number.wrapping_add(SOON) & !u64::from(DEPTHS.1 - 1);
        let _ = self
            .0
            .compare_exchange(NEVER, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it does in this phase.
    #[inline(always)]
    pub fn has_begun(&self, number: u64) -> bool {
        has_come(number, self.0.load(Ordering::Relaxed))
    }
}
