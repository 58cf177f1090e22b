//! What this library says that it is. It names no other library: programs that find "MPICH" in it look for a
//! line with its version there (the library unidist does), and for Open MPI likewise.

/// What `MPI_Get_library_version` says.
#[cfg(standard_abi)]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (standard ABI of MPI-5.0: libmpi_abi.so.1)"
);

/// What `MPI_Get_library_version` says.
#[cfg(openmpi_abi)]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0: libmpi.so.40)"
);

/// What `MPI_Get_library_version` says.
#[cfg(not(pointer_abi))]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0: libmpi.so.12)"
);
