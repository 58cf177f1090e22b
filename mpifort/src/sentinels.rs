//! Variables whose addresses are MPI constants: `MPI_BOTTOM`, `MPI_STATUS_IGNORE` and their kin
//! (section 2.5.4).
//!
//! `mpif.h` and module `mpi` have them in common blocks, which lie in the program's memory; the
//! dynamic linker binds this library's references to these. No code may assume their location or
//! contents. Programs linked by Weft's `mpifort` have unique variables instead, as this library has
//! (`include/sentinels.s`), so that shared objects that are loaded one by one share them.

#![allow(non_upper_case_globals, reason = "names of Fortran's common blocks")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use crate::abi::MPI_F08_status;
#[cfg(not(standard_abi))]
use crate::abi::MPI_Fint;

/// Fortran's memory, of which only the address is used.
#[repr(C, align(4))]
#[derive(Debug)]
pub struct Block<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only addresses are used.
unsafe impl<const SIZE: usize> Sync for Block<SIZE> {}

impl<const SIZE: usize> Block<SIZE> {
    const fn new() -> Self {
        Block(UnsafeCell::new([0; SIZE]))
    }

    /// Returns the address at `offset` bytes.
    #[inline(always)]
    fn at(&self, offset: usize) -> *mut c_void {
        self.0.get().cast::<u8>().wrapping_add(offset).cast()
    }
}

/// Fortran's characters, of which only the address is used.
#[repr(C)]
#[derive(Debug)]
pub struct Characters<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only addresses are used.
unsafe impl<const SIZE: usize> Sync for Characters<SIZE> {}

impl<const SIZE: usize> Characters<SIZE> {
    const fn new() -> Self {
        Characters(UnsafeCell::new([0; SIZE]))
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.0.get().cast::<u8>().wrapping_add(offset).cast()
    }
}

/// The size of a status.
const STATUS: usize = size_of::<MPI_F08_status>();

// Unique in the process, with the exact sizes that programs with copy relocations expect; Rust has
// no such variables.
std::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/sentinels.s")));

unsafe extern "C" {
    /// `MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_STATUS_IGNORE`.
    safe static mpipriv1_: Block<{ 8 + STATUS }>;
    /// `MPI_STATUSES_IGNORE`, `MPI_ERRCODES_IGNORE`.
    safe static mpipriv2_: Block<{ STATUS + 4 }>;
    /// `MPI_ARGVS_NULL`, `MPI_ARGV_NULL`.
    safe static mpiprivc_: Characters<2>;
    /// `MPI_UNWEIGHTED`.
    safe static mpifcmb5_: Block<4>;
    /// `MPI_WEIGHTS_EMPTY`.
    safe static mpifcmb9_: Block<4>;
    /// `MPI_BUFFER_AUTOMATIC`.
    safe static mpifcmba_: Block<4>;
    /// `MPI_STATUS_IGNORE` of `mpi_f08`.
    safe static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Block<STATUS>;
    /// `MPI_STATUSES_IGNORE`.
    safe static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Block<STATUS>;
    /// `MPI_IN_PLACE`.
    safe static MPIR_F08_MPI_IN_PLACE: Block<4>;
    /// `MPI_BOTTOM`.
    safe static MPIR_F08_MPI_BOTTOM: Block<4>;
    /// `MPI_ERRCODES_IGNORE`.
    safe static weft_errcodes_ignore: Block<4>;
    /// `MPI_ARGV_NULL`.
    safe static weft_argv_null: Characters<1>;
    /// `MPI_ARGVS_NULL`.
    safe static weft_argvs_null: Characters<1>;
}

/// `MPI_UNWEIGHTED` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_unweighted")]
pub static F08_UNWEIGHTED: Block<4> = Block::new();
/// `MPI_WEIGHTS_EMPTY` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_weights_empty")]
pub static F08_WEIGHTS_EMPTY: Block<4> = Block::new();
/// `MPI_ERRCODES_IGNORE` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_errcodes_ignore")]
pub static F08_ERRCODES_IGNORE: Block<4> = Block::new();
/// `MPI_ARGV_NULL` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_argv_null")]
pub static F08_ARGV_NULL: Characters<1> = Characters::new();
/// `MPI_ARGVS_NULL` of other libraries' `mpi_f08`.
#[unsafe(export_name = "__mpi_f08_link_constants_MOD_mpi_argvs_null")]
pub static F08_ARGVS_NULL: Characters<1> = Characters::new();

