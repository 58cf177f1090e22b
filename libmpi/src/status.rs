//! Statuses in the ABI's form.

use std::ffi::c_int;

use mpi_core::{ANY_SOURCE, ANY_TAG, Class, Error, PROC_NULL, Result, Status};

use crate::abi::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE,
    MPI_SUCCESS, MPI_Status,
};

/// Returns an empty status (section 3.7.3).
pub fn empty() -> MPI_Status {
    // SAFETY: a status consists of integers, for which zeroes are valid.
    let mut status: MPI_Status = unsafe { std::mem::zeroed() };
    (status.MPI_SOURCE, status.MPI_TAG) = (MPI_ANY_SOURCE, MPI_ANY_TAG);
    status
}

/// Converts a source of mpi-core to the ABI's.
#[inline(always)]
fn outer_source(source: i32) -> c_int {
    match source {
        ANY_SOURCE => MPI_ANY_SOURCE,
        PROC_NULL => MPI_PROC_NULL,
        rank => rank,
    }
}

/// Converts a tag of mpi-core to the ABI's.
#[inline(always)]
fn outer_tag(tag: i32) -> c_int {
    match tag {
        ANY_TAG => MPI_ANY_TAG,
        tag => tag,
    }
}

/// Converts a status of the program to mpi-core's.
pub fn read(status: &MPI_Status) -> Status {
    Status {
        source: match status.MPI_SOURCE {
            MPI_ANY_SOURCE => ANY_SOURCE,
            MPI_PROC_NULL => PROC_NULL,
            rank => rank,
        },
        tag: match status.MPI_TAG {
            MPI_ANY_TAG => ANY_TAG,
            tag => tag,
        },
        bytes: bytes(status),
        cancelled: cancelled(status).into(),
    }
}

/// Writes the status of an operation, unless the program ignores it. The error field stays (section
/// 3.2.5: only calls that return several statuses set it).
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
#[inline(always)]
pub unsafe fn write(out: *mut MPI_Status, status: &Status) {
    if ignored(out) {
        return;
    }
    // SAFETY: `out` is not one of the constants, so the caller guarantees that it is valid for
    // writes. Written field by field, because the error field may be uninitialized.
    unsafe {
        form::write(out, status.bytes, status.cancelled as u32);
        (&raw mut (*out).MPI_SOURCE).write(outer_source(status.source));
        (&raw mut (*out).MPI_TAG).write(outer_tag(status.tag));
    }
}

/// Writes the status of a completed request, or without one the empty status, whose error field is
/// `MPI_SUCCESS` (MPI-5.0 section 3.7.3).
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
pub unsafe fn write_ended(out: *mut MPI_Status, status: Option<&Status>) {
    // SAFETY: the caller guarantees that `out` is valid for writes, or one of the constants.
    unsafe {
        write(out, status.unwrap_or(&Status::EMPTY));
        if status.is_none() {
            write_error(out, MPI_SUCCESS);
        }
    }
}

/// Writes the status of a received message, unless the program ignores it. The error field stays.
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
#[inline(always)]
pub unsafe fn write_received(out: *mut MPI_Status, source: c_int, tag: c_int, bytes: usize) {
    if ignored(out) {
        return;
    }
    // SAFETY: `out` is not one of the constants, so the caller guarantees that it is valid for
    // writes.
    unsafe {
        form::write(out, bytes as u64, 0);
        (&raw mut (*out).MPI_SOURCE).write(source);
        (&raw mut (*out).MPI_TAG).write(tag);
    }
}

/// Writes the error field of one of several statuses.
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
pub unsafe fn write_error(out: *mut MPI_Status, code: c_int) {
    if !ignored(out) {
        // SAFETY: `out` is not one of the constants, so the caller guarantees that it is valid for
        // writes.
        unsafe { (&raw mut (*out).MPI_ERROR).write(code) };
    }
}

/// Returns whether the program ignores a status. NULL counts as well, as in MPI-1: the alternative
/// is a crash.
#[inline(always)]
pub fn ignored(out: *mut MPI_Status) -> bool {
    out == MPI_STATUS_IGNORE || out == MPI_STATUSES_IGNORE || out.is_null()
}

/// Returns a status that the program passes as input.
///
/// # Errors
/// `MPI_ERR_ARG` for NULL and for the constants.
///
/// # Safety
/// `status` is valid, NULL, or a constant.
#[inline]
pub unsafe fn told<'a>(status: *const MPI_Status) -> Result<&'a MPI_Status> {
    if ignored(status.cast_mut()) {
        return Err(Error::new(
            Class::Arg,
            "status is MPI_STATUS_IGNORE or NULL, which has no content; pass a status that a call has set",
        ));
    }
    // SAFETY: `status` is neither NULL nor a constant, so the caller guarantees that it is valid.
    Ok(unsafe { &*status })
}

