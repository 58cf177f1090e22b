//! Fast paths of accesses to windows: contiguous data in mapped memory, with valid arguments. The
//! slow paths handle all other calls.

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi_rma::{IntegerOp, IntegerUpdate, SwapUpdate, Window, copy_overlapping};
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins;
use mpi_runtime::requests;

use crate::abi::{
    MPI_Aint, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_Datatype, MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED,
    MPI_NO_OP, MPI_Op, MPI_REPLACE, MPI_Request, MPI_SUCCESS, MPI_SUM, MPI_Win,
};
use crate::args::Late;

/// Returns the window, and the length of data that both sides describe alike.
#[inline(always)]
fn plain<'c>(
    address: *const c_void,
    (count, datatype): (c_int, MPI_Datatype),
    target: (c_int, MPI_Datatype),
    win: Late<'c, MPI_Win>,
) -> Option<(&'c Window, usize)> {
    if (count, datatype) != target {
        return None;
    }
    let len = types::contiguous_len(address, count, datatype)?;
    Some((wins::find_early(win.0, win.1)?, len))
}

/// The fast path of `MPI_Put`.
#[inline(always)]
pub(crate) unsafe fn win_put_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    let to = window.mapped_range(target_rank, target_disp as isize, len)?;
    // SAFETY: the caller's contract: `len` bytes are readable; as many are there of the target's.
    Some(unsafe { copy(origin_addr.cast(), to, len) })
}

/// The fast path of `MPI_Get`.
#[inline(always)]
pub(crate) unsafe fn win_get_fast(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    let from = window.mapped_range(target_rank, target_disp as isize, len)?;
    // SAFETY: the caller's contract: `len` bytes are writable; as many are there of the target's.
    Some(unsafe { copy(from, origin_addr.cast(), len) })
}

/// Copies between addresses that may be equal or overlap. Returns the call's code.
///
/// # Safety
/// Both are valid for `len` bytes.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> c_int {
    // SAFETY: both addresses are valid for `len` bytes (# Safety).
    unsafe {
        match len {
            8 => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => return copy_long(from, to, len),
        }
    }
    MPI_SUCCESS
}

/// Copies out of line. Called last, so that the fast paths need no stack frame.
///
/// # Safety
/// Both are valid for `len` bytes.
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) -> c_int {
    // SAFETY: both addresses are valid for `len` bytes (# Safety).
    unsafe { copy_overlapping(from, to, len) };
    MPI_SUCCESS
}

/// The fast path of `MPI_Rput`.
#[inline(always)]
pub(crate) unsafe fn win_rput_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: Late<MPI_Win>,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    if request.is_null() || !window.ends_at_once(target_rank) {
        return None;
    }
    let to = window.mapped_range(target_rank, target_disp as isize, len)?;
    // SAFETY: the caller's contract: `len` bytes are readable; as many are there of the target's;
    // `request` is not NULL.
    unsafe {
        request.write(requests::handle(None));
        Some(copy(origin_addr.cast(), to, len))
    }
}

/// The fast path of `MPI_Rget`.
#[inline(always)]
pub(crate) unsafe fn win_rget_fast(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: Late<MPI_Win>,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    if request.is_null() || !window.ends_at_once(target_rank) {
        return None;
    }
    let from = window.mapped_range(target_rank, target_disp as isize, len)?;
    // SAFETY: the caller's contract: `len` bytes are writable; as many are there of the target's;
    // `request` is not NULL.
    unsafe {
        request.write(requests::handle(None));
        Some(copy(from, origin_addr.cast(), len))
    }
}

/// Returns the processor's operation on integers for an `MPI_Op`.
#[inline(always)]
pub(crate) fn integer_op(op: MPI_Op) -> Option<IntegerOp> {
    Some(match op {
        MPI_SUM => IntegerOp::Add,
        MPI_REPLACE => IntegerOp::Replace,
        MPI_NO_OP => IntegerOp::Read,
        MPI_BAND => IntegerOp::And,
        MPI_BOR => IntegerOp::Or,
        MPI_BXOR => IntegerOp::Xor,
        _ => return None,
    })
}

/// Updates an integer of 4 or 8 bytes at the target, and writes the old value to `result` unless
/// that is NULL. (`element.rs` has all other elements, so that these don't pay for them.)
///
/// # Safety
/// `origin` holds an integer of the datatype, unless `op` is `MPI_NO_OP`; `result` has space for
/// one.
#[inline(always)]
unsafe fn update_integer(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    (rank, displacement): (c_int, MPI_Aint),
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let size = types::integer_len(datatype)?;
    let (op, window) = (integer_op(op)?, wins::find_early(win.0, win.1)?);
    let update = IntegerUpdate {
        op,
        operand: origin.cast(),
    };
    let target = (rank, displacement as isize);
    // SAFETY: the buffers hold integers of `size` bytes, by this function's contract.
    unsafe { window.update::<4>(size, &update, result.cast(), target) }.map(|()| MPI_SUCCESS)
}

/// The fast path of `MPI_Fetch_and_op`.
#[inline(always)]
pub(crate) unsafe fn win_fetch_and_op_fast(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    if !types::may_be_data(result_addr) {
        return None;
    }
    let target = (target_rank, target_disp);
    // SAFETY: the buffers hold an integer of the datatype each, as the arguments say (buffers,
    // chapter of the module `api`).
    unsafe { update_integer(origin_addr, result_addr, datatype, target, op, win) }
}

