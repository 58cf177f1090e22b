//! The failed members that a process knows of, and those that the program has acknowledged.

use netmod::Peer;
use parking_lot::Mutex;

use super::{Failures, check, members};
use mpi_coll::Holder;
use mpi_core::comm::Comm;
use mpi_core::error::{Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;

/// Fault tolerance state of a communicator.
#[derive(Default)]
pub(super) struct CommFailures {
    /// Number of agreements begun.
    pub agreements: std::sync::atomic::AtomicU32,
    /// Failed members that were acknowledged.
    pub acknowledged: Mutex<Vec<Peer>>,
}

impl CommFailures {
    pub fn of(comm: &Comm) -> &CommFailures {
        comm.failure_state().get()
    }
}

/// Returns the members known to have failed, in the order in which that became known.
fn known(process: &Process, comm: &Comm) -> Vec<Peer> {
    process.lost_among(|peer| comm.has_member(peer))
}

/// Returns the group of members known to have failed (`MPIX_Comm_get_failed`), in the order in
/// which that became known here; of an intercommunicator, from both groups.
///
/// From now on the process watches all members, so repeated calls learn of every failure. Where
/// members are reached by connections, that opens one to each.
///
/// # Errors
/// The communicator has endpoints.
pub fn failed(process: &Process, comm: &Comm) -> Result<Group> {
    check(comm, "MPIX_Comm_get_failed")?;
    watch_members(process, comm)?;
    Group::from_peers(&known(process, comm))
}

/// Makes the process watch all members.
fn watch_members(process: &Process, comm: &Comm) -> Result<()> {
    {
        let mut asked = process.source::<Failures>().asked_about.lock();
        let others = members(comm)
            .into_iter()
            .filter(|peer| *peer != process.me());
        asked.extend(others);
        asked.sort_unstable();
        asked.dedup();
    }
    process.check_awaited_peers();
    process.poll_all().map(drop)
}

/// Acknowledges the first `number` of the [`failed`] members, or all (`MPIX_Comm_ack_failed`).
/// Returns the number of acknowledged failures.
///
/// # Errors
/// The communicator has endpoints.
pub fn acknowledge(process: &Process, comm: &Comm, number: Option<usize>) -> Result<usize> {
    check(comm, "MPIX_Comm_ack_failed")?;
    let known = known(process, comm);
    let number = number.unwrap_or(known.len());
    let mut acknowledged = CommFailures::of(comm).acknowledged.lock();
    for peer in known.into_iter().take(number) {
        if !acknowledged.contains(&peer) {
            acknowledged.push(peer);
        }
    }
    Ok(acknowledged.len())
}

/// The group of members whose failure was acknowledged (`MPIX_Comm_failure_get_acked`).
///
/// # Errors
/// The communicator has endpoints.
pub fn acknowledged(comm: &Comm) -> Result<Group> {
    check(comm, "MPIX_Comm_failure_get_acked")?;
    let acknowledged = CommFailures::of(comm).acknowledged.lock();
    Group::from_peers(&acknowledged)
}

/// Returns the error of a member's failure that was not acknowledged, on the communicator of
/// `owner`.
pub(super) fn unacknowledged(
    process: &Process,
    found: Option<Holder>,
    owner: u32,
) -> Option<Error> {
    let Some(holder) = found else {
        // It has been freed, so nothing can be acknowledged any more.
        return process.loss_among(|peer| process.foreign().concerns(peer, owner));
    };
    let comm: &Comm = (*holder).as_ref();
    let acknowledged = CommFailures::of(comm).acknowledged.lock();
    process.loss_among(|peer| comm.has_member(peer) && !acknowledged.contains(&peer))
}
