//! Short reductions in one phase: to all ranks, to one, of the ranks up to each, or by blocks.

use std::ops::Range;

use mpi_sched::Part;

use super::flags::{NodeContext, Phase};
use super::{Kernel, PhasePlan};
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::plan::call::{Call, Root};
use crate::slots::nearness;
use crate::slots::shared::SlotAddresses;
use mpi_core::error::Result;
use mpi_core::op::Op;

/// Returns the kernel for a vector; `None` if the schedule stores such vectors differently.
pub(super) fn kernel(part: &Part<'_>, op: &Op) -> Option<Kernel> {
    let has_gaps = part.datatype.extent() != part.datatype.size() as isize;
    let is_short =
        part.datatype.size() <= 8 && !has_gaps && (1..nearness::MIN_BYTES).contains(&part.bytes());
    match is_short {
        true => op.kernel(part.datatype.as_predefined()?),
        false => None,
    }
}

impl PhasePlan {
    /// Runs a reduction that the plan is for.
    ///
    /// # Safety
    /// The buffers are valid for what the call reads and writes by its arguments.
    pub(super) unsafe fn reduce_call(
        &self,
        node: NodeContext<'_>,
        buffers: Buffers,
        call: &Call<'_>,
    ) -> Result<()> {
        let recv = buffers.recv;
        let slots = &node.shared.slots;
        let send = match call.is_in_place() {
            true => recv.cast_const(),
            false => buffers.send,
        };
        // SAFETY: the buffers are valid for the call, by this function's contract: `send` holds a
        // vector, and `recv` has space for the elements that the call gives to this rank.
        unsafe {
            match *call {
                Call::Scan(_) => self.scan(node, send, recv, false),
                Call::Exscan(_) => self.scan(node, send, recv, true),
                Call::ReduceScatter { blocks, .. } => {
                    let rank = slots.rank as usize;
                    let before = (0..rank).map(|rank| blocks.count(rank)).sum();
                    let mine = before..before + blocks.count(rank);
                    self.reduce_scatter(node, send, recv, mine)
                }
                Call::Reduce(Root::Rank(root), _) => self.reduce(node, Some(root), send, recv),
                _ => self.reduce(node, None, send, recv),
            }
        }
    }

    /// Begins the phase, and stores this rank's vector in its slot.
    ///
    /// # Safety
    /// A vector is readable at `send`.
    #[inline(always)]
    unsafe fn contribute<'a>(
        &self,
        node: NodeContext<'a>,
        signature: CallSignature,
        send: *const u8,
    ) -> Result<(Phase<'a>, SlotAddresses)> {
        let mut phase = Phase::begin(node, signature)?;
        phase.claim()?;
        let addresses = phase.addresses(self.offset);
        // SAFETY: the slot is claimed, and has space: the schedule of this call stores as much there.
        // A vector is readable at `send`, by this function's contract.
        unsafe { netmod_kit::copy_to_shared(send, phase.own_of(addresses), self.bytes) };
        phase.raise();
        Ok((phase, addresses))
    }

    /// Runs a reduce to rank `root`, or an allreduce.
    ///
    /// # Safety
    /// A vector is readable at `send`, and if this rank takes the result writable at `recv`, which
    /// is the same address or does not overlap.
    #[inline(always)]
    pub unsafe fn reduce(
        &self,
        node: NodeContext<'_>,
        root: Option<u32>,
        send: *const u8,
        recv: *mut u8,
    ) -> Result<()> {
        let (signature, takes) = match root {
            Some(root) => (self.signature.at_root(root), root == node.shared.slots.rank),
            None => (self.signature, true),
        };
        // SAFETY: a vector is readable at `send`, by this function's contract.
        let (mut phase, addresses) = unsafe { self.contribute(node, signature, send)? };
        if !takes {
            return phase.end(0);
        }
        phase.wait()?;
        let (of, last) = (|rank| addresses.of(rank), node.shared.slots.size - 1);
        // SAFETY: all flags are up, so all slots are written, and are not written again before this
        // rank raises the flag of the next phase; `recv` is writable, by this function's contract.
        unsafe { self.combine(of, last, recv, self.arguments.count) };
        phase.end(0)
    }

    /// Runs a scan, without this rank's operand if it is `exclusive`.
    ///
    /// # Safety
    /// A vector is readable at `send` and writable at `recv`, which is the same address or does not
    /// overlap; rank 0 gets no result of an exclusive scan.
    unsafe fn scan(
        &self,
        node: NodeContext<'_>,
        send: *const u8,
        recv: *mut u8,
        exclusive: bool,
    ) -> Result<()> {
        let rank = node.shared.slots.rank;
        // SAFETY: a vector is readable at `send`, by this function's contract.
        let (mut phase, addresses) = unsafe { self.contribute(node, self.signature, send)? };
        let last = match exclusive {
            true if rank == 0 => return phase.end(0),
            true => rank - 1,
            false => rank,
        };
        for of in 0..rank {
            phase.wait_for(of)?;
        }
        // SAFETY: the flags of ranks before this one are up, so their slots are written, and are not
        // written again before this rank raises the flag of the next phase; `recv` is writable, by
        // this function's contract.
        unsafe { self.combine(|of| addresses.of(of), last, recv, self.arguments.count) };
        phase.end(0)
    }

    /// Runs a reduce-scatter, of which this rank takes the elements `mine`.
    ///
    /// # Safety
    /// A vector is readable at `send`, and the elements `mine` are writable at `recv`, which is the
    /// same address or does not overlap.
    unsafe fn reduce_scatter(
        &self,
        node: NodeContext<'_>,
        send: *const u8,
        recv: *mut u8,
        mine: Range<usize>,
    ) -> Result<()> {
        // SAFETY: a vector is readable at `send`, by this function's contract.
        let (mut phase, addresses) = unsafe { self.contribute(node, self.signature, send)? };
        if mine.is_empty() {
            return phase.end(0);
        }
        phase.wait()?;
        let before = mine.start * (self.bytes / self.arguments.count);
        let of = |rank| addresses.of(rank).wrapping_add(before);
        // SAFETY: all flags are up, so all slots are written, and are not written again before this
        // rank raises the flag of the next phase; `recv` is writable, by this function's contract.
        unsafe { self.combine(of, node.shared.slots.size - 1, recv, mine.len()) };
        phase.end(0)
    }

    /// Combines `count` elements of ranks 0 to `last`, from the last to the first as schedules do,
    /// so that all ranks get the same bits.
    ///
    /// # Safety
    /// The elements are readable where `of` says, and writable at `result`, which does not overlap.
    #[inline(always)]
    unsafe fn combine(
        &self,
        of: impl Fn(u32) -> *mut u8,
        last: u32,
        result: *mut u8,
        count: usize,
    ) {
        let Some(kernel) = self.kernel else {
            debug_assert!(false, "a reduction has a kernel");
            return;
        };
        // SAFETY: operands and result are valid, by this function's contract; the kernel is that of
        // the datatype.
        unsafe {
            if last == 0 {
                let bytes = count * (self.bytes / self.arguments.count);
                netmod_kit::copy(of(0), result, bytes);
                return;
            }
            kernel(of(last - 1), of(last), result, count);
            for rank in (0..last - 1).rev() {
                kernel(of(rank), result, result, count);
            }
        }
    }
}
