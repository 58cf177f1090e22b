//! Handles as programs see them.
//!
//! Within the library all handles are integers, those of the MPICH ABI (except those of files and
//! of the tool information interface). Programs of the standard ABI and of Open MPI's ABI see
//! pointers. The exported functions convert their arguments and results; code that calls functions
//! of the program converts here, which the compiler enforces, since the types of these functions
//! have [`Outward`] in place of handles.

use std::ffi::c_int;

use crate::abi::MPI_File;

// The code of Open MPI's ABI is in the folder of its package.
#[cfg(openmpi_abi)]
#[path = "../ompi/src/outward/affinity.rs"]
pub mod affinity;
#[cfg(openmpi_abi)]
#[path = "../ompi/src/outward/cxx_openmpi.rs"]
pub mod cxx_openmpi;
#[cfg(openmpi_abi)]
#[path = "../ompi/src/outward/openmpi.rs"]
mod openmpi;
#[cfg(pointer_abi)]
mod pointers;
#[cfg(standard_abi)]
mod standard;

#[cfg(openmpi_abi)]
pub use openmpi::Outward;
#[cfg(openmpi_abi)]
use openmpi::{Address, Object};
#[cfg(pointer_abi)]
pub use pointers::*;
#[cfg(standard_abi)]
pub use standard::Outward;

include!(concat!(env!("OUT_DIR"), "/outward.rs"));

/// A handle as the program sees it.
#[cfg(not(pointer_abi))]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outward(c_int);

/// A file's handle as the program sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutwardFile(MPI_File);

/// Optional datatypes that the header does not define.
#[cfg(not(pointer_abi))]
pub const ABSENT: &[c_int] = &[];

#[cfg(not(pointer_abi))]
impl Outward {
    /// Returns the library's handle.
    #[inline(always)]
    pub const fn inward(self) -> c_int {
        self.0
    }

    /// Returns the integer that represents the handle (MPI-5.0 section 21.4.4).
    pub const fn to_int(self) -> c_int {
        self.0
    }

    /// Returns the handle that an integer represents.
    pub const fn from_int(number: c_int) -> Outward {
        Outward(number)
    }
}

#[cfg(not(pointer_abi))]
impl OutwardFile {
    /// Returns the program's handle of a file.
    pub fn new(file: MPI_File) -> OutwardFile {
        OutwardFile(file)
    }

    /// Returns the integer that represents a file. `number` assigns each file its own.
    pub fn to_int(file: MPI_File, number: impl Fn(MPI_File) -> c_int) -> c_int {
        number(file)
    }

    /// Returns the file that an integer represents.
    pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
        file(number)
    }
}
