//! Completion of nonblocking operations (sections 3.7.3 to 3.7.5).

use std::ffi::c_int;

use mpi_core::{Class, Error, Request, Result, Status};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::lifecycle::runtime::{Runtime, running, runtime};
use mpi_runtime::requests::any::{self, Scan, ScanAll, scan, scan_all};
use mpi_runtime::requests::compound_request::Ended;
use mpi_runtime::requests::interrupted;
use mpi_runtime::requests::lists::{
    all_idle, any_complete, is_complete_after_poll, is_done, is_other_done, resolve_all,
    wait_for_any,
};
use mpi_runtime::requests::{READY, ResolvedRequest};

use crate::abi::{
    MPI_ERR_PENDING, MPI_REQUEST_NULL, MPI_Request, MPI_SUCCESS, MPI_Status, MPI_UNDEFINED,
};
use crate::args::{ArrayMut, Late, Out, StatusOut};
use crate::raise;
use crate::status;

/// Completes one request of a single-completion call: frees it, nulls the handle, and writes the
/// status.
#[inline(always)] // counted: tests/instructions.txt
fn conclude(
    runtime: &Runtime,
    resolved: ResolvedRequest<'_>,
    request: &mut MPI_Request,
    status: StatusOut<'_>,
) -> Result<()> {
    if let Some(found) = runtime.take_success(resolved) {
        *request = MPI_REQUEST_NULL;
        status.set(&found);
        return Ok(());
    }
    // Read first: another thread's request may have the number once this one is taken.
    let stays = resolved.stays();
    let Ended {
        status: found,
        error,
    } = runtime.take(resolved)?;
    if !stays {
        *request = MPI_REQUEST_NULL;
    }
    status.set_ended(found.as_ref());
    error.map_or(Ok(()), Err)
}

/// The fast path of `MPI_Wait`: the operation was complete when it was started.
#[inline(always)]
pub(crate) unsafe fn wait_fast(
    request: *mut MPI_Request,
    status: *mut MPI_Status,
) -> Option<c_int> {
    running()?;
    // SAFETY: `request` is NULL or the variable of a request (output arguments, chapter of the
    // module `api`).
    let request = unsafe { request.as_mut()? };
    if *request != READY {
        return None;
    }
    *request = MPI_REQUEST_NULL;
    // SAFETY: `status` is ignored, or valid for writes (output arguments, chapter of the module
    // `api`).
    unsafe { status::write(status, &Status::EMPTY) };
    Some(MPI_SUCCESS)
}

/// `MPI_Wait`.
#[inline]
pub fn wait(request: Late<&mut MPI_Request>, status: StatusOut) -> Result<()> {
    let Late(request, call) = request;
    let runtime = runtime()?;
    if let Some((id, operation)) = runtime.operation(*request)
        && let Some(found) = runtime.process.wait_ok(id, operation)?
    {
        *request = MPI_REQUEST_NULL;
        status.set(&found);
        return Ok(());
    }
    wait_other(runtime, Late(request, call), status)
}

/// `MPI_Wait` for a request that is no operation of the process, or that has failed.
#[inline(never)]
fn wait_other(
    runtime: &Runtime,
    Late(request, call): Late<&mut MPI_Request>,
    status: StatusOut<'_>,
) -> Result<()> {
    let resolved = runtime.resolve(*request, call)?;
    if let ResolvedRequest::Object(..) = resolved {
        return wait_own(runtime, resolved, Late(request, call), status);
    }
    runtime.wait_for(resolved)?;
    conclude(runtime, resolved, request, status)
}

/// `MPI_Wait` for a request with an object of its own.
#[inline(never)]
fn wait_own(
    runtime: &Runtime,
    resolved: ResolvedRequest<'_>,
    Late(request, call): Late<&mut MPI_Request>,
    status: StatusOut<'_>,
) -> Result<()> {
    let Some(ended) = runtime.complete_other(*request, call) else {
        runtime.wait_for(resolved)?;
        return conclude(runtime, resolved, request, status);
    };
    let (ended, stays) = ended?;
    if !stays {
        *request = MPI_REQUEST_NULL;
    }
    status.set_ended(ended.status.as_ref());
    ended.error.map_or(Ok(()), Err)
}

