//! Streams, an extension of MPICH: VCIs that a program selects itself (docs/vcis.md).

use std::ffi::c_int;
use std::sync::Arc;

use mpi_comm::creation::streams::{self, Stream};
use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Mode;
use mpi_core::{ANY_SOURCE, Class, Error, RequestId, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::infos;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::lifecycle::thread_level::ThreadLevel;
use mpi_runtime::mpix::streams::CommStreams;
use mpi_runtime::requests;

use crate::abi::{MPI_COMM_NULL, MPI_Comm, MPI_Info, MPI_Request, MPIX_STREAM_NULL, MPIX_Stream};
use crate::api::null;
use crate::api::pt2pt::check::{check_send, check_source};
use crate::args::{Array, Late, LateOut, LiveComm, Out, StatusOut, UserBuffer};

/// The source index of a receive that accepts messages of any stream.
const ANY_INDEX: c_int = -1;

/// `MPIX_Stream_create`: a VCI of its own. GPU streams, which an info object requests by `type`,
/// are errors.
pub fn stream_create(Late(info, call): Late<MPI_Info>, stream: LateOut<MPIX_Stream>) -> Result<()> {
    let runtime = runtime()?;
    if let Some(info) = infos::hints(info, call)?
        && let Some(kind) = info.get("type")?
    {
        let kind = String::from_utf8_lossy(&kind);
        let why = format!(
            "info requests a stream of type {kind}; Weft has no GPU streams, remove the key type"
        );
        return Err(Error::new(Class::InfoValue, why));
    }
    let stream = stream.demand()?;
    stream.set(runtime.streams.insert(Stream::new(&runtime.process)?)?);
    Ok(())
}

/// `MPIX_Stream_free`.
pub fn stream_free(stream: Option<&mut MPIX_Stream>) -> Result<()> {
    let runtime = runtime()?;
    let stream = stream.ok_or_else(|| null("stream"))?;
    runtime.streams.free(*stream)?;
    *stream = MPIX_STREAM_NULL;
    Ok(())
}

/// Makes a communicator with streams.
fn create(runtime: &Runtime, parent: &CommObject, handles: Vec<MPIX_Stream>) -> Result<MPI_Comm> {
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
pub fn stream_comm_create(
    comm: LiveComm,
    stream: MPIX_Stream,
    newcomm: LateOut<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let newcomm = newcomm.demand()?;
    newcomm.set(create(runtime, comm.object, vec![stream])?);
    Ok(())
}

/// `MPIX_Stream_comm_create_multiplex`: a communicator in which this process has several streams.
pub fn stream_comm_create_multiplex(
    comm: LiveComm,
    streams: Array<MPIX_Stream>,
    newcomm: LateOut<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let newcomm = newcomm.demand()?;
    let (count, most) = (streams.length(), runtime.process.pool());
    if usize::try_from(count).is_ok_and(|count| count > most) {
        let why = format!("count is {count}; it must not exceed the {most} VCIs for streams");
        return Err(Error::new(Class::Count, why));
    }
    let handles = streams.list_or(Class::Count)?.to_vec();
    newcomm.set(create(runtime, comm.object, handles)?);
    Ok(())
}

/// `MPIX_Comm_get_stream`: `MPIX_STREAM_NULL` for a communicator without streams.
pub fn comm_get_stream(comm: LiveComm, idx: c_int, stream: LateOut<MPIX_Stream>) -> Result<()> {
    let handles = match comm.streams.get() {
        Some(streams) => &streams.handles[..],
        None => &[MPIX_STREAM_NULL],
    };
    let found = usize::try_from(idx).ok().and_then(|idx| handles.get(idx));
    let found = found.ok_or_else(|| {
        let why = format!("idx is {idx}; comm has {} streams", handles.len());
        Error::new(Class::Arg, why)
    })?;
    stream.demand()?.set(*found);
    Ok(())
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
fn start_send(
    runtime: &Runtime,
    data: UserBuffer,
    (dest, tag): (c_int, c_int),
    comm: Late<MPI_Comm>,
    (source_index, dest_index): (c_int, c_int),
) -> Result<Option<RequestId>> {
    let (comm, rank) = check_send(runtime, dest, tag, comm)?;
    let streams = streams_of(comm)?;
    let own = streams.handles.len() as u32;
    let from = index(source_index, own, "source_stream_index", "this process")?;
    let buffer = data.message(rank)?;
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

/// Starts a receive. `None`: it is from `MPI_PROC_NULL`.
fn start_receive(
    runtime: &Runtime,
    data: UserBuffer,
    (source, tag): (c_int, c_int),
    comm: Late<MPI_Comm>,
    (source_index, dest_index): (c_int, c_int),
) -> Result<Option<RequestId>> {
    let (comm, rank, tag) = check_source(runtime, source, tag, comm)?;
    let streams = streams_of(comm)?;
    let own = streams.handles.len() as u32;
    let at = index(dest_index, own, "dest_stream_index", "this process")?;
    let buffer = data.message(rank)?;
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

/// `MPIX_Stream_send`; `indices` are those of the streams at source and destination.
pub fn stream_send(
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    indices: (c_int, c_int),
) -> Result<()> {
    let runtime = runtime()?;
    match start_send(runtime, data, (dest, tag), comm, indices)? {
        None => Ok(()),
        Some(id) => runtime.process.wait(id)?.1.map_or(Ok(()), Err),
    }
}

/// `MPIX_Stream_isend`.
pub fn stream_isend(
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    indices: (c_int, c_int),
    request: Out<MPI_Request>,
) -> Result<()> {
    let started = start_send(runtime()?, data, (dest, tag), comm, indices)?;
    request.set(requests::handle(started));
    Ok(())
}

/// `MPIX_Stream_recv`.
pub fn stream_recv(
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    indices: (c_int, c_int),
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let started = start_receive(runtime, data, (source, tag), comm, indices)?;
    let (found, error) = match started {
        Some(id) => runtime.process.wait(id)?,
        None => (Status::PROC_NULL, None),
    };
    status.set(&found);
    error.map_or(Ok(()), Err)
}

/// `MPIX_Stream_irecv`.
pub fn stream_irecv(
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    indices: (c_int, c_int),
    request: Out<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let started = start_receive(runtime, data, (source, tag), comm, indices)?;
    let id = match started {
        Some(id) => id,
        None => {
            crate::api::pt2pt::recv::null_receive(runtime, &runtime.comm(comm.0, comm.1)?.comm)?
        }
    };
    request.set(requests::handle(Some(id)));
    Ok(())
}
