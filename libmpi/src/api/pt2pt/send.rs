//! Sends, blocking and nonblocking, except buffered ones (sections 3.2.1, 3.4 and 3.7.2).

use std::ffi::{c_int, c_void};

use mpi_core::comm::{Purpose, Sent, send_inline};
use mpi_core::process::Mode;
use mpi_core::{Buffer, Error, RequestId, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, running, runtime};
use mpi_runtime::requests::{self, READY};

use super::check::check_send;
use crate::abi::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_SUCCESS};
use crate::args::{Late, LateOut, UserBuffer};
use crate::raise::{Arg, On, raise};

/// A checked send. `rank` is `None` for `MPI_PROC_NULL`.
pub(super) struct Outgoing<'a> {
    pub(super) comm: &'a CommObject,
    pub(super) rank: Option<u32>,
    pub(super) buffer: Buffer,
}

/// Checks the arguments of a send.
#[inline(always)]
pub(super) fn outgoing<'c>(
    runtime: &'c Runtime,
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Result<Outgoing<'c>> {
    let (comm, rank) = check_send(runtime, dest, tag, comm)?;
    let buffer = data.message(rank)?;
    Ok(Outgoing { comm, rank, buffer })
}

/// Returns the destination and length of a send with valid arguments and contiguous data. Others are
/// checked by [`outgoing`], which reports errors.
#[inline(always)]
pub(super) fn contiguous<'c>(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Option<(&'static Runtime, &'c CommObject, usize)> {
    let runtime = running()?;
    let comm = runtime.early_comm(comm.0, comm.1)?;
    let len = types::message_len(buf, count, datatype)?;
    ((dest as u32) < comm.comm.targets() && tag >= 0).then_some((runtime, comm, len))
}

/// Wakes the receiver of an inline message if it sleeps.
#[inline(always)]
pub(super) fn finish_inline(sent: Sent, comm: &CommObject, dest: c_int) -> c_int {
    match sent {
        Sent::Sent => MPI_SUCCESS,
        _ => wake(comm, dest),
    }
}

#[cold]
#[inline(never)]
fn wake(comm: &CommObject, dest: c_int) -> c_int {
    if let Some(runtime) = running() {
        mpi_core::comm::wake(&runtime.process, &comm.comm, dest as u32);
    }
    MPI_SUCCESS
}

/// Starts a send that `send_inline` has refused. Returns `None` if it is complete.
///
/// # Safety
/// `len` bytes at `buf` are the program's send buffer until a returned request is complete.
#[inline(always)]
pub(super) unsafe fn start_contiguous(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
) -> Result<Option<RequestId>> {
    let (process, dest) = (&runtime()?.process, dest as u32);
    // SAFETY: `len` bytes at `buf` are the send buffer until the request is complete (# Safety).
    unsafe { mpi_core::comm::send_contiguous(process, &comm.comm, buf.cast(), len, dest, tag) }
}

/// Raises an error of a send with valid arguments.
#[cold]
#[inline(never)]
fn contiguous_failed(
    error: Error,
    function: &'static str,
    comm: &CommObject,
    dest: c_int,
    tag: c_int,
) -> c_int {
    let handle = comm.comm.owner() as MPI_Comm;
    let args = [
        ("dest", Arg::Rank(dest)),
        ("tag", Arg::Tag(tag)),
        ("comm", Arg::Handle("MPI_Comm", handle)),
    ];
    raise(error, function, On::Comm(handle), &args)
}

/// The fast path of `MPI_Isend` and `MPI_Isend_c`.
#[inline(always)]
pub(crate) unsafe fn isend_fast<const LARGE: bool>(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let (runtime, comm, len) = contiguous(buf, count, datatype, dest, tag, comm)?;
    if request.is_null() {
        return None;
    }
    let (process, to) = (&runtime.process, &comm.comm);
    // SAFETY: `len` bytes at `buf` are the send buffer, as count and datatype say (buffers, chapter
    // of the module `api`).
    match unsafe { send_inline(process, to, buf.cast(), len, dest as u32, tag) } {
        Sent::Full => {
            // SAFETY: `len` bytes at `buf` are the send buffer until the request is complete;
            // `request` is not NULL, and so valid for writes (chapter of the module `api`).
            Some(unsafe { isend_long::<LARGE>(comm, buf, len, dest, tag, request) })
        }
        sent => {
            // SAFETY: `request` is not NULL, and so valid for writes (output arguments, chapter of
            // the module `api`).
            unsafe { request.write(READY) };
            Some(finish_inline(sent, comm, dest))
        }
    }
}