/// `MPI_Test`.
pub fn test(
    Late(request, call): Late<&mut MPI_Request>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (resolved, done) = match runtime.operation(*request) {
        Some((id, operation)) => {
            let resolved = ResolvedRequest::Operation(id);
            (resolved, is_done(runtime, resolved, operation)?)
        }
        None if *request == MPI_REQUEST_NULL => (ResolvedRequest::Null, true),
        None => is_other_done(runtime, *request, call)?,
    };
    flag.set(c_int::from(done));
    if done {
        conclude(runtime, resolved, request, status)?;
    }
    Ok(())
}

/// `MPI_Request_free`.
pub fn request_free(Late(request, call): Late<&mut MPI_Request>) -> Result<()> {
    let runtime = runtime()?;
    runtime.free_request(runtime.resolve(*request, call)?)?;
    *request = MPI_REQUEST_NULL;
    // A send that waits to be coalesced leaves now, since no call will wait for it.
    runtime.process.poll_all()?;
    Ok(())
}

/// `MPI_Request_get_status` (section 3.7.6).
pub fn request_get_status(
    Late(request, call): Late<MPI_Request>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (resolved, done) = match runtime.operation(request) {
        Some((id, operation)) => {
            let resolved = ResolvedRequest::Operation(id);
            (resolved, is_done(runtime, resolved, operation)?)
        }
        None => is_other_done(runtime, request, call)?,
    };
    flag.set(c_int::from(done));
    if done {
        status.set_ended(runtime.peek(resolved)?.as_ref());
    }
    Ok(())
}

/// Returns the error of a call on any of several requests, with the index of the request.
#[cold]
fn interrupted_any(
    runtime: &Runtime,
    requests: &[MPI_Request],
    index: &Out<c_int>,
    error: Error,
    call: InCall,
) -> Error {
    if let Some(found) = interrupted::position(runtime, requests, &error, call) {
        index.set(found as c_int);
    }
    error
}

/// `MPI_Waitany`.
pub fn waitany(
    requests: ArrayMut<MPI_Request>,
    index: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    let found = match scan(runtime, requests) {
        Scan::Complete(found, resolved) => Some((found, resolved)),
        Scan::Pending(vcis) => match any::wait(runtime, requests, &vcis, call) {
            Ok(found) => Some(found),
            Err(error) => return Err(interrupted_any(runtime, requests, &index, error, call)),
        },
        Scan::Idle | Scan::Other => None,
    };
    if let Some((found, resolved)) = found {
        index.set(found as c_int);
        return conclude(runtime, resolved, &mut requests[found], status);
    }
    let all = resolve_all(runtime, requests, call)?;
    if all_idle(&all) {
        status.set_ended(None);
        index.set(MPI_UNDEFINED);
        return Ok(());
    }
    let vcis = runtime.vcis_of(&all);
    let found = match wait_for_any(runtime, &vcis, &all) {
        Ok(found) => found,
        Err(error) => return Err(interrupted_any(runtime, requests, &index, error, call)),
    };
    index.set(found as c_int);
    conclude(runtime, all[found], &mut requests[found], status)
}

