//! Conversion of Fortran's arguments to C's, and of results back.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::abi::{
    MPI_Aint, MPI_BUFFER_AUTOMATIC, MPI_ERR_IN_STATUS, MPI_ERR_VALUE_TOO_LARGE, MPI_IN_PLACE,
    MPI_MAX_LIBRARY_VERSION_STRING, MPI_STATUS_IGNORE, MPI_SUCCESS, MPI_Status,
};
use crate::imports as c;
use crate::sentinels;

pub use crate::sentinels::weights;

/// Stores the error code, if the program passed `ierror` (it is optional in `mpi_f08`).
///
/// # Safety
/// `ierror` is valid or NULL.
#[inline(always)]
pub unsafe fn finish(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        // SAFETY: `ierror` is not NULL, and so valid for writes (# Safety).
        unsafe { ierror.write(code) };
    }
}

/// Converts the address of a choice buffer.
#[inline(always)]
pub fn buffer(address: *mut c_void) -> *mut c_void {
    if sentinels::is_bottom(address) {
        std::ptr::null_mut()
    } else if sentinels::is_in_place(address) {
        MPI_IN_PLACE
    } else {
        address
    }
}

/// Converts the address of a buffer to attach.
pub fn attached(address: *mut c_void) -> *mut c_void {
    if sentinels::is_automatic(address) {
        MPI_BUFFER_AUTOMATIC
    } else {
        buffer(address)
    }
}

/// Converts the address of one or several statuses, which are the same five integers in C.
#[inline(always)]
pub fn status(address: *mut MPI_Status) -> *mut MPI_Status {
    if sentinels::is_ignored(address.cast()) {
        MPI_STATUS_IGNORE
    } else {
        address
    }
}

/// Converts the address of the error codes of spawned processes.
pub fn error_codes(address: *mut c_int) -> *mut c_int {
    if sentinels::is_no_error_codes(address.cast()) {
        std::ptr::null_mut()
    } else {
        address
    }
}

/// Returns a subroutine of the program as the C function that takes the same arguments. Fortran
/// passes addresses, so that both have one calling convention.
///
/// # Safety
/// `F` is an optional function pointer with such arguments.
pub unsafe fn callback<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's contract; the sizes are the same.
    unsafe { std::mem::transmute_copy(&address) }
}

/// The value of an index that C has not set.
pub const NO_INDEX: c_int = c_int::MIN;

/// Stores C's index as Fortran's, if C has set it.
///
/// # Safety
/// `index` is valid.
pub unsafe fn one_based(of_c: c_int, index: *mut c_int) {
    if of_c != NO_INDEX {
        // SAFETY: `index` is valid for writes (# Safety).
        unsafe { index.write(of_c + c_int::from(of_c >= 0)) };
    }
}

/// Converts C's indices to Fortran's, if the call has set them: without an error, or with one that
/// completed operations report. `count` may be `MPI_UNDEFINED`.
///
/// # Safety
/// `indices` is valid for `count` indices if the call has set them.
pub unsafe fn all_one_based(indices: *mut c_int, count: *const c_int, code: c_int) {
    let mut class = code;
    // SAFETY: a local variable; the caller's contract.
    unsafe {
        if code != MPI_SUCCESS {
            c::MPI_Error_class(code, &raw mut class);
        }
        if class == MPI_SUCCESS || class == MPI_ERR_IN_STATUS {
            // A negative count is MPI_UNDEFINED.
            for index in 0..usize::try_from(*count).unwrap_or(0) {
                *indices.add(index) += 1;
            }
        }
    }
}

/// Stores an address or a distance as an integer and returns the call's error code, or an error if
/// the value does not fit. The lower half is stored even then: it suffices for the difference of
/// two addresses.
///
/// # Safety
/// `integer` is valid.
pub unsafe fn narrowed(value: MPI_Aint, integer: *mut c_int, code: c_int) -> c_int {
    if code != MPI_SUCCESS {
        return code;
    }
    // SAFETY: `integer` is valid for writes (# Safety).
    unsafe { integer.write(value as c_int) };
    match c_int::try_from(value) {
        Ok(_) => MPI_SUCCESS,
        Err(_) => MPI_ERR_VALUE_TOO_LARGE,
    }
}

/// Returns integers as addresses or distances.
///
/// # Safety
/// `integers` is valid for `count` integers.
pub unsafe fn widened(integers: *const c_int, count: c_int) -> Vec<MPI_Aint> {
    (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: `integers` has `count` elements (# Safety).
        .map(|index| MPI_Aint::from(unsafe { *integers.add(index) }))
        .collect()
}

/// A string of the program, with a terminating NUL.
#[derive(Debug)]
pub struct Text(Vec<u8>);

impl Text {
    /// Copies a string without trailing blanks.
    ///
    /// # Safety
    /// `text` is valid for `length` characters.
    pub unsafe fn new(text: *const c_char, length: usize) -> Text {
        if text.is_null() {
            return Text(vec![0]);
        }
        // SAFETY: `text` has `length` characters (# Safety).
        let all = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        let end = all.iter().rposition(|byte| *byte != b' ');
        let mut bytes = all[..end.map_or(0, |end| end + 1)].to_vec();
        bytes.push(0);
        Text(bytes)
    }

    /// Copies a string without leading and trailing blanks.
    ///
    /// # Safety
    /// `text` is valid for `length` characters.
    pub unsafe fn trimmed(text: *const c_char, length: usize) -> Text {
        // SAFETY: `text` has `length` characters (# Safety).
        let Text(mut bytes) = unsafe { Text::new(text, length) };
        let begin = bytes.iter().position(|byte| *byte != b' ');
        bytes.drain(..begin.unwrap_or(0));
        Text(bytes)
    }

    /// Returns the address to pass to C.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    /// Returns whether the string was blank.
    pub fn is_blank(&self) -> bool {
        self.0.len() <= 1
    }
}

/// A buffer for C's longest string.
#[derive(Debug)]
pub struct StringBuffer([MaybeUninit<u8>; MPI_MAX_LIBRARY_VERSION_STRING as usize]);

impl StringBuffer {
    /// Creates a buffer with an empty string.
    #[allow(clippy::new_without_default, reason = "not for other uses")]
    pub fn new() -> StringBuffer {
        let mut room = StringBuffer([const { MaybeUninit::uninit() }; _]);
        room.0[0].write(0);
        room
    }

    /// Returns the address to pass to C.
    pub fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Copies the string to the program's, truncated or padded with blanks.
    ///
    /// # Safety
    /// C has written a string; `out` is valid for `length` characters.
    pub unsafe fn give(&self, out: *mut c_char, length: usize) {
        // SAFETY: `out` has room for `length` characters (# Safety).
        unsafe { give(self.0.as_ptr().cast(), out, length) };
    }
}

/// Copies a C string to a Fortran string, truncated or padded with blanks.
///
/// # Safety
/// `text` ends in NUL; `out` is valid for `length` characters.
pub unsafe fn give(text: *const c_char, out: *mut c_char, length: usize) {
    // SAFETY: the caller's contract; the two are different variables.
    unsafe {
        let bytes = std::ffi::CStr::from_ptr(text).to_bytes();
        let fits = bytes.len().min(length);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, fits);
        out.add(fits).cast::<u8>().write_bytes(b' ', length - fits);
    }
}
