//! Reduction operations (sections 5.9.5 and 5.9.7).

use std::ffi::{c_int, c_void};

use mpi_core::Result;
use mpi_runtime::handles::destructors::{self, OwnedState};
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::{
    MPI_OP_NULL, MPI_Op, MPI_User_function, MPI_User_function_c, MPIX_Destructor_function,
    MPIX_User_function_x,
};
use crate::args::{Late, Out};
use crate::ops::{self, UserFunction};

/// `MPI_Op_create` (section 5.9.5).
pub fn op_create(user_fn: MPI_User_function, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    runtime()?;
    let function = user_fn;
    create(UserFunction::Int(function), commute, op)
}

/// `MPI_Op_create_c` (MPI-4.0 section 6.9.5).
pub fn op_create_c(user_fn: MPI_User_function_c, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    runtime()?;
    let function = user_fn;
    create(UserFunction::Large(function), commute, op)
}

/// `MPIX_Op_create_x`, an extension: the function takes a state, which the destructor, if given,
/// frees when the operation has been freed and is not used any more.
pub unsafe fn op_create_x(
    user_fn_x: MPIX_User_function_x,
    destructor_fn: Option<MPIX_Destructor_function>,
    commute: c_int,
    extra_state: *mut c_void,
    op: Out<MPI_Op>,
) -> Result<()> {
    runtime()?;
    // SAFETY: the program gives them for that.
    let state = unsafe { OwnedState::new(extra_state, destructor_fn) };
    let function = UserFunction::WithState(user_fn_x);
    op.set(ops::create(function, Some(state), commute != 0)?);
    Ok(())
}

fn create(function: UserFunction, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    op.set(ops::create(function, None, commute != 0)?);
    Ok(())
}

/// `MPI_Op_free` (section 5.9.5).
pub fn op_free(op: &mut MPI_Op) -> Result<()> {
    runtime()?;
    ops::free(*op)?;
    *op = MPI_OP_NULL;
    destructors::run();
    Ok(())
}

/// `MPI_Op_commutative` (section 5.9.7).
pub fn op_commutative(Late(op, call): Late<MPI_Op>, commute: Out<c_int>) -> Result<()> {
    runtime()?;
    let commutes = ops::lookup(op, call)?.is_commutative();
    commute.set(c_int::from(commutes));
    Ok(())
}
