//! Short reductions: to all ranks, to one, of each rank and those before it, or by blocks.

use std::ops::Range;

use mpi_sched::Part;
use mpi_sched::schedule::slot_offset;

use super::flags::{Phase, ShortWay};
use crate::agreement::signature::CallSignature;
use crate::plan::call::{Call, Root};
use crate::slots::nearness;
use mpi_core::datatype::Predefined;
use mpi_core::error::Result;
use mpi_core::op::{Op, PredefinedOp};

/// What a caller calls the datatype and the operation of a reduction by: numbers that stay theirs.
pub type Label = [i32; 2];

/// A reduction whose schedule goes in one phase.
#[derive(Clone, Copy)]
pub(super) struct QuickReduction {
    datatype: Predefined,
    op: PredefinedOp,
    count: usize,
    bytes: usize,
    /// Where the data begins in a slot.
    offset: isize,
    kernel: unsafe fn(*const u8, *const u8, *mut u8, usize),
    /// To one rank: without it.
    signature: CallSignature,
    /// None is of no element.
    label: Label,
    labelled: i64,
}

impl QuickReduction {
    /// Of such a call, if it can be done here. (Longer elements, and those with gaps, lie elsewhere in slots, and how longer data is best
    /// stored depends on where the others are.)
    pub fn of(call: &Call<'_>, signature: CallSignature, ranks: u32) -> Option<QuickReduction> {
        if let Call::Reduce { root, .. } = call
            && !matches!(root, Root::Rank(_))
        {
            return None;
        }
        let (part, op) = vector(call, ranks)?;
        let datatype = part.datatype.as_predefined()?;
        let has_gaps = part.datatype.extent() != part.datatype.size() as isize;
        let short = part.datatype.size() <= 8
            && !has_gaps
            && (1..nearness::MIN_BYTES).contains(&part.bytes());
        short.then_some(QuickReduction {
            datatype,
            op: op.as_predefined()?,
            count: part.count,
            bytes: part.bytes(),
            offset: slot_offset(part.bytes()),
            kernel: op.kernel(datatype)?,
            signature: match call {
                Call::Reduce { .. } => signature.without_root(),
                _ => signature,
            },
            label: [0; 2],
            labelled: 0,
        })
    }

    /// Whether it is such a call of so many ranks. (Which of the reductions it is, is known.)
    #[inline(always)]
    pub fn fits(&self, call: &Call<'_>, ranks: u32) -> bool {
        vector(call, ranks).is_some_and(|(part, op)| {
            self.count == part.count
                && part.datatype.as_predefined() == Some(self.datatype)
                && op.as_predefined() == Some(self.op)
        })
    }

    /// Whether it was given this label, and is of so many elements.
    #[inline(always)]
    pub fn has(&self, label: Label, count: i64) -> bool {
        self.label == label && self.labelled == count && count > 0
    }

    /// Takes the label of a call that it fits.
    pub fn set_label(&mut self, label: Label) {
        (self.label, self.labelled) = (label, self.count as i64);
    }

    /// The same to rank `root`.
    #[inline(always)]
    pub fn to(self, root: u32) -> QuickReduction {
        QuickReduction {
            signature: self.signature.at_root(root),
            ..self
        }
    }

