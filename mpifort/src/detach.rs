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

/// `MPI_Buffer_detach` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_buffer_detach_f08_(
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { finish(buffer, ierror, c::MPI_Buffer_detach(buffer.cast(), size)) };
}

/// `PMPI_Buffer_detach` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_buffer_detach_f08_(
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_buffer_detach_f08_(buffer, size, ierror) };
}

/// `MPI_Buffer_detach_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_buffer_detach_c_f08_(
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { finish(buffer, ierror, c::MPI_Buffer_detach_c(buffer.cast(), size)) };
}

/// `PMPI_Buffer_detach_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_buffer_detach_c_f08_(
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_buffer_detach_c_f08_(buffer, size, ierror) };
}

/// `MPI_Comm_detach_buffer` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_detach_buffer_f08_(
    comm: *const MPI_Comm,
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        finish(
            buffer,
            ierror,
            c::MPI_Comm_detach_buffer(*comm, buffer.cast(), size),
        )
    };
}

/// `PMPI_Comm_detach_buffer` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_comm_detach_buffer_f08_(
    comm: *const MPI_Comm,
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_comm_detach_buffer_f08_(comm, buffer, size, ierror) };
}

/// `MPI_Comm_detach_buffer_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_detach_buffer_c_f08_(
    comm: *const MPI_Comm,
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        finish(
            buffer,
            ierror,
            c::MPI_Comm_detach_buffer_c(*comm, buffer.cast(), size),
        )
    };
}

/// `PMPI_Comm_detach_buffer_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_comm_detach_buffer_c_f08_(
    comm: *const MPI_Comm,
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_comm_detach_buffer_c_f08_(comm, buffer, size, ierror) };
}

/// `MPI_Session_detach_buffer` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_session_detach_buffer_f08_(
    session: *const MPI_Session,
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        finish(
            buffer,
            ierror,
            c::MPI_Session_detach_buffer(*session, buffer.cast(), size),
        )
    };
}

/// `PMPI_Session_detach_buffer` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_session_detach_buffer_f08_(
    session: *const MPI_Session,
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_session_detach_buffer_f08_(session, buffer, size, ierror) };
}

/// `MPI_Session_detach_buffer_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_session_detach_buffer_c_f08_(
    session: *const MPI_Session,
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        finish(
            buffer,
            ierror,
            c::MPI_Session_detach_buffer_c(*session, buffer.cast(), size),
        )
    };
}

/// `PMPI_Session_detach_buffer_c` of `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_session_detach_buffer_c_f08_(
    session: *const MPI_Session,
    buffer: *mut *mut c_void,
    size: *mut MPI_Count,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_session_detach_buffer_c_f08_(session, buffer, size, ierror) };
}

/// `PMPI_Buffer_detach` of other libraries' `mpi_f08`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpir_buffer_detach_f08_(
    buffer: *mut *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { mpi_buffer_detach_f08_(buffer, size, ierror) };
}
