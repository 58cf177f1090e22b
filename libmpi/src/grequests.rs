//! Generalized requests (section 12.2): operations of the program that are waited for as those of
//! MPI are.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mpi_core::{Class, Error, Result, Status};

use crate::abi::{MPI_SUCCESS, MPI_Status};
use crate::status;

/// The callbacks of a generalized request, and what they are given.
pub struct Callbacks {
    /// Says how the operation ended.
    pub query: unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int,
    /// Frees what belongs to it.
    pub free: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Cancels it.
    pub cancel: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    /// Their first argument.
    pub extra: *mut c_void,
}

/// A generalized request.
pub struct Generalized {
    callbacks: Callbacks,
    state: AtomicU8,
    /// The callbacks are subroutines of Fortran.
    fortran: AtomicBool,
}

type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut MPI_Status, *mut c_int);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut c_int);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int);

/// The program has completed it.
const COMPLETE: u8 = 1;
/// The program has let go of the handle (`MPI_Request_free`).
const GONE: u8 = 2;

// SAFETY: the pointer is only handed to the callbacks; which thread calls them is the program's
// business, which gave them for that (section 12.2).
unsafe impl Send for Generalized {}
// SAFETY: as above; the rest is atomic or constant.
unsafe impl Sync for Generalized {}

impl Generalized {
    /// Begins one.
    ///
    /// # Safety
    /// The callbacks keep to the standard's contract, and may be called with `extra` until `free`
    /// has been.
    pub unsafe fn new(callbacks: Callbacks) -> Self {
        Generalized {
            callbacks,
            state: AtomicU8::new(0),
            fortran: AtomicBool::new(false),
        }
    }

    /// Has the callbacks called as subroutines of Fortran: all arguments by address, the error code
    /// as the last of them, and what was given as extra state is the address of the program's.
    pub fn set_fortran(&self) {
        self.fortran.store(true, Ordering::Relaxed);
    }

    fn is_fortran(&self) -> bool {
        self.fortran.load(Ordering::Relaxed)
    }

    /// Whether the program has completed it.
    pub fn is_complete(&self) -> bool {
        self.state.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// Whether the program has freed the handle.
    pub fn is_gone(&self) -> bool {
        self.state.load(Ordering::Relaxed) & GONE != 0
    }

    /// Notes that the operation is complete. Returns whether nobody waits for it any more, so that
    /// it is to be freed.
    ///
    /// # Errors
    /// [`Class::Request`] the second time.
    pub fn complete(&self) -> Result<bool> {
        let before = self.state.fetch_or(COMPLETE, Ordering::AcqRel);
        if before & COMPLETE != 0 {
            let why = "the generalized request is complete already";
            return Err(Error::new(Class::Request, why));
        }
        Ok(before & GONE != 0)
    }

    /// Lets go of it. Returns whether it is complete, so that it is to be freed.
    pub fn let_go(&self) -> bool {
        self.state.fetch_or(GONE, Ordering::AcqRel) & COMPLETE != 0
    }

    /// Asks the program how the operation ended.
    pub fn query(&self) -> (Status, Result<()>) {
        // What the callback leaves alone is as in an empty status.
        let mut told = status::empty();
        let Callbacks { query, extra, .. } = self.callbacks;
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

    /// Has the program free what belongs to it. To be called once.
    pub fn free(&self) -> Result<()> {
        let Callbacks { free, extra, .. } = self.callbacks;
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

    /// Asks the program to cancel it.
    pub fn cancel(&self) -> Result<()> {
        let complete = c_int::from(self.is_complete());
        let Callbacks { cancel, extra, .. } = self.callbacks;
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
