//! Rank, host and PID of this process, for messages.

use std::fmt;

pub use crate::bootstrap::host::name as host;

use crate::lifecycle::library::LIBRARY;

/// Records rank and number of ranks in `MPI_COMM_WORLD`; the first call counts.
pub fn set(rank: usize, size: usize) {
    let _ = LIBRARY.rank_and_size.set((rank, size));
}

/// Returns rank and number of ranks in `MPI_COMM_WORLD`, once they are known.
pub fn get() -> Option<(usize, usize)> {
    LIBRARY.rank_and_size.get().copied()
}

/// Prints as `rank 0 of 2 (host, pid 123)`.
#[derive(Clone, Copy, Debug)]
pub struct Identity;

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match get() {
            Some((rank, size)) => write!(f, "rank {rank} of {size}")?,
            None => f.write_str("a process without a rank")?,
        }
        write!(f, " ({}, pid {})", host(), std::process::id())
    }
}
