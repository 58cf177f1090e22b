//! Output parameters and names in calls of a tool (section 14.3.3).

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::tool::error::{Error, Result};

/// Writes a mandatory result.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: the pointer is NULL.
///
/// # Safety
/// A pointer other than NULL is valid for a write.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result {
    if out.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: `out` is not NULL, so the caller of this function guarantees that it is valid for a
    // write.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes an optional result, unless the pointer is NULL.
///
/// # Safety
/// A pointer other than NULL is valid for a write.
pub unsafe fn put_optional<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: `out` is not NULL, so the caller of this function guarantees that it is valid for
        // a write.
        unsafe { out.write(value) };
    }
}

/// Writes a string (section 14.3.3): as many characters as fit, and the length of the whole string
/// with its NUL.
///
/// Writes only the length if `out` is NULL or `*length` is 0, and nothing if `length` is NULL.
///
/// # Safety
/// `length` is NULL or valid; `out` is NULL or has space for `*length` characters.
pub unsafe fn put_text(out: *mut c_char, length: *mut c_int, text: &str) {
    // SAFETY: the caller of this function guarantees that `length` is NULL or valid, and that `out`
    // is NULL or has space for `*length` characters, which bound the copy and the NUL.
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

/// Returns a name that the tool passes.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: the pointer is NULL.
///
/// # Safety
/// `name` is NULL or ends in NUL.
pub unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a [u8]> {
    if name.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: `name` is not NULL, so the caller of this function guarantees that it ends in NUL.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes())
}