/// `MPI_Testany`.
pub fn testany(
    requests: ArrayMut<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    let (found, known) = match scan(runtime, requests) {
        Scan::Complete(found, resolved) => (Some((found, resolved)), true),
        // Without progress no further request is complete.
        Scan::Pending(vcis) => match runtime.process.poll_among(&vcis)? {
            true => (any::find_complete(runtime, requests), true),
            false => (None, true),
        },
        Scan::Idle | Scan::Other => (None, false),
    };
    if let Some((found, resolved)) = found {
        flag.set(1);
        index.set(found as c_int);
        return conclude(runtime, resolved, &mut requests[found], status);
    }
    if known {
        runtime.process.yield_after_test();
        flag.set(0);
        index.set(MPI_UNDEFINED);
        if runtime.has_losses() {
            let all = resolve_all(runtime, requests, call)?;
            return interrupted::check(runtime, &all)
                .map_err(|error| interrupted_any(runtime, requests, &index, error, call));
        }
        return Ok(());
    }
    let all = resolve_all(runtime, requests, call)?;
    if all_idle(&all) {
        index.set(MPI_UNDEFINED);
        status.set_ended(None);
        flag.set(1);
        return Ok(());
    }
    let complete = |runtime: &Runtime| any_complete(runtime, &all).is_some();
    is_complete_after_poll(runtime, &all, complete)
        .map_err(|error| interrupted_any(runtime, requests, &index, error, call))?;
    let found = any_complete(runtime, &all);
    flag.set(c_int::from(found.is_some()));
    index.set(found.map_or(MPI_UNDEFINED, |found| found as c_int));
    match found {
        Some(found) => conclude(runtime, all[found], &mut requests[found], status),
        None => Ok(()),
    }
}

/// Completes the requests of a multiple-completion call. Their errors go to the statuses, and the
/// call's own says that they are there (section 3.7.5).
///
/// # Safety
/// `statuses` is valid for as many elements as there are requests, or ignored.
pub(crate) unsafe fn conclude_many<'c>(
    runtime: &Runtime,
    each: impl Iterator<Item = (usize, ResolvedRequest<'c>)>,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
) -> Result<()> {
    let mut failed: Option<(usize, Error)> = None;
    for (place, (index, resolved)) in each.enumerate() {
        let out = status::at(statuses, place);
        let (ended, code) = if runtime.is_complete(resolved) {
            let stays = resolved.stays();
            let ended = runtime.take(resolved)?;
            if !stays {
                requests[index] = MPI_REQUEST_NULL;
            }
            let code = ended.error.as_ref().map_or(MPI_SUCCESS, raise::code);
            (ended, code)
        } else if let Some(error) = runtime.interruption(resolved) {
            let code = raise::code(&error);
            (interrupted::ended(error), code)
        } else {
            (Ended::EMPTY, MPI_ERR_PENDING)
        };
        // SAFETY: the array of statuses has room for a status of each request, or is ignored
        // (# Safety).
        unsafe {
            status::write(out, &ended.status.unwrap_or(Status::EMPTY));
            status::write_error(out, code);
        }
        if let Some(error) = ended.error {
            failed.get_or_insert((index, error));
        }
    }
    match failed {
        None => Ok(()),
        Some((index, error)) => Err(summary(index, &error)),
    }
}

/// Returns the error of a call whose request `index` failed first.
#[cold]
fn summary(index: usize, error: &Error) -> Error {
    let text = format!(
        "request {index} of the array failed: {} (each status has its own error)",
        error.detail()
    );
    let summary = Error::new(Class::InStatus, text);
    match error.origin() {
        Some(owner) => summary.on(owner),
        None => summary,
    }
}

/// `MPI_Waitall`.
pub unsafe fn waitall(
    requests: ArrayMut<MPI_Request>,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    // SAFETY: `array_of_statuses` has room for a status of each request, or is ignored (arrays,
    // chapter of the module `api`).
    match unsafe { waitall_each(runtime, requests, array_of_statuses, call) } {
        Ok(()) => Ok(()),
        // SAFETY: `array_of_statuses` has room for a status of each request, or is ignored (arrays,
        // chapter of the module `api`).
        Err(error) => unsafe { waitall_ended(runtime, requests, array_of_statuses, error, call) },
    }
}

