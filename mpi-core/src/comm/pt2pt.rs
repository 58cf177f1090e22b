//! Messages on a communicator. Ranks and tags have been checked; [`PROC_NULL`] is for the caller to
//! treat.

use std::sync::atomic::Ordering;

use netmod::VciId;
pub use netmod::ring::Sent;

use super::{Comm, Purpose};
use crate::error::Result;
use crate::process::{Mode, Process};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::wire::Key;
use crate::{MatchedMessage, PROC_NULL, RequestId, Status};

/// Starts a send to `rank`. `None`: it is complete.
#[inline]
pub fn send_on(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    buffer: Buffer,
    rank: u32,
    tag: i32,
    mode: Mode,
) -> Result<Option<RequestId>> {
    let mut to = comm.to(rank, tag, purpose);
    let mut vci = comm.vci();
    if purpose == Purpose::PointToPoint {
        (vci, to.vci) = comm.send_vcis(rank, tag)?;
    }
    process.isend(vci, &to, buffer, mode)
}

/// Starts a send of the library's own by a VCI that both sides have, of those that their
/// communicator has. `None`: it is complete.
///
/// # Errors
/// The process of that rank is lost, or there are too many requests.
#[inline]
pub fn send_by(
    process: &Process,
    comm: &Comm,
    vci: VciId,
    purpose: Purpose,
    buffer: Buffer,
    rank: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let mut to = comm.to(rank, tag, purpose);
    if vci != comm.vci() {
        to.vci = vci;
    }
    process.isend(vci, &to, buffer, Mode::Standard)
}

/// Starts a receive of what [`send_by`] sends.
///
/// # Errors
/// The process of that rank is lost, or there are too many requests.
#[inline]
pub fn receive_by(
    process: &Process,
    comm: &Comm,
    vci: VciId,
    purpose: Purpose,
    buffer: Buffer,
    rank: i32,
    tag: i32,
) -> Result<RequestId> {
    process.irecv(vci, &comm.from(rank, tag, purpose), buffer)
}

/// Takes a message that [`send_by`] has sent out of matching, if one has arrived and no other thread has
/// the VCI.
///
/// # Errors
/// The VCI is not open.
#[inline]
pub fn try_matched_probe_by(
    process: &Process,
    comm: &Comm,
    vci: VciId,
    purpose: Purpose,
    rank: i32,
    tag: i32,
) -> Result<Option<MatchedMessage>> {
    process.try_improbe(vci, &comm.from(rank, tag, purpose))
}

