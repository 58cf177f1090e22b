//! The predefined callbacks of attributes and files (sections 6.7.2 and 13.5.3).

use std::ffi::{c_int, c_void};

use crate::abi::MPI_SUCCESS;

/// `MPI_NULL_COPY_FN`, `MPI_COMM_NULL_COPY_FN` and their like: no copy. The values, which they leave
/// alone, are integers of either size.
///
/// # Safety
/// Is called as such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_null_copy_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra_state: *const c_void,
    _value: *const c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: called as an attribute copy function.
    unsafe {
        *flag = 0;
        *ierror = MPI_SUCCESS;
    }
}

/// `MPI_COMM_DUP_FN` and its like: the same value.
///
/// # Safety
/// Is called as such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_dup_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra_state: *const c_void,
    value: *const isize,
    copy: *mut isize,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: called as an attribute copy function.
    unsafe {
        *copy = *value;
        *flag = 1;
        *ierror = MPI_SUCCESS;
    }
}

/// `MPI_DUP_FN`: the same value, an `INTEGER`.
///
/// # Safety
/// Is called as such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_dup_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra_state: *const c_void,
    value: *const c_int,
    copy: *mut c_int,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: called as an attribute copy function.
    unsafe {
        *copy = *value;
        *flag = 1;
        *ierror = MPI_SUCCESS;
    }
}

/// `MPI_NULL_DELETE_FN` and its like: nothing to be done.
///
/// # Safety
/// Is called as such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_null_delete_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _value: *const c_void,
    _extra_state: *const c_void,
    ierror: *mut c_int,
) {
    // SAFETY: called as an attribute delete function.
    unsafe { *ierror = MPI_SUCCESS };
}

/// `MPI_CONVERSION_FN_NULL`: only its address is used.
///
/// # Safety
/// Is called as such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_conversion_fn_null_() {}

// The other names of these functions.
include!(concat!(env!("OUT_DIR"), "/predefined.rs"));
