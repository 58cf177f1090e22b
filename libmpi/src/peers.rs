//! Number of processes in an exchange: the length of the arrays of datatypes that programs of the
//! pointer ABIs pass.

use std::ffi::{c_int, c_void};

use mpi_runtime::lifecycle::runtime::running;

use crate::abi::{MPI_Comm, MPI_IN_PLACE};

/// Returns the number of datatypes passed to an all-to-all exchange: 0 if the communicator does not
/// exist or the data is in place.
pub fn count(comm: c_int, buffer: *const c_void, sends: bool, neighbors: bool) -> i64 {
    if buffer == MPI_IN_PLACE.cast_const() {
        return 0;
    }
    exchanged(comm, sends, neighbors).map_or(0, |number| number as i64)
}

/// Returns the number of processes to which this one sends (or from which it receives) in an
/// all-to-all or neighbor exchange.
fn exchanged(comm: MPI_Comm, sends: bool, neighbors: bool) -> Option<usize> {
    let comm = running()?.comm_arc(comm).ok()?;
    let comm = &comm.comm;
    if !neighbors {
        return Some(comm.targets() as usize);
    }
    let found = mpi_comm::topo::neighbors(comm).ok()?;
    let ranks = if sends {
        found.destinations
    } else {
        found.sources
    };
    Some(ranks.len())
}
