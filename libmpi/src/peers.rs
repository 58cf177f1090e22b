//! With how many processes an exchange is: so long are the arrays of datatypes that programs of the standard
//! ABI give.

use std::ffi::{c_int, c_void};

use mpi_runtime::lifecycle::runtime::running;

use crate::abi::{MPI_Comm, MPI_IN_PLACE};

/// How many datatypes an all-to-all exchange on a communicator is given: none, if it doesn't exist or
/// the data is in place.
pub fn count(comm: c_int, buffer: *const c_void, sends: bool, neighbors: bool) -> i64 {
    if buffer == MPI_IN_PLACE.cast_const() {
        return 0;
    }
    exchanged(comm, sends, neighbors).map_or(0, |number| number as i64)
}

/// How many processes this one sends to (or receives from) in an all-to-all exchange, or in one between
/// neighbours.
fn exchanged(comm: MPI_Comm, sends: bool, neighbors: bool) -> Option<usize> {
    let comm = &running()?.find_comm(comm)?.comm;
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
