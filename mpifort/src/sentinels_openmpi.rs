//! Variables whose addresses are MPI constants in Open MPI's `mpif.h` and modules: each in a common
//! block of its own in the program's memory. See `sentinels.rs`.

#![allow(non_upper_case_globals, reason = "names of Fortran's common blocks")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

use crate::abi::{
    MPI_BUFFER_AUTOMATIC, MPI_F08_status, MPI_Fint, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY,
};

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

    #[inline(always)]
    fn is(&self, address: *mut c_void) -> bool {
        self.0.get().cast() == address
    }
}

const STATUS: usize = size_of::<MPI_F08_status>();

/// `MPI_BOTTOM`.
#[unsafe(no_mangle)]
pub static mpi_fortran_bottom_: Block<4> = Block::new();
/// `MPI_IN_PLACE`.
#[unsafe(no_mangle)]
pub static mpi_fortran_in_place_: Block<4> = Block::new();
/// `MPI_ARGV_NULL`.
#[unsafe(no_mangle)]
pub static mpi_fortran_argv_null_: Block<1> = Block::new();
/// `MPI_ARGVS_NULL`.
#[unsafe(no_mangle)]
pub static mpi_fortran_argvs_null_: Block<1> = Block::new();
/// `MPI_ERRCODES_IGNORE`.
#[unsafe(no_mangle)]
pub static mpi_fortran_errcodes_ignore_: Block<4> = Block::new();
/// `MPI_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static mpi_fortran_status_ignore_: Block<STATUS> = Block::new();
/// `MPI_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static mpi_fortran_statuses_ignore_: Block<STATUS> = Block::new();
/// `MPI_UNWEIGHTED`.
#[unsafe(no_mangle)]
pub static mpi_fortran_unweighted_: Block<4> = Block::new();
/// `MPI_WEIGHTS_EMPTY`.
#[unsafe(no_mangle)]
pub static mpi_fortran_weights_empty_: Block<4> = Block::new();

unsafe extern "C" {
    static mut MPI_F_STATUS_IGNORE: *mut MPI_Fint;
    static mut MPI_F_STATUSES_IGNORE: *mut MPI_Fint;
}

/// Publishes the addresses of Fortran's ignored statuses to C (section 17.2.5), before the program
/// runs.
extern "C" fn publish_statuses() {
    // SAFETY: the C library has these variables for this purpose; no other thread runs yet.
    unsafe {
        MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_.0.get().cast();
        MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_.0.get().cast();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static TELL_C: extern "C" fn() = publish_statuses;

/// Whether it is `MPI_BOTTOM`.
#[inline(always)]
pub fn is_bottom(address: *mut c_void) -> bool {
    mpi_fortran_bottom_.is(address)
}

/// Whether it is `MPI_IN_PLACE`.
#[inline(always)]
pub fn is_in_place(address: *mut c_void) -> bool {
    mpi_fortran_in_place_.is(address)
}

/// Returns C's `MPI_BUFFER_AUTOMATIC`: this ABI's Fortran has no variable for it.
pub fn automatic() -> *mut c_void {
    MPI_BUFFER_AUTOMATIC
}

/// Whether it is `MPI_BUFFER_AUTOMATIC`.
pub fn is_automatic(_address: *mut c_void) -> bool {
    false
}

/// Whether it is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
#[inline(always)]
pub fn is_ignored(address: *mut c_void) -> bool {
    mpi_fortran_status_ignore_.is(address) || mpi_fortran_statuses_ignore_.is(address)
}

/// Converts the address of weights.
pub fn weights(address: *mut c_int) -> *mut c_int {
    if mpi_fortran_unweighted_.is(address.cast()) {
        MPI_UNWEIGHTED
    } else if mpi_fortran_weights_empty_.is(address.cast()) {
        MPI_WEIGHTS_EMPTY
    } else {
        address
    }
}

/// Whether it is `MPI_ERRCODES_IGNORE`.
pub fn is_no_error_codes(address: *mut c_void) -> bool {
    mpi_fortran_errcodes_ignore_.is(address)
}

/// Whether it is `MPI_ARGV_NULL`.
pub fn is_no_arguments(address: *mut c_void) -> bool {
    mpi_fortran_argv_null_.is(address)
}

/// Whether it is `MPI_ARGVS_NULL`.
pub fn is_no_arguments_at_all(address: *mut c_void) -> bool {
    mpi_fortran_argvs_null_.is(address)
}