/// The fast path of `MPI_Accumulate`, for one integer.
#[inline(always)]
pub(crate) unsafe fn win_accumulate_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let alike = (origin_count, origin_datatype) == (target_count, target_datatype);
    if origin_count != 1 || !alike || op == MPI_NO_OP {
        return None;
    }
    let target = (target_rank, target_disp);
    let nowhere = ptr::null_mut();
    // SAFETY: the buffers hold an integer of the datatype each, as the arguments say (buffers,
    // chapter of the module `api`).
    unsafe { update_integer(origin_addr, nowhere, origin_datatype, target, op, win) }
}

/// Returns whether all arguments describe one element of the same datatype.
#[inline(always)]
fn one(
    op: MPI_Op,
    origin: (c_int, MPI_Datatype),
    result: (c_int, MPI_Datatype),
    target: (c_int, MPI_Datatype),
) -> bool {
    // With MPI_NO_OP the origin's arguments are ignored (section 11.3.4).
    target.0 == 1 && result == target && (origin == target || op == MPI_NO_OP)
}

/// The fast path of `MPI_Get_accumulate`, for one integer.
#[inline(always)]
pub(crate) unsafe fn win_get_accumulate_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    if !one(op, origin, (result_count, result_datatype), target) {
        return None;
    }
    // SAFETY: the buffers hold an integer of the datatype each, as the arguments say (buffers,
    // chapter of the module `api`).
    unsafe {
        win_fetch_and_op_fast(
            origin_addr,
            result_addr,
            target_datatype,
            target_rank,
            target_disp,
            op,
            win,
        )
    }
}

/// The fast path of `MPI_Rget_accumulate`, for one integer.
#[inline(always)]
pub(crate) unsafe fn win_rget_accumulate_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: Late<MPI_Win>,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    if !one(op, origin, (result_count, result_datatype), target)
        || request.is_null()
        || !wins::find_early(win.0, win.1)?.ends_at_once(target_rank)
    {
        return None;
    }
    // SAFETY: the caller's contract; `request` is not NULL.
    unsafe {
        win_fetch_and_op_fast(
            origin_addr,
            result_addr,
            target_datatype,
            target_rank,
            target_disp,
            op,
            win,
        )?;
        request.write(requests::handle(None));
    }
    Some(MPI_SUCCESS)
}

/// The fast path of `MPI_Compare_and_swap`.
#[inline(always)]
pub(crate) unsafe fn win_compare_and_swap_fast(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let size = types::integer_len(datatype)?;
    let buffers = [origin_addr, compare_addr, result_addr.cast_const()];
    if buffers.iter().any(|buffer| !types::may_be_data(*buffer)) {
        return None;
    }
    let update = SwapUpdate {
        compare: compare_addr.cast(),
        new: origin_addr.cast(),
    };
    let target = (target_rank, target_disp as isize);
    let window = wins::find_early(win.0, win.1)?;
    // SAFETY: the caller's contract: the buffers hold integers of `size` bytes.
    unsafe { window.update::<4>(size, &update, result_addr.cast(), target) }.map(|()| MPI_SUCCESS)
}

/// The fast path of `MPI_Win_lock`.
///
/// # Safety
/// No requirements.
#[inline(always)]
pub(crate) unsafe fn win_lock_fast(
    lock_type: c_int,
    rank: c_int,
    assert: c_int,
    win: Late<MPI_Win>,
) -> Option<c_int> {
    let exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
    if assert != 0 || !exclusive && lock_type != MPI_LOCK_SHARED {
        return None;
    }
    wins::find_early(win.0, win.1)?
        .fast_lock(rank, exclusive)
        .then_some(MPI_SUCCESS)
}

/// The fast path of `MPI_Win_unlock`.
///
/// # Safety
/// No requirements.
#[inline(always)]
pub(crate) unsafe fn win_unlock_fast(rank: c_int, win: Late<MPI_Win>) -> Option<c_int> {
    wins::find_early(win.0, win.1)?
        .fast_unlock(rank)
        .then_some(MPI_SUCCESS)
}

/// The fast path of `MPI_Win_flush`.
///
/// # Safety
/// No requirements.
#[inline(always)]
pub(crate) unsafe fn win_flush_fast(rank: c_int, win: Late<MPI_Win>) -> Option<c_int> {
    wins::find_early(win.0, win.1)?
        .fast_flush(rank)
        .then_some(MPI_SUCCESS)
}

/// The fast path of `MPI_Win_sync`.
///
/// # Safety
/// No requirements.
#[inline(always)]
pub(crate) unsafe fn win_sync_fast(win: Late<MPI_Win>) -> Option<c_int> {
    wins::find_early(win.0, win.1)?
        .fast_sync()
        .then_some(MPI_SUCCESS)
}

/// The fast path of `MPI_Win_flush_local`.
///
/// # Safety
/// No requirements.
#[inline(always)]
pub(crate) unsafe fn win_flush_local_fast(rank: c_int, win: Late<MPI_Win>) -> Option<c_int> {
    wins::find_early(win.0, win.1)?
        .fast_flush_local(rank)
        .then_some(MPI_SUCCESS)
}
