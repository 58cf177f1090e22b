//! The Fortran bindings of Weft: `libmpifort.so.12`, for `mpif.h` and the modules `mpi` and
//! `mpi_f08`, with the names, common blocks and conventions that gfortran's programs expect of
//! libraries of the MPICH ABI.
//!
//! Entry points are generated from `mpi-table/functions.mpi`. Each converts its arguments and calls
//! the C function `MPI_X` of `libmpi.so.12`, so that tools that replace it also see Fortran
//! programs. Two more packages compile this source: `libmpifort-abi` makes `libmpifort_abi.so.1`,
//! over `libmpi_abi.so.1`, and `libmpifort-ompi` makes `libmpi_mpifh.so.40`, over `libmpi.so.40`.
//! [`special`] has the routines whose arguments differ from C's. No code here depends on a Fortran
//! run-time library.
//!
//! Each routine is one function with eight names. A routine of `mpi_f08` without choice buffers is
//! the same function, because handles are structures of one integer and absent arguments are NULL.
//! One with choice buffers has two more entry points: `mpi_x_f08ts_` for gfortran's own descriptors
//! and `mpi_x_f08ts_cdesc` for the standard's, which other compilers pass (gfortran's standard
//! descriptors have wrong strides for arrays that an assignment has allocated).

pub mod abi;
pub mod convert;
#[cfg(all(feature = "io", not(openmpi_abi)))]
pub mod datareps;
#[cfg(not(openmpi_abi))]
pub mod descriptors;
pub mod detach;
#[cfg(openmpi_abi)]
pub mod handlers;
pub mod imports;
#[cfg(not(openmpi_abi))]
pub mod later;
#[cfg(pointer_abi)]
mod own_library;
#[cfg(pointer_abi)]
pub mod peers;
#[cfg(not(openmpi_abi))]
pub mod picked;
pub mod predefined;
#[cfg(not(openmpi_abi))]
pub mod sections;
#[cfg(not(openmpi_abi))]
pub mod sentinels;
#[cfg(openmpi_abi)]
#[path = "sentinels_openmpi.rs"]
pub mod sentinels;
pub mod shims;
pub mod special;
#[cfg(standard_abi)]
pub mod widths;
#[cfg(openmpi_abi)]
#[path = "widths_openmpi.rs"]
pub mod widths;
