//! Callbacks of generalized requests (section 12.2), in C and Fortran.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_core::{Class, Error, Result, Status};
use mpi_runtime::requests::grequests::UserRequest;

use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_SUCCESS, MPI_Status, MPIX_Grequest_poll_function, MPIX_Grequest_wait_function,
};
use crate::status;

/// The callbacks of a generalized request.
#[derive(Clone, Copy)]
pub struct Callbacks {
    /// Returns the status of the operation.
    pub query: MPI_Grequest_query_function,
    /// Frees the request's resources.
    pub free: MPI_Grequest_free_function,
    /// Cancels the operation.
    pub cancel: MPI_Grequest_cancel_function,
    /// Advances the operation (`MPIX_Grequest_start`).
    pub poll: Option<MPIX_Grequest_poll_function>,
    /// Waits for several operations of a class.
    pub wait: Option<MPIX_Grequest_wait_function>,
}

/// The callbacks of a request with their arguments.
pub struct Calls {
    callbacks: Callbacks,
    /// The first argument of all callbacks.
    extra: *mut c_void,
    /// The class of the request, or a unique number.
    class: u64,
    /// Whether they are Fortran subroutines.
    fortran: AtomicBool,
}

type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut MPI_Status, *mut c_int);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut c_int);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int);

// SAFETY: the library passes the pointer only to the callbacks, which the program agreed to have
// called by any thread (section 12.2).
unsafe impl Send for Calls {}
// SAFETY: shared references only copy the pointers; the flag is atomic.
unsafe impl Sync for Calls {}

impl Calls {
    /// Creates the callbacks of a request.
    ///
    /// # Safety
    /// The callbacks satisfy the standard's contract, and may be called with `extra` until `free`
    /// has been called.
    pub unsafe fn new(callbacks: Callbacks, extra: *mut c_void, class: u64) -> Self {
        Calls {
            callbacks,
            extra,
            class,
            fortran: AtomicBool::new(false),
        }
    }

    fn is_fortran(&self) -> bool {
        self.fortran.load(Ordering::Relaxed)
    }
}

impl UserRequest for Calls {
    fn set_fortran(&self) {
        self.fortran.store(true, Ordering::Relaxed);
    }

    fn query(&self) -> (Status, Result<()>) {
        // Fields that the callback does not set are those of an empty status.
        let mut status = status::empty();
        let (Callbacks { query, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let mut code = MPI_SUCCESS;
            // SAFETY: `set_fortran` was called, which the Fortran library does for subroutines of
            // this type (section 12.2).
            unsafe {
                let query: FortranQuery = std::mem::transmute(query);
                query(extra, &raw mut status, &raw mut code);
            }
            code
        } else {
            // SAFETY: the caller of `new` guarantees the callback; the status is a local variable.
            unsafe { query(extra, &raw mut status) }
        };
        (status::read(&status), returned("query", code))
    }

    fn free(&self) -> Result<()> {
        let (Callbacks { free, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let mut code = MPI_SUCCESS;
            // SAFETY: `set_fortran` was called, which the Fortran library does for subroutines of
            // this type (section 12.2).
            unsafe {
                let free: FortranFree = std::mem::transmute(free);
                free(extra, &raw mut code);
            }
            code
        } else {
            // SAFETY: the caller of `new` guarantees the callback.
            unsafe { free(extra) }
        };
        returned("free", code)
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        let complete = c_int::from(complete);
        let (Callbacks { cancel, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let (mut complete, mut code) = (complete, MPI_SUCCESS);
            // SAFETY: `set_fortran` was called, which the Fortran library does for subroutines of
            // this type (section 12.2).
            unsafe {
                let cancel: FortranCancel = std::mem::transmute(cancel);
                cancel(extra, &raw mut complete, &raw mut code);
            }
            code
        } else {
            // SAFETY: the caller of `new` guarantees the callback.
            unsafe { cancel(extra, complete) }
        };
        returned("cancel", code)
    }

    fn has_poll(&self) -> bool {
        self.callbacks.poll.is_some()
    }

    fn poll(&self) -> Result<()> {
        let Some(poll) = self.callbacks.poll else {
            return Ok(());
        };
        // The status is ignored: the query function returns the status of the operation.
        let mut status = status::empty();
        // SAFETY: the caller of `new` guarantees the callback; the status is a local variable.
        let code = unsafe { poll(self.extra, &raw mut status) };
        returned("poll", code)
    }

    fn wait_class(&self) -> Option<u64> {
        self.callbacks.wait.map(|_| self.class)
    }

    fn wait(&self, states: &mut [*mut c_void]) -> Result<()> {
        let Some(wait) = self.callbacks.wait else {
            return Ok(());
        };
        let mut status = vec![status::empty(); states.len()];
        let count = states.len() as c_int;
        // SAFETY: the callers of `new` guarantee the callback for all requests of the class; both
        // arrays have `count` elements.
        let code = unsafe { wait(count, states.as_mut_ptr(), 0.0, status.as_mut_ptr()) };
        returned("wait", code)
    }

    fn state(&self) -> *mut c_void {
        self.extra
    }
}

fn returned(what: &str, code: c_int) -> Result<()> {
    if code == MPI_SUCCESS {
        return Ok(());
    }
    Err(Error::new(
        Class::User(code),
        format!("the {what} callback of a generalized request returned {code}"),
    ))
}
