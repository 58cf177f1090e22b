//! Inquiry about completed messages: counts and cancellation (sections 3.2.5 and 3.8.4).

use std::ffi::c_int;

use mpi_core::Result;
use mpi_core::datatype::Datatype;
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::MPI_Request;
use crate::args::{Late, Out, OutInt, StatusIn};
use crate::status;

/// `MPI_Get_count` (section 3.2.5).
pub fn get_count(status: StatusIn, datatype: &Datatype, count: OutInt) -> Result<()> {
    let bytes = usize::try_from(status::bytes(status.read()?)).unwrap_or(usize::MAX);
    count.set_defined(datatype.count_in(bytes));
    Ok(())
}

/// `MPI_Cancel` (sections 3.8.4 and 12.2).
pub fn cancel(Late(request, call): Late<&mut MPI_Request>) -> Result<()> {
    let runtime = runtime()?;
    runtime.cancel(runtime.resolve(*request, call)?)
}

/// `MPI_Test_cancelled` (section 3.8.4).
pub fn test_cancelled(status: StatusIn, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(status::cancelled(status.read()?)));
    Ok(())
}
