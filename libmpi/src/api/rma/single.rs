//! Accesses to one element of a window in mapped memory, with any datatype and operation. The fast
//! paths for integers that the processor changes come first (`fast_path.rs`).

use std::ffi::{c_int, c_void};

use mpi_rma::{Change, Window, Word};
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins;

use crate::abi::{MPI_Aint, MPI_Datatype, MPI_NO_OP, MPI_Op, MPI_REPLACE, MPI_Win};
use crate::ops;

/// The target's rank and displacement.
type Target = (c_int, MPI_Aint);

/// Changes an element of the target, and writes the old value to `result` unless that is NULL.
/// Returns whether it did.
///
/// # Safety
/// `origin` holds an element of the datatype, unless `op` is `MPI_NO_OP`; `result` has space for
/// one.
#[inline(never)]
pub(crate) unsafe fn change_any(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        match op {
            MPI_REPLACE | MPI_NO_OP => replace(origin, result, datatype, target, op, win),
            _ => reduce(origin, result, datatype, target, op, win),
        }
    }
    .is_some()
}

/// Replaces or reads an element, which needs only the datatype's size.
///
/// # Safety
/// `origin` holds an element of the datatype, unless `op` is `MPI_NO_OP`; `result` has space for
/// one.
#[inline(always)]
unsafe fn replace(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    /// # Safety
    /// `origin` holds an element of `W`'s size, unless `op` is `MPI_NO_OP`; `result` has space for
    /// one.
    #[inline(always)]
    unsafe fn of<W: Word + Default>(
        window: &Window,
        origin: Option<*const c_void>,
        result: *mut c_void,
        (rank, displacement): Target,
    ) -> Option<()> {
        // SAFETY: the caller's promise.
        unsafe {
            let (change, operand) = match origin {
                None => (Change::Read, W::default()),
                Some(origin) => (Change::Replace, origin.cast::<W>().read_unaligned()),
            };
            let found = window.fast_change(change, operand, rank, displacement as isize)?;
            if types::may_be_data(result) {
                result.cast::<W>().write_unaligned(found);
            }
        }
        Some(())
    }
    let size = types::contiguous_element_len(datatype)?;
    let origin = match op {
        MPI_NO_OP => None,
        _ if !types::may_be_data(origin) => return None,
        _ => Some(origin),
    };
    let window = wins::find_early(win)?;
    // SAFETY: the caller's contract.
    unsafe {
        match size {
            8 => of::<u64>(window, origin, result, target),
            4 => of::<u32>(window, origin, result, target),
            2 => of::<u16>(window, origin, result, target),
            1 => of::<u8>(window, origin, result, target),
            _ => None,
        }
    }
}

/// Reduces an element by a predefined operation other than `MPI_REPLACE` and `MPI_NO_OP`.
///
/// # Safety
/// `origin` holds an element of the datatype; `result` has space for one.
#[inline(always)]
unsafe fn reduce(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    (rank, displacement): Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    if !types::may_be_data(origin) {
        return None;
    }
    let window = wins::find_early(win)?;
    let (object, op) = (types::object(datatype).ok()?, ops::lookup(op).ok()?);
    let target = (rank, displacement as isize);
    // SAFETY: the caller's contract.
    unsafe { window.reduce_at_once(op, &object.datatype, origin.cast(), result.cast(), target) }
        .then_some(())
}

/// `MPI_Compare_and_swap` of a byte or a logical. Returns whether it was done. `buffers` hold the
/// new value, the one to compare with, and the result.
///
/// # Safety
/// The standard's contract of a compare-and-swap.
#[inline(never)]
pub(crate) unsafe fn swap_any(
    buffers: [*mut c_void; 3],
    datatype: MPI_Datatype,
    (rank, displacement): Target,
    win: MPI_Win,
) -> bool {
    /// # Safety
    /// All three are elements of `W`'s size.
    #[inline(always)]
    unsafe fn of<W: Word>(
        window: &Window,
        [new, compare, result]: [*mut c_void; 3],
        (rank, displacement): Target,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let compare = compare.cast::<W>().read_unaligned();
            let new = new.cast::<W>().read_unaligned();
            let found = window.fast_swap(compare, new, rank, displacement as isize);
            found.is_some_and(|found| {
                result.cast::<W>().write_unaligned(found);
                true
            })
        }
    }
    let Some(size) = types::comparable_len(datatype) else {
        return false;
    };
    let Some(window) = wins::find_early(win) else {
        return false;
    };
    if buffers.iter().any(|buffer| !types::may_be_data(*buffer)) {
        return false;
    }
    let target = (rank, displacement);
    // SAFETY: the caller's contract.
    unsafe {
        match size {
            8 => of::<u64>(window, buffers, target),
            4 => of::<u32>(window, buffers, target),
            2 => of::<u16>(window, buffers, target),
            1 => of::<u8>(window, buffers, target),
            _ => false,
        }
    }
}
