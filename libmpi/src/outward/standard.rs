//! Handles of the standard ABI (MPI-5.0 section 21.3): predefined handles are small numbers, others
//! the library's integers.

use std::ffi::c_int;
use std::ptr;

use super::{INWARD, OutwardFile};
use crate::abi::{MPI_FILE_NULL, MPI_File};

/// A handle as the program sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outward(pub(super) usize);

impl Outward {
    /// Returns the library's handle.
    #[inline(always)]
    pub fn inward(self) -> c_int {
        match INWARD.get(self.0) {
            Some(handle) => *handle as c_int,
            None => self.0 as c_int,
        }
    }

    /// Returns the integer that represents the handle (MPI-5.0 section 21.4.4).
    pub const fn to_int(self) -> c_int {
        self.0 as c_int
    }

    /// Returns the handle that an integer represents.
    pub fn from_int(number: c_int) -> Outward {
        Outward(number as u32 as usize)
    }
}

/// `MPI_FILE_NULL` of the standard ABI.
const FILE_NULL: usize = 0x118;

/// Smaller integers represent predefined handles.
const FIRST_FILE: c_int = 0x1000;

impl OutwardFile {
    /// Returns the program's handle of a file.
    pub fn new(file: MPI_File) -> OutwardFile {
        if file == MPI_FILE_NULL {
            return OutwardFile(ptr::without_provenance_mut(FILE_NULL));
        }
        OutwardFile(file)
    }

    /// Returns the integer that represents a file. `number` assigns each file its own.
    pub fn to_int(file: MPI_File, number: impl Fn(MPI_File) -> c_int) -> c_int {
        if file == MPI_FILE_NULL {
            return FILE_NULL as c_int;
        }
        number(file) + FIRST_FILE
    }

    /// Returns the file that an integer represents. Fortran may pass any integer, such as an
    /// uninitialized variable.
    pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
        file(number.wrapping_sub(FIRST_FILE))
    }

    /// Returns the library's handle.
    pub fn inward(self) -> MPI_File {
        if self.0.addr() == FILE_NULL {
            return MPI_FILE_NULL;
        }
        self.0
    }
}
