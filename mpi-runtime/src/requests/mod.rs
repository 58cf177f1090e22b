//! Requests by handle.
//!
//! A request handle is null; *ready*, the one handle of all operations that were complete when they
//! were started; the number of an operation of the process; or, in the upper half of the numbers,
//! that of an [object](object::Object) of this crate: a persistent, generalized or other request.

pub mod any;
pub mod bsend;
pub mod compound_request;
pub mod flush;
pub mod grequests;
pub mod interrupted;
pub mod lists;
pub mod object;
pub mod partitioned;
pub mod persistent;
pub mod persistent_collective;
pub mod polled;
pub mod sendrecv;
pub mod start;

use std::ffi::c_int;
use std::sync::Arc;

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Request, RequestId, Result, Status};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_REQUEST_NULL, MPI_Request};
use crate::handles::{HandleTable, Type, made, made_index};
use crate::lifecycle::runtime::{Runtime, running, runtime};
use crate::mpix::polling;
use crate::requests::compound_request::Ended;
use crate::requests::grequests::Generalized;
use crate::requests::object::Object;
use crate::requests::persistent::Active;

/// The handle of operations that were complete when they were started.
pub const READY: MPI_Request = 0x6c00_0000;

/// Returns the handle of a started operation; `None` was complete when it was started.
#[inline(always)]
pub fn handle(started: Option<RequestId>) -> MPI_Request {
    match started {
        Some(id) => made(Type::Request, id.index()),
        None => READY,
    }
}

/// Set in the numbers of objects.
const OBJECT_BIT: MPI_Request = RequestId::LIMIT as MPI_Request;

/// Returns whether a handle can only be that of an object.
#[inline(always)]
pub fn is_object(handle: MPI_Request) -> bool {
    handle & !(OBJECT_BIT - 1) == made(Type::Request, RequestId::LIMIT)
}

/// Returns the table of objects, by their handles without [`OBJECT_BIT`], while MPI is initialized.
fn objects() -> Option<&'static HandleTable<Object>> {
    running().map(|runtime| &runtime.requests)
}

/// Returns the generalized request behind a handle.
pub fn generalized<'c>(handle: MPI_Request, call: InCall<'c>) -> Option<&'c Generalized> {
    match object(handle, call)? {
        Object::Generalized(generalized) => Some(generalized),
        Object::Persistent(_) | Object::Other(_) => None,
    }
}

/// Inserts an object. Returns its handle.
pub fn insert(object: Object) -> Result<MPI_Request> {
    insert_arc(Arc::new(object))
}

/// Inserts a shared object. Returns its handle.
pub fn insert_arc(object: Arc<Object>) -> Result<MPI_Request> {
    let full = || {
        Error::new(
            Class::NoMem,
            "all 33,554,432 persistent and generalized requests are in use; free some",
        )
    };
    let objects = &runtime()?.requests;
    let handle = objects.insert(object).ok_or_else(full)?;
    if handle & OBJECT_BIT != 0 {
        objects.remove(handle);
        return Err(full());
    }
    Ok(handle | OBJECT_BIT)
}

/// Returns the object behind a handle.
#[inline]
pub fn object<'c>(handle: MPI_Request, call: InCall<'c>) -> Option<&'c Object> {
    if handle & OBJECT_BIT == 0 {
        return None;
    }
    objects()?.get(handle & !OBJECT_BIT, call)
}

/// Returns a reference that keeps the object alive over callbacks, which may free the handle.
fn object_arc(handle: MPI_Request) -> Option<Arc<Object>> {
    objects()?.get_arc(handle & !OBJECT_BIT)
}

/// A handle that a call has resolved.
#[derive(Clone, Copy)]
pub enum ResolvedRequest<'c> {
    /// `MPI_REQUEST_NULL`.
    Null,
    /// A complete operation without a result.
    Ready,
    /// An operation of the process.
    Operation(RequestId),
    /// An object, by its handle.
    Object(MPI_Request, InCall<'c>),
}

impl<'c> ResolvedRequest<'c> {
    /// Returns the operation of the process that completes the request, if there is one.
    #[inline]
    pub(crate) fn operation(self) -> Option<RequestId> {
        match self {
            ResolvedRequest::Operation(id) => Some(id),
            ResolvedRequest::Object(handle, call) => match object(handle, call)? {
                Object::Persistent(persistent) => persistent.operation(),
                Object::Generalized(_) | Object::Other(_) => None,
            },
            ResolvedRequest::Null | ResolvedRequest::Ready => None,
        }
    }

