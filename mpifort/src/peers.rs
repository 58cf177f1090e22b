//! The number of peers of an all-to-all exchange, for ABIs whose C handles are pointers.

use std::ffi::{c_int, c_void};

use crate::abi::{
    MPI_CART, MPI_COMM_NULL, MPI_Comm, MPI_DIST_GRAPH, MPI_GRAPH, MPI_IN_PLACE, MPI_SUCCESS,
};
use crate::widths::{Pointer, wide_comm};

/// Returns the number of datatypes of an all-to-all exchange: 0 if the communicator is null or the
/// data in place. Calls PMPI, so that tools see no calls of the library.
///
/// # Safety
/// The program may call MPI.
pub unsafe fn peers(comm: MPI_Comm, buffer: *const c_void, sends: bool, neighbors: bool) -> i64 {
    if comm == MPI_COMM_NULL || buffer == MPI_IN_PLACE.cast_const() {
        return 0;
    }
    let comm = wide_comm(comm);
    let (mut inter, mut count, mut other, mut weighted) = (0, 0, 0, 0);
    // SAFETY: local variables take the results.
    unsafe {
        let code = if neighbors {
            let mut topology = 0;
            let code = PMPI_Topo_test(comm, &raw mut topology);
            match topology {
                MPI_CART => {
                    PMPI_Cartdim_get(comm, &raw mut count);
                    count *= 2;
                }
                MPI_GRAPH => {
                    let mut rank = 0;
                    PMPI_Comm_rank(comm, &raw mut rank);
                    PMPI_Graph_neighbors_count(comm, rank, &raw mut count);
                }
                MPI_DIST_GRAPH => {
                    let (sources, targets) = match sends {
                        true => (&raw mut other, &raw mut count),
                        false => (&raw mut count, &raw mut other),
                    };
                    PMPI_Dist_graph_neighbors_count(comm, sources, targets, &raw mut weighted);
                }
                _ => {}
            }
            code
        } else {
            match PMPI_Comm_test_inter(comm, &raw mut inter) {
                MPI_SUCCESS if inter != 0 => PMPI_Comm_remote_size(comm, &raw mut count),
                MPI_SUCCESS => PMPI_Comm_size(comm, &raw mut count),
                code => code,
            }
        };
        if code == MPI_SUCCESS {
            i64::from(count)
        } else {
            0
        }
    }
}

unsafe extern "C" {
    fn PMPI_Comm_test_inter(comm: Pointer, flag: *mut c_int) -> c_int;
    fn PMPI_Comm_remote_size(comm: Pointer, size: *mut c_int) -> c_int;
    fn PMPI_Comm_size(comm: Pointer, size: *mut c_int) -> c_int;
    fn PMPI_Comm_rank(comm: Pointer, rank: *mut c_int) -> c_int;
    fn PMPI_Topo_test(comm: Pointer, status: *mut c_int) -> c_int;
    fn PMPI_Cartdim_get(comm: Pointer, ndims: *mut c_int) -> c_int;
    fn PMPI_Graph_neighbors_count(comm: Pointer, rank: c_int, neighbors: *mut c_int) -> c_int;
    fn PMPI_Dist_graph_neighbors_count(
        comm: Pointer,
        indegree: *mut c_int,
        outdegree: *mut c_int,
        weighted: *mut c_int,
    ) -> c_int;
}
