//! The functions between whose entry and exit callgrind collects, found by their names (see
//! `isend_count`): each makes one call, given as a pointer, so that the same code runs around
//! empty functions.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use crate::mpi::constants::{CHAR, INT64, LOCK_SHARED, SUM};
use crate::mpi::{Accumulate, CompareAndSwap, FetchAndOp, Get, Put, Table, WinLock, WinTwo};

/// The rank whose memory is accessed.
pub const TARGET: c_int = 1;

/// The MPI functions to count, or empty ones of the same types.
#[derive(Clone, Copy)]
pub struct Calls {
    pub put: Put,
    pub get: Get,
    pub accumulate: Accumulate,
    pub fetch_and_op: FetchAndOp,
    pub compare_and_swap: CompareAndSwap,
    pub flush: WinTwo,
    pub lock: WinLock,
    pub unlock: WinTwo,
}

impl Calls {
    /// Those of the library.
    pub fn of(table: &Table) -> crate::error::Result<Self> {
        Ok(Self {
            put: table.put.get()?,
            get: table.get.get()?,
            accumulate: table.accumulate.get()?,
            fetch_and_op: table.fetch_and_op.get()?,
            compare_and_swap: table.compare_and_swap.get()?,
            flush: table.win_flush.get()?,
            lock: table.win_lock.get()?,
            unlock: table.win_unlock.get()?,
        })
    }

    /// Functions that do nothing, for the cost of calling.
    pub fn empty() -> Self {
        Self {
            put: empty_put,
            get: empty_get,
            accumulate: empty_accumulate,
            fetch_and_op: empty_fetch_and_op,
            compare_and_swap: empty_compare_and_swap,
            flush: empty_flush,
            lock: empty_lock,
            unlock: empty_flush,
        }
    }
}

/// What the calls are about: an integer of the origin's, and the first one of the target's.
pub struct Access {
    pub window: c_int,
    /// One that is in no epoch.
    pub unlocked: c_int,
    /// Of the elements that atomic operations change.
    pub datatype: c_int,
    pub value: i64,
    pub compare: i64,
    pub result: i64,
}

impl Access {
    /// To an integer of 8 bytes.
    pub fn of_eight(window: c_int, unlocked: c_int) -> Self {
        Self {
            window,
            unlocked,
            datatype: INT64,
            value: 1,
            compare: 0,
            result: 0,
        }
    }

    /// To an integer of one byte.
    pub fn of_one(window: c_int, unlocked: c_int) -> Self {
        Self {
            datatype: CHAR,
            ..Self::of_eight(window, unlocked)
        }
    }

    fn value(&self) -> *const c_void {
        (&raw const self.value).cast()
    }
}

/// # Safety
/// For all of these: the window of `access` is in an epoch, and `access` stays until it is flushed.
#[inline(always)]
pub unsafe fn put(calls: &Calls, access: &mut Access) -> c_int {
    let from = access.value();
    // SAFETY: an integer is there, and at the target.
    unsafe { (calls.put)(from, 1, INT64, TARGET, 0, 1, INT64, access.window) }
}

/// # Safety
/// As for [`put`].
#[inline(always)]
unsafe fn get(calls: &Calls, access: &mut Access) -> c_int {
    let to = (&raw mut access.result).cast();
    // SAFETY: an integer is there, and at the target.
    unsafe { (calls.get)(to, 1, INT64, TARGET, 0, 1, INT64, access.window) }
}

/// # Safety
/// As for [`put`].
#[inline(always)]
unsafe fn accumulate(calls: &Calls, access: &mut Access) -> c_int {
    let from = access.value();
    // SAFETY: an integer is there, and at the target.
    unsafe {
        let datatype = access.datatype;
        (calls.accumulate)(
            from,
            1,
            datatype,
            TARGET,
            0,
            1,
            datatype,
            SUM,
            access.window,
        )
    }
}

/// # Safety
/// As for [`put`].
#[inline(always)]
unsafe fn fetch_and_op(calls: &Calls, access: &mut Access) -> c_int {
    let (from, to) = (access.value(), (&raw mut access.result).cast());
    // SAFETY: integers are there, and at the target.
    unsafe { (calls.fetch_and_op)(from, to, access.datatype, TARGET, 0, SUM, access.window) }
}

/// # Safety
/// As for [`put`].
#[inline(always)]
unsafe fn compare_and_swap(calls: &Calls, access: &mut Access) -> c_int {
    let (new, to) = (access.value(), (&raw mut access.result).cast());
    let compare = (&raw const access.compare).cast();
    // SAFETY: integers are there, and at the target.
    unsafe { (calls.compare_and_swap)(new, compare, to, access.datatype, TARGET, 0, access.window) }
}

/// # Safety
/// As for [`put`].
#[inline(always)]
pub unsafe fn flush(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    unsafe { (calls.flush)(TARGET, access.window) }
}

/// # Safety
/// As for [`put`], but for a window in no epoch.
#[inline(always)]
pub unsafe fn lock(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    unsafe { (calls.lock)(LOCK_SHARED, TARGET, 0, access.unlocked) }
}

/// # Safety
/// After [`lock`].
#[inline(always)]
pub unsafe fn unlock(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    unsafe { (calls.unlock)(TARGET, access.unlocked) }
}

/// # Safety
/// As for [`lock`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_lock(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { lock(calls, access) })
}

/// # Safety
/// As for [`unlock`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_unlock(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { unlock(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_put(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { put(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_flush(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { flush(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_get(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { get(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_accumulate(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { accumulate(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_fop(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { fetch_and_op(calls, access) })
}

/// # Safety
/// As for [`put`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_cas(calls: &Calls, access: &mut Access) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { compare_and_swap(calls, access) })
}

unsafe extern "C" fn empty_put(
    _: *const c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: isize,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_get(
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: isize,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_accumulate(
    _: *const c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: isize,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_fetch_and_op(
    _: *const c_void,
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: isize,
    _: c_int,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_compare_and_swap(
    _: *const c_void,
    _: *const c_void,
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: isize,
    _: c_int,
) -> c_int {
    0
}

unsafe extern "C" fn empty_lock(_: c_int, _: c_int, _: c_int, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn empty_flush(_: c_int, _: c_int) -> c_int {
    0
}
