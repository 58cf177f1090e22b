//! Probes, which look for messages and may set them aside (sections 3.8.1 and 3.8.2).

use std::ffi::c_int;

use mpi_core::{Result, Status};
use mpi_runtime::handles::messages;
use mpi_runtime::lifecycle::runtime::runtime;

use super::check::check_source;
use crate::abi::{MPI_Comm, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL, MPI_Message};
use crate::args::{Late, Out, StatusOut};

/// `MPI_Iprobe` (section 3.8.1).
pub fn iprobe(
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    let found = match source {
        Some(source) => mpi_core::comm::probe_on(&runtime.process, &comm.comm, source, tag)?,
        None => Some(Status::PROC_NULL),
    };
    if found.is_none() {
        runtime.process.yield_after_test();
    }
    flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        status.set(&found);
    }
    Ok(())
}

/// `MPI_Probe` (section 3.8.1).
pub fn probe(source: c_int, tag: c_int, comm: Late<MPI_Comm>, status: StatusOut) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    let comm = &comm.comm;
    let found = match source {
        Some(source) => {
            let vci = comm.receive_vci(source, tag)?;
            runtime.process.wait_ignoring_loss(vci, || {
                mpi_core::comm::probe_on(&runtime.process, comm, source, tag)
            })?
        }
        None => Status::PROC_NULL,
    };
    status.set(&found);
    Ok(())
}

/// `MPI_Improbe` (section 3.8.2).
pub fn improbe(
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    flag: Out<c_int>,
    message: Out<MPI_Message>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    let (handle, found) = match source {
        Some(source) => {
            match mpi_core::comm::matched_probe_on(&runtime.process, &comm.comm, source, tag)? {
                Some(matched) => {
                    let found = matched.status();
                    (messages::insert(runtime, matched)?, Some(found))
                }
                None => (MPI_MESSAGE_NULL, None),
            }
        }
        None => (MPI_MESSAGE_NO_PROC, Some(Status::PROC_NULL)),
    };
    flag.set(c_int::from(found.is_some()));
    message.set(handle);
    if let Some(found) = found {
        status.set(&found);
    }
    Ok(())
}

/// `MPI_Mprobe` (section 3.8.2).
pub fn mprobe(
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    message: Out<MPI_Message>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    let comm = &comm.comm;
    let (handle, found) = match source {
        Some(source) => {
            let vci = comm.receive_vci(source, tag)?;
            let matched = runtime.process.wait_ignoring_loss(vci, || {
                mpi_core::comm::matched_probe_on(&runtime.process, comm, source, tag)
            })?;
            let found = matched.status();
            (messages::insert(runtime, matched)?, found)
        }
        None => (MPI_MESSAGE_NO_PROC, Status::PROC_NULL),
    };
    message.set(handle);
    status.set(&found);
    Ok(())
}
