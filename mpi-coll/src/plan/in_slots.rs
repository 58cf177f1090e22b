//! Which collective calls use the slots of a node, and by which algorithm.

use crate::plan::call::{Call, Root, total};
use mpi_sched::{Choices, Collective, Layout, Part, Schedule, Situation, Slots, slots};

/// Slots that the data of one nonblocking collective may fill.
const SLOTS_PER_CALL: usize = 4;

/// Ranks that may read the same long data at the same time.
pub(crate) const MAX_DIRECT_READERS: usize = 8;

impl Call<'_> {
    /// Whether each rank computes a one-phase call's result itself, rather than up a tree.
    pub(crate) fn is_flat(&self, slots: Slots) -> bool {
        match self {
            Call::Reduce { part, .. } => slots::is_small(slots, part.bytes()),
            _ => true,
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
        let at = |bytes: usize| Situation {
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
        let wanted = |collective: Collective, bytes: usize| {
            bytes <= most && choices.in_slots(collective, &at(bytes), slots.into())
        };
        let chunk = |collective: Collective, bytes: usize| {
            choices.direct_chunk(collective, &at(bytes), slots)
        };
        let number = |root: Root| match root {
            Root::Rank(rank) => rank,
            Root::This | Root::Other => slots.rank,
        };
        let asks = |collective: Collective, bytes: usize| {
            choices.asks_for_direct(collective, &at(bytes), slots.into())
        };
        // Long data is read in place by default.
        let direct = |collective: Collective, bytes: usize| {
            let is_same = matches!(collective, Collective::Bcast | Collective::Allgather);
            slots.direct != slots::Direct::No
                && (!is_same || size <= MAX_DIRECT_READERS || asks(collective, bytes))
                && bytes > 0
                && choices.goes_direct(collective, &at(bytes), slots)
        };
        let by_shares = |collective: Collective, bytes: usize| {
            direct(collective, bytes) && (size > 2 || asks(collective, bytes))
        };
        match *self {
            Call::Bcast { root, part } if direct(Collective::Bcast, part.bytes()) => {
                slots::bcast_direct(schedule, slots, number(root), part);
            }
            Call::Allgather {
                send,
                recv: Layout::Uniform(part),
            } if direct(Collective::Allgather, part.bytes() * size) => {
                slots::allgather_direct(schedule, slots, send, part);
            }
            Call::Alltoall {
                send: Some(Layout::Uniform(send)),
                recv: Layout::Uniform(recv),
            } if direct(Collective::Alltoall, recv.bytes()) => {
                slots::alltoall_direct(schedule, slots, send, recv);
            }
            Call::Barrier if wanted(Collective::Barrier, 0) => slots::barrier(schedule, slots),
            Call::Bcast { root, part } if wanted(Collective::Bcast, part.bytes()) => {
                slots::bcast(schedule, slots, number(root), part);
            }
            Call::Gather {
                root,
                send,
                recv,
                varying: false,
            } => {
                let own = send.map(|part| part.bytes());
                let bytes = own.or(recv.map(|layout| layout.bytes(0))).unwrap_or(0);
                if !wanted(Collective::Gather, bytes) {
                    return false;
                }
                slots::gather(schedule, slots, number(root), send, recv);
            }
            Call::Scatter {
                root,
                send,
                recv,
                varying: false,
            } => {
                let own = recv.map(|part| part.bytes());
                let bytes = own.or(send.map(|layout| layout.bytes(0))).unwrap_or(0);
                let send = match send {
                    Some(Layout::Uniform(part)) => Some(part),
                    _ => None,
                };
                if !slots::can_scatter(slots) || !wanted(Collective::Scatter, bytes) {
                    return false;
                }
                slots::scatter(schedule, slots, number(root), send, recv);
            }
            Call::Allgather { send, recv } if wanted(Collective::Allgather, total(&recv, size)) => {
                slots::allgather(schedule, slots, send, recv);
            }
            Call::Alltoall { send, recv } => {
                let Layout::Uniform(part) = recv else {
                    return false;
                };
                let send = match send {
                    None => None,
                    Some(Layout::Uniform(part)) => Some(part),
                    Some(_) => return false,
                };
                if !slots::can_scatter(slots) || !wanted(Collective::Alltoall, part.bytes()) {
                    return false;
                }
                slots::alltoall(schedule, slots, send, part);
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } if slots::can_reduce_direct(slots, &part, op)
                && direct(Collective::Reduce, part.bytes()) =>
            {
                slots::reduce_direct(schedule, slots, number(root), in_place, part, op);
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } if slots::can_reduce(&part) && by_shares(Collective::Reduce, part.bytes()) => {
                let piece = chunk(Collective::Reduce, part.bytes());
                let how = (number(root), in_place);
                slots::reduce_direct_by_shares(schedule, slots, how, part, op, piece);
            }
            Call::Allreduce { in_place, part, op }
                if slots::can_reduce(&part) && by_shares(Collective::Allreduce, part.bytes()) =>
            {
                let piece = chunk(Collective::Allreduce, part.bytes());
                slots::allreduce_direct(schedule, slots, in_place, part, op, piece);
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } if slots::can_reduce(&part) && wanted(Collective::Reduce, part.bytes()) => {
                let root = number(root);
                match choices.reduce_tree(&at(part.bytes()), slots) {
                    Some(tree) => {
                        let how = (root, in_place);
                        slots::reduce_by_tree(schedule, slots, how, part, op, tree);
                    }
                    None => slots::reduce(schedule, slots, root, in_place, part, op),
                }
            }
            Call::Allreduce { in_place, part, op }
                if (slots::can_reduce(&part) || slots::can_reduce_with_gaps(slots, &part))
                    && wanted(Collective::Allreduce, part.bytes()) =>
            {
                slots::allreduce(schedule, slots, in_place, part, op);
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } if slots::can_reduce_with_gaps(slots, &part)
                && wanted(Collective::Reduce, part.bytes()) =>
            {
                slots::reduce(schedule, slots, number(root), in_place, part, op);
            }
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => {
                let (datatype, count) = (blocks.datatype(0), 1);
                let bytes = total(&blocks, size);
                if !slots::can_reduce(&Part { count, datatype })
                    || bytes > slots.room
                    || !wanted(Collective::ReduceScatter, bytes)
                {
                    return false;
                }
                slots::reduce_scatter(schedule, slots, in_place, blocks, op);
            }
            Call::Scan { in_place, part, op }
                if slots::can_reduce(&part)
                    && part.bytes() <= slots.room.min(4096)
                    && wanted(Collective::Scan, part.bytes()) =>
            {
                slots::scan(schedule, slots, in_place, part, op, false);
            }
            Call::Exscan { in_place, part, op }
                if slots::can_reduce(&part)
                    && part.bytes() <= slots.room.min(4096)
                    && wanted(Collective::Exscan, part.bytes()) =>
            {
                slots::scan(schedule, slots, in_place, part, op, true);
            }
            _ => return false,
        }
        true
    }
}
