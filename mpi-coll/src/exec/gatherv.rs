//! Gatherv and scatterv within a node: short blocks go by slots, as those of gather and scatter do, others by messages.
//!
//! Each of a block's two ranks knows its length, and nobody else does. So all go through a phase of the slots, in which who
//! gives a block says how it comes.

use std::iter;

use crate::exec::buffers::Buffers;
use crate::exec::phase::{Parcel, Parcels};
use crate::exec::unscheduled::{MOST, NodeCall};
use crate::plan::call::{Call, Root};
use crate::plan::state::CommState;
use mpi_core::comm::Comm;
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::{Layout, Part};

/// Carries out such a call; `None`: it is none, and nothing was done.
///
/// # Safety
/// As for [`call`](crate::plan::call).
pub(crate) unsafe fn call(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
) -> Option<Result<()>> {
    let (Call::Gather {
        root: Root::Rank(root),
        varying: true,
        ..
    }
    | Call::Scatter {
        root: Root::Rank(root),
        varying: true,
        ..
    }) = *call
    else {
        return None;
    };
    let shared = state.shared_slots()?;
    if comm.size() as usize > MOST || !Parcels::have_room(shared) {
        return None;
    }
    let here = NodeCall {
        process,
        comm,
        shared,
        buffers,
        signature: CommState::signature(comm, call, 1),
    };
    // SAFETY: the caller's contract.
    Some(unsafe {
        match *call {
            Call::Gather { send, recv, .. } => gather(here, root, send, recv),
            Call::Scatter { send, recv, .. } => scatter(here, root, send, recv),
            _ => Ok(()),
        }
    })
}

impl<'a> NodeCall<'a> {
    fn parcels(self) -> Result<Parcels<'a>> {
        Parcels::begin(self.process, self.comm, self.shared, self.signature)
    }
}

/// # Safety
/// As for [`call`].
unsafe fn gather(
    here: NodeCall<'_>,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
) -> Result<()> {
    let (me, buffers) = (here.comm.rank(), here.buffers);
    let mut parcels = here.parcels()?;
    let tag = parcels.tag();
    let (Some(recv), true) = (recv, me == root) else {
        let Some(send) = send else {
            parcels.raise();
            return parcels.end();
        };
        parcels.claim()?;
        // SAFETY: the caller's contract.
        let is_put = unsafe { parcels.put(Parcel::ToRoot, buffers.send, &send) };
        parcels.raise();
        parcels.end()?;
        if is_put {
            return Ok(());
        }
        let send = Layout::Uniform(send);
        return here.by_messages(tag, |exchange| {
            let to = iter::once((0, root));
            // SAFETY: the caller's contract.
            unsafe { exchange.trade((to, &send), (iter::empty(), &send)) }
        });
    };
    parcels.raise();
    let own = send.map(Layout::Uniform);
    let is_copied = match &own {
        // SAFETY: the caller's contract.
        Some(own) => unsafe { here.copy_plain((own, 0), (&recv, me as usize)) },
        None => true,
    };
    let (mut rest, mut wrong) = (0u32, None);
    for (i, rank) in here.next_ones().filter(|(i, _)| recv.bytes(*i) > 0) {
        let to = buffers.recv.wrapping_offset(recv.offset(i));
        // SAFETY: the caller's contract.
        match unsafe { parcels.take(rank, Parcel::ToRoot, to, &part(&recv, i))? } {
            Ok(came) => rest |= u32::from(!came) << rank,
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    parcels.end()?;
    if rest != 0 || !is_copied {
        here.by_messages(tag, |exchange| {
            let from = among(here, rest);
            // SAFETY: the caller's contract.
            unsafe {
                exchange.trade((iter::empty(), &recv), (from, &recv))?;
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
/// As for [`call`].
unsafe fn scatter(
    here: NodeCall<'_>,
    root: u32,
    send: Option<Layout<'_>>,
    recv: Option<Part<'_>>,
) -> Result<()> {
    let (me, buffers) = (here.comm.rank(), here.buffers);
    let mut parcels = here.parcels()?;
    let tag = parcels.tag();
    let (Some(send), true) = (send, me == root) else {
        parcels.raise();
        let Some(recv) = recv.filter(|recv| recv.bytes() > 0) else {
            return parcels.end();
        };
        // SAFETY: the caller's contract.
        let taken = unsafe { parcels.take(root, Parcel::For(me), buffers.recv, &recv)? };
        parcels.end()?;
        if taken? {
            return Ok(());
        }
        let recv = Layout::Uniform(recv);
        return here.by_messages(tag, |exchange| {
            let from = iter::once((0, root));
            // SAFETY: the caller's contract.
            unsafe { exchange.trade((iter::empty(), &recv), (from, &recv)) }
        });
    };
    parcels.claim()?;
    let mut rest = 0u32;
    for (i, rank) in here.next_ones() {
        let from = buffers.send.wrapping_offset(send.offset(i));
        // SAFETY: the caller's contract.
        let is_put = unsafe { parcels.put(Parcel::For(rank), from, &part(&send, i)) };
        rest |= u32::from(!is_put) << rank;
    }
    parcels.raise();
    parcels.end()?;
    let own = recv.map(Layout::Uniform);
    let is_copied = match &own {
        // SAFETY: the caller's contract.
        Some(own) => unsafe { here.copy_plain((&send, me as usize), (own, 0)) },
        None => true,
    };
    if rest == 0 && is_copied {
        return Ok(());
    }
    here.by_messages(tag, |exchange| {
        let to = among(here, rest);
        // SAFETY: the caller's contract.
        unsafe {
            exchange.trade((to, &send), (iter::empty(), &send))?;
            match &own {
                Some(own) if !is_copied => exchange.copy_own((&send, me as usize), (own, 0)),
                _ => Ok(()),
            }
        }
    })
}

/// Block `i`.
fn part<'a>(layout: &Layout<'a>, i: usize) -> Part<'a> {
    Part {
        count: layout.count(i),
        datatype: layout.datatype(i),
    }
}

/// Of the other ranks those of a set, each with its block.
fn among(here: NodeCall<'_>, set: u32) -> impl Iterator<Item = (usize, u32)> {
    here.next_ones()
        .filter(move |(_, rank)| set & 1 << rank != 0)
}
