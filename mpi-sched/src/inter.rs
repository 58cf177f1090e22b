//! Collectives between the two groups of an intercommunicator (MPI-3.1 section 5.2.2).
//!
//! Rooted collectives move data from one group to the other; in all others each group gets the
//! result of the other's data. Rank 0 acts for its group where the group acts as one.

use super::alltoall::Window;
use super::barrier::{arrive, release};
use super::bcast::binomial;
use super::reduce::reduce_blocks;
use super::reduce_scatter::starts;
use super::schedule::{Block, Buf, Schedule};
use super::team::{Layout, Part, Team};
use mpi_types::op::Op;

/// The two groups, seen from a rank of the local one.
#[derive(Clone, Copy, Debug)]
pub struct Inter {
    local: Team<'static>,
    remote: Team<'static>,
}

/// The root of a rooted collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// A rank of the communicator, or of the remote group of an intercommunicator.
    Rank(u32),
    /// This process (`MPI_ROOT`). The rest of the root's group of an intercommunicator takes no part.
    This,
    /// Another process of this group of an intercommunicator (`MPI_PROC_NULL`).
    Other,
}

impl Root {
    /// Returns the root's number; `own` is that of this process.
    pub fn number(self, own: u32) -> u32 {
        match self {
            Root::Rank(rank) => rank,
            Root::This | Root::Other => own,
        }
    }
}

impl Inter {
    /// Creates the groups as seen from local `rank`. Messages to rank r of the remote group go to
    /// `local_size + r`.
    pub fn new(rank: u32, local_size: u32, remote_size: u32) -> Inter {
        Inter {
            local: Team::all(rank, local_size),
            remote: Team::run(0, local_size, remote_size as usize),
        }
    }

    fn leads(&self) -> bool {
        self.local.rank == 0
    }
}

/// Builds a barrier: no rank leaves before all of the other group have entered.
pub fn barrier(schedule: &mut Schedule, inter: Inter) {
    arrive(schedule, inter.local);
    if inter.leads() {
        let leader = inter.remote.peer(0);
        schedule.exchange(leader, Block::empty(), leader, Block::empty());
    }
    release(schedule, inter.local);
}

/// Builds a broadcast from the receive buffer of the root to those of the other group.
pub fn bcast(schedule: &mut Schedule, inter: Inter, root: Root, part: Part<'_>) {
    if part.bytes() == 0 {
        return;
    }
    let block = part.block(Buf::Recv, schedule);
    match root {
        Root::This => {
            schedule.send(inter.remote.peer(0), block);
        }
        Root::Other => {}
        Root::Rank(rank) => {
            let source = inter.leads().then(|| inter.remote.peer(rank as usize));
            binomial(schedule, inter.local, 0, source, block, part.datatype);
        }
    }
}

/// Builds a gather or gatherv: the root needs `recv`, the ranks of the other group `send`.
pub fn gather(
    schedule: &mut Schedule,
    inter: Inter,
    root: Root,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
) {
    rooted(schedule, inter, root, (recv, Buf::Recv), (send, Buf::Send));
}

/// Builds a scatter or scatterv: the root needs `send`, the ranks of the other group `recv`.
pub fn scatter(
    schedule: &mut Schedule,
    inter: Inter,
    root: Root,
    send: Option<Layout<'_>>,
    recv: Option<Part<'_>>,
) {
    rooted(schedule, inter, root, (send, Buf::Send), (recv, Buf::Recv));
}

