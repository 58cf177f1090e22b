//! Variables whose addresses stand for something: `MPI_BOTTOM`, `MPI_STATUS_IGNORE` and their like
//! (section 2.5.4).
//!
//! `mpif.h` and module `mpi` have them in common blocks, which a program keeps in its own memory; the
//! dynamic linker makes this library see that one. So nothing here may assume where they are or what
//! they hold.

#![allow(non_upper_case_globals, reason = "names of Fortran's common blocks")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

use crate::abi::MPI_F08_status;
#[cfg(not(standard_abi))]
use crate::abi::MPI_Fint;

/// Memory of Fortran's that is never looked at. Programs that keep a copy of it expect its size to be
/// exactly the variable's.
#[repr(C, align(4))]
#[derive(Debug)]
pub struct Block<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only addresses are used.
unsafe impl<const SIZE: usize> Sync for Block<SIZE> {}

impl<const SIZE: usize> Block<SIZE> {
    const fn new() -> Self {
        Block(UnsafeCell::new([0; SIZE]))
    }

    /// The address `offset` bytes behind its beginning.
    #[inline(always)]
    fn at(&self, offset: usize) -> *mut c_void {
        self.0.get().cast::<u8>().wrapping_add(offset).cast()
    }
}

/// Characters of Fortran's that are never looked at.
#[repr(C)]
#[derive(Debug)]
pub struct Letters<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only addresses are used.
unsafe impl<const SIZE: usize> Sync for Letters<SIZE> {}

impl<const SIZE: usize> Letters<SIZE> {
    const fn new() -> Self {
        Letters(UnsafeCell::new([0; SIZE]))
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.0.get().cast::<u8>().wrapping_add(offset).cast()
    }
}

/// The size of a status.
const STATUS: usize = size_of::<MPI_F08_status>();

/// `MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static mpipriv1_: Block<{ 8 + STATUS }> = Block::new();
/// `MPI_STATUSES_IGNORE`, `MPI_ERRCODES_IGNORE`.
#[unsafe(no_mangle)]
pub static mpipriv2_: Block<{ STATUS + 4 }> = Block::new();
/// `MPI_ARGVS_NULL`, `MPI_ARGV_NULL`.
#[unsafe(no_mangle)]
pub static mpiprivc_: Letters<2> = Letters::new();
/// `MPI_UNWEIGHTED`.
#[unsafe(no_mangle)]
pub static mpifcmb5_: Block<4> = Block::new();
/// `MPI_WEIGHTS_EMPTY`.
#[unsafe(no_mangle)]
pub static mpifcmb9_: Block<4> = Block::new();

/// `MPI_BUFFER_AUTOMATIC`.
#[unsafe(no_mangle)]
pub static mpifcmba_: Block<4> = Block::new();

/// `MPI_UNWEIGHTED` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_unweighted")]
pub static F08_UNWEIGHTED: Block<4> = Block::new();
/// `MPI_WEIGHTS_EMPTY` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_weights_empty")]
pub static F08_WEIGHTS_EMPTY: Block<4> = Block::new();
/// `MPI_ERRCODES_IGNORE` of our `mpi_f08`.
#[unsafe(export_name = "weft_errcodes_ignore")]
pub static OWN_ERRCODES_IGNORE: Block<4> = Block::new();
/// `MPI_ERRCODES_IGNORE` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_errcodes_ignore")]
pub static F08_ERRCODES_IGNORE: Block<4> = Block::new();
/// `MPI_ARGV_NULL` of our `mpi_f08`.
#[unsafe(export_name = "weft_argv_null")]
pub static OWN_ARGV_NULL: Letters<1> = Letters::new();
/// `MPI_ARGV_NULL` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_argv_null")]
pub static F08_ARGV_NULL: Letters<1> = Letters::new();
/// `MPI_ARGVS_NULL` of our `mpi_f08`.
#[unsafe(export_name = "weft_argvs_null")]
pub static OWN_ARGVS_NULL: Letters<1> = Letters::new();
/// `MPI_ARGVS_NULL` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_argvs_null")]
pub static F08_ARGVS_NULL: Letters<1> = Letters::new();

#[cfg(standard_abi)]
use crate::abi::{MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};

