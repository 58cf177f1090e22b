//! Completing some of several requests (section 3.7.5).

use std::ffi::c_int;

use mpi_core::{Class, Result};
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests::ResolvedRequest;
use mpi_runtime::requests::any::{self, Scan, scan};
use mpi_runtime::requests::lists::{
    all_idle, any_complete, is_complete_after_poll, resolve_all, some_ended, wait_for_any,
};

use crate::abi::{MPI_Request, MPI_Status, MPI_UNDEFINED};
use crate::api::null;
use crate::api::pt2pt::request::conclude_many;
use crate::args::{ArrayMut, Out};

/// # Safety
/// The arrays satisfy the contract of [`waitsome`].
unsafe fn conclude_some(
    runtime: &Runtime,
    all: &[ResolvedRequest<'_>],
    found: &[usize],
    requests: &mut [MPI_Request],
    outcount: &Out<c_int>,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<()> {
    outcount.set(found.len() as c_int);
    if !found.is_empty() && indices.is_null() {
        return Err(null("array_of_indices"));
    }
    // SAFETY: the caller's contract: room for as many as there are requests.
    unsafe {
        for (place, index) in found.iter().enumerate() {
            indices.add(place).write(*index as c_int);
        }
        let each = found.iter().map(|index| (*index, all[*index]));
        conclude_many(runtime, each, requests, statuses)
    }
}

/// `MPI_Waitsome`.
pub unsafe fn waitsome(
    requests: ArrayMut<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    let all = resolve_all(runtime, requests, call)?;
    if all_idle(&all) {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    }
    let vcis = runtime.vcis_of(&all);
    let waited = wait_for_any(runtime, &vcis, &all).map(drop);
    let found = some_ended(runtime, &all, waited)?;
    // SAFETY: the arrays have room for as many entries as there are requests, or are ignored
    // (arrays, chapter of the module `api`).
    unsafe {
        conclude_some(
            runtime,
            &all,
            &found,
            requests,
            &outcount,
            array_of_indices,
            array_of_statuses,
        )
    }
}

/// `MPI_Testsome`.
pub unsafe fn testsome(
    requests: ArrayMut<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    if !runtime.has_losses()
        && let Scan::Pending(vcis) = scan(runtime, requests)
    {
        let moved = runtime.process.poll_among(&vcis)?;
        if !moved || any::find_complete(runtime, requests).is_none() {
            runtime.process.yield_after_test();
            outcount.set(0);
            return Ok(());
        }
    }
    let all = resolve_all(runtime, requests, call)?;
    if all_idle(&all) {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    }
    let complete = |runtime: &Runtime| any_complete(runtime, &all).is_some();
    let tested = is_complete_after_poll(runtime, &all, complete).map(drop);
    let found = some_ended(runtime, &all, tested)?;
    // SAFETY: the arrays have room for as many entries as there are requests, or are ignored
    // (arrays, chapter of the module `api`).
    unsafe {
        conclude_some(
            runtime,
            &all,
            &found,
            requests,
            &outcount,
            array_of_indices,
            array_of_statuses,
        )
    }
}
