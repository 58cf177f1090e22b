//! What has become of a message: counts and cancellation (sections 3.2.5 and 3.8.4).

use std::ffi::c_int;

use mpi_core::Result;

use crate::abi::{MPI_Datatype, MPI_Request, MPI_Status};
use crate::api::{null, put};
use crate::counts::IntOut;
use crate::runtime::runtime;
use crate::{status, types};

/// `MPI_Get_count` (section 3.2.5).
pub unsafe fn get_count(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: IntOut,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: the caller's contract.
    let Some(status) = (unsafe { status.as_ref() }) else {
        return Err(null("status"));
    };
    let bytes = usize::try_from(status::bytes(status)).unwrap_or(usize::MAX);
    // SAFETY: the caller's contract.
    unsafe { count.put_defined("count", datatype.count_in(bytes)) }
}

/// `MPI_Cancel` (sections 3.8.4 and 12.2).
pub unsafe fn cancel(request: *mut MPI_Request) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return Err(null("request"));
    };
    runtime.cancel(runtime.named(*request)?)
}

/// `MPI_Test_cancelled` (section 3.8.4).
pub unsafe fn test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(status) = status.as_ref() else {
            return Err(null("status"));
        };
        put(flag, "flag", c_int::from(status::cancelled(status)))
    }
}
