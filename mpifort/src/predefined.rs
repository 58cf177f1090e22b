//! The predefined callbacks of attributes and files (sections 6.7.2 and 13.5.3), and comparisons of
//! handles.

use std::ffi::{c_int, c_void};

use crate::abi::MPI_SUCCESS;

/// `MPI_NULL_COPY_FN`, `MPI_COMM_NULL_COPY_FN` and their kin: do not copy. They do not access the
/// values, which are integers of either size.
///
/// # Safety
/// Must be called as MPI calls such a function.
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

/// `MPI_COMM_DUP_FN` and its kin: copies the value.
///
/// # Safety
/// Must be called as MPI calls such a function.
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

/// `MPI_DUP_FN`: copies the value, an `INTEGER`.
///
/// # Safety
/// Must be called as MPI calls such a function.
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

/// `MPI_NULL_DELETE_FN` and its kin: does nothing.
///
/// # Safety
/// Must be called as MPI calls such a function.
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

/// `MPI_CONVERSION_FN_NULL`: never called, only its address is used.
///
/// # Safety
/// Must be called as MPI calls such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_conversion_fn_null_() {}

/// Returns whether two handles are equal, as a `LOGICAL`.
///
/// # Safety
/// Both are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_handles_eq(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: both are addresses of handles (# Safety).
    unsafe { c_int::from(*one == *other) }
}

/// Returns whether two handles differ, as a `LOGICAL`.
///
/// # Safety
/// Both are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_handles_neq(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: both are addresses of handles (# Safety).
    unsafe { c_int::from(*one != *other) }
}

/// `MPI_F_SYNC_REG`: does nothing, which the compiler cannot know (section 17.1.17).
#[unsafe(no_mangle)]
pub extern "C" fn weft_nothing(_buffer: *const c_void) {}

/// # Safety
/// `size` is valid, `ierror` valid or NULL.
unsafe fn store_size(value: c_int, size: *mut c_int, ierror: *mut c_int) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe {
        *size = value;
        crate::convert::finish(ierror, MPI_SUCCESS);
    }
}

/// `MPI_SIZEOF` of a variable of 1 byte.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_1(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(1, size, ierror) };
}

/// `MPI_SIZEOF` of a variable of 2 bytes.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_2(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(2, size, ierror) };
}

/// `MPI_SIZEOF` of a variable of 4 bytes.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_4(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(4, size, ierror) };
}

/// `MPI_SIZEOF` of a variable of 8 bytes.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_8(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(8, size, ierror) };
}

/// `MPI_SIZEOF` of a variable of 16 bytes.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_16(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(16, size, ierror) };
}

/// `MPI_SIZEOF` of a variable of 32 bytes.
///
/// # Safety
/// `size` is valid, `ierror` valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sizeof_32(
    _variable: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: `size` is valid, and `ierror` valid or NULL (# Safety).
    unsafe { store_size(32, size, ierror) };
}

// The other names of these functions.
include!(concat!(env!("OUT_DIR"), "/predefined.rs"));
