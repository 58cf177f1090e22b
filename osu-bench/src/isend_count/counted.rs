//! The functions between whose entry and exit callgrind collects, found by their names.
//!
//! Each calls MPI functions given as pointers, so that the same code runs around empty functions
//! and its own cost can be taken off. Results go through `black_box`: a call in tail position
//! would become a jump out of the function.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use crate::mpi::constants::{BYTE, COMM_WORLD, STATUS_IGNORE};
use crate::mpi::{Irecv, Isend, Request, Wait};

/// Matches the names of all counted functions.
pub const COUNTED: &str = "osu_bench_counted_*";
/// The function at whose entry callgrind writes down what it collected, and starts from zero.
pub const MARK: &str = "osu_bench_mark";

/// The size of the messages, in bytes.
pub const SIZE: usize = 8;
/// Their tag.
pub const TAG: c_int = 7;

/// The MPI functions to count, or empty ones of the same types.
#[derive(Clone, Copy)]
pub struct Calls {
    pub isend: Isend,
    pub irecv: Irecv,
    pub wait: Wait,
}

impl Calls {
    /// Functions that do nothing, for the cost of calling.
    pub fn empty() -> Self {
        Self {
            isend: empty_isend,
            irecv: empty_irecv,
            wait: empty_wait,
        }
    }
}

/// One message's request and buffer.
pub struct Message {
    pub peer: c_int,
    pub request: Request,
    pub buffer: [u8; SIZE],
}

/// # Safety
/// As for `MPI_Isend`: `message` stays until its request is complete.
#[inline(always)]
pub unsafe fn isend(calls: &Calls, message: &mut Message) -> c_int {
    let buffer = message.buffer.as_ptr().cast();
    let request = &raw mut message.request;
    // SAFETY: the buffer has SIZE bytes and, by the caller, lives long enough.
    unsafe {
        (calls.isend)(
            buffer,
            SIZE as c_int,
            BYTE,
            message.peer,
            TAG,
            COMM_WORLD,
            request,
        )
    }
}

/// # Safety
/// As for `MPI_Irecv`: `message` stays untouched until its request is complete.
#[inline(always)]
pub unsafe fn irecv(calls: &Calls, message: &mut Message) -> c_int {
    let buffer = message.buffer.as_mut_ptr().cast();
    let request = &raw mut message.request;
    // SAFETY: the buffer has SIZE bytes and, by the caller, lives long enough.
    unsafe {
        (calls.irecv)(
            buffer,
            SIZE as c_int,
            BYTE,
            message.peer,
            TAG,
            COMM_WORLD,
            request,
        )
    }
}

/// # Safety
/// The message's request is one of MPI's.
#[inline(always)]
pub unsafe fn wait(calls: &Calls, message: &mut Message) -> c_int {
    // SAFETY: by the caller.
    unsafe { (calls.wait)(&raw mut message.request, STATUS_IGNORE) }
}

/// Counts an Isend and its Wait.
///
/// # Safety
/// As for [`isend`] and [`wait`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_isend_wait(
    calls: &Calls,
    message: &mut Message,
) -> c_int {
    // SAFETY: by the caller.
    let codes = unsafe { isend(calls, message) | wait(calls, message) };
    black_box(codes)
}

/// Counts an Isend.
///
/// # Safety
/// As for [`isend`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_isend(calls: &Calls, message: &mut Message) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { isend(calls, message) })
}

/// Counts an Irecv.
///
/// # Safety
/// As for [`irecv`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_irecv(calls: &Calls, message: &mut Message) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { irecv(calls, message) })
}

/// Counts a Wait.
///
/// # Safety
/// As for [`wait`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_wait(calls: &Calls, message: &mut Message) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { wait(calls, message) })
}

/// Ends a phase of the measurement.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn osu_bench_mark(phase: usize) -> usize {
    black_box(phase)
}

unsafe extern "C" fn empty_isend(
    _: *const c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: *mut Request,
) -> c_int {
    0
}

unsafe extern "C" fn empty_irecv(
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: c_int,
    _: *mut Request,
) -> c_int {
    0
}

unsafe extern "C" fn empty_wait(_: *mut Request, _: *mut c_void) -> c_int {
    0
}
