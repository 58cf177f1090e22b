//! Inquiry about the environment, and addresses (sections 4.1.5, 8.1, 8.6).

use std::ffi::{c_double, c_int, c_void};

use mpi_core::Result;

use crate::abi::{MPI_Aint, MPI_MAX_LIBRARY_VERSION_STRING, MPI_SUBVERSION, MPI_VERSION};
use crate::args::{Out, OutText};
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
pub fn get_library_version(
    version: OutText<MPI_MAX_LIBRARY_VERSION_STRING>,
    resultlen: Out<c_int>,
) -> Result<()> {
    version.set(LIBRARY_VERSION, &resultlen)
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
