//! Handles as programs see them.
//!
//! Within the library all handles (but for files and the tool information interface) are those of
//! the MPICH ABI: integers. Programs of the standard ABI (MPI-5.0 section 21.3) see pointers: small
//! numbers stand for predefined handles, and others are the library's integers. The exported functions turn what they get and
//! give; what calls functions of the program's does so here, and the compiler minds it, since their types have [`Outward`] in
//! place of handles.

use std::ffi::c_int;

use crate::abi::MPI_File;

#[cfg(standard_abi)]
pub use standard::*;

include!(concat!(env!("OUT_DIR"), "/outward.rs"));

/// A handle as the program sees it.
#[cfg(not(standard_abi))]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outward(c_int);

/// A file's handle as the program sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutwardFile(MPI_File);

/// The optional datatypes that the library lacks: its header doesn't have them.
#[cfg(not(standard_abi))]
pub const ABSENT: &[c_int] = &[];

#[cfg(not(standard_abi))]
impl Outward {
    /// The library's handle.
    #[inline(always)]
    pub const fn inward(self) -> c_int {
        self.0
    }

    /// The integer that stands for the handle (MPI-5.0 section 21.4.4).
    pub const fn to_int(self) -> c_int {
        self.0
    }

    /// The handle that an integer stands for.
    pub const fn from_int(number: c_int) -> Outward {
        Outward(number)
    }
}

#[cfg(not(standard_abi))]
impl OutwardFile {
    /// A file.
    pub fn new(file: MPI_File) -> OutwardFile {
        OutwardFile(file)
    }

    /// The integer that stands for a file, of which `number` gives each its own.
    pub fn to_int(file: MPI_File, number: impl Fn(MPI_File) -> c_int) -> c_int {
        number(file)
    }

    /// The file that an integer stands for.
    pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
        file(number)
    }
}

/// What only the standard ABI needs.
#[cfg(standard_abi)]
mod standard {
    use std::ffi::c_int;
    use std::mem::MaybeUninit;
    use std::ptr;

    use super::{INWARD, OutwardFile};
    use crate::abi::{MPI_FILE_NULL, MPI_File};

    /// A handle as the program sees it.
    #[repr(transparent)]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Outward(pub(super) usize);

    impl Outward {
        /// The library's handle.
        #[inline(always)]
        pub fn inward(self) -> c_int {
            match INWARD.get(self.0) {
                Some(handle) => *handle as c_int,
                None => self.0 as c_int,
            }
        }

        /// The integer that stands for the handle (MPI-5.0 section 21.4.4).
        pub fn to_int(self) -> c_int {
            self.0 as c_int
        }

        /// The handle that an integer stands for.
        pub fn from_int(number: c_int) -> Outward {
            Outward(number as u32 as usize)
        }
    }

    /// `MPI_FILE_NULL` of the standard ABI.
    const FILE_NULL: usize = 0x118;

    /// Integers below stand for predefined handles.
    const FIRST_FILE: c_int = 0x1000;

    /// What is no file, not even `MPI_FILE_NULL`.
    pub const NO_FILE: MPI_File = ptr::without_provenance_mut(1);

    impl OutwardFile {
        /// A file.
        pub fn new(file: MPI_File) -> OutwardFile {
            if file == MPI_FILE_NULL {
                return OutwardFile(ptr::without_provenance_mut(FILE_NULL));
            }
            OutwardFile(file)
        }

        /// The integer that stands for a file, of which `number` gives each its own.
        pub fn to_int(file: MPI_File, number: impl Fn(MPI_File) -> c_int) -> c_int {
            if file == MPI_FILE_NULL {
                return FILE_NULL as c_int;
            }
            number(file) + FIRST_FILE
        }

        /// The file that an integer stands for.
        pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
            file(number - FIRST_FILE)
        }

        /// The library's handle.
        pub fn inward(self) -> MPI_File {
            if self.0.addr() == FILE_NULL {
                return MPI_FILE_NULL;
            }
            self.0
        }
    }

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
}
