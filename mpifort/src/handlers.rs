//! User-defined operations and error handlers in Open MPI's ABI: subroutines receive Fortran's
//! integers for handles, C's functions receive pointers. The C library calls the subroutines
//! through this file.
//!
//! All functions are unsafe with the same contract: arguments are valid as the standard requires of
//! the Fortran routine.

#![allow(clippy::missing_safety_doc, reason = "said above, once for all")]

use std::ffi::{c_int, c_void};

use crate::abi::{MPI_Datatype, MPI_Errhandler, MPI_Fint, MPI_Op, MPI_SUCCESS, MPI_User_function};
use crate::convert::callback;
use crate::imports as c;
use crate::widths::{self, Pointer};

/// Calls a reduction subroutine. The C library passes the datatype in Fortran's form.
unsafe extern "C" fn reduce(
    input: *const c_void,
    inout: *mut c_void,
    len: c_int,
    datatype: MPI_Datatype,
    function: MPI_User_function,
) {
    let (mut len, mut datatype) = (len, datatype);
    // SAFETY: `op_create` registered it as a subroutine with these arguments, which the C library
    // passes.
    unsafe { function(input.cast_mut(), inout, &raw mut len, &raw mut datatype) };
}

/// `MPI_OP_CREATE`.
pub unsafe fn op_create(function: *mut c_void, commute: *const c_int, op: *mut MPI_Op) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (module's contract); the operation
    // was just created.
    unsafe {
        let code = c::MPI_Op_create(callback(function), c_int::from(*commute != 0), op);
        if code == MPI_SUCCESS {
            c::MPII_Op_set_cxx(*op, reduce as *mut c_void);
        }
        code
    }
}

/// An error handler of the program.
type Subroutine = unsafe extern "C" fn(*mut MPI_Fint, *mut c_int);

/// Calls an error handler. `kind` is 0 for communicators, 1 for files, 2 for windows.
unsafe extern "C" fn handle(
    kind: c_int,
    object: *mut c_void,
    code: *mut c_int,
    function: unsafe extern "C" fn(),
) {
    // SAFETY: a function below registered it as a subroutine with these arguments; the object is a
    // C handle of that kind.
    unsafe {
        let mut number = match kind {
            #[cfg(feature = "io")]
            1 => c::MPI_File_c2f(object.cast::<crate::abi::MPI_File>().read()),
            2 => widths::narrow(widths::WIN, object.cast::<Pointer>().read()),
            _ => widths::narrow(widths::COMM, object.cast::<Pointer>().read()),
        };
        let function: Subroutine = std::mem::transmute(function);
        function(&raw mut number, code);
    }
}

/// Makes the C library call a new handler's function as a subroutine.
unsafe fn set_proxy(code: c_int, errhandler: *const MPI_Errhandler) -> c_int {
    if code == MPI_SUCCESS {
        // SAFETY: the handler was just created, since the code is MPI_SUCCESS.
        unsafe { c::MPII_Errhandler_set_cxx(*errhandler, handle as *mut c_void) };
    }
    code
}

/// `MPI_COMM_CREATE_ERRHANDLER`, and the older `MPI_ERRHANDLER_CREATE`.
pub unsafe fn comm_create_errhandler(
    function: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_Comm_create_errhandler(callback(function), errhandler);
        set_proxy(code, errhandler)
    }
}

/// `MPI_WIN_CREATE_ERRHANDLER`.
pub unsafe fn win_create_errhandler(
    function: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_Win_create_errhandler(callback(function), errhandler);
        set_proxy(code, errhandler)
    }
}

/// `MPI_FILE_CREATE_ERRHANDLER`.
#[cfg(feature = "io")]
pub unsafe fn file_create_errhandler(
    function: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_File_create_errhandler(callback(function), errhandler);
        set_proxy(code, errhandler)
    }
}