    /// Returns the generalized request, if it is one.
    fn generalized(self) -> Option<&'c Generalized> {
        match self {
            ResolvedRequest::Object(handle, call) => generalized(handle, call),
            ResolvedRequest::Null | ResolvedRequest::Ready | ResolvedRequest::Operation(_) => None,
        }
    }

    /// Returns whether there is nothing to complete: the request is null, or persistent and
    /// inactive.
    #[inline]
    pub fn is_idle(self) -> bool {
        match self {
            ResolvedRequest::Null => true,
            ResolvedRequest::Ready | ResolvedRequest::Operation(_) => false,
            ResolvedRequest::Object(handle, call) => match object(handle, call) {
                Some(Object::Persistent(persistent)) => !persistent.is_active(),
                Some(Object::Other(other)) => other.is_idle(),
                _ => false,
            },
        }
    }

    /// Returns whether the handle stays valid after completion, as that of a persistent request
    /// does. To be called before the result is taken.
    #[inline]
    pub fn stays(self) -> bool {
        match self {
            ResolvedRequest::Object(handle, call) => match object(handle, call) {
                Some(Object::Persistent(_)) => true,
                Some(Object::Other(other)) => other.is_persistent(),
                _ => false,
            },
            _ => false,
        }
    }
}

impl Runtime {
    /// Returns the operation of the process behind a handle, if it names one.
    #[inline(always)]
    pub fn operation(&self, handle: MPI_Request) -> Option<(RequestId, &Request)> {
        let id = made_index(handle, Type::Request).and_then(RequestId::from_index)?;
        let request = self.process.request(id)?;
        request.is_live().then_some((id, request))
    }

