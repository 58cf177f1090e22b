//! The variables that the library exports (table: `data`).
//!
//! Programs use the addresses in the constant ones, and `libmpifort` sets the Fortran ones. An
//! executable may keep a copy of them (copy relocations), so the library, too, must reach them by
//! their exported names only.

#![allow(
    non_upper_case_globals,
    missing_docs,
    reason = "names of C, explained in mpi.h"
)]

use std::cell::UnsafeCell;
use std::ptr::{self, null_mut};

use crate::abi::{MPI_F08_status, MPI_Fint, MPIR_T_pvar_handle_s};

/// A variable that C may write.
#[repr(transparent)]
#[derive(Debug)]
pub struct Variable<T>(UnsafeCell<T>);

// SAFETY: Rust code has no access to what is inside but through raw pointers, whose users answer
// for races; C and Fortran write these variables before they start threads that use them.
unsafe impl<T> Sync for Variable<T> {}

impl<T> Variable<T> {
    const fn new(value: T) -> Self {
        Variable(UnsafeCell::new(value))
    }

    /// The variable's address.
    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

const NO_STATUS: MPI_F08_status = MPI_F08_status {
    count_lo: 0,
    count_hi_and_cancelled: 0,
    MPI_SOURCE: 0,
    MPI_TAG: 0,
    MPI_ERROR: 0,
};

static UNWEIGHTED: Variable<i32> = Variable::new(0);
static WEIGHTS_EMPTY: Variable<i32> = Variable::new(0);

#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Variable<*mut i32> = Variable::new(UNWEIGHTED.get());
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Variable<*mut i32> = Variable::new(WEIGHTS_EMPTY.get());

#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: Variable<*mut MPI_Fint> = Variable::new(null_mut());
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: Variable<*mut MPI_Fint> = Variable::new(null_mut());

#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Variable<MPI_F08_status> = Variable::new(NO_STATUS);
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Variable<[MPI_F08_status; 1]> =
    Variable::new([NO_STATUS]);
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_IN_PLACE: Variable<i32> = Variable::new(0);
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_BOTTOM: Variable<i32> = Variable::new(0);

#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Variable<*mut MPI_F08_status> =
    Variable::new(MPIR_F08_MPI_STATUS_IGNORE_OBJ.get());
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Variable<*mut MPI_F08_status> =
    Variable::new(MPIR_F08_MPI_STATUSES_IGNORE_OBJ.get().cast());

/// No handle has this address.
static ALL_HANDLES: Variable<u8> = Variable::new(0);

#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Variable<*mut MPIR_T_pvar_handle_s> =
    Variable::new(ptr::from_ref(&ALL_HANDLES).cast_mut().cast());
