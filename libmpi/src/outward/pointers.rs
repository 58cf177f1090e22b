//! Conversion of handles, outputs and arrays in the ABIs whose handles are pointers.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use super::{Outward, OutwardFile};
use crate::abi::MPI_File;

/// A value that is no file, not even `MPI_FILE_NULL`.
pub const NO_FILE: MPI_File = ptr::without_provenance_mut(1);

/// A handle of the program that has another form in the library.
pub trait Handle: Copy {
    /// The library's form.
    type Inner;
    /// Returns the handle in the library's form.
    fn inner(self) -> Self::Inner;
}

impl Handle for Outward {
    type Inner = c_int;
    fn inner(self) -> c_int {
        self.inward()
    }
}

impl Handle for OutwardFile {
    type Inner = MPI_File;
    fn inner(self) -> MPI_File {
        self.inward()
    }
}

/// Returns the handle at an address; `none` for NULL.
///
/// # Safety
/// An address other than NULL is valid for a read.
#[inline(always)]
pub unsafe fn load<H: Handle>(at: *const H, none: H::Inner) -> H::Inner {
    // SAFETY: the caller guarantees that an address other than NULL is valid for a read.
    match unsafe { at.as_ref() } {
        Some(handle) => handle.inner(),
        None => none,
    }
}

/// Returns the address of the library's copy of a handle at `outer`: NULL stays NULL.
#[inline(always)]
pub fn place<H: Handle>(outer: *mut H, inner: *mut H::Inner) -> *mut H::Inner {
    if outer.is_null() {
        return ptr::null_mut();
    }
    inner
}

/// Writes a handle that the library has set to the program's output. 0, which is no handle, means
/// that it was not set.
///
/// # Safety
/// If the program passed NULL, the library has set nothing; otherwise `at` is valid for a write.
#[inline(always)]
pub unsafe fn store(at: *mut Outward, inner: c_int, outward: impl Fn(c_int) -> Outward) {
    if inner != 0 {
        // SAFETY: the library has set a handle, so the caller guarantees that `at` is valid for a
        // write.
        unsafe { at.write(outward(inner)) };
    }
}

/// Writes a file handle that the library has set to the program's output.
///
/// # Safety
/// If the program passed NULL, the library has set nothing; otherwise `at` is valid for a write.
pub unsafe fn store_file(at: *mut OutwardFile, inner: MPI_File) {
    if inner != NO_FILE {
        // SAFETY: the library has set a handle, so the caller guarantees that `at` is valid for a
        // write.
        unsafe { at.write(OutwardFile::new(inner)) };
    }
}

/// Number of handles in an array that needs no allocation.
const SHORT: usize = 64;

/// The library's copy of an array of handles.
pub struct Array {
    short: [MaybeUninit<c_int>; SHORT],
    long: Vec<c_int>,
    len: usize,
}

impl Array {
    /// Creates an empty array.
    #[inline(always)]
    pub fn empty() -> Array {
        Array {
            short: [MaybeUninit::uninit(); SHORT],
            long: Vec::new(),
            len: 0,
        }
    }

    /// Copies the program's array, or only allocates the copy unless `reads`. NULL stays NULL; the
    /// function reports an invalid length.
    ///
    /// # Safety
    /// An address other than NULL is valid for `len` handles.
    #[inline]
    pub unsafe fn fill(&mut self, outer: *const Outward, len: i64, reads: bool) -> *mut c_int {
        if outer.is_null() {
            return ptr::null_mut();
        }
        self.len = usize::try_from(len).unwrap_or(0);
        let at: *mut c_int = if self.len <= SHORT {
            self.short.as_mut_ptr().cast()
        } else {
            self.long = vec![0; self.len];
            self.long.as_mut_ptr()
        };
        for index in 0..self.len {
            // SAFETY: the caller guarantees `len` handles at `outer`; the copy has space for as
            // many.
            unsafe {
                let handle = if reads {
                    (*outer.add(index)).inward()
                } else {
                    0
                };
                at.add(index).write(handle);
            }
        }
        at
    }

    /// Writes the handles that the library has set to the program's array. 0, which is no handle,
    /// means that it was not set.
    ///
    /// # Safety
    /// `outer` is the address passed to [`Array::fill`] before, valid for its `len` handles.
    #[inline]
    pub unsafe fn store(&self, outer: *mut Outward, outward: impl Fn(c_int) -> Outward) {
        let at: *const c_int = if self.len <= SHORT {
            self.short.as_ptr().cast()
        } else {
            self.long.as_ptr()
        };
        for index in 0..self.len {
            // SAFETY: the caller guarantees the address passed to `fill`, whose `len` handles the
            // copy has.
            unsafe {
                let handle = at.add(index).read();
                if handle != 0 {
                    outer.add(index).write(outward(handle));
                }
            }
        }
    }
}
