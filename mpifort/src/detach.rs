//! The routines of `mpi_f08` that detach a buffer. They return a `TYPE(C_PTR)`, where `mpif.h` and
//! `mpi` have a buffer argument that is not written (MPI-4.1 section 3.6).
//!
//! All functions are unsafe with the same contract: arguments are valid as the standard requires of
//! the Fortran routine.

#![allow(clippy::missing_safety_doc, reason = "said above, once for all")]

use std::ffi::{c_int, c_void};

use crate::abi::{MPI_BUFFER_AUTOMATIC, MPI_Comm, MPI_Count, MPI_SUCCESS, MPI_Session};
use crate::imports as c;
use crate::{convert, sentinels};

/// Completes a routine in which C has stored a buffer's address. `MPI_BUFFER_AUTOMATIC` becomes the
/// address of Fortran's variable, whose `c_loc` programs compare with.
unsafe fn finish(buffer: *mut *mut c_void, ierror: *mut c_int, code: c_int) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        if code == MPI_SUCCESS && *buffer == MPI_BUFFER_AUTOMATIC {
            *buffer = sentinels::automatic();
        }
        convert::finish(ierror, code);
    }
}

/// Defines routines, each by its name, the C function that it calls, and the types of the handle, if it
/// has one, and of the size.
macro_rules! routines {
    ($($name:ident = $function:ident($(handle: $handle:ty,)? size: $size:ty);)*) => {$(
        #[doc = concat!("`", stringify!($function), "` of `mpi_f08`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $(handle: *const $handle,)?
            buffer: *mut *mut c_void,
            size: *mut $size,
            ierror: *mut c_int,
        ) {
            // SAFETY: the arguments are valid as the standard requires (the contract of this module).
            unsafe {
                let code = c::$function($(*(handle as *const $handle),)? buffer.cast(), size);
                finish(buffer, ierror, code);
            }
        }
    )*};
}

// Names that begin with `pmpir_` are those of other libraries' modules.
routines! {
    mpi_buffer_detach_f08_ = MPI_Buffer_detach(size: c_int);
    pmpi_buffer_detach_f08_ = MPI_Buffer_detach(size: c_int);
    pmpir_buffer_detach_f08_ = MPI_Buffer_detach(size: c_int);
    mpi_buffer_detach_c_f08_ = MPI_Buffer_detach_c(size: MPI_Count);
    pmpi_buffer_detach_c_f08_ = MPI_Buffer_detach_c(size: MPI_Count);
    mpi_comm_detach_buffer_f08_ = MPI_Comm_detach_buffer(handle: MPI_Comm, size: c_int);
    pmpi_comm_detach_buffer_f08_ = MPI_Comm_detach_buffer(handle: MPI_Comm, size: c_int);
    mpi_comm_detach_buffer_c_f08_ = MPI_Comm_detach_buffer_c(handle: MPI_Comm, size: MPI_Count);
    pmpi_comm_detach_buffer_c_f08_ = MPI_Comm_detach_buffer_c(handle: MPI_Comm, size: MPI_Count);
    mpi_session_detach_buffer_f08_ = MPI_Session_detach_buffer(handle: MPI_Session, size: c_int);
    pmpi_session_detach_buffer_f08_ = MPI_Session_detach_buffer(handle: MPI_Session, size: c_int);
    mpi_session_detach_buffer_c_f08_ = MPI_Session_detach_buffer_c(handle: MPI_Session, size: MPI_Count);
    pmpi_session_detach_buffer_c_f08_ = MPI_Session_detach_buffer_c(handle: MPI_Session, size: MPI_Count);
}
