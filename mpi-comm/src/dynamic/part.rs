//! Disconnecting from processes of other jobs (MPI-3.1 section 10.5.4).
//!
//! Two processes stay connected as long as one communicator or window has both as members. Then
//! each sends the other a last message and waits for the other's: members free objects
//! collectively, so both do. A process that has sent and received it closes the connection; if the
//! other closes it earlier, or ends, that is not a failure any more.

use std::time::Duration;

use netmod::Peer;

use mpi_core::error::Result;
use mpi_core::process::foreign::{Parting, PendingParting};
use mpi_core::process::{Destination, Process, Source};
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::context::{ContextId, Purpose};
use mpi_core::pt2pt::request::RequestId;
use mpi_core::vci::Mode;

/// Time to wait for last messages to processes that don't receive any more.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Begins to disconnect from processes that no communicator or window has as members any more, and
/// advances pending disconnections, without waiting.
///
/// # Errors
/// No request is available.
pub fn carry_on(process: &Process) -> Result<()> {
    begin(process, false)?;
    process.poll_all()?;
    sweep(process, &|_| true).map(drop)
}

/// Disconnects as [`carry_on`] does, and waits until it is done for the `concerned` processes.
///
/// # Errors
/// No request is available.
pub fn finish(process: &Process, concerned: &dyn Fn(Peer) -> bool) -> Result<()> {
    begin(process, false)?;
    // Other threads may meanwhile connect with other processes that get the same numbers.
    let all = process.foreign().pending_partings();
    let concerned = all.iter().filter(|pending| concerned(pending.peer));
    let awaited: Vec<_> = concerned.map(identify).collect();
    drop(all);
    wait(process, &|pending| awaited.contains(&identify(pending)))
}

fn identify(pending: &PendingParting) -> (Peer, ContextId) {
    (pending.peer, pending.connection)
}

/// Disconnects from all (`MPI_Finalize`).
///
/// # Errors
/// No request is available.
pub fn finish_all(process: &Process) -> Result<()> {
    begin(process, true)?;
    wait(process, &|_| true)
}

fn wait(process: &Process, concerned: &dyn Fn(&PendingParting) -> bool) -> Result<()> {
    process.wait_ignoring_loss(0, || Ok(sweep(process, concerned)?.then_some(())))
}

/// Closes finished connections. Returns whether none of the `concerned` ones is left.
fn sweep(process: &Process, concerned: &dyn Fn(&PendingParting) -> bool) -> Result<bool> {
    let mut pending_partings = process.foreign().pending_partings();
    let now = process.clock().now();
    let mut at = 0;
    while let Some(pending) = pending_partings.get_mut(at) {
        if is_over(process, pending, now)? {
            let peer = pending_partings.swap_remove(at).peer;
            process.part(peer);
        } else {
            at += 1;
        }
    }
    Ok(!pending_partings.iter().any(concerned))
}

fn is_over(process: &Process, pending: &mut PendingParting, now: Duration) -> Result<bool> {
    let is_done = |id: &RequestId| process.request(*id).is_none_or(|request| request.is_done());
    if !pending.requests.iter().all(is_done) {
        return Ok(false);
    }
    for request in pending.requests.drain(..) {
        // An error means that the other process is gone.
        drop(process.finish(request)?);
    }
    let complete = *pending.complete.get_or_insert(now);
    let late = now.saturating_sub(complete) > DRAIN_TIMEOUT;
    Ok(late || process.is_lost(pending.peer) || process.has_drained(pending.route)?)
}

fn begin(process: &Process, all: bool) -> Result<()> {
    // Another thread that waits for one of them finds it in the list.
    let mut pending_partings = process.foreign().pending_partings();
    for parting in process.foreign().begin_partings(all) {
        pending_partings.push(send_last_message(process, &parting)?);
    }
    Ok(())
}

/// Sends the last message, and posts the receive of the other's.
fn send_last_message(process: &Process, parting: &Parting) -> Result<PendingParting> {
    let Parting {
        peer,
        connection,
        numbers: (own, other),
        route,
    } = *parting;
    let mut pending = PendingParting {
        peer,
        connection,
        route,
        requests: Vec::new(),
        complete: None,
    };
    if process.is_lost(peer) {
        return Ok(pending);
    }
    let context = connection.within().of(Purpose::Creation);
    let from = Source {
        context,
        rank: other as i32,
        tag: 0,
        owner: 0,
        peer,
    };
    let to = Destination {
        peer,
        vci: 0,
        context,
        rank: own as i32,
        tag: 0,
        owner: 0,
    };
    pending
        .requests
        .push(process.irecv(0, &from, Buffer::EMPTY)?);
    // If the send fails the other process is gone, which ends the receive too.
    if let Ok(Some(sent)) = process.isend(0, &to, Buffer::EMPTY, Mode::Standard) {
        pending.requests.push(sent);
    }
    Ok(pending)
}
