//! Point-to-point communication (chapter 3).

use std::ffi::{c_int, c_void};

use mpi_core::comm::Purpose;
use mpi_core::process::Mode;
use mpi_core::{
    ANY_SOURCE, ANY_TAG, Buffer, Class, Error, PROC_NULL, RequestId, Result, Status, TAG_UB,
};

use super::put;
use crate::abi::{
    self, MPI_Comm, MPI_Datatype, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL, MPI_Message, MPI_Request,
    MPI_SUCCESS, MPI_Status,
};
use crate::comms::CommObject;
use crate::raise::{Arg, On, raise};
use crate::requests::{self, READY};
use crate::runtime::{Runtime, running, runtime};
use crate::{bsend, messages, status, types};

const _: () = assert!(
    abi::MPI_ANY_SOURCE == ANY_SOURCE
        && abi::MPI_ANY_TAG == ANY_TAG
        && abi::MPI_PROC_NULL == PROC_NULL
);

#[cold]
pub(crate) fn bad_rank(rank: c_int, size: u32, who: &str) -> Error {
    let wildcard = if who == "source" {
        ", MPI_ANY_SOURCE"
    } else {
        ""
    };
    Error::new(
        Class::Rank,
        format!(
            "{who} is {rank}; in a communicator of {size} it must be from 0 to {}{wildcard} or \
             MPI_PROC_NULL",
            i64::from(size) - 1
        ),
    )
}

#[cold]
pub(crate) fn bad_tag(tag: c_int, receive: bool) -> Error {
    let wildcard = if receive { " or MPI_ANY_TAG" } else { "" };
    Error::new(
        Class::Tag,
        format!("tag is {tag}; it must be from 0 to {TAG_UB} (MPI_TAG_UB){wildcard}"),
    )
}

/// A send, checked. `rank` is none for `MPI_PROC_NULL`.
struct Outgoing<'a> {
    comm: &'a CommObject,
    rank: Option<u32>,
    buffer: Buffer,
}

/// The communicator and the destination of a send; none for `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn check_send(
    runtime: &Runtime,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(&CommObject, Option<u32>)> {
    let comm = runtime.comm(comm)?;
    let size = comm.comm.targets();
    if tag < 0 {
        return Err(bad_tag(tag, false));
    }
    if (dest as u32) < size {
        Ok((comm, Some(dest as u32)))
    } else if dest == PROC_NULL {
        Ok((comm, None))
    } else {
        Err(bad_rank(dest, size, "dest"))
    }
}

/// # Safety
/// The buffer is as MPI demands of a send buffer.
#[inline(always)]
unsafe fn outgoing(
    runtime: &Runtime,
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Outgoing<'_>> {
    let (comm, rank) = check_send(runtime, dest, tag, comm)?;
    // SAFETY: the caller's contract.
    let buffer = unsafe { types::buffer(buf, count, datatype)? };
    Ok(Outgoing { comm, rank, buffer })
}

/// The destination and length of a send that nothing is wrong with and whose data needs no second
/// look; `None`: the long way finds out what there is to it.
#[inline(always)]
fn plain_send(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<(&'static CommObject, usize)> {
    let comm = running()?.find_comm(comm)?;
    let len = types::plain_len(buf, count, datatype)?;
    ((dest as u32) < comm.comm.targets() && tag >= 0).then_some((comm, len))
}

/// Starts such a send.
///
/// # Safety
/// `len` bytes at `buf` are the program's send buffer.
#[inline(always)]
unsafe fn start_plain(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
) -> Result<Option<RequestId>> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), len) };
    // SAFETY: the caller's contract, which is that of `send_plain`.
    unsafe { mpi_core::comm::send_plain(&runtime.process, &comm.comm, data, dest as u32, tag) }
}

/// Raises an error of a send that had all its arguments right.
#[cold]
#[inline(never)]
fn plain_failed(
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

/// The short way of `MPI_Isend`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn isend_fast(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let (comm, len) = plain_send(buf, count, datatype, dest, tag, comm)?;
    if request.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    Some(unsafe { isend_plain(comm, buf, len, dest, tag, request) })
}

/// # Safety
/// As for [`start_plain`]; `request` is valid.
#[inline(never)]
unsafe fn isend_plain(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match start_plain(comm, buf, len, dest, tag) {
            Ok(started) => {
                request.write(requests::handle(started));
                MPI_SUCCESS
            }
            Err(error) => plain_failed(error, "MPI_Isend", comm, dest, tag),
        }
    }
}