/// # Safety
/// `statuses` is valid for as many elements as there are requests, or ignored.
#[inline(always)]
unsafe fn waitall_each(
    runtime: &Runtime,
    requests: &mut [MPI_Request],
    array_of_statuses: *mut MPI_Status,
    call: InCall,
) -> Result<()> {
    // Waited for in order: the order of completion does not matter, and all make progress
    // meanwhile.
    let tell = !status::ignored(array_of_statuses);
    let mut batch = runtime.process.batch_completion();
    let mut first = 0;
    while first < requests.len() {
        let past = requests.len().min(first + TURN);
        for index in first..past {
            let write = |operation: Option<&Request>| {
                if tell {
                    let found = operation.map_or(Status::EMPTY, Request::status);
                    // SAFETY: `array_of_statuses` has room for a status of each request (# Safety),
                    // and is not ignored.
                    unsafe { write_well(array_of_statuses.add(index), &found) };
                }
            };
            let well = match requests[index] {
                READY => {
                    write(None);
                    true
                }
                request => match runtime.operation(request) {
                    Some((id, operation)) => {
                        let ended = batch.wait_ok(id, operation, |ended| write(Some(ended)))?;
                        ended.is_some()
                    }
                    None => false,
                },
            };
            if well {
                requests[index] = MPI_REQUEST_NULL;
            } else {
                batch.release();
                // SAFETY: the array of statuses has room for a status of each request, or is
                // ignored (# Safety).
                unsafe { waitall_other(runtime, requests, index, array_of_statuses, call)? };
            }
        }
        batch.release();
        first = past;
    }
    Ok(())
}

/// Ends a `waitall` that was interrupted by an error. After a loss it waits until all requests are
/// complete or one has failed by the loss: others may wait for a message that never comes, and are
/// left pending (MPI-5.0 section 3.7.5, `MPI_ERR_PENDING`).
///
/// # Safety
/// `statuses` is valid for as many elements as there are requests, or ignored.
#[cold]
#[inline(never)]
unsafe fn waitall_ended(
    runtime: &Runtime,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
    error: Error,
    call: InCall,
) -> Result<()> {
    if error.class() != Class::ProcFailedPending {
        return Err(error);
    }
    // The requests before it are complete, with their statuses written, and their handles are null.
    let from = requests.iter().position(|one| *one != MPI_REQUEST_NULL);
    let from = from.unwrap_or(requests.len());
    let all = resolve_all(runtime, &requests[from..], call)?;
    let vcis = runtime.vcis_of(&all);
    runtime.process.wait_until_among(&vcis, || {
        let over = all.iter().all(|resolved| runtime.is_complete(*resolved))
            || interrupted::any_lost(runtime, &all)
            || interrupted::check(runtime, &all).is_err();
        if !over {
            runtime.poll_within(&all);
        }
        Ok(over.then_some(()))
    })?;
    let each = all.iter().copied().enumerate();
    // SAFETY: the array of statuses has room for a status of each request, or is ignored
    // (# Safety).
    unsafe {
        conclude_many(
            runtime,
            each,
            &mut requests[from..],
            status::at(statuses, from),
        )
    }
}

/// Number of requests to complete before other threads may use their VCI.
const TURN: usize = 64;

/// Completes a `waitall`'s request `index`, which is no operation of the process or did not end
/// well. If it fails, completes all others as well and returns the error.
///
/// # Safety
/// `statuses` is valid for as many elements as there are requests, or ignored.
#[inline(never)]
unsafe fn waitall_other(
    runtime: &Runtime,
    requests: &mut [MPI_Request],
    index: usize,
    statuses: *mut MPI_Status,
    call: InCall,
) -> Result<()> {
    let resolved = match runtime.resolve(requests[index], call) {
        Ok(resolved) => resolved,
        Err(_) => return resolve_all(runtime, requests, call).map(drop),
    };
    runtime.wait_by_class(&requests[index..], call)?;
    runtime.wait_in_list(resolved)?;
    let stays = resolved.stays();
    let Ended { status, error } = runtime.take(resolved)?;
    let status = status.unwrap_or(Status::EMPTY);
    if !stays {
        requests[index] = MPI_REQUEST_NULL;
    }
    // SAFETY: the array of statuses has room for a status of each request, or is ignored
    // (# Safety).
    unsafe {
        match error {
            Some(error) => waitall_failed(runtime, requests, index, status, error, statuses, call),
            None => {
                write_well(status::at(statuses, index), &status);
                Ok(())
            }
        }
    }
}

