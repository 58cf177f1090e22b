//! One-sided communication: windows, transfers, synchronization.

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
use mpi_rma::Window;

pub mod data;
pub(crate) mod element;
pub(crate) mod fast_path;
pub mod sync;
pub mod window;

/// Checks a rank of the window.
#[inline(always)]
pub(crate) fn check_rank(window: &Window, rank: c_int) -> Result<u32> {
    match u32::try_from(rank) {
        Ok(rank) if rank < window.size() => Ok(rank),
        _ => Err(wrong_rank(window, rank)),
    }
}

#[cold]
fn wrong_rank(window: &Window, rank: c_int) -> Error {
    Error::new(
        Class::Rank,
        format!(
            "rank {rank} is not in the window's group, which has ranks 0 to {}",
            window.size() - 1
        ),
    )
}
