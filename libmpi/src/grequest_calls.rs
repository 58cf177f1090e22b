//! The callbacks of generalized requests (section 12.2), of C and of Fortran.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_core::{Class, Error, Result, Status};
use mpi_runtime::requests::grequests::UserRequest;

use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_SUCCESS, MPI_Status, MPIX_Grequest_poll_function, MPIX_Grequest_wait_function,
};
use crate::status;

/// The callbacks of generalized requests.
#[derive(Clone, Copy)]
pub struct Callbacks {
    /// Says how the operation ended.
    pub query: MPI_Grequest_query_function,
    /// Frees what belongs to it.
    pub free: MPI_Grequest_free_function,
    /// Cancels it.
    pub cancel: MPI_Grequest_cancel_function,
    /// Sees to it that it is completed (`MPIX_Grequest_start`).
    pub poll: Option<MPIX_Grequest_poll_function>,
    /// Waits for several of a class.
    pub wait: Option<MPIX_Grequest_wait_function>,
}

/// The callbacks of a request.
pub struct Calls {
    callbacks: Callbacks,
    /// Their first argument.
    extra: *mut c_void,
    /// The class of requests that it belongs to, or a number of its own.
    class: u64,
    /// They are subroutines of Fortran.
    fortran: AtomicBool,
}

type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut MPI_Status, *mut c_int);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut c_int);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int);

// SAFETY: the pointer is only handed to the callbacks; which thread calls them is the program's
// business, which gave them for that (section 12.2).
unsafe impl Send for Calls {}
// SAFETY: as above; the rest is atomic.
unsafe impl Sync for Calls {}

impl Calls {
    /// Begins one.
    ///
    /// # Safety
    /// The callbacks keep to the standard's contract, and may be called with `extra` until `free`
    /// has been.
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
        // What the callback leaves alone is as in an empty status.
        let mut told = status::empty();
        let (Callbacks { query, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let mut code = MPI_SUCCESS;
            // SAFETY: `set_fortran` was called for subroutines of this kind (section 12.2).
            unsafe {
                let query: FortranQuery = std::mem::transmute(query);
                query(extra, &raw mut told, &raw mut code);
            }
            code
        } else {
            // SAFETY: promised to `new`; the status is a local variable.
            unsafe { query(extra, &raw mut told) }
        };
        (status::read(&told), returned("query", code))
    }

    fn free(&self) -> Result<()> {
        let (Callbacks { free, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let mut code = MPI_SUCCESS;
            // SAFETY: as in `query`.
            unsafe {
                let free: FortranFree = std::mem::transmute(free);
                free(extra, &raw mut code);
            }
            code
        } else {
            // SAFETY: promised to `new`.
            unsafe { free(extra) }
        };
        returned("free", code)
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        let complete = c_int::from(complete);
        let (Callbacks { cancel, .. }, extra) = (self.callbacks, self.extra);
        let code = if self.is_fortran() {
            let (mut complete, mut code) = (complete, MPI_SUCCESS);
            // SAFETY: as in `query`.
            unsafe {
                let cancel: FortranCancel = std::mem::transmute(cancel);
                cancel(extra, &raw mut complete, &raw mut code);
            }
            code
        } else {
            // SAFETY: promised to `new`.
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
        // What it writes counts for nothing: the query function tells the status.
        let mut told = status::empty();
        // SAFETY: promised to `new`; the status is a local variable.
        let code = unsafe { poll(self.extra, &raw mut told) };
        returned("poll", code)
    }

    fn wait_class(&self) -> Option<u64> {
        self.callbacks.wait.map(|_| self.class)
    }

    fn wait(&self, states: &mut [*mut c_void]) -> Result<()> {
        let Some(wait) = self.callbacks.wait else {
            return Ok(());
        };
        let mut told = vec![status::empty(); states.len()];
        let count = states.len() as c_int;
        // SAFETY: promised to `new` of these requests; both arrays are as long as said.
        let code = unsafe { wait(count, states.as_mut_ptr(), 0.0, told.as_mut_ptr()) };
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
