//! Neighbourhood collectives (MPI-3.1 section 7.6).

use super::schedule::{Buf, Schedule};
use super::team::{Layout, Part};

/// The neighbours of a rank in its topology, in order. Duplicates and the rank itself are allowed;
/// negative numbers are `MPI_PROC_NULL`, whose blocks are neither sent nor written.
///
/// Messages between two ranks are received in the order sent. In a Cartesian topology neighbours
/// come in pairs, below and above, and a message sent downwards arrives from above. To make this
/// hold where both neighbours are the same rank (a periodic dimension of size 1 or 2, which MPI-4.0
/// section 8.6 settles), the messages of a pair are received in reverse order.
#[derive(Clone, Copy, Debug)]
pub struct Neighbors<'a> {
    /// Ranks that send to this one.
    pub sources: &'a [i32],
    /// Ranks that this one sends to.
    pub destinations: &'a [i32],
    /// Whether the topology is Cartesian.
    pub cartesian: bool,
}

impl<'a> Neighbors<'a> {
    /// Iterates over the sources with their ranks, in the order in which their messages are
    /// received.
    #[inline]
    pub fn receives(&self) -> impl Iterator<Item = (usize, u32)> + use<'a> {
        let Neighbors {
            sources, cartesian, ..
        } = *self;
        let order = move |i: usize| match cartesian && i ^ 1 < sources.len() {
            true => i ^ 1,
            false => i,
        };
        let ranked = move |i: usize| Some((i, u32::try_from(sources[i]).ok()?));
        (0..sources.len()).map(order).filter_map(ranked)
    }

    /// Iterates over the destinations with their ranks.
    #[inline]
    pub fn sends(&self) -> impl Iterator<Item = (usize, u32)> + use<'a> {
        let ranked = |(i, &rank): (usize, &i32)| Some((i, u32::try_from(rank).ok()?));
        self.destinations.iter().enumerate().filter_map(ranked)
    }
}

/// Builds a `neighbor_allgather` or `-v`: the same data goes to all destinations.
pub fn neighbor_allgather(
    schedule: &mut Schedule,
    neighbors: Neighbors<'_>,
    send: Part<'_>,
    recv: Layout<'_>,
) {
    receive(schedule, neighbors, recv);
    if send.bytes() == 0 {
        return;
    }
    let block = send.block(Buf::Send, schedule);
    let several = neighbors.sends().nth(1).is_some();
    // Data with gaps is packed once for all destinations.
    let block = match several {
        true => {
            let staged = schedule.stage(block, send.datatype);
            staged.pack(schedule);
            staged.bytes
        }
        false => block,
    };
    for (_, rank) in neighbors.sends() {
        schedule.send(rank, block);
    }
}

/// Builds a `neighbor_alltoall`, `-v` or `-w`: each destination has its own block.
pub fn neighbor_alltoall(
    schedule: &mut Schedule,
    neighbors: Neighbors<'_>,
    send: Layout<'_>,
    recv: Layout<'_>,
) {
    receive(schedule, neighbors, recv);
    let blocks = send.of(Buf::Send, schedule);
    for (i, rank) in neighbors.sends() {
        let block = blocks.get(i, schedule);
        if send.bytes(i) > 0 {
            schedule.send(rank, block);
        }
    }
}

fn receive(schedule: &mut Schedule, neighbors: Neighbors<'_>, recv: Layout<'_>) {
    if neighbors.sources.is_empty() {
        return;
    }
    let blocks = recv.of(Buf::Recv, schedule);
    for (i, rank) in neighbors.receives() {
        let block = blocks.get(i, schedule);
        if recv.bytes(i) > 0 {
            schedule.recv(rank, block);
        }
    }
}
