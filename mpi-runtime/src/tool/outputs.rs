//! How results and strings go to a tool's variables, and names come from it (section 14.3.3).

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::tool::error::{Error, Result};

/// Writes a result that must be wanted.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: it has no address.
///
/// # Safety
/// Another pointer than NULL is valid for a write.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result {
    if out.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's contract.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a result unless the tool gives NULL, because it doesn't want it.
///
/// # Safety
/// Another pointer than NULL is valid for a write.
pub unsafe fn tell<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: the caller's contract.
        unsafe { out.write(value) };
    }
}

/// Writes a string (section 14.3.3): as much as there is room for, and the length that all of it
/// takes with its NUL. Without room or address only the length; without an address for that nothing.
///
/// # Safety
/// `length` is NULL or valid; `out` is NULL or has room for `*length` characters.
pub unsafe fn tell_text(out: *mut c_char, length: *mut c_int, text: &str) {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(length) = length.as_mut() else {
            return;
        };
        let room = usize::try_from(*length).unwrap_or(0);
        if !out.is_null() && room > 0 {
            let len = text.len().min(room - 1);
            ptr::copy_nonoverlapping(text.as_ptr().cast(), out, len);
            out.add(len).write(0);
        }
        *length = text.len() as c_int + 1;
    }
}

/// A name that the tool gives.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: it is NULL.
///
/// # Safety
/// `name` is NULL or ends in NUL.
pub unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a [u8]> {
    if name.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes())
}