/// Builds the messages between the root, which has `blocks`, and the ranks of the other group, each of
/// which has one.
fn rooted(
    schedule: &mut Schedule,
    inter: Inter,
    root: Root,
    (blocks, at_root): (Option<Layout<'_>>, Buf),
    (own, at_others): (Option<Part<'_>>, Buf),
) {
    let add = |schedule: &mut Schedule, member: usize, block: Block| {
        match block.buf {
            Buf::Recv => schedule.recv(inter.remote.peer(member), block),
            _ => schedule.send(inter.remote.peer(member), block),
        };
    };
    match (root, own, blocks) {
        (Root::This, _, Some(layout)) => {
            let blocks = layout.of(at_root, schedule);
            for other in 0..inter.remote.size() {
                let block = blocks.get(other, schedule);
                if layout.bytes(other) > 0 {
                    add(schedule, other, block);
                }
            }
        }
        (Root::Rank(rank), Some(part), _) if part.bytes() > 0 => {
            let block = part.block(at_others, schedule);
            add(schedule, rank as usize, block);
        }
        _ => {}
    }
}

/// Builds an allgather or allgatherv: every rank gets the blocks of the other group's ranks.
///
/// They go to this group's rank 0, which broadcasts them.
pub fn allgather(schedule: &mut Schedule, inter: Inter, send: Part<'_>, recv: Layout<'_>) {
    let Inter { local, remote } = inter;
    if send.bytes() > 0 {
        let block = send.block(Buf::Send, schedule);
        schedule.send(remote.peer(0), block);
    }
    let total: usize = (0..remote.size()).map(|i| recv.bytes(i)).sum();
    if total == 0 {
        return;
    }
    let blocks = recv.of(Buf::Recv, schedule);
    let staged = match recv {
        Layout::Uniform(part) => {
            let first = blocks.get(0, schedule);
            let whole = Block {
                count: remote.size() * part.count,
                ..first
            };
            Some(schedule.stage(whole, part.datatype))
        }
        _ => None,
    };
    let bytes = match staged {
        Some(staged) => staged.bytes,
        None => schedule.scratch_bytes(total),
    };
    let pieces = || {
        (0..remote.size()).scan(0, |at, i| {
            let start = *at;
            *at += recv.bytes(i);
            Some((i, start..*at))
        })
    };
    let first = schedule.here();
    if inter.leads() {
        for (i, range) in pieces().filter(|piece| !piece.1.is_empty()) {
            schedule.recv(remote.peer(i), bytes.cut(range));
        }
    }
    schedule.wait(first..schedule.here());
    // The bytes are contiguous: the byte type describes them.
    let byte = schedule.type_of(bytes.datatype).clone();
    binomial(schedule, local, 0, None, bytes, &byte);
    if let Some(staged) = staged {
        staged.unpack(schedule);
        return;
    }
    for (i, range) in pieces() {
        let block = blocks.get(i, schedule);
        schedule.copy(bytes.cut(range), block);
    }
}

/// Builds an alltoall, alltoallv or alltoallw with the other group, with `window` rounds in flight.
pub fn alltoall(
    schedule: &mut Schedule,
    inter: Inter,
    send: Layout<'_>,
    recv: Layout<'_>,
    window: usize,
) {
    let Inter { local, remote } = inter;
    let source = send.of(Buf::Send, schedule);
    let target = recv.of(Buf::Recv, schedule);
    let rounds = local.size().max(remote.size());
    let mut window = Window::new(window.max(1), rounds);
    for round in 0..rounds {
        window.begin(schedule);
        let from = (local.rank + rounds - round) % rounds;
        let to = (local.rank + round) % rounds;
        if from < remote.size() && recv.bytes(from) > 0 {
            let block = target.get(from, schedule);
            schedule.recv(remote.peer(from), block);
        }
        if to < remote.size() && send.bytes(to) > 0 {
            let block = source.get(to, schedule);
            schedule.send(remote.peer(to), block);
        }
    }
}

/// Builds a reduction of this group's send buffers; returns the block of the result at rank 0.
fn reduce_local(schedule: &mut Schedule, inter: Inter, part: Part<'_>, op: &Op) -> Option<Block> {
    schedule.set_op(op);
    let send = part.block(Buf::Send, schedule);
    let sum = inter
        .leads()
        .then(|| schedule.scratch_for(part.count, part.datatype, send.datatype));
    let commutes = op.is_commutative();
    reduce_blocks(schedule, inter.local, 0, send, sum, part, commutes);
    sum
}

/// Builds a reduction of the other group's send buffers to the root's receive buffer.
pub fn reduce(schedule: &mut Schedule, inter: Inter, root: Root, part: Part<'_>, op: &Op) {
    if part.count == 0 {
        return;
    }
    match root {
        Root::This => {
            let block = part.block(Buf::Recv, schedule);
            schedule.recv(inter.remote.peer(0), block);
        }
        Root::Other => {}
        Root::Rank(rank) => {
            if let Some(sum) = reduce_local(schedule, inter, part, op) {
                schedule.send(inter.remote.peer(rank as usize), sum);
            }
        }
    }
}

/// Builds an allreduce: every rank gets the reduction of the other group's send buffers.
pub fn allreduce(schedule: &mut Schedule, inter: Inter, part: Part<'_>, op: &Op) {
    if part.count == 0 {
        return;
    }
    let sum = reduce_local(schedule, inter, part, op);
    if let Some(sum) = sum {
        schedule.send(inter.remote.peer(0), sum);
    }
    let block = part.block(Buf::Recv, schedule);
    let source = inter.leads().then(|| inter.remote.peer(0));
    binomial(schedule, inter.local, 0, source, block, part.datatype);
}

/// Builds a reduce-scatter: the reduction of the other group's send buffers is divided among this
/// group's ranks by `blocks` (uniform, or varying without displacements).
pub fn reduce_scatter(schedule: &mut Schedule, inter: Inter, blocks: Layout<'_>, op: &Op) {
    let Inter { local, remote } = inter;
    let datatype = blocks.datatype(0);
    let part = Part {
        count: (0..local.size()).map(|i| blocks.count(i)).sum(),
        datatype,
    };
    if part.count == 0 {
        return;
    }
    let sum = reduce_local(schedule, inter, part, op);
    let own = Part {
        count: blocks.count(local.rank),
        datatype,
    };
    let block = own.block(Buf::Recv, schedule);
    let Some(sum) = sum else {
        if own.count > 0 {
            schedule.recv(local.peer(0), block);
        }
        return;
    };
    let theirs = schedule.scratch_for(part.count, datatype, sum.datatype);
    let leader = remote.peer(0);
    schedule.exchange(leader, theirs, leader, sum);
    let starts = starts(schedule, &blocks, local.size());
    for rank in 1..local.size() {
        let piece = theirs.slice(datatype.extent(), starts[rank]..starts[rank + 1]);
        if piece.count > 0 {
            schedule.send(local.peer(rank), piece);
        }
    }
    schedule.give_list(starts);
    schedule.copy(theirs.slice(datatype.extent(), 0..own.count), block);
}
