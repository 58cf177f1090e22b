//! The short ways of accesses to windows: data without gaps in mapped memory, with nothing wrong
//! about the arguments. Whatever else there is to a call, the long way finds it out.

use std::ffi::{c_int, c_void};

use mpi_core::rma::{Change, Window};

use crate::abi::{
    MPI_Aint, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_Datatype, MPI_NO_OP, MPI_Op, MPI_REPLACE,
    MPI_Request, MPI_SUCCESS, MPI_SUM, MPI_Win,
};
use crate::runtime::running;
use crate::{requests, types, wins};

/// The window, and the length of data that both sides describe in the same words.
#[inline(always)]
fn plain(
    address: *const c_void,
    (count, datatype): (c_int, MPI_Datatype),
    target: (c_int, MPI_Datatype),
    win: MPI_Win,
) -> Option<(&'static Window, usize)> {
    running()?;
    if (count, datatype) != target {
        return None;
    }
    let len = types::plain_len(address, count, datatype)?;
    Some((wins::quick(win)?, len))
}

/// The short way of `MPI_Put`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_put_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    // SAFETY: the caller's contract: `len` bytes are readable.
    unsafe { window.quick_put(origin_addr.cast(), len, target_rank, target_disp as isize) }
        .then_some(MPI_SUCCESS)
}

/// The short way of `MPI_Get`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_get_fast(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    // SAFETY: the caller's contract: `len` bytes are writable.
    unsafe { window.quick_get(origin_addr.cast(), len, target_rank, target_disp as isize) }
        .then_some(MPI_SUCCESS)
}

/// Gives the request of a call that is complete.
///
/// # Safety
/// `request` is valid.
#[inline(always)]
unsafe fn completed(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { request.write(requests::handle(None)) };
    MPI_SUCCESS
}

/// The short way of `MPI_Rput`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_rput_fast(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    if request.is_null() || !window.is_locked(target_rank) {
        return None;
    }
    // SAFETY: the caller's contract: `len` bytes are readable, and `request` is not NULL.
    unsafe {
        window
            .quick_put(origin_addr.cast(), len, target_rank, target_disp as isize)
            .then(|| completed(request))
    }
}

/// The short way of `MPI_Rget`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_rget_fast(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let (window, len) = plain(origin_addr, origin, (target_count, target_datatype), win)?;
    if request.is_null() || !window.is_locked(target_rank) {
        return None;
    }
    // SAFETY: the caller's contract: `len` bytes are writable, and `request` is not NULL.
    unsafe {
        window
            .quick_get(origin_addr.cast(), len, target_rank, target_disp as isize)
            .then(|| completed(request))
    }
}

/// Reads an integer of `size` bytes.
///
/// # Safety
/// It is there.
#[inline(always)]
unsafe fn read(from: *const c_void, size: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            8 => from.cast::<u64>().read_unaligned(),
            4 => from.cast::<u32>().read_unaligned().into(),
            2 => from.cast::<u16>().read_unaligned().into(),
            _ => from.cast::<u8>().read().into(),
        }
    }
}

/// Writes an integer of `size` bytes.
///
/// # Safety
/// There is room for it.
#[inline(always)]
unsafe fn write(to: *mut c_void, size: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            8 => to.cast::<u64>().write_unaligned(value),
            4 => to.cast::<u32>().write_unaligned(value as u32),
            2 => to.cast::<u16>().write_unaligned(value as u16),
            _ => to.cast::<u8>().write(value as u8),
        }
    }
}