    /// Carries it out; the result comes to this rank if it `takes` it.
    ///
    /// # Safety
    /// The elements at `send` are readable, and if this rank takes the result as many at `recv` are writable, which is
    /// the same address or does not overlap.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        way: ShortWay<'_>,
        send: *const u8,
        recv: *mut u8,
        takes: bool,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature)?;
        phase.claim()?;
        let places = phase.places(self.offset);
        let of = |rank| places.of(rank);
        // SAFETY: the slot is claimed, and has room, since the schedule for this puts as much there.
        unsafe { netmod_kit::copy_to_shared(send, phase.own_of(places), self.bytes) };
        phase.raise();
        if !takes {
            return phase.end(0);
        }
        phase.wait()?;
        // SAFETY: flags say that slots have been written, and they are not written again before this rank raises
        // the flag of the next phase; the buffers are the caller's promise.
        unsafe { self.combine(of, way.shared.slots.size - 1, recv, self.count) };
        phase.end(0)
    }

    /// Carries out a scan, over this rank's operand, too, unless it is `exclusive`.
    ///
    /// # Safety
    /// As for [`QuickReduction::run`]; rank 0 takes no result of an exclusive one.
    pub unsafe fn scan(
        &self,
        way: ShortWay<'_>,
        send: *const u8,
        recv: *mut u8,
        exclusive: bool,
    ) -> Result<()> {
        let (rank, size) = (way.shared.slots.rank, way.shared.slots.size);
        let mut phase = Phase::begin(way, self.signature)?;
        phase.claim()?;
        let places = phase.places(self.offset);
        // SAFETY: as in `run`.
        unsafe { netmod_kit::copy_to_shared(send, phase.own_of(places), self.bytes) };
        phase.raise();
        let last = match exclusive {
            true if rank == 0 => return phase.end(0),
            true => rank - 1,
            false => rank,
        };
        debug_assert!(last < size);
        for of in 0..rank {
            phase.wait_for(of)?;
        }
        // SAFETY: as in `run`.
        unsafe { self.combine(|of| places.of(of), last, recv, self.count) };
        phase.end(0)
    }

    /// Carries out a reduce-scatter, of which this rank takes the elements `mine`.
    ///
    /// # Safety
    /// As for [`QuickReduction::run`], of those elements.
    pub unsafe fn reduce_scatter(
        &self,
        way: ShortWay<'_>,
        send: *const u8,
        recv: *mut u8,
        mine: Range<usize>,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature)?;
        phase.claim()?;
        let places = phase.places(self.offset);
        // SAFETY: as in `run`.
        unsafe { netmod_kit::copy_to_shared(send, phase.own_of(places), self.bytes) };
        phase.raise();
        if mine.is_empty() {
            return phase.end(0);
        }
        phase.wait()?;
        let before = mine.start * (self.bytes / self.count);
        let of = |rank| places.of(rank).wrapping_add(before);
        // SAFETY: as in `run`.
        unsafe { self.combine(of, way.shared.slots.size - 1, recv, mine.len()) };
        phase.end(0)
    }

    /// Combines `count` elements of ranks 0 to `last`, in the order from the last to the first, as schedules do, so that
    /// all get the same bits.
    ///
    /// # Safety
    /// They are readable where `of` says, and writable at `result`, which does not overlap.
    #[inline(always)]
    unsafe fn combine(
        &self,
        of: impl Fn(u32) -> *mut u8,
        last: u32,
        result: *mut u8,
        count: usize,
    ) {
        // SAFETY: the caller's contract; the kernel is that of the datatype.
        unsafe {
            if last == 0 {
                netmod_kit::copy(of(0), result, count * (self.bytes / self.count));
                return;
            }
            (self.kernel)(of(last - 1), of(last), result, count);
            for rank in (0..last - 1).rev() {
                (self.kernel)(of(rank), result, result, count);
            }
        }
    }
}

/// What each rank gives to a reduction.
#[inline(always)]
fn vector<'a>(call: &Call<'a>, ranks: u32) -> Option<(Part<'a>, &'a Op)> {
    match *call {
        Call::Allreduce { part, op, .. }
        | Call::Reduce { part, op, .. }
        | Call::Scan { part, op, .. }
        | Call::Exscan { part, op, .. } => Some((part, op)),
        Call::ReduceScatter { blocks, op, .. } => {
            let datatype = blocks.datatype(0);
            let count = (0..ranks as usize).map(|rank| blocks.count(rank)).sum();
            Some((Part { count, datatype }, op))
        }
        _ => None,
    }
}