/// `MPI_STATUS_IGNORE` of `mpi_f08`. The standard ABI has no variables for Fortran.
#[cfg(standard_abi)]
#[unsafe(no_mangle)]
static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Block<STATUS> = Block::new();
/// `MPI_STATUSES_IGNORE`.
#[cfg(standard_abi)]
#[unsafe(no_mangle)]
static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Block<STATUS> = Block::new();
/// `MPI_IN_PLACE`.
#[cfg(standard_abi)]
#[unsafe(no_mangle)]
static MPIR_F08_MPI_IN_PLACE: Block<4> = Block::new();
/// `MPI_BOTTOM`.
#[cfg(standard_abi)]
#[unsafe(no_mangle)]
static MPIR_F08_MPI_BOTTOM: Block<4> = Block::new();

#[cfg(not(standard_abi))]
unsafe extern "C" {
    static mut MPI_F_STATUS_IGNORE: *mut MPI_Fint;
    static mut MPI_F_STATUSES_IGNORE: *mut MPI_Fint;
    static mut MPI_UNWEIGHTED: *mut c_int;
    static mut MPI_WEIGHTS_EMPTY: *mut c_int;
    static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Block<STATUS>;
    static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Block<STATUS>;
    static MPIR_F08_MPI_IN_PLACE: Block<4>;
    static MPIR_F08_MPI_BOTTOM: Block<4>;
}

/// Tells C where Fortran's ignored statuses are (section 17.2.5), before the program runs.
#[cfg(not(standard_abi))]
extern "C" fn tell_c() {
    // SAFETY: variables of libmpi for just this; no other thread runs yet.
    unsafe {
        MPI_F_STATUS_IGNORE = mpipriv1_.at(8).cast();
        MPI_F_STATUSES_IGNORE = mpipriv2_.at(0).cast();
    }
}

#[cfg(not(standard_abi))]
#[used]
#[unsafe(link_section = ".init_array")]
static TELL_C: extern "C" fn() = tell_c;

/// Whether it is `MPI_BOTTOM`.
#[inline(always)]
pub fn is_bottom(address: *mut c_void) -> bool {
    address == mpipriv1_.at(0) || address == (&raw const MPIR_F08_MPI_BOTTOM).cast_mut().cast()
}

/// Whether it is `MPI_IN_PLACE`.
#[inline(always)]
pub fn is_in_place(address: *mut c_void) -> bool {
    address == mpipriv1_.at(4) || address == (&raw const MPIR_F08_MPI_IN_PLACE).cast_mut().cast()
}

/// Where `MPI_BUFFER_AUTOMATIC` is: of `mpi_f08`, too.
pub fn automatic() -> *mut c_void {
    mpifcmba_.at(0)
}

/// Whether it is `MPI_BUFFER_AUTOMATIC`.
pub fn is_automatic(address: *mut c_void) -> bool {
    address == automatic()
}

/// Whether it is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
#[inline(always)]
pub fn is_ignored(address: *mut c_void) -> bool {
    address == mpipriv1_.at(8)
        || address == mpipriv2_.at(0)
        || address
            == (&raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ)
                .cast_mut()
                .cast()
        || address
            == (&raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ)
                .cast_mut()
                .cast()
}

/// What C takes for these weights.
pub fn weights(address: *mut c_int) -> *mut c_int {
    let place = address.cast();
    #[cfg_attr(standard_abi, allow(unused_unsafe, reason = "constants"))]
    // SAFETY: variables of libmpi that nobody writes.
    unsafe {
        if place == mpifcmb5_.at(0) || place == F08_UNWEIGHTED.at(0) {
            MPI_UNWEIGHTED
        } else if place == mpifcmb9_.at(0) || place == F08_WEIGHTS_EMPTY.at(0) {
            MPI_WEIGHTS_EMPTY
        } else {
            address
        }
    }
}

/// Whether it is `MPI_ERRCODES_IGNORE`.
pub fn is_no_error_codes(address: *mut c_void) -> bool {
    address == mpipriv2_.at(STATUS)
        || address == F08_ERRCODES_IGNORE.at(0)
        || address == OWN_ERRCODES_IGNORE.at(0)
}

/// Whether it is `MPI_ARGV_NULL`.
pub fn is_no_arguments(address: *mut c_void) -> bool {
    address == mpiprivc_.at(1) || address == F08_ARGV_NULL.at(0) || address == OWN_ARGV_NULL.at(0)
}

/// Whether it is `MPI_ARGVS_NULL`.
pub fn is_no_arguments_at_all(address: *mut c_void) -> bool {
    address == mpiprivc_.at(0) || address == F08_ARGVS_NULL.at(0) || address == OWN_ARGVS_NULL.at(0)
}
