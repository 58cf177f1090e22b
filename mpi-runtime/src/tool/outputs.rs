//! Output parameters in calls of a tool (section 14.3.3).

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::tool::error::{Error, Result};

/// The address of a result, or NULL.
pub struct Output<T>(*mut T);

impl<T> Output<T> {
    /// Returns the output at an address.
    ///
    /// # Safety
    /// The address is NULL, or valid for writes during the call.
    pub unsafe fn new(address: *mut T) -> Self {
        Output(address)
    }

    /// Returns whether the tool does not want the result.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Checks that there is an address.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID`: it is NULL.
    pub fn demand(&self) -> Result {
        match self.0.is_null() {
            true => Err(Error::Invalid),
            false => Ok(()),
        }
    }

    /// Writes a mandatory result.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID`: the address is NULL.
    pub fn put(&self, value: T) -> Result {
        self.demand()?;
        self.put_optional(value);
        Ok(())
    }

    /// Writes an optional result, unless the address is NULL.
    pub fn put_optional(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the address is not NULL, so valid for writes by the contract of `new`.
            unsafe { self.0.write(value) };
        }
    }
}

/// The address of a string and that of its length, or NULL.
pub struct TextOutput {
    out: *mut c_char,
    length: *mut c_int,
}

impl TextOutput {
    /// Returns the output for a string.
    ///
    /// # Safety
    /// During the call `length` is NULL or valid, and `out` is NULL or has space for `*length`
    /// characters.
    pub unsafe fn new(out: *mut c_char, length: *mut c_int) -> Self {
        TextOutput { out, length }
    }

    /// Writes a string (section 14.3.3): as many characters as fit, and the length of the whole
    /// string with its NUL.
    ///
    /// Writes only the length if there is no space, and nothing if the length's address is NULL.
    pub fn put(&self, text: &str) {
        // SAFETY: by the contract of `new`, the length is NULL or valid, and `out` is NULL or has
        // space for that many characters, which bound the copy and the NUL.
        unsafe {
            let Some(length) = self.length.as_mut() else {
                return;
            };
            let space = usize::try_from(*length).unwrap_or(0);
            if !self.out.is_null() && space > 0 {
                let len = text.len().min(space - 1);
                ptr::copy_nonoverlapping(text.as_ptr().cast(), self.out, len);
                self.out.add(len).write(0);
            }
            *length = text.len() as c_int + 1;
        }
    }
}
