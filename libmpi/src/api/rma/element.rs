//! Updates of one element of up to 8 bytes of a window in mapped memory, with any predefined datatype
//! and operation. The fast path for integers of 4 and 8 bytes comes first (`fast_path.rs`).

use std::ffi::{c_int, c_void};

use mpi_rma::{ElementUpdate, IntegerUpdate, SwapUpdate};
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins;

use crate::abi::{MPI_Aint, MPI_Datatype, MPI_NO_OP, MPI_Op, MPI_REPLACE, MPI_Win};
use crate::api::rma::fast_path::integer_op;
use crate::args::Late;
use crate::ops;

/// Updates an element of the target, and writes the old value to `result` unless that is NULL.
/// Returns `None` if the slow path is needed.
///
/// # Safety
/// `origin` holds an element of the datatype, unless `op` is `MPI_NO_OP`; `result` has space for
/// one.
#[inline(never)]
pub(crate) unsafe fn update_element(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    (rank, displacement): (c_int, MPI_Aint),
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<()> {
    let (Some(size), Some(op)) = (types::integer_len(datatype), integer_op(op)) else {
        // SAFETY: `origin` holds an element unless `op` is `MPI_NO_OP`, and `result` has space for
        // one (# Safety).
        return unsafe { reduce_element(origin, result, datatype, (rank, displacement), op, win) };
    };
    let operand = origin.cast();
    let target = (rank, displacement as isize);
    let window = wins::find_early(win.0, win.1)?;
    let update = IntegerUpdate { op, operand };
    // SAFETY: the buffers hold elements of `size` bytes, by this function's contract.
    unsafe { window.update::<1>(size, &update, result.cast(), target) }
}

/// Updates an element that is not an integer, or by an operation that the processor does not have.
///
/// # Safety
/// That of [`update_element`].
#[inline(never)]
unsafe fn reduce_element(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    (rank, displacement): (c_int, MPI_Aint),
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<()> {
    let size = types::contiguous_element_len(datatype)?;
    let window = wins::find_early(win.0, win.1)?;
    let (operand, result) = (origin.cast(), result.cast());
    let target = (rank, displacement as isize);
    // Replacing and reading need only the datatype's size.
    if let (MPI_REPLACE | MPI_NO_OP, Some(op)) = (op, integer_op(op)) {
        let update = IntegerUpdate { op, operand };
        // SAFETY: the buffers hold elements of `size` bytes, by this function's contract.
        return unsafe { window.update::<1>(size, &update, result, target) };
    }
    if !types::may_be_data(origin) {
        return None;
    }
    let (object, op) = (
        types::object(datatype, win.1).ok()?,
        ops::lookup(op, win.1).ok()?,
    );
    let update = ElementUpdate::new(op, &object.datatype, operand)?;
    // SAFETY: the buffers hold elements of `size` bytes, by this function's contract.
    unsafe { window.update::<1>(size, &update, result, target) }
}

/// Compares and swaps an element of the target: `buffers` hold the new value, the one to compare
/// with, and the result. Returns `None` if the slow path is needed.
///
/// # Safety
/// The buffers hold elements of the datatype, or are NULL.
#[inline(never)]
pub(crate) unsafe fn swap_element(
    buffers: [*mut c_void; 3],
    datatype: MPI_Datatype,
    (rank, displacement): (c_int, MPI_Aint),
    win: Late<MPI_Win>,
) -> Option<()> {
    let size = types::comparable_len(datatype)?;
    if buffers.iter().any(|buffer| !types::may_be_data(*buffer)) {
        return None;
    }
    let [new, compare, result] = buffers;
    let update = SwapUpdate {
        compare: compare.cast(),
        new: new.cast(),
    };
    let target = (rank, displacement as isize);
    let window = wins::find_early(win.0, win.1)?;
    // SAFETY: the buffers hold elements of `size` bytes, by this function's contract.
    unsafe { window.update::<1>(size, &update, result.cast(), target) }
}