/// The short way of `MPI_Send`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn send_fast(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (comm, len) = plain_send(buf, count, datatype, dest, tag, comm)?;
    // SAFETY: the caller's contract.
    Some(unsafe { send_plain(comm, buf, len, dest, tag) })
}

/// # Safety
/// As for [`start_plain`].
#[inline(never)]
unsafe fn send_plain(
    comm: &CommObject,
    buf: *const c_void,
    len: usize,
    dest: c_int,
    tag: c_int,
) -> c_int {
    // SAFETY: the caller's contract; the send is complete when this returns.
    let ended = unsafe { start_plain(comm, buf, len, dest, tag) }.and_then(finish_send);
    match ended {
        Ok(()) => MPI_SUCCESS,
        Err(error) => plain_failed(error, "MPI_Send", comm, dest, tag),
    }
}

/// Waits for a send that may be complete already.
#[inline(always)]
fn finish_send(started: Option<RequestId>) -> Result<()> {
    match started {
        None => Ok(()),
        Some(id) => match runtime()?.process.wait(id)?.1 {
            None => Ok(()),
            Some(error) => Err(error),
        },
    }
}

/// # Safety
/// The standard's contract of a send.
#[inline(never)]
unsafe fn start_send(
    mode: Mode,
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, tag, comm)? };
    if request.is_null() {
        return Err(super::null("request"));
    }
    let started = match out.rank {
        Some(rank) => mpi_core::comm::send_on(
            &runtime.process,
            &out.comm.comm,
            Purpose::PointToPoint,
            out.buffer,
            rank,
            tag,
            mode,
        )?,
        None => None,
    };
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { request.write(requests::handle(started)) };
    Ok(())
}

/// # Safety
/// The standard's contract of a send.
#[inline(never)]
unsafe fn blocking_send(
    mode: Mode,
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, tag, comm)? };
    let Some(rank) = out.rank else { return Ok(()) };
    let purpose = Purpose::PointToPoint;
    match mpi_core::comm::send_on(
        &runtime.process,
        &out.comm.comm,
        purpose,
        out.buffer,
        rank,
        tag,
        mode,
    )? {
        None => Ok(()),
        Some(id) => match runtime.process.wait(id)?.1 {
            None => Ok(()),
            Some(error) => Err(error),
        },
    }
}

/// `MPI_Send` (section 3.2.1).
///
/// # Safety
/// As the standard demands.
#[inline]
pub unsafe fn send(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { blocking_send(Mode::Standard, buf, count, datatype, dest, tag, comm) }
}

/// `MPI_Ssend` (section 3.4).
///
/// # Safety
/// As the standard demands.
pub unsafe fn ssend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { blocking_send(Mode::Synchronous, buf, count, datatype, dest, tag, comm) }
}

/// `MPI_Rsend` (section 3.4): the receive has been posted, which makes it a standard send that is
/// certain to match.
///
/// # Safety
/// As the standard demands.
pub unsafe fn rsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { blocking_send(Mode::Standard, buf, count, datatype, dest, tag, comm) }
}

/// `MPI_Bsend` (section 3.4).
///
/// # Safety
/// As the standard demands.
pub unsafe fn bsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, tag, comm)? };
    match out.rank {
        Some(rank) => bsend::send(runtime, &out.comm.comm, &out.buffer, rank, tag),
        None => Ok(()),
    }
}