    /// Resolves a handle.
    ///
    /// # Errors
    /// The request does not exist.
    #[inline(always)]
    pub fn resolve<'c>(
        &self,
        handle: MPI_Request,
        call: InCall<'c>,
    ) -> Result<ResolvedRequest<'c>> {
        if let Some((id, _)) = self.operation(handle) {
            return Ok(ResolvedRequest::Operation(id));
        }
        match handle {
            MPI_REQUEST_NULL => Ok(ResolvedRequest::Null),
            READY => Ok(ResolvedRequest::Ready),
            _ => resolve_object(handle, call),
        }
    }

    /// Returns whether a request is complete, or null or inactive.
    #[inline]
    pub fn is_complete(&self, resolved: ResolvedRequest) -> bool {
        let id = match resolved {
            ResolvedRequest::Null | ResolvedRequest::Ready => return true,
            ResolvedRequest::Operation(id) => id,
            ResolvedRequest::Object(handle, call) => match object(handle, call) {
                None => return true,
                Some(Object::Generalized(request)) => return request.is_complete(),
                Some(Object::Other(request)) => return request.is_complete(&self.process),
                Some(Object::Persistent(request)) => match request.operation() {
                    None => return true,
                    Some(id) => id,
                },
            },
        };
        self.process
            .request(id)
            .is_none_or(|request| request.is_done())
    }

    /// Returns the error of a wildcard receive that a loss has interrupted: see
    /// [`Process::interruption`](mpi_core::Process::interruption).
    #[cold]
    pub fn interruption(&self, resolved: ResolvedRequest) -> Option<Error> {
        self.process.interruption(resolved.operation()?)
    }

    /// Returns whether any process is lost, so that interruptions are possible.
    #[inline]
    pub fn has_losses(&self) -> bool {
        self.process.losses() != 0
    }

    /// Takes the result of a complete request and frees it, unless it [stays](ResolvedRequest::stays).
    ///
    /// Another thread may have started a request that was found inactive. Such a request has no
    /// result and stays active.
    #[inline]
    pub fn take(&self, resolved: ResolvedRequest) -> Result<Ended> {
        match resolved {
            ResolvedRequest::Null => Ok(Ended::EMPTY),
            ResolvedRequest::Ready => Ok(Ended {
                status: Some(Status::EMPTY),
                error: None,
            }),
            ResolvedRequest::Operation(id) => self.take_operation(id),
            ResolvedRequest::Object(handle, _) => self.take_object(handle),
        }
    }

    /// Takes the result of an operation that ended without error; `None` for all other requests.
    #[inline(always)]
    pub fn take_success(&self, resolved: ResolvedRequest) -> Option<Status> {
        match resolved {
            ResolvedRequest::Operation(id) => self.process.finish_ok(id),
            _ => None,
        }
    }

    fn take_operation(&self, id: RequestId) -> Result<Ended> {
        let owner = self.process.request(id).map(|request| request.owner());
        let (status, error) = self.process.finish(id)?;
        let error = error.map(|error| match owner {
            Some(owner) => error.on(owner),
            None => error,
        });
        Ok(Ended {
            status: Some(status),
            error,
        })
    }

    #[inline(never)]
    fn take_object(&self, handle: MPI_Request) -> Result<Ended> {
        let Some(found) = object_arc(handle) else {
            return Ok(Ended::EMPTY);
        };
        match &*found {
            Object::Persistent(persistent) => match persistent.end_complete(|id| {
                let request = self.process.request(id);
                request.is_none_or(|request| request.is_done())
            }) {
                Active::No => Ok(Ended::EMPTY),
                Active::Complete(status) => Ok(Ended {
                    status: Some(status),
                    error: None,
                }),
                Active::Operation(id) => self.take_operation(id),
            },
            // The handle is invalid before the callbacks run, since they may use MPI.
            Object::Generalized(generalized) => {
                if self.requests.remove(handle & !OBJECT_BIT).is_none() {
                    return Ok(Ended::EMPTY);
                }
                let (status, queried) = generalized.query();
                let freed = generalized.free();
                // The last callback's error comes first; without it an earlier one is reported.
                let error = freed.err().or(queried.err());
                let error = error.or_else(|| generalized.take_failure());
                Ok(Ended {
                    status: Some(status),
                    error,
                })
            }
            Object::Other(other) => {
                let ended = other.take(&self.process);
                if !other.is_persistent() {
                    self.requests.remove(handle & !OBJECT_BIT);
                }
                ended
            }
        }
    }

    /// Returns the status of a complete request without freeing it; `None` if it is null or
    /// inactive.
    pub fn peek(&self, resolved: ResolvedRequest) -> Result<Option<Status>> {
        let status_of = |id| self.process.request(id).and_then(|request| request.peek());
        Ok(match resolved {
            ResolvedRequest::Null => None,
            ResolvedRequest::Ready => Some(Status::EMPTY),
            ResolvedRequest::Operation(id) => status_of(id),
            ResolvedRequest::Object(handle, _) => match object_arc(handle).as_deref() {
                None => None,
                Some(Object::Persistent(persistent)) => match persistent.active() {
                    Active::No => None,
                    Active::Complete(status) => Some(status),
                    // Another thread may have started it since it was found inactive, or may be
                    // completing it.
                    Active::Operation(id) => {
                        status_of(id).filter(|_| persistent.operation() == Some(id))
                    }
                },
                Some(Object::Generalized(generalized)) => {
                    let (status, queried) = generalized.query();
                    queried?;
                    Some(status)
                }
                Some(Object::Other(other)) => other.peek(&self.process),
            },
        })
    }

    /// Waits until a request is complete.
    #[inline(always)] // counted: tests/instructions.txt
    pub fn wait_for(&self, resolved: ResolvedRequest) -> Result<()> {
        let id = match resolved {
            ResolvedRequest::Null | ResolvedRequest::Ready => return Ok(()),
            ResolvedRequest::Operation(id) => id,
            ResolvedRequest::Object(handle, call) => match resolved.operation() {
                Some(id) => id,
                None => {
                    if let Some(Object::Other(other)) = object(handle, call) {
                        return other.wait(&self.process);
                    }
                    return self.wait_for_generalized(&[resolved]);
                }
            },
        };
        let Some(request) = self.process.request(id) else {
            return Ok(());
        };
        let done = || Ok(request.is_done().then_some(()));
        self.process
            .wait_unless(request.vci(), done, || self.process.check_interruption(id))
    }

    /// Waits until generalized requests are complete.
    fn wait_for_generalized(&self, all: &[ResolvedRequest]) -> Result<()> {
        let by_function = self.wait_class(all).is_some();
        // The program completes generalized requests, so lost processes don't matter.
        self.process.wait_ignoring_loss(0, || {
            let pending = || all.iter().filter(|resolved| !self.is_complete(**resolved));
            if by_function && pending().next().is_some() {
                let left: Vec<&Generalized> =
                    pending().filter_map(|one| one.generalized()).collect();
                Generalized::wait_for(&left);
            }
            Ok(pending().next().is_none().then_some(()))
        })
    }

    /// Returns the wait class of the incomplete requests, if all of them are generalized and in one
    /// class with a wait function.
    fn wait_class(&self, all: &[ResolvedRequest]) -> Option<u64> {
        let mut pending = all.iter().filter(|resolved| !self.is_complete(**resolved));
        let class = pending.next()?.generalized()?.wait_class()?;
        let same = |resolved: &ResolvedRequest| {
            let request = resolved.generalized();
            request.is_some_and(|request| request.wait_class() == Some(class))
        };
        pending.all(same).then_some(class)
    }

    /// Waits for the incomplete requests by the wait function of their class, if they have one.
    pub fn wait_by_class(&self, handles: &[MPI_Request], call: InCall) -> Result<()> {
        let first = handles.first();
        let first = first.and_then(|handle| generalized(*handle, call));
        // Most arrays have none; they are not resolved for this.
        if first.is_none_or(|request| request.wait_class().is_none()) {
            return Ok(());
        }
        let all = handles.iter().map(|handle| self.resolve(*handle, call));
        let all: Result<Vec<ResolvedRequest>> = all.collect();
        match all {
            Ok(all) if self.wait_class(&all).is_some() => self.wait_for_generalized(&all),
            // The caller reports invalid handles when it completes the requests.
            _ => Ok(()),
        }
    }

    /// Waits for one of the requests of `MPI_Waitall`.
    ///
    /// # Errors
    /// [`Class::ProcFailedPending`] if it is not complete and any process is lost: another request
    /// of the array may have failed.
    pub fn wait_in_list(&self, resolved: ResolvedRequest) -> Result<()> {
        let operation = resolved.operation().and_then(|id| self.process.request(id));
        match operation {
            Some(request) => self.process.wait_in_list(request),
            None if self.has_losses() && !self.is_complete(resolved) => {
                Err(Error::new(Class::ProcFailedPending, "a process is lost"))
            }
            None => self.wait_for(resolved),
        }
    }

    /// Calls the poll functions of generalized requests that are tested within such a function,
    /// where progress calls none.
    pub fn poll_within(&self, all: &[ResolvedRequest]) {
        for resolved in all {
            if let ResolvedRequest::Object(handle, _) = *resolved
                && polling::is_inside()
                && let Some(request) = resolved.generalized()
            {
                poll(handle, request);
            }
        }
    }

    /// Waits for a request that is an [`Object::Other`], takes its result, and returns it with
    /// whether the handle stays. Returns `None` for other requests.
    #[inline]
    pub fn complete_other(
        &self,
        handle: MPI_Request,
        call: InCall,
    ) -> Option<Result<(Ended, bool)>> {
        let Some(Object::Other(other)) = object(handle, call) else {
            return None;
        };
        let persistent = other.is_persistent();
        let ended = other.complete(&self.process);
        if !persistent && ended.is_ok() {
            self.requests.remove(handle & !OBJECT_BIT);
        }
        Some(ended.map(|ended| (ended, persistent)))
    }

    /// Returns the VCIs of the incomplete requests, on which to wait for any of them.
    pub fn vcis_of(&self, all: &[ResolvedRequest]) -> Vcis {
        let mut vcis = Vcis::default();
        for resolved in all {
            if let ResolvedRequest::Object(handle, call) = *resolved
                && let Some(Object::Other(other)) = object(handle, call)
            {
                other.add_vcis(&self.process, &mut vcis);
            } else if let Some(id) = resolved.operation()
                && let Some(request) = self.process.request(id)
                && !request.is_done()
            {
                vcis.add(request.vci());
            }
        }
        vcis
    }

    /// Refuses active requests of collectives, one-sided operations and file accesses, which can
    /// only be completed (sections 5.12, 11.3.5 and 13.4.1).
    fn refuse_outside(&self, id: RequestId, what: &str) -> Result<()> {
        match self.process.is_external(id)? {
            false => Ok(()),
            true => Err(Error::new(
                Class::Request,
                format!(
                    "request is of a nonblocking collective, of a one-sided operation or of an access to \
                     a file and cannot be {what}; complete it with MPI_Wait or MPI_Test"
                ),
            )),
        }
    }

    /// Frees the handle of a request (section 3.7.3). An active operation completes and is freed
    /// then.
    pub fn free_request(&self, resolved: ResolvedRequest) -> Result<()> {
        match resolved {
            ResolvedRequest::Null => {
                let why = "request is MPI_REQUEST_NULL; there is nothing to free";
                Err(Error::new(Class::Request, why))
            }
            ResolvedRequest::Ready => Ok(()),
            ResolvedRequest::Operation(id) => {
                self.refuse_outside(id, "freed")?;
                self.process.detach(id)
            }
            ResolvedRequest::Object(handle, _) => match object_arc(handle).as_deref() {
                None => Ok(()),
                Some(Object::Persistent(persistent)) => {
                    self.requests.remove(handle & !OBJECT_BIT);
                    match persistent.end() {
                        Active::Operation(id) => self.process.detach(id),
                        Active::No | Active::Complete(_) => Ok(()),
                    }
                }
                Some(Object::Generalized(generalized)) => {
                    if !generalized.release() {
                        return Ok(()); // freed by its completion
                    }
                    self.requests.remove(handle & !OBJECT_BIT);
                    generalized.free()
                }
                Some(Object::Other(other)) => {
                    other.release(&self.process)?;
                    self.requests.remove(handle & !OBJECT_BIT);
                    Ok(())
                }
            },
        }
    }

    /// Cancels a request (sections 3.8.4 and 12.2).
    pub fn cancel(&self, resolved: ResolvedRequest) -> Result<()> {
        let nothing = |why| Err(Error::new(Class::Request, why));
        match resolved {
            ResolvedRequest::Null => {
                nothing("request is MPI_REQUEST_NULL; there is nothing to cancel")
            }
            ResolvedRequest::Ready => Ok(()),
            ResolvedRequest::Operation(id) => {
                self.refuse_outside(id, "cancelled")?;
                self.process.cancel(id)
            }
            ResolvedRequest::Object(handle, _) => match object_arc(handle).as_deref() {
                None => Ok(()),
                Some(Object::Persistent(persistent)) => match persistent.active() {
                    Active::No => {
                        nothing("the persistent request is inactive; there is nothing to cancel")
                    }
                    Active::Complete(_) => Ok(()),
                    Active::Operation(id) => self.process.cancel(id),
                },
                Some(Object::Generalized(generalized)) => generalized.cancel(),
                Some(Object::Other(other)) => other.cancel(&self.process),
            },
        }
    }
}

