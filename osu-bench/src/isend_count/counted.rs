//! The functions between whose entry and exit callgrind collects, found by their names.
//!
//! Each calls MPI functions given as pointers, so that the same code runs around empty functions
//! and its own cost can be taken off. Results go through `black_box`: a call in tail position
//! would become a jump out of the function.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use crate::mpi::constants::{BYTE, COMM_WORLD, STATUS_IGNORE};
use crate::mpi::{Irecv, Isend, Request, Wait, Waitall};

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
    pub waitall: Waitall,
}

impl Calls {
    /// Functions that do nothing, for the cost of calling.
    pub fn empty() -> Self {
        Self {
            isend: empty_isend,
            irecv: empty_irecv,
            wait: empty_wait,
            waitall: empty_waitall,
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

/// Messages of a window.
pub const WINDOW: usize = 64;

/// The requests and buffers of a window of messages.
pub struct Window {
    pub peer: c_int,
    pub requests: [Request; WINDOW],
    pub buffers: [[u8; SIZE]; WINDOW],
}

/// Counts the Isends of a window and their Waitall.
///
/// # Safety
/// The functions are those of their types, and `window` has no requests that are under way.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_send_window(
    calls: &Calls,
    window: &mut Window,
) -> c_int {
    let (size, peer) = (SIZE as c_int, window.peer);
    let mut codes = 0;
    // SAFETY: each buffer has SIZE bytes and is not changed until all are complete, below.
    unsafe {
        for (buffer, request) in window.buffers.iter().zip(&mut window.requests) {
            codes |= (calls.isend)(
                buffer.as_ptr().cast(),
                size,
                BYTE,
                peer,
                TAG,
                COMM_WORLD,
                request,
            );
        }
    }
    // SAFETY: the requests were started above.
    black_box(codes | unsafe { waitall(calls, window) })
}

/// Counts the Irecvs of a window.
///
/// # Safety
/// As for [`osu_bench_counted_send_window`]; `window` stays as it is until they are complete.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_receive_window(
    calls: &Calls,
    window: &mut Window,
) -> c_int {
    let (size, peer) = (SIZE as c_int, window.peer);
    let mut codes = 0;
    // SAFETY: each buffer has SIZE bytes and, by the caller, lives long enough.
    unsafe {
        for (buffer, request) in window.buffers.iter_mut().zip(&mut window.requests) {
            codes |= (calls.irecv)(
                buffer.as_mut_ptr().cast(),
                size,
                BYTE,
                peer,
                TAG,
                COMM_WORLD,
                request,
            );
        }
    }
    black_box(codes)
}

/// Counts a Waitall.
///
/// # Safety
/// As for [`waitall`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn osu_bench_counted_waitall(calls: &Calls, window: &mut Window) -> c_int {
    // SAFETY: by the caller.
    black_box(unsafe { waitall(calls, window) })
}

/// # Safety
/// The requests are MPI's.
#[inline(always)]
unsafe fn waitall(calls: &Calls, window: &mut Window) -> c_int {
    // SAFETY: by the caller.
    unsafe { (calls.waitall)(WINDOW as c_int, window.requests.as_mut_ptr(), STATUS_IGNORE) }
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

unsafe extern "C" fn empty_waitall(_: c_int, _: *mut Request, _: *mut c_void) -> c_int {
    0
}
