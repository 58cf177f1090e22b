//! The variables that the library exports (table: `data`).
//!
//! Programs use the addresses in the constant ones, and `libmpifort` sets the Fortran ones. An
//! executable may have copies of them (copy relocations), so the library itself must reach them by
//! their exported names, too.

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

// SAFETY: Rust code reaches the content only through raw pointers, whose users must exclude races;
// C and Fortran write these variables before they start threads that use them.
unsafe impl<T> Sync for Variable<T> {}

impl<T> Variable<T> {
    const fn new(value: T) -> Self {
        Variable(UnsafeCell::new(value))
    }

    /// Returns the variable's address.
    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

// SAFETY: a status consists of integers, for which zeroes are valid.
const NO_STATUS: MPI_F08_status = unsafe { std::mem::zeroed() };

/// The addresses in the constants: variables of their own in the MPICH ABI, numbers in the others.
#[cfg(not(pointer_abi))]
mod places {
    use super::{MPIR_T_pvar_handle_s, Variable, ptr};

    static UNWEIGHTED_PLACE: Variable<i32> = Variable::new(0);
    static WEIGHTS_EMPTY_PLACE: Variable<i32> = Variable::new(0);
    /// No handle has this address.
    static ALL_HANDLES_PLACE: Variable<u8> = Variable::new(0);

    pub const UNWEIGHTED: *mut i32 = UNWEIGHTED_PLACE.get();
    pub const WEIGHTS_EMPTY: *mut i32 = WEIGHTS_EMPTY_PLACE.get();
    pub const ALL_HANDLES: *mut MPIR_T_pvar_handle_s =
        ptr::from_ref(&ALL_HANDLES_PLACE).cast_mut().cast();
}

/// The addresses in the constants of the standard ABI (MPI-5.0 annex A.1).
#[cfg(standard_abi)]
mod places {
    use super::{MPIR_T_pvar_handle_s, ptr};

    pub const UNWEIGHTED: *mut i32 = ptr::without_provenance_mut(10);
    pub const WEIGHTS_EMPTY: *mut i32 = ptr::without_provenance_mut(11);
    pub const ALL_HANDLES: *mut MPIR_T_pvar_handle_s = ptr::without_provenance_mut(1);
}

/// The addresses in the constants of Open MPI's ABI (its `mpi.h`).
#[cfg(openmpi_abi)]
mod places {
    use super::{MPIR_T_pvar_handle_s, ptr};

    pub const UNWEIGHTED: *mut i32 = ptr::without_provenance_mut(2);
    pub const WEIGHTS_EMPTY: *mut i32 = ptr::without_provenance_mut(3);
    pub const ALL_HANDLES: *mut MPIR_T_pvar_handle_s = ptr::without_provenance_mut(usize::MAX);
}

#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPI_UNWEIGHTED: Variable<*mut i32> = Variable::new(places::UNWEIGHTED);
#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPI_WEIGHTS_EMPTY: Variable<*mut i32> = Variable::new(places::WEIGHTS_EMPTY);

#[cfg_attr(not(standard_abi), unsafe(no_mangle))]
pub static MPI_F_STATUS_IGNORE: Variable<*mut MPI_Fint> = Variable::new(null_mut());
#[cfg_attr(not(standard_abi), unsafe(no_mangle))]
pub static MPI_F_STATUSES_IGNORE: Variable<*mut MPI_Fint> = Variable::new(null_mut());

#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Variable<MPI_F08_status> = Variable::new(NO_STATUS);
#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Variable<[MPI_F08_status; 1]> =
    Variable::new([NO_STATUS]);
#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPIR_F08_MPI_IN_PLACE: Variable<i32> = Variable::new(0);
#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPIR_F08_MPI_BOTTOM: Variable<i32> = Variable::new(0);

#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPI_F08_STATUS_IGNORE: Variable<*mut MPI_F08_status> =
    Variable::new(MPIR_F08_MPI_STATUS_IGNORE_OBJ.get());
#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPI_F08_STATUSES_IGNORE: Variable<*mut MPI_F08_status> =
    Variable::new(MPIR_F08_MPI_STATUSES_IGNORE_OBJ.get().cast());

#[cfg_attr(not(pointer_abi), unsafe(no_mangle))]
pub static MPI_T_PVAR_ALL_HANDLES: Variable<*mut MPIR_T_pvar_handle_s> =
    Variable::new(places::ALL_HANDLES);
