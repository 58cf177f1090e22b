//! Copies between two typed buffers of one rank.

#![allow(unsafe_code, reason = "user buffers are raw memory")]

use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};

/// Copies elements of one type to elements of another with the same signature; `run` copies data
/// that is contiguous in both.
///
/// # Safety
/// The source's elements are readable and the target's writable, without overlap; `run` may rely on
/// that.
pub(super) unsafe fn copy(
    source: *const u8,
    count: usize,
    source_type: &Datatype,
    target: *mut u8,
    room: usize,
    target_type: &Datatype,
    run: impl FnOnce(*const u8, *mut u8, usize),
) -> Result<()> {
    let have = count * source_type.size();
    let fits = room * target_type.size();
    let len = have.min(fits);
    let flat_source = source_type.is_contiguous();
    let flat_target = target_type.is_contiguous();
    let first = source.wrapping_offset(source_type.true_lb());
    let into = target.wrapping_offset(target_type.true_lb());
    if len == 0 {
    } else if flat_source && flat_target {
        run(first, into, len);
    } else if flat_source {
        // SAFETY: the caller promises readable elements (`# Safety`), initialised like its buffers
        // and scratch memory.
        let data = unsafe { std::slice::from_raw_parts(first, len) };
        // SAFETY: the caller promises a target of `room` writable elements (`# Safety`).
        unsafe { target_type.unpack(target, room, 0, data) };
    } else if flat_target {
        // SAFETY: the caller promises a writable target (`# Safety`), whose data is contiguous
        // here.
        let out = unsafe { std::slice::from_raw_parts_mut(into, len) };
        // SAFETY: the caller promises a source of `count` readable elements (`# Safety`).
        unsafe { source_type.pack(source, count, 0, out) };
    } else {
        let mut piece = [0u8; 4096];
        for skip in (0..len).step_by(piece.len()) {
            let now = piece.len().min(len - skip);
            // SAFETY: the caller promises a source of `count` readable elements (`# Safety`).
            unsafe { source_type.pack(source, count, skip, &mut piece[..now]) };
            // SAFETY: the caller promises a target of `room` writable elements (`# Safety`).
            unsafe { target_type.unpack(target, room, skip, &piece[..now]) };
        }
    }
    if have > fits {
        return Err(Error::new(
            Class::Truncate,
            format!(
                "a rank's own contribution is {have} bytes but its receive arguments take {fits}; \
                 counts and datatypes of both sides must describe the same data"
            ),
        ));
    }
    Ok(())
}
