//! Inquiry about the environment, and addresses (sections 4.1.5, 8.1, 8.6).

use std::ffi::{c_char, c_double, c_int, c_void};
use std::ptr;

use mpi_core::Result;
use mpi_runtime::settings::text;

use super::null;
use crate::abi::{MPI_Aint, MPI_SUBVERSION, MPI_VERSION};
use crate::args::Out;
pub use crate::attributes::dup_fn;
use crate::version::LIBRARY_VERSION;

/// `MPI_Wtime`: seconds since some moment in the past of this machine.
pub fn wtime() -> c_double {
    let time = clock(|id, time| {
        // SAFETY: `time` is a valid place for the result.
        unsafe { libc::clock_gettime(id, time) }
    });
    seconds(time)
}

/// `MPI_Wtick`: the resolution of [`wtime`] in seconds.
pub fn wtick() -> c_double {
    let resolution = clock(|id, time| {
        // SAFETY: `time` is a valid place for the result.
        unsafe { libc::clock_getres(id, time) }
    });
    seconds(resolution)
}

/// Reads the monotonic clock, which exists on every Linux: reading it doesn't fail.
fn clock(read: impl Fn(libc::clockid_t, *mut libc::timespec) -> c_int) -> libc::timespec {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    read(libc::CLOCK_MONOTONIC, &raw mut time);
    time
}

#[allow(
    clippy::cast_precision_loss,
    reason = "seconds since boot and nanoseconds are far below 2^53"
)]
fn seconds(time: libc::timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// `MPI_Get_version`.
pub fn get_version(version: Out<c_int>, subversion: Out<c_int>) -> Result<()> {
    version.set(MPI_VERSION);
    subversion.set(MPI_SUBVERSION);
    Ok(())
}

/// `MPI_Get_library_version`.
pub unsafe fn get_library_version(version: *mut c_char, resultlen: Out<c_int>) -> Result<()> {
    // SAFETY: by the contract of this function: the text is far shorter than its maximum.
    unsafe { put_text(version, "version", LIBRARY_VERSION, resultlen) }
}

/// Writes a string, a NUL, and the length.
///
/// # Safety
/// `out` is NULL, or has space for the string and NUL.
pub(crate) unsafe fn put_text(
    out: *mut c_char,
    name: &str,
    text: &str,
    resultlen: Out<c_int>,
) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    let converted;
    let bytes = match text.is_ascii() {
        true => text.as_bytes(),
        false => {
            converted = text::bytes(text);
            &converted
        }
    };
    // SAFETY: `out` is not NULL and has room by the contract of this function; a string of ours
    // can't overlap with memory of the program.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
        out.add(bytes.len()).write(0);
    }
    resultlen.set(c_int::try_from(bytes.len()).unwrap_or(0));
    Ok(())
}

/// `MPI_Pcontrol` (section 14.2.4): nothing, unless a profiling library takes its place.
pub fn pcontrol(_level: c_int) -> Result<()> {
    Ok(())
}

/// `MPI_Get_address`.
pub fn get_address(location: *const c_void, address: Out<MPI_Aint>) -> Result<()> {
    address.set(location.expose_provenance() as MPI_Aint);
    Ok(())
}

/// `MPI_Aint_add`.
pub fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// `MPI_Aint_diff`.
pub fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}