/// Changes an integer of the target's. Gives what was there, and its length.
///
/// # Safety
/// `origin` holds an integer of the datatype.
#[inline(always)]
unsafe fn change(
    origin: *const c_void,
    datatype: MPI_Datatype,
    (rank, displacement): (c_int, MPI_Aint),
    op: MPI_Op,
    win: MPI_Win,
) -> Option<(u64, usize)> {
    running()?;
    let size = types::integer_len(datatype)?;
    if origin.is_null() && op != MPI_NO_OP {
        return None;
    }
    let window = wins::quick(win)?;
    // SAFETY: the caller's promise; with MPI_NO_OP, where there may be none, it is not called.
    let operand = || unsafe { read(origin, size) };
    let change = match op {
        MPI_SUM => Change::Add(operand()),
        MPI_REPLACE => Change::Replace(operand()),
        MPI_NO_OP => Change::Read,
        MPI_BAND => Change::And(operand()),
        MPI_BOR => Change::Or(operand()),
        MPI_BXOR => Change::Xor(operand()),
        _ => return None,
    };
    let found = window.quick_change(change, size, rank, displacement as isize)?;
    Some((found, size))
}

/// The short way of `MPI_Fetch_and_op`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_fetch_and_op_fast(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<c_int> {
    if result_addr.is_null() {
        return None;
    }
    let target = (target_rank, target_disp);
    // SAFETY: the caller's contract.
    unsafe {
        let (found, size) = change(origin_addr, datatype, target, op, win)?;
        write(result_addr, size, found);
    }
    Some(MPI_SUCCESS)
}

/// The short way of `MPI_Accumulate`, of one integer.
///
/// # Safety
/// As the standard demands.
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
    win: MPI_Win,
) -> Option<c_int> {
    let alike = (origin_count, origin_datatype) == (target_count, target_datatype);
    if origin_count != 1 || !alike || op == MPI_NO_OP {
        return None;
    }
    let target = (target_rank, target_disp);
    // SAFETY: the caller's contract.
    unsafe { change(origin_addr, origin_datatype, target, op, win)? };
    Some(MPI_SUCCESS)
}

/// Whether all that are given describe one element of the same datatype.
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

/// The short way of `MPI_Get_accumulate`, of one integer.
///
/// # Safety
/// As the standard demands.
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
    win: MPI_Win,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    if !one(op, origin, (result_count, result_datatype), target) {
        return None;
    }
    // SAFETY: the caller's contract.
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

/// The short way of `MPI_Rget_accumulate`, of one integer.
///
/// # Safety
/// As the standard demands.
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
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let origin = (origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    if !one(op, origin, (result_count, result_datatype), target)
        || request.is_null()
        || !wins::quick(win)?.is_locked(target_rank)
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
        Some(completed(request))
    }
}

/// The short way of `MPI_Compare_and_swap`.
///
/// # Safety
/// As the standard demands.
#[inline(always)]
pub(crate) unsafe fn win_compare_and_swap_fast(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Option<c_int> {
    running()?;
    let size = types::integer_len(datatype)?;
    if origin_addr.is_null() || compare_addr.is_null() || result_addr.is_null() {
        return None;
    }
    let window = wins::quick(win)?;
    // SAFETY: the caller's contract: all three are integers of `size` bytes.
    unsafe {
        let change = Change::Swap(read(compare_addr, size), read(origin_addr, size));
        let found = window.quick_change(change, size, target_rank, target_disp as isize)?;
        write(result_addr, size, found);
    }
    Some(MPI_SUCCESS)
}

/// The short way of `MPI_Win_flush`.
///
/// # Safety
/// None is needed.
#[inline(always)]
pub(crate) unsafe fn win_flush_fast(rank: c_int, win: MPI_Win) -> Option<c_int> {
    running()?;
    wins::quick(win)?.quick_flush(rank).then_some(MPI_SUCCESS)
}

/// The short way of `MPI_Win_flush_local`.
///
/// # Safety
/// None is needed.
#[inline(always)]
pub(crate) unsafe fn win_flush_local_fast(rank: c_int, win: MPI_Win) -> Option<c_int> {
    running()?;
    wins::quick(win)?
        .quick_flush_local(rank)
        .then_some(MPI_SUCCESS)
}
