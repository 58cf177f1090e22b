//! What the ABIs need whose handles are pointers: handles, places for them and arrays of them are turned into the library's
//! and back.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use super::{Outward, OutwardFile};
use crate::abi::MPI_File;

/// What is no file, not even `MPI_FILE_NULL`.
pub const NO_FILE: MPI_File = ptr::without_provenance_mut(1);

/// A handle of the program's that the library has another form of.
pub trait Handle: Copy {
    /// The library's form.
    type Inner;
    /// The handle in that form.
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

/// The handle at an address; `none` for NULL.
///
/// # Safety
/// Another address than NULL is valid for a read.
#[inline(always)]
pub unsafe fn load<H: Handle>(at: *const H, none: H::Inner) -> H::Inner {
    // SAFETY: the caller's contract.
    match unsafe { at.as_ref() } {
        Some(handle) => handle.inner(),
        None => none,
    }
}

/// Where the library is to find or put a handle that the program has at `outer`: NULL stays NULL.
#[inline(always)]
pub fn place<H: Handle>(outer: *mut H, inner: *mut H::Inner) -> *mut H::Inner {
    if outer.is_null() {
        return ptr::null_mut();
    }
    inner
}

/// Gives the program what the library has put in place of 0, which is no handle.
///
/// # Safety
/// Where the program gave NULL, the library has put nothing; else `at` is valid for a write.
#[inline(always)]
pub unsafe fn store(at: *mut Outward, inner: c_int, outward: impl Fn(c_int) -> Outward) {
    if inner != 0 {
        // SAFETY: the caller's contract.
        unsafe { at.write(outward(inner)) };
    }
}

/// The same for files.
///
/// # Safety
/// As for [`store`].
pub unsafe fn store_file(at: *mut OutwardFile, inner: MPI_File) {
    if inner != NO_FILE {
        // SAFETY: the caller's contract.
        unsafe { at.write(OutwardFile::new(inner)) };
    }
}

/// How many handles an array has room for without asking for memory.
const SHORT: usize = 64;

/// An array of handles of the library's, made of one of the program's.
pub struct Array {
    short: [MaybeUninit<c_int>; SHORT],
    long: Vec<c_int>,
    len: usize,
}

impl Array {
    /// An empty one.
    #[inline(always)]
    pub fn empty() -> Array {
        Array {
            short: [MaybeUninit::uninit(); SHORT],
            long: Vec::new(),
            len: 0,
        }
    }

    /// Takes over what the program has, or with `reads` unset makes room for it. NULL stays NULL; a
    /// length that is none is left to the function to complain about.
    ///
    /// # Safety
    /// Another address than NULL is valid for `len` handles.
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
            // SAFETY: the caller's contract; there is room for as many here.
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

    /// Gives the program what the library has left here, but for 0, which is no handle.
    ///
    /// # Safety
    /// As for [`Array::fill`], which came before with the same address.
    #[inline]
    pub unsafe fn store(&self, outer: *mut Outward, outward: impl Fn(c_int) -> Outward) {
        let at: *const c_int = if self.len <= SHORT {
            self.short.as_ptr().cast()
        } else {
            self.long.as_ptr()
        };
        for index in 0..self.len {
            // SAFETY: the caller's contract; `fill` has written as many here.
            unsafe {
                let handle = at.add(index).read();
                if handle != 0 {
                    outer.add(index).write(outward(handle));
                }
            }
        }
    }
}
