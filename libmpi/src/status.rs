//! Statuses in the ABI's form.

use std::ffi::c_int;

use mpi_core::{ANY_SOURCE, ANY_TAG, Class, Error, PROC_NULL, Result, Status};

use crate::abi::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE,
    MPI_SUCCESS, MPI_Status,
};

/// A status of nothing (section 3.7.3).
pub fn empty() -> MPI_Status {
    // SAFETY: a status is integers.
    let mut status: MPI_Status = unsafe { std::mem::zeroed() };
    (status.MPI_SOURCE, status.MPI_TAG) = (MPI_ANY_SOURCE, MPI_ANY_TAG);
    status
}

/// A source of mpi-core as the ABI has it.
#[inline(always)]
fn outer_source(source: i32) -> c_int {
    match source {
        ANY_SOURCE => MPI_ANY_SOURCE,
        PROC_NULL => MPI_PROC_NULL,
        rank => rank,
    }
}

/// A tag of mpi-core as the ABI has it.
#[inline(always)]
fn outer_tag(tag: i32) -> c_int {
    match tag {
        ANY_TAG => MPI_ANY_TAG,
        tag => tag,
    }
}

/// What a status of the program's says, for mpi-core.
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

/// Writes what an operation says of itself, unless the program ignores it. The error field is left
/// alone (section 3.2.5: only calls that return several statuses set it).
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
#[inline(always)]
pub unsafe fn write(out: *mut MPI_Status, status: &Status) {
    if ignored(out) {
        return;
    }
    // SAFETY: valid by the contract of this function. Field by field, because the error field may
    // be uninitialised.
    unsafe {
        form::write(out, status.bytes, status.cancelled as u32);
        (&raw mut (*out).MPI_SOURCE).write(outer_source(status.source));
        (&raw mut (*out).MPI_TAG).write(outer_tag(status.tag));
    }
}

/// Writes the status of a completed request, or without one the empty status, whose error field is
/// `MPI_SUCCESS` (MPI-5.0 3.7.3).
///
/// # Safety
/// `out` is valid for writes, or one of the constants.
pub unsafe fn write_ended(out: *mut MPI_Status, status: Option<&Status>) {
    // SAFETY: the contract of this function.
    unsafe {
        write(out, status.unwrap_or(&Status::EMPTY));
        if status.is_none() {
            write_error(out, MPI_SUCCESS);
        }
    }
}

/// As [`write()`] of a message from a rank with a tag.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn write_received(out: *mut MPI_Status, source: c_int, tag: c_int, bytes: usize) {
    if ignored(out) {
        return;
    }
    // SAFETY: as for `write`.
    unsafe {
        form::write(out, bytes as u64, 0);
        (&raw mut (*out).MPI_SOURCE).write(source);
        (&raw mut (*out).MPI_TAG).write(tag);
    }
}

/// Writes the error field of one of several statuses.
///
/// # Safety
/// As for [`write()`].
pub unsafe fn write_error(out: *mut MPI_Status, code: c_int) {
    if !ignored(out) {
        // SAFETY: valid by the contract of this function.
        unsafe { (&raw mut (*out).MPI_ERROR).write(code) };
    }
}

/// Whether the program doesn't want a status. NULL is taken for that, too: it was so in MPI-1, and
/// the alternative is a crash.
#[inline(always)]
pub fn ignored(out: *mut MPI_Status) -> bool {
    out == MPI_STATUS_IGNORE || out == MPI_STATUSES_IGNORE || out.is_null()
}

/// A status of the program's that tells something.
///
/// # Errors
/// `MPI_ERR_ARG` for NULL and for the constants.
///
/// # Safety
/// It is valid, NULL, or a constant.
#[inline]
pub unsafe fn told<'a>(status: *const MPI_Status) -> Result<&'a MPI_Status> {
    if ignored(status.cast_mut()) {
        return Err(Error::new(
            Class::Arg,
            "status is MPI_STATUS_IGNORE or NULL, which tells nothing; pass one that was filled in",
        ));
    }
    // SAFETY: neither NULL nor a constant, and then valid by the contract of this function.
    Ok(unsafe { &*status })
}

/// Element `index` of an array of statuses that may be ignored.
pub fn at(array: *mut MPI_Status, index: usize) -> *mut MPI_Status {
    if ignored(array) {
        MPI_STATUS_IGNORE
    } else {
        array.wrapping_add(index)
    }
}

pub use form::{bytes, cancelled, set_bytes, set_cancelled};

/// Where bytes and flag are: 63 and 1 bits in two integers.
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
        // SAFETY: the caller's contract.
        unsafe {
            (&raw mut (*out).count_lo).write(bytes as u32 as c_int);
            let flags = ((bytes >> 32) as u32) << 1 | flag;
            (&raw mut (*out).count_hi_and_cancelled).write(flags as c_int);
        }
    }

    /// Bytes received.
    pub fn bytes(status: &MPI_Status) -> u64 {
        u64::from(status.count_lo as u32)
            | u64::from(status.count_hi_and_cancelled as u32 >> 1) << 32
    }

    /// Whether the operation was cancelled.
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

/// The same: two fields. The number of bytes is one of 64 bits in C, and two integers of an array in Fortran, which may
/// begin anywhere an integer can.
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
        // SAFETY: the caller's contract.
        unsafe {
            (&raw mut (*out).cancelled).write(flag as c_int);
            (&raw mut (*out).bytes).write(halves(bytes));
        }
    }

    /// Bytes received.
    pub fn bytes(status: &MPI_Status) -> u64 {
        let [low, high] = status.bytes.map(|half| u64::from(half as u32));
        high << 32 | low
    }

    /// Whether the operation was cancelled.
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
        // SAFETY: a status is five integers.
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
