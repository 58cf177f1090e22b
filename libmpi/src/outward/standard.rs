//! Handles of the standard ABI (MPI-5.0 section 21.3): small numbers stand for predefined handles, and others are the library's
//! integers.

use std::ffi::c_int;
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
    pub const fn to_int(self) -> c_int {
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

    /// The file that an integer stands for. Fortran gives any, as what a variable holds before it is set.
    pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
        file(number.wrapping_sub(FIRST_FILE))
    }

    /// The library's handle.
    pub fn inward(self) -> MPI_File {
        if self.0.addr() == FILE_NULL {
            return MPI_FILE_NULL;
        }
        self.0
    }
}
