//! Executor of barriers and short collectives in one phase of a node's slots, without a schedule.
//!
//! A plan of one phase takes the place of a schedule of one phase (`mpi_sched::slots`): both raise
//! and wait for the same flags and put data at the same offsets. So ranks whose data has gaps, and
//! that run the schedule, go together with ranks that don't.

mod flags;
mod movement;
mod reduction;

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::plan::call::{Call, Root};
use crate::plan::shape::Shape;
use mpi_core::datatype::Predefined;
use mpi_core::error::Result;
use mpi_core::op::PredefinedOp;
use mpi_sched::schedule::slot_offset;
use mpi_sched::{Collective, Part, slots};

pub use flags::NodeContext;
use flags::Phase;

/// Combines elements of two operands.
type Kernel = unsafe fn(*const u8, *const u8, *mut u8, usize);

/// The arguments of a call that determine its plan of one phase.
///
/// The root is none of them: each rank may be the root of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PhaseArguments {
    pub kind: Collective,
    datatype: Option<Predefined>,
    op: Option<PredefinedOp>,
    /// Elements of a rank's block or vector; of a reduce-scatter, elements of all blocks.
    pub count: usize,
}

impl PhaseArguments {
    const BARRIER: PhaseArguments = PhaseArguments {
        kind: Collective::Barrier,
        datatype: None,
        op: None,
        count: 0,
    };

    /// Returns the arguments of a call among `ranks` ranks; `None` if it can't have such a plan.
    pub fn of(shape: &Shape<'_>, ranks: u32) -> Option<PhaseArguments> {
        let kind = shape.kind?;
        if kind == Collective::Barrier {
            return Some(PhaseArguments::BARRIER);
        }
        let part = shape.recv.or(shape.send)?;
        let is_same = |send: Part<'_>| {
            send.count == part.count
                && send.datatype.as_predefined() == part.datatype.as_predefined()
        };
        let has_root = matches!(shape.root, None | Some(Root::Rank(_)));
        if !has_root || !shape.send.is_none_or(is_same) {
            return None;
        }
        let op = match shape.op {
            Some(op) => Some(op.as_predefined()?),
            None => None,
        };
        let blocks = match kind {
            Collective::ReduceScatter if !shape.varies => ranks as usize,
            _ => 1,
        };
        Some(PhaseArguments {
            kind,
            datatype: Some(part.datatype.as_predefined()?),
            op,
            count: part.count * blocks,
        })
    }
}

/// A call that goes through one phase of the node's slots.
#[derive(Clone, Copy)]
pub struct PhasePlan {
    pub(crate) arguments: PhaseArguments,
    /// Bytes of a rank's block or vector.
    bytes: usize,
    /// Offset of a rank's data in its slot, unless the slot has a block for each rank.
    offset: isize,
    /// What all members must agree on, without the root.
    pub(crate) signature: CallSignature,
    /// Combines operands of a reduction; `None` of other calls.
    kernel: Option<Kernel>,
}

impl PhasePlan {
    /// Makes the plan of a call of this shape, whose schedule has one phase.
    ///
    /// Returns `None` if the schedule stores its data elsewhere in slots: elements with gaps, and
    /// long elements and vectors of reductions.
    pub(crate) fn of(
        shape: &Shape<'_>,
        arguments: PhaseArguments,
        signature: CallSignature,
    ) -> Option<PhasePlan> {
        if arguments == PhaseArguments::BARRIER {
            return Some(PhasePlan::barrier(signature));
        }
        let part = Part {
            count: arguments.count,
            ..shape.recv.or(shape.send)?
        };
        let kernel = match shape.op {
            Some(op) => Some(reduction::kernel(&part, op)?),
            None if part.count > 0 && slots::can_reduce(&part) => None,
            None => return None,
        };
        Some(PhasePlan {
            arguments,
            bytes: part.bytes(),
            offset: slot_offset(part.bytes()),
            signature: signature.without_root(),
            kernel,
        })
    }

    /// Makes the plan of a barrier.
    pub(crate) fn barrier(signature: CallSignature) -> PhasePlan {
        PhasePlan {
            arguments: PhaseArguments::BARRIER,
            bytes: 0,
            offset: 0,
            signature,
            kernel: None,
        }
    }

    /// Runs a call that the plan is for.
    ///
    /// # Safety
    /// The buffers are valid for what the call reads and writes by its arguments.
    pub(crate) unsafe fn run(
        &self,
        node: NodeContext<'_>,
        buffers: Buffers,
        call: &Call<'_>,
    ) -> Result<()> {
        node.check_members()?;
        // SAFETY: the buffers are valid for the call, by this function's contract, and the plan has
        // the call's arguments.
        unsafe {
            match (call, self.kernel) {
                (Call::Barrier, _) => barrier(node, self.signature),
                (_, Some(_)) => self.reduce_call(node, buffers, call),
                (_, None) => self.move_call(node, buffers, call),
            }
        }
    }
}

/// Runs a barrier of one phase.
#[inline(always)]
pub(crate) fn barrier(node: NodeContext<'_>, signature: CallSignature) -> Result<()> {
    let mut phase = Phase::begin(node, signature)?;
    phase.raise();
    phase.wait()?;
    phase.end(0)
}
