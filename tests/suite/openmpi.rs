//! Compiles programs of `tests/c` a second time by Open MPI's `mpicc` and runs them with Weft's
//! `libmpi.so.40`.
//!
//! The programs cover every chapter in little time. Others could be added if they use only functions
//! of Open MPI 4 and no integers as handles.

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

/// Further flags for Open MPI's compilers: the header warns of deprecated functions and of
/// `MPI_UNWEIGHTED`; the Fortran compiler rejects buffers of different types and links the
/// `libmpi.so` of the system's folder.
pub const FLAGS: [&str; 2] = ["compiler=mpicc.openmpi", "-Wno-error"];
const FORTRAN: [&str; 3] = [
    "compiler=mpif90.openmpi",
    "-fallow-argument-mismatch",
    "-L/usr/lib/x86_64-linux-gnu/openmpi/lib",
];

/// Returns the programs for Open MPI's ABI, named `NAME-openmpi`, over shared memory and TCP.
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

/// Returns the listed names that no program has.
pub fn unknown(programs: &[Program]) -> Vec<&'static str> {
    let is_there = |name: &&str| programs.iter().any(|program| program.name == **name);
    NAMES
        .iter()
        .copied()
        .filter(|name| !is_there(name))
        .collect()
}
