//! The library's version texts. They name no other library: programs that find "MPICH" in them look
//! for a line with its version (the library unidist does), and likewise for Open MPI.

/// The text of `MPI_Get_library_version`.
#[cfg(standard_abi)]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (standard ABI of MPI-5.0: libmpi_abi.so.1)"
);

/// The text of `MPI_Get_library_version`.
#[cfg(openmpi_abi)]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0: libmpi.so.40)"
);

/// The text of `MPI_Get_library_version`.
#[cfg(not(pointer_abi))]
pub const LIBRARY_VERSION: &str = concat!(
    "Weft ",
    env!("CARGO_PKG_VERSION"),
    " (MPI 5.0: libmpi.so.12)"
);