/// Returns the address of element `index` of an array of statuses that may be ignored.
pub fn at(array: *mut MPI_Status, index: usize) -> *mut MPI_Status {
    if ignored(array) {
        MPI_STATUS_IGNORE
    } else {
        array.wrapping_add(index)
    }
}

pub use form::{bytes, cancelled, set_bytes, set_cancelled};

/// The fields with bytes and flag: 63 bits and 1 bit in two integers.
#[cfg(not(openmpi_abi))]
mod form {
    use std::ffi::c_int;

    use crate::abi::MPI_Status;

    /// Writes both; the flag is 0 or 1.
    ///
    /// # Safety
    /// `out` is valid for writes.
    #[inline(always)]
    pub(super) unsafe fn write(out: *mut MPI_Status, bytes: u64, flag: u32) {
        // SAFETY: the caller guarantees that `out` is valid for writes.
        unsafe {
            (&raw mut (*out).count_lo).write(bytes as u32 as c_int);
            let flags = ((bytes >> 32) as u32) << 1 | flag;
            (&raw mut (*out).count_hi_and_cancelled).write(flags as c_int);
        }
    }

    /// Returns the number of bytes.
    pub fn bytes(status: &MPI_Status) -> u64 {
        u64::from(status.count_lo as u32)
            | u64::from(status.count_hi_and_cancelled as u32 >> 1) << 32
    }

    /// Returns whether the operation was cancelled.
    pub fn cancelled(status: &MPI_Status) -> bool {
        status.count_hi_and_cancelled & 1 != 0
    }

    /// Sets the number of bytes.
    pub fn set_bytes(status: &mut MPI_Status, bytes: u64) {
        status.count_lo = bytes as u32 as c_int;
        let flag = status.count_hi_and_cancelled & 1;
        status.count_hi_and_cancelled = (((bytes >> 32) as u32) << 1) as c_int | flag;
    }

    /// Sets whether the operation was cancelled.
    pub fn set_cancelled(status: &mut MPI_Status, cancelled: bool) {
        status.count_hi_and_cancelled = status.count_hi_and_cancelled & !1 | c_int::from(cancelled);
    }
}

/// The fields with bytes and flag in Open MPI's ABI. The number of bytes has 64 bits in C, and is
/// two integers of an array in Fortran, which has the alignment of an integer only.
#[cfg(openmpi_abi)]
mod form {
    use std::ffi::c_int;

    use crate::abi::MPI_Status;

    fn halves(bytes: u64) -> [c_int; 2] {
        [bytes as u32 as c_int, (bytes >> 32) as u32 as c_int]
    }

    /// Writes both; the flag is 0 or 1.
    ///
    /// # Safety
    /// `out` is valid for writes.
    #[inline(always)]
    pub(super) unsafe fn write(out: *mut MPI_Status, bytes: u64, flag: u32) {
        // SAFETY: the caller guarantees that `out` is valid for writes.
        unsafe {
            (&raw mut (*out).cancelled).write(flag as c_int);
            (&raw mut (*out).bytes).write(halves(bytes));
        }
    }

    /// Returns the number of bytes.
    pub fn bytes(status: &MPI_Status) -> u64 {
        let [low, high] = status.bytes.map(|half| u64::from(half as u32));
        high << 32 | low
    }

    /// Returns whether the operation was cancelled.
    pub fn cancelled(status: &MPI_Status) -> bool {
        status.cancelled != 0
    }

    /// Sets the number of bytes.
    pub fn set_bytes(status: &mut MPI_Status, bytes: u64) {
        status.bytes = halves(bytes);
    }

    /// Sets whether the operation was cancelled.
    pub fn set_cancelled(status: &mut MPI_Status, cancelled: bool) {
        status.cancelled = c_int::from(cancelled);
    }
}

#[cfg(standard_abi)]
const _: () = assert!(size_of::<MPI_Status>() == 32 && align_of::<MPI_Status>() == 4);

#[cfg(openmpi_abi)]
const _: () = assert!(size_of::<MPI_Status>() == 24 && align_of::<MPI_Status>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_4_gib_and_the_flag_share_the_fields() {
        // SAFETY: a status consists of integers, for which zeroes are valid.
        let mut status: MPI_Status = unsafe { std::mem::zeroed() };
        for bytes in [0, 1, 0xffff_ffff, 0x1_0000_0000, 0x7fff_ffff_ffff_ffff] {
            for flag in [false, true] {
                set_bytes(&mut status, bytes);
                set_cancelled(&mut status, flag);
                assert_eq!((super::bytes(&status), cancelled(&status)), (bytes, flag));
                let from = Status {
                    source: 3,
                    tag: 4,
                    bytes,
                    cancelled: flag.into(),
                };
                // SAFETY: a local variable.
                unsafe { write(&raw mut status, &from) };
                assert_eq!((super::bytes(&status), cancelled(&status)), (bytes, flag));
            }
        }
    }
}