#[cfg(standard_abi)]
use crate::abi::{MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};

#[cfg(not(standard_abi))]
unsafe extern "C" {
    static mut MPI_F_STATUS_IGNORE: *mut MPI_Fint;
    static mut MPI_F_STATUSES_IGNORE: *mut MPI_Fint;
    static mut MPI_F08_STATUS_IGNORE: *mut MPI_F08_status;
    static mut MPI_F08_STATUSES_IGNORE: *mut MPI_F08_status;
    static mut MPI_UNWEIGHTED: *mut c_int;
    static mut MPI_WEIGHTS_EMPTY: *mut c_int;
}

/// Publishes the addresses of Fortran's ignored statuses to C (section 17.2.5), before the program
/// runs.
#[cfg(not(standard_abi))]
extern "C" fn publish_statuses() {
    // SAFETY: libmpi has these variables for this purpose; no other thread runs yet.
    unsafe {
        MPI_F_STATUS_IGNORE = mpipriv1_.at(8).cast();
        MPI_F_STATUSES_IGNORE = mpipriv2_.at(0).cast();
        MPI_F08_STATUS_IGNORE = MPIR_F08_MPI_STATUS_IGNORE_OBJ.at(0).cast();
        MPI_F08_STATUSES_IGNORE = MPIR_F08_MPI_STATUSES_IGNORE_OBJ.at(0).cast();
    }
}

#[cfg(not(standard_abi))]
#[used]
#[unsafe(link_section = ".init_array")]
static TELL_C: extern "C" fn() = publish_statuses;

/// Returns whether the program, or a library loaded before this one, was linked by Weft's
/// `mpifort`: then it defines this variable, which no other library's module refers to.
pub fn is_linked_by_mpifort() -> bool {
    let object_of = |address: *mut c_void| {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: dladdr accepts any address, and fills in `info` if the result is not 0.
        unsafe {
            let found = libc::dladdr(address, info.as_mut_ptr()) != 0;
            found.then(|| info.assume_init().dli_fbase)
        }
    };
    let own = is_linked_by_mpifort as *mut c_void;
    object_of(weft_errcodes_ignore.at(0)) != object_of(own)
}

/// Whether it is `MPI_BOTTOM`.
#[inline(always)]
pub fn is_bottom(address: *mut c_void) -> bool {
    address == mpipriv1_.at(0) || address == MPIR_F08_MPI_BOTTOM.at(0)
}

/// Whether it is `MPI_IN_PLACE`.
#[inline(always)]
pub fn is_in_place(address: *mut c_void) -> bool {
    address == mpipriv1_.at(4) || address == MPIR_F08_MPI_IN_PLACE.at(0)
}

/// Returns the address of `MPI_BUFFER_AUTOMATIC`, also of `mpi_f08`.
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
        || address == MPIR_F08_MPI_STATUS_IGNORE_OBJ.at(0)
        || address == MPIR_F08_MPI_STATUSES_IGNORE_OBJ.at(0)
}

/// Converts the address of weights.
pub fn weights(address: *mut c_int) -> *mut c_int {
    let place = address.cast();
    #[cfg_attr(standard_abi, allow(unused_unsafe, reason = "constants"))]
    // SAFETY: variables of libmpi that are never written.
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
        || address == weft_errcodes_ignore.at(0)
}

/// Whether it is `MPI_ARGV_NULL`.
pub fn is_no_arguments(address: *mut c_void) -> bool {
    address == mpiprivc_.at(1) || address == F08_ARGV_NULL.at(0) || address == weft_argv_null.at(0)
}

/// Whether it is `MPI_ARGVS_NULL`.
pub fn is_no_arguments_at_all(address: *mut c_void) -> bool {
    address == mpiprivc_.at(0)
        || address == F08_ARGVS_NULL.at(0)
        || address == weft_argvs_null.at(0)
}