/// Calls the poll function of a generalized request. Returns whether it made progress.
pub(crate) fn poll(handle: MPI_Request, request: &Generalized) -> bool {
    let (complete, freed) = request.poll();
    if freed {
        // Dropped after the callback: it may be the last reference to the request.
        let _held = objects().and_then(|objects| objects.remove(handle & !OBJECT_BIT));
        // The program has freed the handle, so no call can report the error.
        let _ = request.free();
    }
    complete || freed
}

/// Completes a generalized request (`MPI_Grequest_complete`, section 12.2).
pub fn complete(handle: MPI_Request) -> Result<()> {
    let found = object_arc(handle).filter(|_| handle & OBJECT_BIT != 0);
    let Some(Object::Generalized(generalized)) = found.as_deref() else {
        return Err(match found {
            Some(_) => Error::new(
                Class::Request,
                format!(
                    "request {handle:#x} is not generalized; only those of MPI_Grequest_start are completed so"
                ),
            ),
            None => invalid(handle),
        });
    };
    let is_freed = generalized.complete()?;
    if is_freed {
        if let Some(objects) = objects() {
            objects.remove(handle & !OBJECT_BIT);
        }
        return generalized.free();
    }
    // Another thread may sleep until it is complete.
    if let Some(runtime) = running() {
        runtime.process.notify();
    }
    Ok(())
}

/// Resolves a handle of an object. A generalized request whose handle was freed exists only for its
/// completion.
fn resolve_object<'c>(handle: MPI_Request, call: InCall<'c>) -> Result<ResolvedRequest<'c>> {
    match object(handle, call) {
        Some(Object::Generalized(generalized)) if generalized.is_handle_freed() => {
            Err(invalid(handle))
        }
        Some(_) => Ok(ResolvedRequest::Object(handle, call)),
        None => Err(invalid(handle)),
    }
}

/// Returns the error for a handle that names no request.
#[cold]
pub fn invalid(handle: c_int) -> Error {
    Error::new(
        Class::Request,
        format!(
            "request {handle:#x} does not exist; it was never started, or is complete and freed"
        ),
    )
}
