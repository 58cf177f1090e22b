//! Reduction operations (sections 5.9.5 and 5.9.7).

use std::ffi::c_int;

use mpi_core::Result;

use super::{null, put};
use crate::abi::{MPI_OP_NULL, MPI_Op, MPI_User_function, MPI_User_function_c};
use crate::ops::{self, UserFunction};
use crate::runtime::runtime;

/// `MPI_Op_create` (section 5.9.5).
///
/// # Safety
/// The function is one as the standard says; `op` is valid or NULL.
pub unsafe fn op_create(
    user_fn: Option<MPI_User_function>,
    commute: c_int,
    op: *mut MPI_Op,
) -> Result<()> {
    runtime()?;
    let function = user_fn.ok_or_else(|| null("user_fn"))?;
    // SAFETY: the caller's contract.
    unsafe { create(UserFunction::Int(function), commute, op) }
}

/// `MPI_Op_create_c` (MPI-4.0 section 6.9.5).
///
/// # Safety
/// As for [`op_create`].
pub unsafe fn op_create_c(
    user_fn: Option<MPI_User_function_c>,
    commute: c_int,
    op: *mut MPI_Op,
) -> Result<()> {
    runtime()?;
    let function = user_fn.ok_or_else(|| null("user_fn"))?;
    // SAFETY: the caller's contract.
    unsafe { create(UserFunction::Large(function), commute, op) }
}

/// # Safety
/// `op` is valid or NULL.
unsafe fn create(function: UserFunction, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    if op.is_null() {
        return Err(null("op"));
    }
    let handle = ops::create(function, commute != 0)?;
    // SAFETY: the caller's contract.
    unsafe { put(op, "op", handle) }
}

/// `MPI_Op_free` (section 5.9.5).
pub unsafe fn op_free(op: *mut MPI_Op) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let Some(op) = (unsafe { op.as_mut() }) else {
        return Err(null("op"));
    };
    ops::free(*op)?;
    *op = MPI_OP_NULL;
    Ok(())
}

/// `MPI_Op_commutative` (section 5.9.7).
pub unsafe fn op_commutative(op: MPI_Op, commute: *mut c_int) -> Result<()> {
    runtime()?;
    let commutes = ops::lookup(op)?.is_commutative();
    // SAFETY: the caller's contract.
    unsafe { put(commute, "commute", c_int::from(commutes)) }
}
