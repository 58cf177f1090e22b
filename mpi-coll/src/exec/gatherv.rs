//! Executor of gatherv and scatterv within a node: short blocks go by slots, longer ones by messages.
//!
//! Only the two ranks of a block know its length. So all ranks go through one phase of the slots, in
//! which the sender of each block publishes its length, or that the block comes by a message.

use std::iter;

use crate::exec::buffers::Buffers;
use crate::exec::phase::{NodeContext, Parcel, Parcels};
use crate::exec::unscheduled::NodeCall;
use crate::plan::call::Call;
use crate::plan::state::CommState;
use mpi_core::error::Result;
use mpi_sched::{Layout, Part};

/// Runs a gatherv to rank `root`, or a scatterv from it.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
pub(crate) unsafe fn run(
    node: NodeContext<'_>,
    root: u32,
    buffers: Buffers,
    call: &Call<'_>,
) -> Result<()> {
    let signature = CommState::signature(node.comm, call, 1);
    let node_call = NodeCall {
        node,
        buffers,
        signature,
    };
    // SAFETY: this function's contract.
    unsafe {
        match *call {
            Call::Gather { send, recv, .. } => gather(node_call, root, send, recv),
            Call::Scatter { send, recv, .. } => scatter(node_call, root, send, recv),
            _ => Ok(()),
        }
    }
}

/// # Safety
/// That of [`run`].
unsafe fn gather(
    call: NodeCall<'_>,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
) -> Result<()> {
    let (me, buffers) = (call.node.comm.rank(), call.buffers);
    let mut parcels = Parcels::begin(call.node, call.signature)?;
    let tag = parcels.tag();
    let (Some(recv), true) = (recv, me == root) else {
        let Some(send) = send else {
            parcels.raise();
            return parcels.end();
        };
        parcels.claim()?;
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        let is_put = unsafe { parcels.put(Parcel::ToRoot, buffers.send, &send) };
        parcels.raise();
        parcels.end()?;
        if is_put {
            return Ok(());
        }
        let send = Layout::Uniform(send);
        return call.exchange(tag, |exchange| {
            let to = iter::once((0, root));
            // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
            unsafe { exchange.swap_blocks((to, &send), (iter::empty(), &send)) }
        });
    };
    parcels.raise();
    let own = send.map(Layout::Uniform);
    let is_copied = match &own {
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        Some(own) => unsafe { call.copy_contiguous((own, 0), (&recv, me as usize)) },
        None => true,
    };
    let (mut rest, mut wrong) = (0u32, None);
    for (i, rank) in call.others_from_next().filter(|(i, _)| recv.bytes(*i) > 0) {
        let to = buffers.recv.wrapping_offset(recv.offset(i));
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        match unsafe { parcels.take(rank, Parcel::ToRoot, to, &part(&recv, i))? } {
            Ok(came) => rest |= u32::from(!came) << rank,
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    parcels.end()?;
    if rest != 0 || !is_copied {
        call.exchange(tag, |exchange| {
            let from = among(call, rest);
            // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
            unsafe {
                exchange.swap_blocks((iter::empty(), &recv), (from, &recv))?;
                match &own {
                    Some(own) if !is_copied => exchange.copy_own((own, 0), (&recv, me as usize)),
                    _ => Ok(()),
                }
            }
        })?;
    }
    wrong.map_or(Ok(()), Err)
}

/// # Safety
/// That of [`run`].
unsafe fn scatter(
    call: NodeCall<'_>,
    root: u32,
    send: Option<Layout<'_>>,
    recv: Option<Part<'_>>,
) -> Result<()> {
    let (me, buffers) = (call.node.comm.rank(), call.buffers);
    let mut parcels = Parcels::begin(call.node, call.signature)?;
    let tag = parcels.tag();
    let (Some(send), true) = (send, me == root) else {
        parcels.raise();
        let Some(recv) = recv.filter(|recv| recv.bytes() > 0) else {
            return parcels.end();
        };
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        let taken = unsafe { parcels.take(root, Parcel::For(me), buffers.recv, &recv)? };
        parcels.end()?;
        if taken? {
            return Ok(());
        }
        let recv = Layout::Uniform(recv);
        return call.exchange(tag, |exchange| {
            let from = iter::once((0, root));
            // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
            unsafe { exchange.swap_blocks((iter::empty(), &recv), (from, &recv)) }
        });
    };
    parcels.claim()?;
    let mut rest = 0u32;
    for (i, rank) in call.others_from_next() {
        let from = buffers.send.wrapping_offset(send.offset(i));
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        let is_put = unsafe { parcels.put(Parcel::For(rank), from, &part(&send, i)) };
        rest |= u32::from(!is_put) << rank;
    }
    parcels.raise();
    parcels.end()?;
    let own = recv.map(Layout::Uniform);
    let is_copied = match &own {
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        Some(own) => unsafe { call.copy_contiguous((&send, me as usize), (own, 0)) },
        None => true,
    };
    if rest == 0 && is_copied {
        return Ok(());
    }
    call.exchange(tag, |exchange| {
        let to = among(call, rest);
        // SAFETY: the buffers are valid for the call's blocks, by this function's contract.
        unsafe {
            exchange.swap_blocks((to, &send), (iter::empty(), &send))?;
            match &own {
                Some(own) if !is_copied => exchange.copy_own((&send, me as usize), (own, 0)),
                _ => Ok(()),
            }
        }
    })
}

/// Returns block `i`.
fn part<'a>(layout: &Layout<'a>, i: usize) -> Part<'a> {
    Part {
        count: layout.count(i),
        datatype: layout.datatype(i),
    }
}

/// Returns the other ranks in the bit set `set`, each with the number of its block.
fn among(call: NodeCall<'_>, set: u32) -> impl Iterator<Item = (usize, u32)> {
    call.others_from_next()
        .filter(move |(_, rank)| set & 1 << rank != 0)
}
