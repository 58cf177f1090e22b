//! The symbol by which `osu-bench breakdown` asks where time goes ([`mpi_core::breakdown`]).

use std::ffi::c_int;

use mpi_core::breakdown::{PARTS, Part, begin, end, enter};

use crate::abi::MPI_SUCCESS;

/// Begins to count the calling thread's time, or ends it and writes `2 * PARTS` numbers: ticks of
/// each part, then how often it began. With `spans` first begins and ends as many spans, so that the
/// cost of a stamp shows.
///
/// # Safety
/// `totals` is NULL, which begins, or valid for writes of the numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_breakdown(spans: c_int, totals: *mut u64) -> c_int {
    if totals.is_null() {
        begin();
        return MPI_SUCCESS;
    }
    for _ in 0..spans {
        drop(enter(Part::System));
    }
    // SAFETY: `totals` is valid for the numbers (# Safety).
    unsafe { totals.cast::<[u64; 2 * PARTS]>().write(end()) };
    MPI_SUCCESS
}