/// Starts a send of gapless data of the program's: [`send_on`] on its shortest way.
///
/// # Safety
/// If a request is returned, `data` must stay valid and unchanged until it is complete.
#[inline(always)]
pub unsafe fn send_plain(
    process: &Process,
    comm: &Comm,
    data: &[u8],
    rank: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let peer = comm.target(rank);
    let context = comm.context().of(Purpose::PointToPoint);
    let vci = comm.sends.load(Ordering::Relaxed);
    if process.try_send(vci, peer, context, comm.rank as i32, tag, data) {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    unsafe { send_anyway(process, comm, data, rank, tag) }
}

/// Sends gapless data to another process, if the message can leave at once. Returns whether it has; if not, nothing
/// was done.
#[inline]
pub fn try_send_plain(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    data: &[u8],
    rank: u32,
    tag: i32,
) -> bool {
    let peer = comm.target(rank);
    let context = comm.context().of(purpose);
    let vci = comm.plain_vci(purpose, &comm.sends);
    peer != process.me() && process.try_send(vci, peer, context, comm.rank as i32, tag, data)
}

/// As [`send_plain`] for the shortest messages: `len` bytes at `data` are put into the mailbox of their
/// destination, if nothing is in the way. The caller [wakes](wake) the receiver.
///
/// # Safety
/// They are valid for reads.
#[inline(always)]
pub unsafe fn mail(
    process: &Process,
    comm: &Comm,
    data: *const u8,
    len: usize,
    rank: u32,
    tag: i32,
) -> Sent {
    let key = Key {
        context: comm.context().of(Purpose::PointToPoint),
        source: comm.rank as i32,
        tag,
    };
    let Some(peer) = comm.regular_target(rank) else {
        return Sent::NoRoom;
    };
    let vci = comm.sends.load(Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { process.try_mail(vci, peer, key, data, len) }
}

/// Wakes the receiver of what [`mail`] has sent.
#[cold]
#[inline(never)]
pub fn wake(process: &Process, comm: &Comm, rank: u32) {
    process.wake_mailbox(comm.sends.load(Ordering::Relaxed), comm.target(rank));
}

/// Receives a short message from a rank with a tag that is there already, past all queues. `None`: nothing
/// was done. Otherwise its bytes.
///
/// # Safety
/// `room` bytes at `place` are the program's receive buffer; `THREADS` says whether [there are](Process::is_threaded).
#[inline(always)]
pub unsafe fn take_plain<const THREADS: bool>(
    process: &Process,
    comm: &Comm,
    place: *mut u8,
    room: usize,
    rank: u32,
    tag: i32,
) -> Option<usize> {
    let key = Key {
        context: comm.context().of(Purpose::PointToPoint),
        source: rank as i32,
        tag,
    };
    let vci = comm.receives.load(Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { process.try_take::<THREADS>(vci, key, place, room) }
}

/// As [`take_plain`], from a rank or any with a tag or any, of any length, and if it comes within a few
/// microseconds.
///
/// # Safety
/// As there.
#[inline]
pub unsafe fn take_soon(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    (place, room): (*mut u8, usize),
    rank: i32,
    tag: i32,
) -> Option<Status> {
    let from = comm.from(rank, tag, purpose);
    let vci = comm.plain_vci(purpose, &comm.receives);
    // SAFETY: the caller's contract.
    let (names, len) = unsafe { process.take_soon(vci, from.peer, from.key(), place, room)? };
    Some(Status {
        source: names as u32 as i32,
        tag: (names >> 32) as u32 as i32,
        bytes: len as u64,
        ..Status::EMPTY
    })
}

/// What [`send_plain`] does when the message can't leave at once.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn send_anyway(
    process: &Process,
    comm: &Comm,
    data: &[u8],
    rank: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    // SAFETY: the caller's contract; a send only reads.
    let buffer = unsafe { Buffer::bytes(data.as_ptr().cast_mut(), data.len()) };
    send_on(
        process,
        comm,
        Purpose::PointToPoint,
        buffer,
        rank,
        tag,
        Mode::Standard,
    )
}

/// Starts a send to a member of a collective; ranks of a remote group come after the local ones.
#[inline]
pub fn send_to_member(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    buffer: Buffer,
    number: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let to = comm.to_member(number, tag, purpose);
    process.isend(comm.vci(), &to, buffer, Mode::Standard)
}

/// Starts a receive from `rank`, which may be [`crate::ANY_SOURCE`].
pub fn receive_on(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    buffer: Buffer,
    rank: i32,
    tag: i32,
) -> Result<RequestId> {
    receive_into(process, comm, purpose, || buffer, rank, tag)
}

/// As [`receive_on`], for gapless data on hot paths.
///
/// # Safety
/// As for [`Buffer::bytes`].
#[inline(always)]
pub unsafe fn receive_bytes(
    process: &Process,
    comm: &Comm,
    ptr: *mut u8,
    len: usize,
    rank: i32,
    tag: i32,
) -> Result<RequestId> {
    // SAFETY: the caller's contract.
    let buffer = || unsafe { Buffer::bytes(ptr, len) };
    receive_into(process, comm, Purpose::PointToPoint, buffer, rank, tag)
}

#[inline(always)]
fn receive_into(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    buffer: impl FnOnce() -> Buffer,
    rank: i32,
    tag: i32,
) -> Result<RequestId> {
    debug_assert!(rank != PROC_NULL);
    let vci = match purpose {
        Purpose::PointToPoint => comm.receive_vci(rank, tag)?,
        _ => comm.vci(),
    };
    process.irecv_into(vci, &comm.from(rank, tag, purpose), buffer)
}

/// Looks for a message of the program's from `rank` with `tag`, wildcards allowed.
pub fn probe_on(process: &Process, comm: &Comm, rank: i32, tag: i32) -> Result<Option<Status>> {
    let vci = comm.receive_vci(rank, tag)?;
    process.iprobe(vci, &comm.from(rank, tag, Purpose::PointToPoint))
}

/// As [`probe_on`], and takes the message out of matching.
pub fn matched_probe_on(
    process: &Process,
    comm: &Comm,
    rank: i32,
    tag: i32,
) -> Result<Option<MatchedMessage>> {
    let vci = comm.receive_vci(rank, tag)?;
    process.improbe(vci, &comm.from(rank, tag, Purpose::PointToPoint))
}
