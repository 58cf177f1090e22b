//! Endpoints: several ranks of one communicator in a process, for its threads.
//!
//! They are no part of MPI-3.1; "rankpoints" is another name. Each endpoint is a rank as any other:
//! it has a VCI of the process and receives in a context of its own, so that messages to one are
//! never found by another, even if they share a VCI. All members know of each rank the process, the
//! VCI and the context.

use std::sync::Arc;

use netmod::{Peer, VciId};

use crate::creation::vcis;
use mpi_core::comm::points::{Point, Points};
use mpi_core::comm::vci_map::{Spread, VciMap};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::vci::pool::{self, Taken};

/// The most endpoints that a process can have in one communicator.
pub const MAX_ENDPOINTS: u32 = 1 << 16;

/// Bytes of a point in what members tell each other.
const POINT: usize = 10;

/// Makes a communicator in which this process has `count` ranks, one after the other, as members
/// of the process before; all members of the intracommunicator `comm` call it, each with a count
/// of its own. Each of the communicators that come back is one of these ranks, to be used by one
/// thread at a time.
///
/// # Errors
/// `MPI_ERR_COMM` for an intercommunicator and one with endpoints, `MPI_ERR_ARG` if there are
/// none at all.
pub fn create_endpoints(process: &Process, comm: &Comm, count: u32) -> Result<Vec<Comm>> {
    comm.check_plain("MPIX_Comm_create_endpoints")?;
    if comm.remote().is_some() {
        return Err(Error::new(
            Class::Comm,
            "the communicator is an intercommunicator; endpoints are made of \
             intracommunicators only",
        ));
    }
    let counts = crate::collective::gather_all_u64(process, comm, [u64::from(count)])?;
    let total: u64 = counts.iter().map(|told| told[0]).sum();
    let fits = |told: &[u64; 1]| told[0] <= u64::from(MAX_ENDPOINTS);
    if total == 0 || total > i32::MAX as u64 || !counts.iter().all(fits) {
        return Err(Error::new(
            Class::Arg,
            format!(
                "the processes ask for {total} endpoints together; they can have 1 or more, \
                 and each process up to {MAX_ENDPOINTS}"
            ),
        ));
    }
    let map = endpoint_vcis(process, count as usize);
    let vcis = map.as_ref().map_or(&[0][..], |map| map.vcis());
    let mut told = Vec::new();
    for i in 0..count as usize {
        told.extend(process.new_context().to_bits().to_le_bytes());
        told.extend(vcis[i % vcis.len()].to_le_bytes());
    }
    // The address of VCI 0 is known.
    let others: Vec<VciId> = vcis.iter().copied().filter(|vci| *vci != 0).collect();
    told.extend(vcis::addresses(process, comm, &others));
    let all =
        crate::creation::vcis::gather_all_bytes(process, comm, Some(&told))?.unwrap_or_default();
    let mut list = Vec::new();
    let mut first = 0;
    for (rank, (mut told, [count])) in all.iter().map(Vec::as_slice).zip(&counts).enumerate() {
        let peer = comm.local().peer(rank as u32);
        if rank as u32 == comm.rank() {
            first = list.len() as u32;
        }
        for _ in 0..*count {
            let (point, rest) = take_point(peer, told).ok_or_else(broken)?;
            list.push(point);
            told = rest;
        }
        while let Some((vci, transport, address)) = vcis::next_address(&mut told) {
            process.learn(peer, vci, transport, address);
        }
    }
    if list.len() as u64 != total {
        return Err(broken());
    }
    let peers: Vec<Peer> = list.iter().map(|point| point.peer).collect();
    let group = Group::of_points(&peers);
    let points = Arc::new(Points {
        list: list.into(),
        one_each: false,
        _kept: map.map(|map| Arc::new(map) as _),
    });
    Ok((first..first + count)
        .map(|rank| Comm::endpoint(points.clone(), group.clone(), rank))
        .collect())
}

/// VCIs for so many endpoints of this process: free ones, and others in turn. None if there is
/// no other than VCI 0. (Each process chooses for itself, since all tell what they have.)
fn endpoint_vcis(process: &Process, count: usize) -> Option<VciMap> {
    let mut taken = Taken::default();
    for (vci, users) in process.users().counts().enumerate() {
        taken.note(vci as VciId, users > 0, process.is_lockless(vci as VciId));
    }
    let wanted = count.min(process.pool() - 1);
    let vcis = pool::choose(wanted, &taken, process.pool(), process.next_turn(), false);
    if vcis.is_empty() || vcis.iter().any(|vci| process.open_vci(*vci).is_err()) {
        return None;
    }
    VciMap::new(Spread::Thread, vcis, process.users(), false)
}

/// Duplicates a communicator with endpoints; each of them calls it.
pub(crate) fn dup_endpoint(process: &Process, comm: &Comm, points: &Arc<Points>) -> Result<Comm> {
    let contexts =
        crate::collective::gather_all_u64(process, comm, [process.new_context().to_bits()])?;
    let list = points.list.iter().zip(&contexts);
    let list = list.map(|(point, [context])| Point {
        context: ContextId::from_bits(*context),
        ..*point
    });
    let points = Arc::new(Points {
        list: list.collect(),
        one_each: points.one_each,
        _kept: points._kept.clone(),
    });
    Ok(Comm::endpoint(points, comm.local().clone(), comm.rank()))
}

pub(super) fn take_point(peer: Peer, bytes: &[u8]) -> Option<(Point, &[u8])> {
    let (point, rest) = bytes.split_first_chunk::<POINT>()?;
    let (context, vci) = point.split_first_chunk::<8>()?;
    let point = Point {
        peer,
        vci: VciId::from_le_bytes([vci[0], vci[1]]),
        context: ContextId::from_bits(u64::from_le_bytes(*context)),
    };
    Some((point, rest))
}

fn broken() -> Error {
    Error::new(
        Class::Intern,
        "a member told less of its endpoints than it announced",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_to_the_end_and_no_further() {
        let mut bytes = ContextId::new(3, 9).to_bits().to_le_bytes().to_vec();
        bytes.extend(7u16.to_le_bytes());
        bytes.push(1);
        let (point, rest) = take_point(5, &bytes).unwrap();
        assert_eq!((point.peer, point.vci), (5, 7));
        assert_eq!(point.context, ContextId::new(3, 9));
        assert_eq!(rest, [1]);
        assert!(take_point(5, &bytes[..POINT - 1]).is_none());
    }

    #[test]
    fn groups_with_processes_more_than_once_find_each_rank() {
        let group = Group::of_points(&[4, 4, 4, 2, 2]);
        assert_eq!(group.size(), 5);
        assert_eq!(group.peers().collect::<Vec<_>>(), [4, 4, 4, 2, 2]);
        assert!(group.rank_of(4).is_some_and(|rank| rank < 3));
        assert_eq!(group.rank_of(7), None);
    }
}
