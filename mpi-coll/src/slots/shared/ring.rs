//! The layout of a rank's ring of slots: number and length of slots, and where a phase's data lies.

use std::sync::atomic::{AtomicU64, Ordering};

use mpi_sched::run::has_come;

/// Least and most slots of a rank; powers of two.
pub(crate) const DEPTHS: (u32, u32) = (4, 64);
/// Bytes of data of all ranks in one phase, if ranks are many.
const MAX_PHASE_BYTES: usize = 1 << 20;
/// The most bytes of a slot, and so of data that a rank writes before others can read.
const MAX_ROOM: usize = 32 << 10;
/// Bytes of all slots of all ranks. More than the cores' private caches hold: evicted lines are
/// fetched faster than lines in another core's cache (docs/performance.md).
const MAX_BYTES: usize = 4 << 20;
/// Bytes of all slots that are used at first: the first round touches each page for the first time,
/// which costs microseconds.
const MAX_BYTES_AT_FIRST: usize = 1 << 20;
/// Slots that each rank uses at first, even beyond that bound, if it has as many.
const MIN_DEPTH_AT_FIRST: u32 = 8;
/// The first phase of a communicator, chosen so that numbers soon wrap.
pub(super) const FIRST: u64 = u64::MAX - 10_000;
/// Bytes that a rank stores in a long call.
pub(super) const LONG_STORE: usize = 8 << 10;
/// Long calls after which data uses all data slots: by then their pages pay off.
pub(super) const LONG_CALLS: u32 = 6000;
/// Phases from the decision to use all data slots to its effect.
///
/// By then a writer of data has seen a flag that the deciding rank has raised since, as it has of
/// all ranks, and a reader has seen the writer's: so both know.
pub(super) const SWITCH_DELAY: u64 = 1024;
/// A phase that never comes.
const NEVER: u64 = FIRST.wrapping_add(1 << 62);
/// Calls whose signatures a rank keeps published; a power of two.
pub(super) const PUBLISHED: u32 = 64;
/// Bytes of a head: a line for the mismatch word, then the published calls, two words each.
pub(super) const HEAD: usize = (64 + 16 * PUBLISHED as usize).next_multiple_of(LINES);
/// Bytes of a slot's front, which has the flag and short data. All fronts lie together before all
/// data, so that short calls don't touch a new page in each phase.
pub(super) const FRONT: usize = 64;
/// Distance from the front of a slot to the next one's: lines are fetched in pairs.
pub(super) const LINES: usize = 128;
/// Bytes of a page; each rank's memory begins with one.
pub(super) const PAGE: usize = 4096;

/// The layout of each rank's ring of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    /// Bytes of data of a slot; a multiple of 64.
    pub room: usize,
    /// Slots; a power of two.
    pub depth: u32,
    /// Data slots, all of which are used after [`LONG_CALLS`] long calls; a power of two, at least
    /// `depth`.
    pub data_slots: u32,
}

impl Ring {
    /// Returns the layout for a communicator of `size` ranks.
    pub fn of(size: u32) -> Ring {
        let room = (MAX_PHASE_BYTES / size as usize).min(MAX_ROOM) & !63;
        let depth = |all: usize| {
            let fit = all / (size as usize * room);
            1 << fit.clamp(DEPTHS.0 as usize, DEPTHS.1 as usize).ilog2()
        };
        let data_slots = depth(MAX_BYTES);
        let depth = depth(MAX_BYTES_AT_FIRST)
            .max(MIN_DEPTH_AT_FIRST)
            .min(data_slots);
        Ring {
            room,
            depth,
            data_slots,
        }
    }

    /// Bytes of memory of each rank.
    pub fn bytes(self) -> usize {
        let (fronts, data) = (
            LINES * self.depth as usize,
            (64 + self.room) * self.data_slots as usize,
        );
        (HEAD + fronts + data).next_multiple_of(PAGE)
    }
}

/// The phase from which on data uses all data slots: a word in rank 0's head.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct AllDataSlots(AtomicU64);

impl AllDataSlots {
    /// Initializes the word. Called by rank 0 before other ranks use it.
    pub fn never_begin(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }

    /// Decides in phase `number`, unless a rank has decided already.
    ///
    /// The effect begins with a round of all data slots, so a writer has seen that all ranks are
    /// done with their old content, as with slots.
    pub fn begin_soon_after(&self, number: u64) {
        let first = number.wrapping_add(SWITCH_DELAY) & !u64::from(DEPTHS.1 - 1);
        let _ = self
            .0
            .compare_exchange(NEVER, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether data uses all data slots in this phase.
    #[inline(always)]
    pub fn has_begun(&self, number: u64) -> bool {
        has_come(number, self.0.load(Ordering::Relaxed))
    }
}
