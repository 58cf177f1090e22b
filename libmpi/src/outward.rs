//! Handles as programs see them.
//!
//! Within the library all handles (but for files and the tool information interface) are those of
//! the MPICH ABI: integers. Programs of the standard ABI and of Open MPI's see pointers. The exported functions turn what they get and
//! give; what calls functions of the program's does so here, and the compiler minds it, since their types have [`Outward`] in
//! place of handles.

use std::ffi::c_int;

use crate::abi::MPI_File;

// What only the library of Open MPI's ABI has lies in the folder of that library.
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

/// The optional datatypes that the library lacks: its header doesn't have them.
#[cfg(not(pointer_abi))]
pub const ABSENT: &[c_int] = &[];

#[cfg(not(pointer_abi))]
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

#[cfg(not(pointer_abi))]
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
