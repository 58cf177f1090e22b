//! Streams, an extension of MPICH: VCIs that a program selects itself (docs/vcis.md).

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::Arc;

use mpi_comm::creation::streams::{self, Stream};
use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Mode;
use mpi_core::{ANY_SOURCE, Class, Error, RequestId, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::lifecycle::thread_level::ThreadLevel;
use mpi_runtime::mpix::streams::CommStreams;
use mpi_runtime::requests;

use crate::abi::{
    MPI_COMM_NULL, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Info, MPI_Request, MPIX_STREAM_NULL,
    MPIX_Stream,
};
use crate::api::pt2pt::check::{check_send, check_source};
use crate::api::{null, put};
use crate::args::{Out, StatusOut};

/// The source index of a receive that accepts messages of any stream.
const ANY_INDEX: c_int = -1;

/// `MPIX_Stream_create`: a VCI of its own. GPU streams, which an info object requests by `type`,
/// are errors.
pub unsafe fn stream_create(info: MPI_Info, stream: *mut MPIX_Stream) -> Result<()> {
    let runtime = runtime()?;
    if let Some(info) = infos::hints(info)?
        && let Some(kind) = info.get("type")?
    {
        let kind = String::from_utf8_lossy(&kind);
        let why = format!(
            "info requests a stream of type {kind}; Weft has no GPU streams, remove the key type"
        );
        return Err(Error::new(Class::InfoValue, why));
    }
    if stream.is_null() {
        return Err(null("stream"));
    }
    let made = runtime.streams.insert(Stream::new(&runtime.process)?)?;
    // SAFETY: the caller's contract.
    unsafe { put(stream, "stream", made) }
}

/// `MPIX_Stream_free`.
pub unsafe fn stream_free(stream: *mut MPIX_Stream) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let handle = unsafe { stream.as_ref() }.ok_or_else(|| null("stream"))?;
    runtime.streams.free(*handle)?;
    // SAFETY: the caller's contract.
    unsafe { put(stream, "stream", MPIX_STREAM_NULL) }
}

/// Makes a communicator with streams.
fn create(runtime: &Runtime, parent: MPI_Comm, handles: Vec<MPIX_Stream>) -> Result<MPI_Comm> {
    let parent = runtime.comm(parent)?;
    let streams: Vec<Option<Arc<Stream>>> = handles
        .iter()
        .map(|handle| runtime.streams.get(*handle))
        .collect::<Result<_>>()?;
    let (comm, routes) = streams::create(&runtime.process, &parent.comm, &streams)?;
    let object = CommObject::new(comm, MPI_COMM_NULL);
    object.inherit(parent);
    let _ = object.streams.set(CommStreams { handles, routes });
    runtime.add_object(Arc::new(object))
}

/// `MPIX_Stream_comm_create`: a communicator in which this process sends and receives by its
/// stream.
pub unsafe fn stream_comm_create(
    comm: MPI_Comm,
    stream: MPIX_Stream,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    let made = create(runtime, comm, vec![stream])?;
    // SAFETY: the caller's contract.
    unsafe { put(newcomm, "newcomm", made) }
}

/// `MPIX_Stream_comm_create_multiplex`: a communicator in which this process has several streams.
pub unsafe fn stream_comm_create_multiplex(
    comm: MPI_Comm,
    count: c_int,
    array_of_streams: *mut MPIX_Stream,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    let count = usize::try_from(count).map_err(|_| {
        let why = format!("count is {count}; it must be 0 or more");
        Error::new(Class::Count, why)
    })?;
    if count > runtime.process.pool() {
        let why = format!(
            "count is {count}; it must not exceed the {} VCIs for streams",
            runtime.process.pool()
        );
        return Err(Error::new(Class::Count, why));
    }
    if count > 0 && array_of_streams.is_null() {
        return Err(null("array_of_streams"));
    }
    let handles = match count {
        0 => Vec::new(),
        // SAFETY: the caller's contract; not NULL.
        _ => unsafe { slice::from_raw_parts(array_of_streams, count) }.to_vec(),
    };
    let made = create(runtime, comm, handles)?;
    // SAFETY: the caller's contract.
    unsafe { put(newcomm, "newcomm", made) }
}

/// `MPIX_Comm_get_stream`: `MPIX_STREAM_NULL` for a communicator without streams.
pub unsafe fn comm_get_stream(comm: MPI_Comm, idx: c_int, stream: *mut MPIX_Stream) -> Result<()> {
    let comm = runtime()?.comm(comm)?;
    let handles = match comm.streams.get() {
        Some(streams) => &streams.handles[..],
        None => &[MPIX_STREAM_NULL],
    };
    let found = usize::try_from(idx).ok().and_then(|idx| handles.get(idx));
    let found = found.ok_or_else(|| {
        let why = format!("idx is {idx}; comm has {} streams", handles.len());
        Error::new(Class::Arg, why)
    })?;
    // SAFETY: the caller's contract.
    unsafe { put(stream, "stream", *found) }
}

/// `MPIX_Stream_progress`: one round of progress on a stream, or on all VCIs for
/// `MPIX_STREAM_NULL`.
pub fn stream_progress(stream: MPIX_Stream) -> Result<()> {
    let runtime = runtime()?;
    match runtime.streams.get(stream)? {
        Some(stream) => runtime.process.poll(stream.vci())?,
        None => runtime.process.poll_all()?,
    };
    Ok(())
}

/// `MPIX_Start_progress_thread`.
pub fn start_progress_thread(stream: MPIX_Stream) -> Result<()> {
    let runtime = runtime()?;
    if *runtime.thread_level.lock() != ThreadLevel::Multiple {
        let why = "a progress thread needs MPI_THREAD_MULTIPLE from MPI_Init_thread";
        return Err(Error::new(Class::Other, why));
    }
    runtime.streams.start_thread(&runtime.process, stream)
}