/// `MPI_Isend` (section 3.7.2).
///
/// # Safety
/// As the standard demands.
#[inline]
pub unsafe fn isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        start_send(
            Mode::Standard,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// `MPI_Issend` (section 3.7.2).
///
/// # Safety
/// As the standard demands.
pub unsafe fn issend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        start_send(
            Mode::Synchronous,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// `MPI_Irsend` (section 3.7.2).
///
/// # Safety
/// As the standard demands.
pub unsafe fn irsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        start_send(
            Mode::Standard,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// `MPI_Ibsend` (section 3.7.2): complete when the data is in the attached buffer.
///
/// # Safety
/// As the standard demands.
pub unsafe fn ibsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    if request.is_null() {
        return Err(super::null("request"));
    }
    // SAFETY: the caller's contract.
    unsafe {
        bsend(buf, count, datatype, dest, tag, comm)?;
        request.write(READY);
    }
    Ok(())
}

/// `MPI_Buffer_attach` (section 3.6).
///
/// # Safety
/// As the standard demands.
pub unsafe fn buffer_attach(buffer: *mut c_void, size: c_int) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    unsafe { bsend::attach(buffer.cast(), size) }
}

/// `MPI_Buffer_detach` (section 3.6).
///
/// # Safety
/// As the standard demands.
pub unsafe fn buffer_detach(buffer_addr: *mut c_void, size: *mut c_int) -> Result<()> {
    let (address, length) = bsend::detach(runtime()?)?;
    // SAFETY: the caller's contract: the address of a pointer, though declared otherwise.
    unsafe {
        put(
            buffer_addr.cast::<*mut c_void>(),
            "buffer_addr",
            address.cast(),
        )?;
        put(size, "size", length)
    }
}

/// The communicator and the source of a receive or probe; none for `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn check_source(
    runtime: &Runtime,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(&CommObject, Option<i32>)> {
    let comm = runtime.comm(comm)?;
    let size = comm.comm.targets();
    if tag < 0 && tag != ANY_TAG {
        return Err(bad_tag(tag, true));
    }
    if (source as u32) < size || source == ANY_SOURCE {
        Ok((comm, Some(source)))
    } else if source == PROC_NULL {
        Ok((comm, None))
    } else {
        Err(bad_rank(source, size, "source"))
    }
}

/// `MPI_Irecv` (section 3.7.2).
///
/// # Safety
/// As the standard demands.
#[inline]
pub unsafe fn irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    if request.is_null() {
        return Err(super::null("request"));
    }
    let id = match source {
        // SAFETY: the caller's contract.
        Some(source) => unsafe { start_receive(comm, buf, count, datatype, source, tag)? },
        None => {
            // SAFETY: the caller's contract.
            unsafe { types::buffer(buf, count, datatype)? };
            null_receive(runtime, &comm.comm)?
        }
    };
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { request.write(requests::handle(Some(id))) };
    Ok(())
}

/// Starts a receive from a rank or any rank.
///
/// # Safety
/// As for [`types::buffer`].
#[inline(always)]
unsafe fn start_receive(
    comm: &CommObject,
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    match types::plain_len(buf, count, datatype) {
        // SAFETY: as for this function.
        Some(len) => unsafe { receive_plain(comm, buf, len, source, tag) },
        // SAFETY: as for this function.
        None => unsafe { receive_other(comm, buf, count, datatype, source, tag) },
    }
}

/// # Safety
/// `len` bytes at `buf` are the program's receive buffer.
#[inline(never)]
unsafe fn receive_plain(
    comm: &CommObject,
    buf: *mut c_void,
    len: usize,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    let process = &runtime()?.process;
    // SAFETY: the caller's contract.
    unsafe { mpi_core::comm::receive_bytes(process, &comm.comm, buf.cast(), len, source, tag) }
}

/// # Safety
/// As for [`types::buffer`].
#[inline(never)]
unsafe fn receive_other(
    comm: &CommObject,
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    // SAFETY: the caller's contract.
    let buffer = unsafe { types::buffer(buf, count, datatype)? };
    let process = &runtime()?.process;
    mpi_core::comm::receive_on(
        process,
        &comm.comm,
        Purpose::PointToPoint,
        buffer,
        source,
        tag,
    )
}

/// A receive from `MPI_PROC_NULL`: complete, with a status of its own (section 3.11).
fn null_receive(runtime: &Runtime, comm: &mpi_core::comm::Comm) -> Result<mpi_core::RequestId> {
    let id = runtime.process.start_outside(comm.vci(), comm.owner())?;
    runtime.process.complete(id, Status::PROC_NULL, None)?;
    Ok(id)
}

/// `MPI_Recv` (section 3.2.4).
///
/// # Safety
/// As the standard demands.
#[inline]
pub unsafe fn recv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    let (found, error) = match source {
        Some(source) => {
            // SAFETY: the caller's contract.
            let id = unsafe { start_receive(comm, buf, count, datatype, source, tag)? };
            runtime.process.wait_for(id)?;
            if let Some(found) = runtime.process.finish_well(id) {
                // SAFETY: the caller's contract.
                unsafe { status::write(status, &found) };
                return Ok(());
            }
            runtime.process.finish(id)?
        }
        None => {
            // SAFETY: the caller's contract.
            unsafe { types::buffer(buf, count, datatype)? };
            (Status::PROC_NULL, None)
        }
    };
    // SAFETY: the caller's contract.
    unsafe { status::write(status, &found) };
    error.map_or(Ok(()), Err)
}

