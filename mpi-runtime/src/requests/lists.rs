//! Arrays of requests in completion calls (section 3.7.5): resolving handles, testing, and waiting
//! for one.

use mpi_core::process::Vcis;
use mpi_core::{Class, Request, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::Runtime;
use crate::requests::ResolvedRequest;
use crate::requests::interrupted;

/// Resolves the handles of an array.
///
/// # Errors
/// A handle is invalid; the text has its index.
pub fn resolve_all<'c>(
    runtime: &Runtime,
    requests: &[MPI_Request],
    call: InCall<'c>,
) -> Result<Vec<ResolvedRequest<'c>>> {
    let resolve = |(index, request): (usize, &MPI_Request)| {
        let resolved = runtime.resolve(*request, call);
        resolved.map_err(|error| error.reworded(|why| format!("array_of_requests[{index}]: {why}")))
    };
    requests.iter().enumerate().map(resolve).collect()
}

/// Returns the index of a complete request that is neither null nor inactive.
pub fn any_complete(runtime: &Runtime, all: &[ResolvedRequest]) -> Option<usize> {
    // Idleness is tested first: other threads may start inactive requests, but do not complete
    // active ones.
    let ready = |resolved: &ResolvedRequest| !resolved.is_idle() && runtime.is_complete(*resolved);
    all.iter().position(ready)
}

/// Returns whether all requests are null or inactive.
pub fn all_idle(all: &[ResolvedRequest]) -> bool {
    all.iter().all(|resolved| resolved.is_idle())
}

/// Waits on the VCIs `vcis` until one of the requests is complete. Returns its index.
///
/// # Errors
/// Errors of progress, and [`Class::ProcFailedPending`] if a receive is interrupted by a loss.
pub fn wait_for_any(runtime: &Runtime, vcis: &Vcis, all: &[ResolvedRequest]) -> Result<usize> {
    runtime
        .process
        .wait_until_among(vcis, || match any_complete(runtime, all) {
            None if runtime.has_losses() => interrupted::check(runtime, all).map(|()| None),
            found => Ok(found),
        })
}

/// Returns the indices of complete requests that are neither null nor inactive.
pub fn some_complete(runtime: &Runtime, all: &[ResolvedRequest]) -> Vec<usize> {
    // Idleness is tested first: other threads may start inactive requests, but do not complete
    // active ones.
    let ready = |index: &usize| !all[*index].is_idle() && runtime.is_complete(all[*index]);
    (0..all.len()).filter(ready).collect()
}

/// Returns the indices of the requests that `MPI_Waitsome` or `MPI_Testsome` returns after its
/// wait.
///
/// They are the complete ones, and if the wait ended with [`Class::ProcFailedPending`], the
/// interrupted receives.
///
/// # Errors
/// Any other error of the wait.
pub fn some_ended(
    runtime: &Runtime,
    all: &[ResolvedRequest],
    waited: Result<()>,
) -> Result<Vec<usize>> {
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

/// Returns whether an operation is complete, after one round of progress if needed.
///
/// # Errors
/// Errors of progress, and [`Class::ProcFailedPending`] if the receive is interrupted by a loss.
#[inline]
pub fn is_done(runtime: &Runtime, resolved: ResolvedRequest, operation: &Request) -> Result<bool> {
    if operation.is_done() {
        return Ok(true);
    }
    runtime.process.poll(operation.vci())?;
    let done = operation.is_done();
    if !done {
        runtime.process.yield_after_test();
        if runtime.has_losses() {
            return interrupted::check(runtime, &[resolved]).map(|()| operation.is_done());
        }
    }
    Ok(done)
}

/// Resolves a handle that is no operation of the process, and returns whether the request is
/// complete, after one round of progress if needed.
///
/// # Errors
/// The handle is invalid, or the errors of [`is_complete_after_poll`].
#[inline(never)]
pub fn is_other_done<'c>(
    runtime: &Runtime,
    request: MPI_Request,
    call: InCall<'c>,
) -> Result<(ResolvedRequest<'c>, bool)> {
    let resolved = runtime.resolve(request, call)?;
    let done = is_complete_after_poll(runtime, &[resolved], |runtime| {
        runtime.is_complete(resolved)
    })?;
    Ok((resolved, done))
}

/// Returns whether `complete` holds, after one round of progress on the requests' VCIs if needed.
///
/// # Errors
/// Errors of progress, and [`Class::ProcFailedPending`] if a receive is interrupted by a loss.
pub fn is_complete_after_poll(
    runtime: &Runtime,
    all: &[ResolvedRequest],
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