/// Writes one of several statuses, of an operation without an error. The standard leaves the error
/// field undefined in a successful call (section 3.7.5), but programs read it.
///
/// # Safety
/// The status is valid for writes, or ignored.
#[inline(always)]
unsafe fn write_well(out: *mut MPI_Status, found: &Status) {
    // SAFETY: `out` is valid for writes, or ignored (# Safety).
    unsafe {
        status::write(out, found);
        status::write_error(out, MPI_SUCCESS);
    }
}

/// Completes a `waitall` in which request `index` has failed: completes all others, and writes
/// their errors.
///
/// # Safety
/// `statuses` is valid for as many elements as there are requests, or ignored.
#[cold]
unsafe fn waitall_failed(
    runtime: &Runtime,
    requests: &mut [MPI_Request],
    index: usize,
    found: Status,
    error: Error,
    statuses: *mut MPI_Status,
    call: InCall,
) -> Result<()> {
    let out = status::at(statuses, index);
    // SAFETY: the array of statuses has room for a status of each request, or is ignored
    // (# Safety).
    unsafe {
        status::write(out, &found);
        status::write_error(out, raise::code(&error));
    }
    let rest = resolve_all(runtime, &requests[index + 1..], call)?;
    // After a loss other requests may wait for a message that never comes; only complete ones are
    // completed.
    let awaited = if error.class() == Class::ProcFailed {
        &[][..]
    } else {
        &rest[..]
    };
    for resolved in awaited {
        match runtime.wait_for(*resolved) {
            Err(error) if error.class() == Class::ProcFailedPending => break,
            waited => waited?,
        }
    }
    let after = status::at(statuses, index + 1);
    let each = rest.into_iter().enumerate();
    // The call reports the first error; the others are in their statuses.
    // SAFETY: `requests` and `statuses` have as many elements as the call says (arrays, chapter of the module
    // `api`), and `after` is the status behind `index`.
    let _ = unsafe { conclude_many(runtime, each, &mut requests[index + 1..], after) };
    Err(summary(index, &error))
}

/// `MPI_Testall`.
pub unsafe fn testall(
    requests: ArrayMut<MPI_Request>,
    flag: Out<c_int>,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let call = requests.call();
    let requests = requests.list_or(Class::Count)?;
    if !runtime.has_losses()
        && let ScanAll::Pending(first, vcis) = scan_all(runtime, requests)
    {
        let moved = runtime.process.poll_among(&vcis)?;
        if !moved || is_pending(runtime, &requests[first..]) {
            runtime.process.yield_after_test();
            flag.set(0);
            return Ok(());
        }
    }
    let all = resolve_all(runtime, requests, call)?;
    let complete = |runtime: &Runtime| all.iter().all(|resolved| runtime.is_complete(*resolved));
    let done = match is_complete_after_poll(runtime, &all, complete) {
        Err(error) if error.class() == Class::ProcFailedPending => true,
        done => done? || runtime.has_losses() && interrupted::any_lost(runtime, &all),
    };
    flag.set(c_int::from(done));
    if done {
        let each = all.iter().copied().enumerate();
        // SAFETY: `array_of_statuses` has room for a status of each request, or is ignored (arrays,
        // chapter of the module `api`).
        unsafe { conclude_many(runtime, each, requests, array_of_statuses)? };
    }
    Ok(())
}

/// Returns whether the first request that is not complete is an operation of the process, with no
/// other kind before it.
fn is_pending(runtime: &Runtime, requests: &[MPI_Request]) -> bool {
    matches!(scan_all(runtime, requests), ScanAll::Pending(..))
}
