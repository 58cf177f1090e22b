//! Arguments of Fortran as arguments of C, and results back.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::abi::{
    MPI_Aint, MPI_BUFFER_AUTOMATIC, MPI_ERR_IN_STATUS, MPI_ERR_VALUE_TOO_LARGE, MPI_IN_PLACE,
    MPI_MAX_LIBRARY_VERSION_STRING, MPI_STATUS_IGNORE, MPI_SUCCESS, MPI_Status,
};
use crate::imports as c;
use crate::sentinels;

pub use crate::sentinels::weights;

/// Gives the error code, if the program wants it (in `mpi_f08` it is optional).
///
/// # Safety
/// `ierror` is valid or NULL.
#[inline(always)]
pub unsafe fn finish(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        // SAFETY: the caller's contract.
        unsafe { ierror.write(code) };
    }
}

/// A choice buffer.
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

/// A buffer to be attached.
pub fn attached(address: *mut c_void) -> *mut c_void {
    if sentinels::is_automatic(address) {
        MPI_BUFFER_AUTOMATIC
    } else {
        buffer(address)
    }
}

/// One status or several: C's are the same five integers.
#[inline(always)]
pub fn status(address: *mut MPI_Status) -> *mut MPI_Status {
    if sentinels::is_ignored(address.cast()) {
        MPI_STATUS_IGNORE
    } else {
        address
    }
}

/// Error codes of spawned processes.
pub fn error_codes(address: *mut c_int) -> *mut c_int {
    if sentinels::is_no_error_codes(address.cast()) {
        std::ptr::null_mut()
    } else {
        address
    }
}

/// A subroutine of the program's, as the C function whose arguments it takes: with addresses as
/// arguments there is no difference.
///
/// # Safety
/// `F` is an optional function pointer with such arguments.
pub unsafe fn callback<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's contract; the sizes are the same.
    unsafe { std::mem::transmute_copy(&address) }
}

/// What an index is as long as C has not set it.
pub const NO_INDEX: c_int = c_int::MIN;

/// Gives C's index as one of Fortran, if C has set one.
///
/// # Safety
/// `index` is valid.
pub unsafe fn one_based(of_c: c_int, index: *mut c_int) {
    if of_c != NO_INDEX {
        // SAFETY: the caller's contract.
        unsafe { index.write(of_c + c_int::from(of_c >= 0)) };
    }
}

/// Makes C's indices those of Fortran, if the call has set them: it has if its error is one of operations that
/// are complete. `count` may be `MPI_UNDEFINED`.
///
/// # Safety
/// There are so many if they have been set.
pub unsafe fn all_one_based(indices: *mut c_int, count: *const c_int, code: c_int) {
    let mut class = code;
    // SAFETY: a local variable; the caller's contract.
    unsafe {
        if code != MPI_SUCCESS {
            c::MPI_Error_class(code, &raw mut class);
        }
        if class == MPI_SUCCESS || class == MPI_ERR_IN_STATUS {
            // Less than 0 is MPI_UNDEFINED.
            for index in 0..usize::try_from(*count).unwrap_or(0) {
                *indices.add(index) += 1;
            }
        }
    }
}

/// Gives an address or a distance as an integer; gives the call's error code. One that doesn't fit is an error for whom it
/// matters: its lower half, which is given all the same, is enough for the distance of two addresses.
///
/// # Safety
/// `integer` is valid.
pub unsafe fn narrowed(value: MPI_Aint, integer: *mut c_int, code: c_int) -> c_int {
    if code != MPI_SUCCESS {
        return code;
    }
    // SAFETY: the caller's contract.
    unsafe { integer.write(value as c_int) };
    match c_int::try_from(value) {
        Ok(_) => MPI_SUCCESS,
        Err(_) => MPI_ERR_VALUE_TOO_LARGE,
    }
}

/// Integers as addresses or distances.
///
/// # Safety
/// There are so many.
pub unsafe fn widened(integers: *const c_int, count: c_int) -> Vec<MPI_Aint> {
    (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the caller's contract.
        .map(|index| MPI_Aint::from(unsafe { *integers.add(index) }))
        .collect()
}

/// A string of the program's, with a NUL behind it.
#[derive(Debug)]
pub struct Text(Vec<u8>);

impl Text {
    /// Without trailing blanks.
    ///
    /// # Safety
    /// `text` is valid for `length` characters.
    pub unsafe fn new(text: *const c_char, length: usize) -> Text {
        if text.is_null() {
            return Text(vec![0]);
        }
        // SAFETY: the caller's contract.
        let all = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        let end = all.iter().rposition(|byte| *byte != b' ');
        let mut bytes = all[..end.map_or(0, |end| end + 1)].to_vec();
        bytes.push(0);
        Text(bytes)
    }

    /// Without leading and trailing blanks.
    ///
    /// # Safety
    /// As for [`Text::new`].
    pub unsafe fn trimmed(text: *const c_char, length: usize) -> Text {
        // SAFETY: the caller's contract.
        let Text(mut bytes) = unsafe { Text::new(text, length) };
        let begin = bytes.iter().position(|byte| *byte != b' ');
        bytes.drain(..begin.unwrap_or(0));
        Text(bytes)
    }

    /// For C.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    /// Whether there is nothing but blanks.
    pub fn is_blank(&self) -> bool {
        self.0.len() <= 1
    }
}

/// Room for C's longest string.
#[derive(Debug)]
pub struct Room([MaybeUninit<u8>; MPI_MAX_LIBRARY_VERSION_STRING as usize]);

impl Room {
    /// With an empty string.
    #[allow(clippy::new_without_default, reason = "not for other uses")]
    pub fn new() -> Room {
        let mut room = Room([const { MaybeUninit::uninit() }; _]);
        room.0[0].write(0);
        room
    }

    /// For C.
    pub fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Copies the string to the program's, which is cut off or filled up with blanks.
    ///
    /// # Safety
    /// C has written a string; `out` is valid for `length` characters.
    pub unsafe fn give(&self, out: *mut c_char, length: usize) {
        // SAFETY: the caller's contract.
        unsafe { give(self.0.as_ptr().cast(), out, length) };
    }
}

/// Copies a string of C to one of Fortran, which is cut off or filled up with blanks.
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
