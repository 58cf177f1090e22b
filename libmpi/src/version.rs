//! What this library says that it is.

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
    " (MPI 5.0, ABI of Open MPI: libmpi.so.40)"
);

/// What `MPI_Get_library_version` says.
#[cfg(not(pointer_abi))]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0, ABI of MPICH: libmpi.so.12)"
);
