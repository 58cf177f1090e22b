//! Inquiry about several requests without completing them (MPI-4.1 section 3.7.6).

use std::ffi::c_int;

use mpi_core::{Class, Result};
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests::ResolvedRequest;
use mpi_runtime::requests::lists::{
    all_idle, any_complete, is_complete_after_poll, resolve_all, some_complete,
};

use crate::abi::{MPI_Request, MPI_Status, MPI_UNDEFINED};
use crate::api::null;
use crate::args::{Array, Out, StatusOut};
use crate::status;

/// Returns the requests of an array that is only read.
fn resolve<'c>(
    runtime: &Runtime,
    requests: Array<'c, MPI_Request>,
) -> Result<Vec<ResolvedRequest<'c>>> {
    let call = requests.call();
    match requests.list_or(Class::Count)? {
        [] => Ok(Vec::new()),
        requests => resolve_all(runtime, requests, call),
    }
}

/// `MPI_Request_get_status_any` (MPI-4.1 section 3.7.6).
pub fn request_get_status_any(
    requests: Array<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let all = resolve(runtime, requests)?;
    if all_idle(&all) {
        status.set_ended(None);
        flag.set(1);
        index.set(MPI_UNDEFINED);
        return Ok(());
    }
    is_complete_after_poll(runtime, &all, |runtime| {
        any_complete(runtime, &all).is_some()
    })?;
    let found = any_complete(runtime, &all);
    flag.set(c_int::from(found.is_some()));
    let told = found.map_or(MPI_UNDEFINED, |found| found as c_int);
    index.set(told);
    if let Some(found) = found {
        status.set_ended(runtime.peek(all[found])?.as_ref());
    }
    Ok(())
}

/// `MPI_Request_get_status_all` (MPI-4.1 section 3.7.6).
pub unsafe fn request_get_status_all(
    requests: Array<MPI_Request>,
    flag: Out<c_int>,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let all = resolve(runtime, requests)?;
    let complete = |runtime: &Runtime| all.iter().all(|resolved| runtime.is_complete(*resolved));
    let done = is_complete_after_poll(runtime, &all, complete)?;
    // SAFETY: `array_of_statuses` has room for a status of each request, or is ignored (arrays,
    // chapter of the module `api`).
    unsafe {
        flag.set(c_int::from(done));
        if done {
            for (index, resolved) in all.iter().enumerate() {
                let found = runtime.peek(*resolved)?;
                status::write_ended(status::at(array_of_statuses, index), found.as_ref());
            }
        }
    }
    Ok(())
}

/// `MPI_Request_get_status_some` (MPI-4.1 section 3.7.6).
pub unsafe fn request_get_status_some(
    requests: Array<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let all = resolve(runtime, requests)?;
    if all_idle(&all) {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    }
    // A complete request stays in the list, so one that is found does not end the polling.
    let complete = |runtime: &Runtime| all.iter().all(|named| runtime.is_complete(*named));
    is_complete_after_poll(runtime, &all, complete)?;
    let found = some_complete(runtime, &all);
    if !found.is_empty() && array_of_indices.is_null() {
        return Err(null("array_of_indices"));
    }
    // SAFETY: the caller's contract: room for as many as there are requests.
    unsafe {
        outcount.set(found.len() as c_int);
        for (place, index) in found.iter().enumerate() {
            array_of_indices.add(place).write(*index as c_int);
            let status = status::at(array_of_statuses, place);
            status::write_ended(status, runtime.peek(all[*index])?.as_ref());
        }
    }
    Ok(())
}
