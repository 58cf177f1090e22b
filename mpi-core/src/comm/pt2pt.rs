//! Point-to-point messages on a communicator. The caller has checked ranks and tags and handles
//! [`PROC_NULL`].

use std::sync::atomic::Ordering;

use netmod::VciId;
use netmod::breakdown::{Part, enter};
use shmring::ring::INLINE;
pub use shmring::ring::Sent;

use super::{Comm, Purpose};
use crate::error::Result;
use crate::process::{Mode, Process};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::Address;
use crate::pt2pt::wire::Key;
use crate::vci::with_access;
use crate::{MatchedMessage, PROC_NULL, RequestId, Status};

/// Starts a send to `rank`. Returns `None` if it is already complete.
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

/// Starts an internal send by `vci`, one of the communicator's VCIs on both sides. Returns `None`
/// if it is already complete.
///
/// # Errors
/// The process of that rank has failed, or there are too many requests.
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

/// Starts a receive of a message from [`send_by`].
///
/// # Errors
/// The process of that rank has failed, or there are too many requests.
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

/// Matches and removes a message from [`send_by`], if one has arrived and no other thread holds the
/// VCI.
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

/// Writes an inline message of `len` bytes at `data` to the destination's ring, if there is credit
/// and space and the message is short enough; otherwise it must be sent by [`send_contiguous`]. If
/// the receiver sleeps, the caller must [`wake`] it.
///
/// # Safety
/// `len` bytes at `data` are valid for reads.
#[inline(always)]
pub unsafe fn send_inline(
    process: &Process,
    comm: &Comm,
    data: *const u8,
    len: usize,
    rank: u32,
    tag: i32,
) -> Sent {
    let _part = enter(Part::Core);
    if len > INLINE {
        return Sent::Full;
    }
    let vci = comm.sends.load(Ordering::Relaxed);
    let Some(slot) = process.find_vci(vci) else {
        return Sent::Full;
    };
    let key = comm.message_key(tag);
    let to = Address {
        peer: comm.regular_target(rank),
        vci: vci as VciId,
    };
    with_access!(slot, state => {
        // SAFETY: `len` bytes at `data` are valid for reads (# Safety).
        unsafe { state.send_inline(to, key, data, len) }
    }, otherwise Sent::Full)
}

/// Wakes the receiver of a message sent by [`send_inline`].
#[cold]
#[inline(never)]
pub fn wake(process: &Process, comm: &Comm, rank: u32) {
    let vci = comm.sends.load(Ordering::Relaxed);
    if let Some(slot) = process.find_vci(vci) {
        slot.lock().wake(comm.regular_target(rank), vci as VciId);
    }
}

/// Sends `len` contiguous bytes at `data`. Returns `None` if the send is already complete.
///
/// If no VCI takes all sends of the communicator, its group is irregular, or the lock has to be waited
/// for, the message goes by [`send_on`].
///
/// # Safety
/// `len` bytes at `data` are valid for reads until a returned request is complete.
#[inline]
pub unsafe fn send_contiguous(
    process: &Process,
    comm: &Comm,
    data: *const u8,
    len: usize,
    rank: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let _part = enter(Part::Core);
    // SAFETY: `data` is valid for `len` bytes until the request completes (# Safety); a send only
    // reads it.
    let buffer = unsafe { Buffer::bytes(data.cast_mut(), len) };
    let vci = comm.sends.load(Ordering::Relaxed);
    if let Some(slot) = process.find_vci(vci) {
        let to = Address {
            peer: comm.regular_target(rank),
            vci: vci as VciId,
        };
        let (key, owner) = (comm.message_key(tag), comm.owner());
        with_access!(slot, state => {
            return state.send(to, key, buffer, Mode::Standard, owner);
        }, otherwise {});
    }
    let purpose = Purpose::PointToPoint;
    send_on(process, comm, purpose, buffer, rank, tag, Mode::Standard)
}

/// Receives a short message from `rank` with `tag` that is at the front of the ring, without a
/// request. Returns its length, or `None` if the receive must be posted.
///
/// # Safety
/// `room` bytes at `place` are valid for writes.
#[inline(always)]
pub unsafe fn receive_inline(
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
    // SAFETY: `place` is valid for `room` bytes (# Safety).
    unsafe { process.receive_inline(vci, key, place, room) }.map(|(_, len)| len)
}

/// Polls the ring for some microseconds and receives a message without a request. Wildcards are
/// allowed. `None`: the receive must be posted.
///
/// # Safety
/// `room` bytes at `place` are valid for writes.
#[inline]
pub unsafe fn receive_polling(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    (place, room): (*mut u8, usize),
    rank: i32,
    tag: i32,
) -> Option<Status> {
    let from = comm.from(rank, tag, purpose);
    let vci = comm.ring_vci(purpose);
    // SAFETY: `place` is valid for `room` bytes (# Safety).
    let (names, len) = unsafe { process.receive_polling(vci, from.peer, from.key(), place, room)? };
    Some(Status {
        source: names as u32 as i32,
        tag: (names >> 32) as u32 as i32,
        bytes: len as u64,
        ..Status::EMPTY
    })
}

/// Starts a send to a member of a collective, numbered as in [`Comm::member_destination`].
#[inline]
pub fn send_to_member(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    buffer: Buffer,
    number: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let to = comm.member_destination(number, tag, purpose);
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

/// Starts a receive from `rank` into a contiguous buffer, without a `Buffer` on the fast path.
///
/// # Safety
/// `len` bytes at `ptr` are valid for writes and not accessed otherwise until the request is
/// complete.
#[inline(always)]
pub unsafe fn receive_bytes(
    process: &Process,
    comm: &Comm,
    ptr: *mut u8,
    len: usize,
    rank: i32,
    tag: i32,
) -> Result<RequestId> {
    // SAFETY: `ptr` is valid for `len` bytes until the request completes (# Safety).
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
    let _part = enter(Part::Core);
    let vci = match purpose {
        Purpose::PointToPoint => comm.receive_vci(rank, tag)?,
        _ => comm.vci(),
    };
    process.irecv_into(vci, &comm.from(rank, tag, purpose), buffer)
}

/// Looks for a user message from `rank` with `tag`; wildcards are allowed.
pub fn probe_on(process: &Process, comm: &Comm, rank: i32, tag: i32) -> Result<Option<Status>> {
    let vci = comm.receive_vci(rank, tag)?;
    process.iprobe(vci, &comm.from(rank, tag, Purpose::PointToPoint))
}

/// Looks for a user message from `rank` with `tag` and removes it from matching.
pub fn matched_probe_on(
    process: &Process,
    comm: &Comm,
    rank: i32,
    tag: i32,
) -> Result<Option<MatchedMessage>> {
    let vci = comm.receive_vci(rank, tag)?;
    process.improbe(vci, &comm.from(rank, tag, Purpose::PointToPoint))
}