/// `MPIX_Stop_progress_thread`.
pub fn stop_progress_thread(stream: MPIX_Stream) -> Result<()> {
    runtime()?.streams.stop_thread(stream)
}

/// Checks the index of one of a rank's `count` streams.
fn index(value: c_int, count: u32, name: &str, rank: &str) -> Result<u32> {
    let index = u32::try_from(value).ok().filter(|index| *index < count);
    index.ok_or_else(|| {
        let why = format!("{name} is {value}; {rank} has {count} streams");
        Error::new(Class::Arg, why)
    })
}

fn streams_of(comm: &CommObject) -> Result<&CommStreams> {
    comm.streams.get().ok_or_else(|| {
        let why = "comm has no streams; create it with MPIX_Stream_comm_create_multiplex";
        Error::new(Class::Comm, why)
    })
}

fn comm_between(streams: &CommStreams, from: u32, to: u32) -> Result<&Comm> {
    let missing = || {
        Error::new(
            Class::Intern,
            "internal error: no communicator connects the two streams",
        )
    };
    streams.routes.between(from, to).ok_or_else(missing)
}

/// Starts a send. `None`: it is complete.
///
/// # Safety
/// The buffer is as MPI demands of a send buffer.
unsafe fn start_send(
    runtime: &Runtime,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    (dest, tag): (c_int, c_int),
    comm: MPI_Comm,
    (source_index, dest_index): (c_int, c_int),
) -> Result<Option<RequestId>> {
    let (comm, rank) = check_send(runtime, dest, tag, comm)?;
    let streams = streams_of(comm)?;
    let own = streams.handles.len() as u32;
    let from = index(source_index, own, "source_stream_index", "this process")?;
    // SAFETY: the caller's contract.
    let buffer = unsafe { types::buffer_for(rank, buf, count, datatype)? };
    let Some(rank) = rank else { return Ok(None) };
    let theirs = streams.routes.count(rank);
    let to = index(dest_index, theirs, "dest_stream_index", "the destination")?;
    let comm = comm_between(streams, from, to)?;
    let purpose = Purpose::PointToPoint;
    mpi_core::comm::send_on(
        &runtime.process,
        comm,
        purpose,
        buffer,
        rank,
        tag,
        Mode::Standard,
    )
}

/// Starts a receive. `None`: from `MPI_PROC_NULL`.
///
/// # Safety
/// The buffer is as MPI demands of a receive buffer.
unsafe fn start_receive(
    runtime: &Runtime,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    (source, tag): (c_int, c_int),
    comm: MPI_Comm,
    (source_index, dest_index): (c_int, c_int),
) -> Result<Option<RequestId>> {
    let (comm, rank, tag) = check_source(runtime, source, tag, comm)?;
    let streams = streams_of(comm)?;
    let own = streams.handles.len() as u32;
    let at = index(dest_index, own, "dest_stream_index", "this process")?;
    // SAFETY: the caller's contract.
    let buffer = unsafe { types::buffer_for(rank, buf, count, datatype)? };
    let Some(rank) = rank else { return Ok(None) };
    // Messages match by source and tag, whichever stream they come from.
    if rank != ANY_SOURCE && source_index != ANY_INDEX {
        let theirs = streams.routes.count(rank as u32);
        index(source_index, theirs, "source_stream_index", "the source")?;
    }
    let comm = comm_between(streams, at, at)?;
    let purpose = Purpose::PointToPoint;
    mpi_core::comm::receive_on(&runtime.process, comm, purpose, buffer, rank, tag).map(Some)
}

/// `MPIX_Stream_send`.
pub unsafe fn stream_send(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    source_stream_index: c_int,
    dest_stream_index: c_int,
) -> Result<()> {
    let runtime = runtime()?;
    let indices = (source_stream_index, dest_stream_index);
    // SAFETY: the caller's contract.
    let started = unsafe { start_send(runtime, buf, count, datatype, (dest, tag), comm, indices)? };
    match started {
        None => Ok(()),
        Some(id) => runtime.process.wait(id)?.1.map_or(Ok(()), Err),
    }
}

/// `MPIX_Stream_isend`.
pub unsafe fn stream_isend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    source_stream_index: c_int,
    dest_stream_index: c_int,
    request: Out<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let indices = (source_stream_index, dest_stream_index);
    // SAFETY: the caller's contract.
    let started = unsafe { start_send(runtime, buf, count, datatype, (dest, tag), comm, indices)? };
    request.set(requests::handle(started));
    Ok(())
}

/// `MPIX_Stream_recv`.
pub unsafe fn stream_recv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    source_stream_index: c_int,
    dest_stream_index: c_int,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let indices = (source_stream_index, dest_stream_index);
    // SAFETY: the caller's contract.
    let started =
        unsafe { start_receive(runtime, buf, count, datatype, (source, tag), comm, indices)? };
    let (found, error) = match started {
        Some(id) => runtime.process.wait(id)?,
        None => (Status::PROC_NULL, None),
    };
    status.set(&found);
    error.map_or(Ok(()), Err)
}

/// `MPIX_Stream_irecv`.
pub unsafe fn stream_irecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    source_stream_index: c_int,
    dest_stream_index: c_int,
    request: Out<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let indices = (source_stream_index, dest_stream_index);
    // SAFETY: the caller's contract.
    let started =
        unsafe { start_receive(runtime, buf, count, datatype, (source, tag), comm, indices)? };
    let id = match started {
        Some(id) => id,
        None => crate::api::pt2pt::recv::null_receive(runtime, &runtime.comm(comm)?.comm)?,
    };
    request.set(requests::handle(Some(id)));
    Ok(())
}
