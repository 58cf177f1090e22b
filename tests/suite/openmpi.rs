//! Programs of `tests/c` that are compiled a second time by Open MPI's `mpicc`, and run on our `libmpi.so.40`.
//!
//! All that only use what Open MPI 4 has, and no integers as handles, could be among them; these use something of every
//! chapter and take little time.

use crate::job::Variant;
use crate::program::Program;

const NAMES: &[&str] = &[
    "attr_comm",
    "attr_finalize",
    "attr_lifetime",
    "attr_type",
    "bad_buffer",
    "bottom_displacements",
    "bsend",
    "cancel",
    "coll_disagree",
    "coll_errors",
    "coll_inter",
    "coll_lengths",
    "coll_neighbor",
    "coll_nonblocking",
    "coll_reduce",
    "coll_types",
    "comm",
    "comm_create",
    "comm_intercomm",
    "completion",
    "count_limits",
    "dyn_connect",
    "dyn_join",
    "dyn_names",
    "dyn_spawn",
    "errhandler",
    "gaps_long",
    "grequest",
    "in_place",
    "io_access",
    "io_deleted",
    "io_errors",
    "io_mounts",
    "io_quota",
    "io_shared",
    "levels",
    "mpi_t_cvars",
    "mpi_t_pvars",
    "op_beyond",
    "op_char",
    "persistent",
    "proc_null",
    "requests_collective",
    "ring",
    "rma_attached",
    "rma_epochs",
    "rma_memory",
    "rma_mixed",
    "rma_transfer",
    "rma_windows",
    "rma_words",
    "sendrecv",
    "topo_cart",
    "topo_graph",
    "truncate",
    "vcis_hints",
    "vcis_init",
    "win_alloc_mem",
    // Fortran
    "basics-mpif",
    "basics-mpi",
    "callbacks-mpif",
    "callbacks-mpi",
    "dyn_spawn_fortran",
    "extra_state-mpi",
    "extra_state-f08",
    "f08_profiling-own",
    "files-mpif",
    "files-f08",
    "handle_arrays",
    "in_place-mpi",
    "in_place-mpif",
];

/// What Open MPI's compilers are asked besides: its header warns of what is deprecated, and of `MPI_UNWEIGHTED`; its Fortran
/// compiler knows no buffers of different types, and takes whatever `libmpi.so` the system's folder has.
pub const FLAGS: [&str; 2] = ["compiler=mpicc.openmpi", "-Wno-error"];
const FORTRAN: [&str; 3] = [
    "compiler=mpif90.openmpi",
    "-fallow-argument-mismatch",
    "-L/usr/lib/x86_64-linux-gnu/openmpi/lib",
];

/// The same programs for Open MPI's ABI: named `NAME-openmpi`, over shared memory and TCP.
pub fn twins(programs: &[Program]) -> Vec<Program> {
    let wanted = programs
        .iter()
        .filter(|program| NAMES.contains(&program.name.as_str()));
    wanted
        .map(|program| {
            let flags: &[&str] = if program.is_fortran() {
                &FORTRAN
            } else {
                &FLAGS
            };
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let mut twin = program.build("openmpi", &flags);
            twin.variants = vec![Variant::Shm];
            twin.ranks.drain(..twin.ranks.len() - 1);
            twin
        })
        .collect()
}

/// The names that no program has.
pub fn unknown(programs: &[Program]) -> Vec<&'static str> {
    let is_there = |name: &&str| programs.iter().any(|program| program.name == **name);
    NAMES
        .iter()
        .copied()
        .filter(|name| !is_there(name))
        .collect()
}