/// # Safety
/// `len` bytes at `buf` are the program's send buffer; `request` is valid.
#[inline(never)]
unsafe fn isend_long<const LARGE: bool>(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: `len` bytes at `buf` are the send buffer until the request is complete; `request` is
    // valid for writes (# Safety).
    unsafe {
        match start_contiguous(comm, buf, len, dest, tag) {
            Ok(started) => {
                request.write(requests::handle(started));
                MPI_SUCCESS
            }
            Err(error) => {
                let name = if LARGE { "MPI_Isend_c" } else { "MPI_Isend" };
                contiguous_failed(error, name, comm, dest, tag)
            }
        }
    }
}

/// The fast path of `MPI_Send` and `MPI_Send_c`.
#[inline(always)]
pub(crate) unsafe fn send_fast<const LARGE: bool>(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
) -> Option<c_int> {
    let (runtime, comm, len) = contiguous(buf, count, datatype, dest, tag, comm)?;
    let (process, to) = (&runtime.process, &comm.comm);
    // SAFETY: `len` bytes at `buf` are the send buffer, as count and datatype say (buffers, chapter
    // of the module `api`).
    match unsafe { send_inline(process, to, buf.cast(), len, dest as u32, tag) } {
        // SAFETY: `len` bytes at `buf` are the send buffer, as count and datatype say (buffers,
        // chapter of the module `api`).
        Sent::Full => Some(unsafe { MPI_Send_long::<LARGE>(comm, buf, len, dest, tag) }),
        sent => Some(finish_inline(sent, comm, dest)),
    }
}

/// Continues `MPI_Send` on the slow path.
///
/// Its name shows the MPI function in a stack trace: the fast path ends in a jump to it, and so has
/// left the stack.
///
/// # Safety
/// `len` bytes at `buf` are the program's send buffer.
#[inline(never)]
#[allow(non_snake_case, reason = "a name of C")]
unsafe fn MPI_Send_long<const LARGE: bool>(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
) -> c_int {
    // SAFETY: the caller's contract; the send is complete when this returns.
    let ended = unsafe { start_contiguous(comm, buf, len, dest, tag) }.and_then(finish_send);
    match ended {
        Ok(()) => MPI_SUCCESS,
        Err(error) => {
            let name = if LARGE { "MPI_Send_c" } else { "MPI_Send" };
            contiguous_failed(error, name, comm, dest, tag)
        }
    }
}

/// Waits for a send that may be complete already.
#[inline(always)]
pub(super) fn finish_send(started: Option<RequestId>) -> Result<()> {
    match started {
        None => Ok(()),
        Some(id) => match runtime()?.process.wait(id)?.1 {
            None => Ok(()),
            Some(error) => Err(error),
        },
    }
}

/// Starts a checked send. Returns `None` if it is complete.
#[inline]
fn start(
    runtime: &Runtime,
    out: Outgoing<'_>,
    tag: c_int,
    mode: Mode,
) -> Result<Option<RequestId>> {
    let Some(rank) = out.rank else {
        return Ok(None);
    };
    let (process, comm) = (&runtime.process, &out.comm.comm);
    let purpose = Purpose::PointToPoint;
    mpi_core::comm::send_on(process, comm, purpose, out.buffer, rank, tag, mode)
}

/// Starts a send: `MPI_Isend`, `MPI_Issend` and `MPI_Irsend` (section 3.7.2). A ready send is a
/// standard one, since the receive has been posted.
#[inline(never)]
pub(crate) fn start_send(
    mode: Mode,
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let out = outgoing(runtime, data, dest, tag, comm)?;
    let request = request.demand()?;
    request.set(requests::handle(start(runtime, out, tag, mode)?));
    Ok(())
}

/// Sends: `MPI_Send`, `MPI_Ssend` and `MPI_Rsend` (sections 3.2.1 and 3.4).
#[inline(never)]
pub(crate) fn blocking_send(
    mode: Mode,
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let out = outgoing(runtime, data, dest, tag, comm)?;
    finish_send(start(runtime, out, tag, mode)?)
}
