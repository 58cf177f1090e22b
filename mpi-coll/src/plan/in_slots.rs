//! Which collective calls use the slots of a node, and by which algorithm.

use crate::plan::call::{Call, Root};
use mpi_sched::{Choices, Collective, Layout, Part, Reduction, Schedule, Situation, Slots, slots};

/// Slots that the data of one nonblocking collective may fill.
const SLOTS_PER_CALL: usize = 4;

/// Ranks that may read the same long data at the same time.
pub(crate) const MAX_DIRECT_READERS: usize = 8;

/// Bytes of a scan or exscan in slots, at the most.
const MAX_SCAN: usize = 4096;

impl Call<'_> {
    /// Whether each rank computes a one-phase call's result itself, rather than up a tree.
    pub(crate) fn is_flat(&self, slots: Slots) -> bool {
        match self {
            Call::Reduce(_, of) => slots::is_small(slots, of.part.bytes()),
            _ => true,
        }
    }

    /// Whether slots can carry the call of `bytes` bytes out, copies through them that is.
    fn fits(&self, slots: Slots, bytes: usize) -> bool {
        match *self {
            Call::Barrier
            | Call::Bcast(..)
            | Call::Allgather(..)
            | Call::Gather { varying: false, .. } => true,
            Call::Scatter { varying: false, .. }
            | Call::Alltoall(None | Some(Layout::Uniform(_)), Layout::Uniform(_)) => {
                slots::can_scatter(slots)
            }
            Call::Reduce(_, of) | Call::Allreduce(of) => {
                slots::can_reduce(&of.part) || slots::can_reduce_with_gaps(slots, &of.part)
            }
            Call::ReduceScatter { blocks, .. } => {
                let (datatype, count) = (blocks.datatype(0), 1);
                slots::can_reduce(&Part { count, datatype }) && bytes <= slots.room
            }
            Call::Scan(of) | Call::Exscan(of) => {
                slots::can_reduce(&of.part) && bytes <= slots.room.min(MAX_SCAN)
            }
            _ => false,
        }
    }

    /// Builds a schedule over the node's slots. Returns false, and builds nothing, if the call
    /// should not use them.
    pub(crate) fn in_slots(
        &self,
        slots: Slots,
        choices: &Choices,
        schedule: &mut Schedule,
    ) -> bool {
        let size = slots.size as usize;
        let Some(collective) = self.collective() else {
            return false;
        };
        let bytes = self.bytes(size);
        let situation = Situation {
            ranks: size,
            per_node: size,
            bytes,
            commutes: true,
        };
        // Collectives in progress together leave slots for each other.
        let most = match slots.is_nonblocking {
            true => SLOTS_PER_CALL * slots.room,
            false => usize::MAX,
        };
        let wanted = || bytes <= most && choices.in_slots(collective, &situation, slots.into());
        let asks = || choices.asks_for_direct(collective, &situation, slots.into());
        // Long data is read in place by default.
        let direct = || {
            let is_same = matches!(collective, Collective::Bcast | Collective::Allgather);
            slots.direct != slots::Direct::No
                && (!is_same || size <= MAX_DIRECT_READERS || asks())
                && bytes > 0
                && choices.goes_direct(collective, &situation, slots)
        };
        let by_shares =
            |of: &Reduction<'_>| slots::can_reduce(&of.part) && direct() && (size > 2 || asks());
        let chunk = || choices.direct_chunk(collective, &situation, slots);
        let number = |root: Root| root.number(slots.rank);
        match *self {
            Call::Bcast(root, part) if direct() => {
                slots::bcast_direct(schedule, slots, number(root), part);
            }
            Call::Allgather(send, Layout::Uniform(part)) if direct() => {
                slots::allgather_direct(schedule, slots, send, part);
            }
            Call::Alltoall(Some(Layout::Uniform(send)), Layout::Uniform(recv)) if direct() => {
                slots::alltoall_direct(schedule, slots, send, recv);
            }
            Call::Reduce(root, of) if slots::can_reduce_direct(slots, of) && direct() => {
                slots::reduce_direct(schedule, slots, number(root), of);
            }
            Call::Reduce(root, of) if by_shares(&of) => {
                slots::reduce_direct_by_shares(schedule, slots, number(root), of, chunk());
            }
            Call::Allreduce(of) if by_shares(&of) => {
                slots::allreduce_direct(schedule, slots, of, chunk());
            }
            _ if !self.fits(slots, bytes) || !wanted() => return false,
            Call::Barrier => slots::barrier(schedule, slots),
            Call::Bcast(root, part) => slots::bcast(schedule, slots, number(root), part),
            Call::Gather {
                root, send, recv, ..
            } => slots::gather(schedule, slots, number(root), send, recv),
            Call::Scatter {
                root, send, recv, ..
            } => {
                let send = send.and_then(uniform);
                slots::scatter(schedule, slots, number(root), send, recv);
            }
            Call::Allgather(send, recv) => slots::allgather(schedule, slots, send, recv),
            Call::Alltoall(send, Layout::Uniform(part)) => {
                slots::alltoall(schedule, slots, send.and_then(uniform), part);
            }
            Call::Reduce(root, of) => {
                let (root, tree) = (number(root), choices.reduce_tree(&situation, slots));
                match tree.filter(|_| slots::can_reduce(&of.part)) {
                    Some(tree) => slots::reduce_by_tree(schedule, slots, root, of, tree),
                    None => slots::reduce(schedule, slots, root, of),
                }
            }
            Call::Allreduce(of) => slots::allreduce(schedule, slots, of),
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => slots::reduce_scatter(schedule, slots, in_place, blocks, op),
            Call::Scan(of) => slots::scan(schedule, slots, of, false),
            Call::Exscan(of) => slots::scan(schedule, slots, of, true),
            _ => return false,
        }
        true
    }
}

/// Returns the part that all blocks share; `None` if they differ.
pub(crate) fn uniform(layout: Layout<'_>) -> Option<Part<'_>> {
    match layout {
        Layout::Uniform(part) => Some(part),
        _ => None,
    }
}
