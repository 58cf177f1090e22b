//! Partitioned communication (MPI-4.1 chapter 4).

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;

use mpi_core::partitioned::{PartitionedReceive, PartitionedSend, Partitions};
use mpi_core::{ANY_SOURCE, ANY_TAG, Class, Error, Result};
use mpi_runtime::handles::infos;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::partitioned::{NullPartitioned, Partitioned};

use crate::abi::{
    MPI_BYTE, MPI_Comm, MPI_Count, MPI_Info, MPI_PROC_NULL, MPI_REQUEST_NULL, MPI_Request,
};
use crate::api::pt2pt::check::{bad_tag, check_send};
use crate::args::{Array, Late, LateOut, Out, UserBuffer};

/// Checks the arguments that describe the buffer.
fn partitions(data: UserBuffer, partitions: c_int, rank: c_int) -> Result<Partitions> {
    let (count, datatype) = (data.count(), data.datatype());
    let Ok(number) = usize::try_from(partitions) else {
        let why = format!("partitions is {partitions}; it must be 0 or more");
        return Err(Error::new(Class::Arg, why));
    };
    let Ok(count) = usize::try_from(count) else {
        let why = format!("count is {count}; it must be 0 or more");
        return Err(Error::new(Class::Count, why));
    };
    // Like other messages, one without elements may have no datatype.
    let datatype = match types::is_untyped(count as MPI_Count, datatype) {
        true => MPI_BYTE,
        false => datatype,
    };
    let (_, datatype) = types::checked(0, datatype, data.call())?;
    datatype.total(count, number)?;
    if rank != MPI_PROC_NULL {
        types::check_address(data.address(), count * number.min(1), datatype)?;
    }
    // SAFETY: the memory is as its description says, by the contract of `args::buffer`.
    Ok(unsafe { Partitions::new(data.address().cast(), number, count, datatype) })
}

/// Creates a partitioned request: `MPI_Psend_init` and `MPI_Precv_init` (MPI-4.1 sections 4.2.1 and
/// 4.2.2).
pub(crate) fn init(
    sends: bool,
    data: UserBuffer,
    number: c_int,
    rank: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    info: MPI_Info,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let data = partitions(data, number, rank)?;
    let runtime = runtime()?;
    if !sends && rank == ANY_SOURCE {
        runtime.comm(comm.0, comm.1)?;
        let why = "source is MPI_ANY_SOURCE; a partitioned receive needs a rank";
        return Err(Error::new(Class::Rank, why));
    }
    if !sends && tag == ANY_TAG {
        return Err(bad_tag(tag, false));
    }
    let (_, target) = check_send(runtime, rank, tag, comm).map_err(|error| match sends {
        true => error,
        false => Error::new(error.class(), error.detail().replacen("dest", "source", 1)),
    })?;
    infos::hints(info, comm.1)?;
    let request = request.demand()?;
    let process = &runtime.process;
    let holder = runtime.comm_arc(comm.0)?;
    let made = match target {
        None => Partitioned::Null(NullPartitioned {
            sends,
            partitions: data.number() as i64,
            active: AtomicBool::new(false),
            comm: holder,
        }),
        Some(rank) if sends => {
            Partitioned::Send(PartitionedSend::new(process, holder, data, rank, tag)?)
        }
        Some(rank) => {
            Partitioned::Receive(PartitionedReceive::new(process, holder, data, rank, tag)?)
        }
    };
    request.set(requests::insert(Object::Other(Box::new(made)))?);
    Ok(())
}

/// Returns the partitioned request behind a handle.
#[inline]
fn partitioned(request: Late<'_, MPI_Request>) -> Result<&Partitioned> {
    match requests::object(request.0, request.1) {
        Some(Object::Other(other)) => other.partitioned().ok_or_else(|| not_partitioned(request)),
        _ => Err(not_partitioned(request)),
    }
}

#[cold]
fn not_partitioned(Late(request, call): Late<MPI_Request>) -> Error {
    if request == MPI_REQUEST_NULL {
        return Error::new(
            Class::Request,
            "request is MPI_REQUEST_NULL; pass a partitioned request",
        );
    }
    if let Err(error) = runtime().and_then(|runtime| runtime.resolve(request, call).map(drop)) {
        return error;
    }
    let why = format!(
        "request {request:#x} is not partitioned; only those of MPI_Psend_init and MPI_Precv_init have partitions"
    );
    Error::new(Class::Request, why)
}

/// `MPI_Pready` (MPI-4.1 section 4.2.1).
pub fn pready(partition: c_int, request: Late<MPI_Request>) -> Result<()> {
    let process = &runtime()?.process;
    let partition = i64::from(partition);
    partitioned(request)?.ready(process, partition, partition)
}

/// `MPI_Pready_range` (MPI-4.1 section 4.2.1).
pub fn pready_range(
    partition_low: c_int,
    partition_high: c_int,
    request: Late<MPI_Request>,
) -> Result<()> {
    let process = &runtime()?.process;
    let request = partitioned(request)?;
    if partition_low > partition_high {
        let why = format!(
            "partition_low is {partition_low} and partition_high is {partition_high}; the first must not be greater"
        );
        return Err(Error::new(Class::Arg, why));
    }
    request.ready(process, partition_low.into(), partition_high.into())
}

/// `MPI_Pready_list` (MPI-4.1 section 4.2.1).
pub fn pready_list(partitions: Array<c_int>, request: Late<MPI_Request>) -> Result<()> {
    let process = &runtime()?.process;
    let request = partitioned(request)?;
    let mut list = partitions.list()?.iter();
    list.try_for_each(|one| request.ready(process, (*one).into(), (*one).into()))
}

/// `MPI_Parrived` (MPI-4.1 section 4.2.2).
pub fn parrived(request: Late<MPI_Request>, partition: c_int, flag: Out<c_int>) -> Result<()> {
    let process = &runtime()?.process;
    let arrived = match request.0 {
        // A null request behaves like an inactive one (MPI-4.1 section 4.2.2).
        MPI_REQUEST_NULL => true,
        _ => partitioned(request)?.has_arrived(process, partition.into())?,
    };
    flag.set(c_int::from(arrived));
    Ok(())
}