/// `MPI_Sendrecv` (section 3.10).
///
/// # Safety
/// As the standard demands.
pub unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    if let Some((to, len)) = plain_send(sendbuf, sendcount, sendtype, dest, sendtag, comm)
        && let Some(room) = types::plain_len(recvbuf, recvcount, recvtype)
        && let (_, Some(source)) = check_source(runtime, source, recvtag, comm)?
    {
        // SAFETY: the caller's contract.
        return unsafe {
            let receive = receive_plain(to, recvbuf, room, source, recvtag)?;
            let send = start_plain(to, sendbuf, len, dest, sendtag)?;
            exchanged(runtime, receive, send, status)
        };
    }
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, sendbuf, sendcount, sendtype, dest, sendtag, comm)? };
    let (_, source) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: the caller's contract.
    let into = unsafe { types::buffer(recvbuf, recvcount, recvtype)? };
    // SAFETY: the caller's contract.
    unsafe { exchange(runtime, out, sendtag, into, source, recvtag, status) }
}

/// Completes the two halves of an exchange.
///
/// # Safety
/// `status` is valid or ignored.
#[inline(always)]
unsafe fn exchanged(
    runtime: &Runtime,
    receive: RequestId,
    send: Option<RequestId>,
    status: *mut MPI_Status,
) -> Result<()> {
    let process = &runtime.process;
    process.wait_for(receive)?;
    let (found, error) = match process.finish_well(receive) {
        Some(found) => (found, None),
        None => process.finish(receive)?,
    };
    let sent = finish_send(send);
    // SAFETY: the caller's contract.
    unsafe { status::write(status, &found) };
    error.map_or(sent, Err)
}

/// # Safety
/// `status` is valid or ignored.
unsafe fn exchange(
    runtime: &Runtime,
    out: Outgoing<'_>,
    sendtag: c_int,
    into: Buffer,
    source: Option<i32>,
    recvtag: c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let Outgoing { comm, rank, buffer } = out;
    let (process, comm, purpose) = (&runtime.process, &comm.comm, Purpose::PointToPoint);
    let receive = match source {
        Some(source) => Some(mpi_core::comm::receive_on(
            process, comm, purpose, into, source, recvtag,
        )?),
        None => None,
    };
    let send = match rank {
        Some(rank) => mpi_core::comm::send_on(
            process,
            comm,
            purpose,
            buffer,
            rank,
            sendtag,
            Mode::Standard,
        )?,
        None => None,
    };
    // SAFETY: the caller's contract.
    unsafe {
        match receive {
            Some(receive) => exchanged(runtime, receive, send, status),
            None => {
                status::write(status, &Status::PROC_NULL);
                finish_send(send)
            }
        }
    }
}

/// `MPI_Sendrecv_replace` (section 3.10).
///
/// # Safety
/// As the standard demands.
pub unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, sendtag, comm)? };
    let (_, source) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: the caller's contract; the message that is sent is the copy made below.
    let into = unsafe { types::buffer(buf, count, datatype)? };
    let mut copy = vec![0u8; out.buffer.len()];
    out.buffer.read(0, &mut copy);
    // SAFETY: the copy outlives the exchange, which completes below; the caller's contract for
    // `status`.
    unsafe {
        let buffer = Buffer::bytes(copy.as_mut_ptr(), copy.len());
        exchange(
            runtime,
            Outgoing { buffer, ..out },
            sendtag,
            into,
            source,
            recvtag,
            status,
        )
    }
}

/// `MPI_Iprobe` (section 3.8.1).
///
/// # Safety
/// As the standard demands.
pub unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    let found = match source {
        Some(source) => mpi_core::comm::probe_on(&runtime.process, &comm.comm, source, tag)?,
        None => Some(Status::PROC_NULL),
    };
    if found.is_none() {
        runtime.process.yield_after_test();
    }
    // SAFETY: the caller's contract.
    unsafe {
        put(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            status::write(status, &found);
        }
    }
    Ok(())
}

