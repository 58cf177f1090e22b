//! Endpoints: several ranks of one communicator in a process, for its threads.
//!
//! They are not part of MPI-3.1; "rankpoints" is another name. Each endpoint is a rank like any
//! other. It has a VCI of the process and receives in a context of its own, so that its messages
//! can't be matched by another endpoint, even on the same VCI. All members know the process and the
//! VCI of each rank. Rank 0 chooses a block of contexts, as many as the largest process has ranks:
//! rank `n` of each process receives in context `n` of the block. A duplicate takes a new block and
//! nothing else.

use std::sync::Arc;

use netmod::{Peer, VciId};

use crate::creation::vcis;
use mpi_core::comm::endpoint_table::{EndpointAddress, EndpointTable};
use mpi_core::comm::vci_map::{VciMap, VciSelection};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::vci::pool::{self, Taken};

/// The most endpoints of a process in one communicator.
pub const MAX_ENDPOINTS: u32 = 1 << 16;

/// Makes a communicator in which this process has `count` consecutive ranks; collective over the
/// intracommunicator `comm`, each process with its own count.
///
/// Returns one communicator per rank, each for one thread at a time.
///
/// # Errors
/// `MPI_ERR_COMM` for an intercommunicator and one with endpoints, `MPI_ERR_ARG` if there are none
/// at all.
pub fn create_endpoints(process: &Process, comm: &Comm, count: u32) -> Result<Vec<Comm>> {
    comm.check_plain("MPIX_Comm_create_endpoints")?;
    if comm.remote().is_some() {
        return Err(Error::new(
            Class::Comm,
            "the communicator is an intercommunicator; endpoints are made of \
             intracommunicators only",
        ));
    }
    let counts = mpi_coll::gather_all_u64(process, comm, [u64::from(count)])?;
    let total: u64 = counts.iter().map(|received| received[0]).sum();
    let fits = |received: &[u64; 1]| received[0] <= u64::from(MAX_ENDPOINTS);
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
    let own = vcis.iter().copied().cycle().take(count as usize);
    let own: Vec<VciId> = own.collect();
    let counts = counts.iter().map(|received| received[0] as u32);
    let counts: Vec<u32> = counts.collect();
    let contexts = counts.iter().copied().max().unwrap_or(1);
    let (context, all) = gather_vcis(process, comm, &own, &counts, contexts)?;
    let mut list = Vec::new();
    let mut first = 0;
    for (rank, vcis) in all.iter().enumerate() {
        let peer = comm.local().peer(rank as u32);
        if rank as u32 == comm.rank() {
            first = list.len() as u32;
        }
        let numbered = vcis.iter().zip(0..=u16::MAX);
        list.extend(numbered.map(|(&vci, number)| EndpointAddress { peer, vci, number }));
    }
    let peers: Vec<Peer> = list.iter().map(|point| point.peer).collect();
    let group = Group::of_endpoints(&peers);
    let table = Arc::new(EndpointTable {
        list: list.into(),
        one_each: false,
        contexts,
        _kept: map.map(|map| Arc::new(map) as _),
    });
    Ok((first..first + count)
        .map(|rank| Comm::endpoint(table.clone(), group.clone(), context, rank))
        .collect())
}

/// Chooses VCIs for `count` endpoints of this process: free ones first, then shared ones in turn.
///
/// `None` if there is only VCI 0. (Each process chooses for itself and publishes its choice.)
fn endpoint_vcis(process: &Process, count: usize) -> Option<VciMap> {
    let mut taken = Taken::default();
    for (vci, users) in process.users().counts().enumerate() {
        taken.note(vci as VciId, users > 0, process.is_lockless(vci as VciId));
    }
    let wanted = count.min(process.pool() - 1);
    let vcis = pool::choose(
        wanted,
        &taken,
        process.pool(),
        process.next_vci_turn(),
        false,
    );
    if vcis.is_empty() || vcis.iter().any(|vci| process.open_vci(*vci).is_err()) {
        return None;
    }
    VciMap::new(VciSelection::Thread, vcis, process.users(), false)
}

/// Gathers the VCIs of all members, `counts` of each, learns their addresses, and agrees on a block
/// of contexts.
///
/// # Errors
/// A member has failed, or has sent fewer VCIs than it announced.
pub(super) fn gather_vcis(
    process: &Process,
    comm: &Comm,
    own: &[VciId],
    counts: &[u32],
    contexts: u32,
) -> Result<(ContextId, Vec<Vec<VciId>>)> {
    let context = match comm.rank() {
        0 => process.new_contexts(contexts).to_bits(),
        _ => 0,
    };
    let mut bytes = context.to_le_bytes().to_vec();
    bytes.extend(own.iter().flat_map(|vci| vci.to_le_bytes()));
    // All know the address of VCI 0.
    let mut others: Vec<VciId> = own.iter().copied().filter(|vci| *vci != 0).collect();
    others.sort_unstable();
    others.dedup();
    bytes.extend(vcis::addresses(process, comm, &others));
    let all = vcis::gather_all_bytes(process, comm, Some(&bytes))?.unwrap_or_default();
    let mut block = None;
    let mut lists = Vec::with_capacity(counts.len());
    for (rank, (bytes, count)) in all.iter().zip(counts).enumerate() {
        let (context, list, mut rest) = read_vcis(bytes, *count).ok_or_else(|| {
            let why = format!("internal error: rank {rank} sent fewer VCIs than it announced");
            Error::new(Class::Intern, why)
        })?;
        block.get_or_insert(context);
        lists.push(list);
        let peer = comm.local().peer(rank as u32);
        while let Some((vci, transport, address)) = vcis::next_address(&mut rest) {
            process.learn(peer, vci, transport, address);
        }
    }
    let block = block.ok_or_else(|| {
        let why = "internal error: no member sent its VCIs";
        Error::new(Class::Intern, why)
    })?;
    Ok((block, lists))
}

/// Splits a member's message into a context, VCIs and addresses.
fn read_vcis(bytes: &[u8], count: u32) -> Option<(ContextId, Vec<VciId>, &[u8])> {
    let (context, rest) = bytes.split_first_chunk::<8>()?;
    let (list, rest) = rest.split_at_checked(count as usize * size_of::<VciId>())?;
    let (list, _) = list.as_chunks();
    let list = list.iter().map(|vci| VciId::from_le_bytes(*vci)).collect();
    let context = ContextId::from_bits(u64::from_le_bytes(*context));
    Some((context, list, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcis_are_read_to_the_end_and_no_further() {
        let mut bytes = ContextId::new(3, 9).to_bits().to_le_bytes().to_vec();
        bytes.extend([7, 0, 1, 2]);
        bytes.push(1);
        let (context, vcis, rest) = read_vcis(&bytes, 2).unwrap();
        assert_eq!(context, ContextId::new(3, 9));
        assert_eq!((&vcis[..], rest), (&[7, 0x201][..], &[1][..]));
        assert!(read_vcis(&bytes, 3).is_none());
        assert!(read_vcis(&bytes[..7], 0).is_none());
    }

    #[test]
    fn groups_with_processes_more_than_once_find_each_rank() {
        let group = Group::of_endpoints(&[4, 4, 4, 2, 2]);
        assert_eq!(group.size(), 5);
        assert_eq!(group.peers().collect::<Vec<_>>(), [4, 4, 4, 2, 2]);
        assert!(group.rank_of(4).is_some_and(|rank| rank < 3));
        assert_eq!(group.rank_of(7), None);
    }
}
