//! Who this process is, for messages.

use std::fmt;

pub use mpi_init::host::name as host;

use crate::library::LIBRARY;

/// What `MPI_Get_library_version` says.
#[cfg(standard_abi)]
pub(crate) const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (standard ABI of MPI-5.0: libmpi_abi.so.1)"
);

/// What `MPI_Get_library_version` says.
#[cfg(openmpi_abi)]
pub(crate) const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0, ABI of Open MPI: libmpi.so.40)"
);

/// What `MPI_Get_library_version` says.
#[cfg(not(pointer_abi))]
pub(crate) const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0, ABI of MPICH: libmpi.so.12)"
);

/// Remembers rank and number of ranks in `MPI_COMM_WORLD`; the first call counts.
pub fn set(rank: usize, size: usize) {
    let _ = LIBRARY.rank_and_size.set((rank, size));
}

/// Rank and number of ranks in `MPI_COMM_WORLD`, once they are known.
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
