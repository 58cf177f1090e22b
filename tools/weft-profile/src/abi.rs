//! Constants that differ between the ABIs.

use std::ffi::c_int;

use crate::pmpi::Handle;

/// Constants that differ between the ABIs.
pub struct Abi {
    /// `MPI_COMM_WORLD`.
    pub world: Handle,
    /// `MPI_BYTE`.
    pub byte: Handle,
    /// `MPI_UNSIGNED_LONG`.
    pub unsigned_long: Handle,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: Handle,
    /// `MPI_COMM_SELF`.
    pub own: Handle,
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// Whether handles in memory have 64 bits, not 32.
    pub wide: bool,
    /// Classes of performance variables that only grow: counter, aggregate.
    pub counters: [c_int; 2],
}

impl Abi {
    /// Returns the constants of the program's ABI.
    pub fn get() -> Abi {
        match weft_pmpi::abi() {
            weft_pmpi::Abi::Mpich => Abi {
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                unsigned_long: 0x4c00_0808,
                status_ignore: 1,
                own: 0x4400_0001,
                any_source: -2,
                any_tag: -1,
                wide: false,
                counters: [246, 247],
            },
            // Predefined handles are addresses of variables.
            weft_pmpi::Abi::OpenMpi => Abi {
                world: weft_pmpi::variable(c"ompi_mpi_comm_world"),
                byte: weft_pmpi::variable(c"ompi_mpi_byte"),
                unsigned_long: weft_pmpi::variable(c"ompi_mpi_unsigned_long"),
                status_ignore: 0,
                own: weft_pmpi::variable(c"ompi_mpi_comm_self"),
                any_source: -1,
                any_tag: -1,
                wide: true,
                counters: [6, 7],
            },
            weft_pmpi::Abi::Standard => Abi {
                world: 0x101,
                byte: 0x247,
                unsigned_long: 0x20e,
                status_ignore: 0,
                own: 0x102,
                any_source: -1,
                any_tag: -2,
                wide: true,
                counters: [7, 8],
            },
        }
    }
}
