//! Requests in lists as completion calls get them: what they name, which of them are complete, and waiting for one
//! (section 3.7.5); and whether they are after one round of progress, of one request, too.

use mpi_core::process::Vcis;
use mpi_core::{Class, Request, Result};

use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::Runtime;
use crate::requests::Named;
use crate::requests::interrupted;

/// What the handles of an array name.
///
/// # Errors
/// One of them doesn't exist; the text says which.
pub fn name_all(runtime: &Runtime, requests: &[MPI_Request]) -> Result<Vec<Named>> {
    let name = |(index, request): (usize, &MPI_Request)| {
        let named = runtime.named(*request);
        named.map_err(|error| error.reworded(|why| format!("array_of_requests[{index}]: {why}")))
    };
    requests.iter().enumerate().map(name).collect()
}

/// Index of a complete request that is neither null nor inactive; `None` if there is none yet.
pub fn any_complete(runtime: &Runtime, all: &[Named]) -> Option<usize> {
    // In this order: other threads may start what is inactive, but none completes what is active.
    let ready = |named: &Named| !named.is_idle() && runtime.is_complete(*named);
    all.iter().position(ready)
}

/// Whether there is nothing to complete: all are null or inactive.
pub fn all_idle(all: &[Named]) -> bool {
    all.iter().all(|named| named.is_idle())
}

/// Waits on some VCIs until one of some requests is complete; gives its index.
///
/// # Errors
/// Those of making progress, and [`Class::ProcFailedPending`] if one is a receive that waits on.
pub fn wait_for_any(runtime: &Runtime, vcis: &Vcis, all: &[Named]) -> Result<usize> {
    runtime
        .process
        .wait_until_among(vcis, || match any_complete(runtime, all) {
            None if runtime.has_losses() => interrupted::check(runtime, all).map(|()| None),
            found => Ok(found),
        })
}

/// Indices of complete requests that are neither null nor inactive.
pub fn some_complete(runtime: &Runtime, all: &[Named]) -> Vec<usize> {
    // In this order, as in `any_complete`.
    let ready = |index: &usize| !all[*index].is_idle() && runtime.is_complete(all[*index]);
    (0..all.len()).filter(ready).collect()
}

/// Which requests a call on some of several tells of after it has waited: those that are complete, and if the wait ended
/// by [`Class::ProcFailedPending`], the receives that wait on, too.
///
/// # Errors
/// Any other one of the wait.
pub fn some_ended(runtime: &Runtime, all: &[Named], waited: Result<()>) -> Result<Vec<usize>> {
    match waited {
        Err(error) if error.class() == Class::ProcFailedPending => {
            let is_it = |index: &usize| {
                runtime.is_complete(all[*index]) && !all[*index].is_idle()
                    || runtime.interruption(all[*index]).is_some()
            };
            Ok((0..all.len()).filter(is_it).collect())
        }
        waited => waited.map(|()| some_complete(runtime, all)),
    }
}

/// Whether an operation of the process is complete, at once or after one round of progress.
///
/// # Errors
/// As for [`wait_for_any`].
#[inline]
pub fn is_done(runtime: &Runtime, named: Named, operation: &Request) -> Result<bool> {
    if operation.is_done() {
        return Ok(true);
    }
    runtime.process.poll(operation.vci())?;
    let done = operation.is_done();
    if !done {
        runtime.process.yield_after_test();
        if runtime.has_losses() {
            return interrupted::check(runtime, &[named]).map(|()| operation.is_done());
        }
    }
    Ok(done)
}

/// What a handle names that is no operation of the process, and whether it is complete, at once or after one round of
/// progress.
///
/// # Errors
/// The request doesn't exist; those of [`is_complete_after_poll`].
#[inline(never)]
pub fn is_other_done(runtime: &Runtime, request: MPI_Request) -> Result<(Named, bool)> {
    let named = runtime.named(request)?;
    let done = is_complete_after_poll(runtime, &[named], |runtime| runtime.is_complete(named))?;
    Ok((named, done))
}

/// Whether `complete` holds, at once or after one round of progress on what some requests need.
///
/// # Errors
/// As for [`wait_for_any`].
pub fn is_complete_after_poll(
    runtime: &Runtime,
    all: &[Named],
    complete: impl Fn(&Runtime) -> bool,
) -> Result<bool> {
    if complete(runtime) {
        return Ok(true);
    }
    runtime.poll_within(all);
    runtime.process.poll_among(&runtime.vcis_of(all))?;
    let done = complete(runtime);
    if !done {
        runtime.process.yield_after_test();
        if runtime.has_losses() {
            return interrupted::check(runtime, all).map(|()| complete(runtime));
        }
    }
    Ok(done)
}
