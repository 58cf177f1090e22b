//! The MPI functions that this library calls itself. Handles have a register's width, as in the
//! crate's wrappers.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use weft_pmpi::Real;

/// `MPI_SUCCESS`.
pub const SUCCESS: c_int = 0;

/// A handle, or a special pointer such as `MPI_STATUS_IGNORE`.
pub type Handle = usize;

type TypeSize = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type CommDup = unsafe extern "C" fn(Handle, *mut Handle) -> c_int;
type CommAsk = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type CommFree = unsafe extern "C" fn(*mut Handle) -> c_int;
type Gather = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Handle,
    *mut c_void,
    c_int,
    Handle,
    c_int,
    Handle,
) -> c_int;
type Send = unsafe extern "C" fn(*const c_void, c_int, Handle, c_int, c_int, Handle) -> c_int;
type Recv = unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, Handle) -> c_int;

/// Returns the size of a datatype in bytes, or `None` if the handle is invalid.
pub fn type_size(datatype: Handle) -> Option<u64> {
    static REAL: Real = Real::new(c"PMPI_Type_size");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, TypeSize>(REAL.get()) };
    let mut size = 0;
    // SAFETY: the library checks the handle; the pointer is to a local.
    let code = unsafe { real(datatype, &raw mut size) };
    (code == SUCCESS).then(|| u64::try_from(size).unwrap_or(0))
}

/// Duplicates a communicator.
pub fn comm_dup(comm: Handle) -> Handle {
    static REAL: Real = Real::new(c"PMPI_Comm_dup");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, CommDup>(REAL.get()) };
    let mut new = 0;
    // SAFETY: the library checks the handle; `new` has room for the handle of every ABI.
    unsafe { real(comm, &raw mut new) };
    new
}

/// Returns this process's rank.
pub fn comm_rank(comm: Handle) -> usize {
    static REAL: Real = Real::new(c"PMPI_Comm_rank");
    comm_ask(&REAL, comm)
}

/// Returns the size of a communicator.
pub fn comm_size(comm: Handle) -> usize {
    static REAL: Real = Real::new(c"PMPI_Comm_size");
    comm_ask(&REAL, comm)
}

fn comm_ask(function: &Real, comm: Handle) -> usize {
    // SAFETY: PMPI_Comm_rank and PMPI_Comm_size, the callers' functions, have this type.
    let real = unsafe { transmute::<*mut c_void, CommAsk>(function.get()) };
    let mut answer = 0;
    // SAFETY: the library checks the handle; the pointer is to a local.
    unsafe { real(comm, &raw mut answer) };
    usize::try_from(answer).unwrap_or(0)
}

/// Frees a communicator.
pub fn comm_free(mut comm: Handle) {
    static REAL: Real = Real::new(c"PMPI_Comm_free");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, CommFree>(REAL.get()) };
    // SAFETY: the library checks the handle; the pointer is to a local.
    unsafe { real(&raw mut comm) };
}

/// Gathers numbers at rank 0, where `all` has room for all ranks'.
pub fn gather(own: &[u64], all: &mut [u64], byte: Handle, comm: Handle) {
    static REAL: Real = Real::new(c"PMPI_Gather");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, Gather>(REAL.get()) };
    let bytes = c_int::try_from(size_of_val(own)).unwrap_or(c_int::MAX);
    let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: `own` has the bytes that are sent; `all` those of all processes at rank 0, and is not
    // touched elsewhere.
    unsafe { real(from, bytes, byte, to, bytes, byte, 0, comm) };
}

/// Sends bytes, fewer than 2^31.
pub fn send(place: &[u8], byte: Handle, to: usize, tag: c_int, comm: Handle) {
    static REAL: Real = Real::new(c"PMPI_Send");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, Send>(REAL.get()) };
    let count = c_int::try_from(place.len()).unwrap_or(c_int::MAX);
    // SAFETY: `place` has `count` bytes.
    unsafe { real(place.as_ptr().cast(), count, byte, to as c_int, tag, comm) };
}

/// Receives `place.len()` bytes, fewer than 2^31.
pub fn recv(place: &mut [u8], byte: Handle, from: usize, tag: c_int, comm: Handle, ignore: Handle) {
    static REAL: Real = Real::new(c"PMPI_Recv");
    // SAFETY: the MPI standard gives the function this type, with handles in registers.
    let real = unsafe { transmute::<*mut c_void, Recv>(REAL.get()) };
    let count = c_int::try_from(place.len()).unwrap_or(c_int::MAX);
    let to = place.as_mut_ptr().cast();
    // SAFETY: `place` has `count` bytes; `ignore` is MPI_STATUS_IGNORE.
    unsafe { real(to, count, byte, from as c_int, tag, comm, ignore) };
}
