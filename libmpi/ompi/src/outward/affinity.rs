//! `OMPI_Affinity_str`, an extension of Open MPI: the CPUs of a process as text, for banners of
//! programs.

use std::ffi::{c_char, c_int};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::abi::{MPI_ERR_ARG, MPI_SUCCESS};

/// Bytes of each output text, with the NUL.
const ROOM: usize = 1024;

/// Returns the CPUs that this process may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// Formats sorted numbers as ranges: `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Writes a text, truncated to [`ROOM`] bytes.
///
/// # Safety
/// `place` is valid for [`ROOM`] bytes.
unsafe fn put(place: *mut c_char, text: &str) {
    let len = text.len().min(ROOM - 1);
    // SAFETY: the caller guarantees [`ROOM`] valid bytes, which bound the copy and the NUL.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), len);
        place.add(len).write(0);
    }
}

/// Writes the CPUs to which the launcher has bound this process, its current ones, and all. Both
/// formats of Open MPI give the same text.
///
/// # Safety
/// Each of the last three is NULL or valid for 1024 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OMPI_Affinity_str(
    _format: c_int,
    ompi_bound: *mut c_char,
    current_binding: *mut c_char,
    exists: *mut c_char,
) -> c_int {
    if ompi_bound.is_null() || current_binding.is_null() || exists.is_null() {
        return MPI_ERR_ARG;
    }
    let allowed = allowed();
    // SAFETY: the call takes no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let all = usize::try_from(online).unwrap_or(allowed.len());
    let binding = match allowed.len() < all {
        true => format!("CPUs {}", ranges(&allowed)),
        false => "not bound: all CPUs".to_owned(),
    };
    // SAFETY: the pointers are not NULL, so the caller guarantees 1024 valid bytes.
    unsafe {
        put(ompi_bound, &binding);
        put(current_binding, &binding);
        put(exists, &format!("{all} CPUs"));
    }
    MPI_SUCCESS
}