/// `MPI_Probe` (section 3.8.1).
///
/// # Safety
/// As the standard demands.
pub unsafe fn probe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    let comm = &comm.comm;
    let found = match source {
        Some(source) => {
            let vci = comm.receive_vci(source, tag)?;
            runtime.process.wait_until(vci, || {
                mpi_core::comm::probe_on(&runtime.process, comm, source, tag)
            })?
        }
        None => Status::PROC_NULL,
    };
    // SAFETY: the caller's contract.
    unsafe { status::write(status, &found) };
    Ok(())
}

/// `MPI_Improbe` (section 3.8.2).
///
/// # Safety
/// As the standard demands.
pub unsafe fn improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    let (handle, found) = match source {
        Some(source) => {
            match mpi_core::comm::matched_probe_on(&runtime.process, &comm.comm, source, tag)? {
                Some(matched) => {
                    let found = matched.status();
                    (messages::keep(matched)?, Some(found))
                }
                None => (MPI_MESSAGE_NULL, None),
            }
        }
        None => (MPI_MESSAGE_NO_PROC, Some(Status::PROC_NULL)),
    };
    // SAFETY: the caller's contract.
    unsafe {
        put(flag, "flag", c_int::from(found.is_some()))?;
        put(message, "message", handle)?;
        if let Some(found) = found {
            status::write(status, &found);
        }
    }
    Ok(())
}

/// `MPI_Mprobe` (section 3.8.2).
///
/// # Safety
/// As the standard demands.
pub unsafe fn mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source) = check_source(runtime, source, tag, comm)?;
    let comm = &comm.comm;
    let (handle, found) = match source {
        Some(source) => {
            let vci = comm.receive_vci(source, tag)?;
            let matched = runtime.process.wait_until(vci, || {
                mpi_core::comm::matched_probe_on(&runtime.process, comm, source, tag)
            })?;
            let found = matched.status();
            (messages::keep(matched)?, found)
        }
        None => (MPI_MESSAGE_NO_PROC, Status::PROC_NULL),
    };
    // SAFETY: the caller's contract.
    unsafe {
        put(message, "message", handle)?;
        status::write(status, &found);
    }
    Ok(())
}

/// `MPI_Imrecv` (section 3.8.3).
///
/// # Safety
/// As the standard demands.
pub unsafe fn imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    unsafe {
        let buffer = types::buffer(buf, count, datatype)?;
        if request.is_null() {
            return Err(super::null("request"));
        }
        let started = match messages::take(message)? {
            Some(matched) => runtime.process.imrecv(matched, buffer)?,
            None => null_receive(runtime, &runtime.world.comm)?,
        };
        request.write(requests::handle(Some(started)));
    }
    Ok(())
}

/// `MPI_Mrecv` (section 3.8.3).
///
/// # Safety
/// As the standard demands.
pub unsafe fn mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    unsafe {
        let buffer = types::buffer(buf, count, datatype)?;
        let Some(matched) = messages::take(message)? else {
            status::write(status, &Status::PROC_NULL);
            return Ok(());
        };
        let owner = matched.owner();
        let id = runtime.process.imrecv(matched, buffer)?;
        let (found, error) = runtime.process.wait(id)?;
        status::write(status, &found);
        error.map_or(Ok(()), |error| Err(error.on(owner)))
    }
}

/// `MPI_Get_count` (section 3.2.5).
///
/// # Safety
/// As the standard demands.
pub unsafe fn get_count(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut c_int,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: the caller's contract.
    let Some(status) = (unsafe { status.as_ref() }) else {
        return Err(super::null("status"));
    };
    let bytes = usize::try_from(status::bytes(status)).unwrap_or(usize::MAX);
    let whole = datatype
        .count_in(bytes)
        .and_then(|count| c_int::try_from(count).ok());
    // SAFETY: the caller's contract.
    unsafe { put(count, "count", whole.unwrap_or(abi::MPI_UNDEFINED)) }
}

/// `MPI_Cancel` (sections 3.8.4 and 12.2).
///
/// # Safety
/// As the standard demands.
pub unsafe fn cancel(request: *mut MPI_Request) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return Err(super::null("request"));
    };
    runtime.cancel(runtime.named(*request)?)
}

/// `MPI_Test_cancelled` (section 3.8.4).
///
/// # Safety
/// As the standard demands.
pub unsafe fn test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(status) = status.as_ref() else {
            return Err(super::null("status"));
        };
        put(flag, "flag", c_int::from(status::cancelled(status)))
    }
}
