//! Compiles and runs programs of `tests/c` and `tests/f` a second time with the header and library of
//! the standard ABI.
//!
//! The programs cover every chapter in little time. Others could be added if they use only functions
//! of both ABIs and no integers as handles.

use crate::job::Variant;
use crate::program::Program;

const NAMES: [&str; 75] = [
    "attr_comm",
    "attr_finalize",
    "attr_type",
    "bottom_displacements",
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
    "completion_errors-f08",
    "completion_errors-mpif",
    "count_limits",
    "endpoints",
    "environment",
    "errhandler",
    "errhandler_file",
    "failure",
    "finalize",
    "grequest",
    "in_place",
    "info_basics",
    "levels",
    "mpi_t_cvars",
    "mpi_t_pvars",
    "mpix_async",
    "mpix_callbacks",
    "mpix_grequest",
    "names_bytes",
    "op_beyond",
    "op_char",
    "persistent",
    "proc_null",
    "requests_collective",
    "ring",
    "rma_attached",
    "rma_epochs",
    "rma_errors",
    "rma_mixed",
    "rma_transfer",
    "sendrecv",
    "topo_cart",
    "topo_graph",
    "truncate",
    "vcis_hints",
    "win_alloc_mem",
    "wrong_uses",
    // Fortran
    "automatic_buffer-f08",
    "automatic_buffer-mpi",
    "automatic_buffer-mpif",
    "basics-mpif",
    "basics-mpi",
    "callbacks-mpif",
    "callbacks-mpi",
    "declared_arguments-f08",
    "declared_arguments-mpi",
    "dyn_spawn_fortran",
    "extra_state-f08",
    "f08-own",
    "f08_large",
    "f08_profiling-own",
    "handle_arrays",
    "in_place-f08",
    "in_place-mpi",
    "files-mpif",
    "files-f08",
    "persistent_f08",
    "sessions-f08",
    "sessions-mpi",
    "sessions-mpif",
];

/// Returns the programs for the standard ABI, named `NAME-abi`, over shared memory.
pub fn twins(programs: &[Program]) -> Vec<Program> {
    let wanted = programs
        .iter()
        .filter(|program| NAMES.contains(&program.name.as_str()));
    wanted
        .map(|program| {
            let mut twin = program.build("abi", &["-abi=standard".to_owned()]);
            twin.variants = vec![Variant::Shm];
            twin.ranks.drain(..twin.ranks.len() - 1);
            twin
        })
        .collect()
}

/// Returns the listed names that no program has.
pub fn unknown(programs: &[Program]) -> Vec<&'static str> {
    let is_there = |name: &&str| programs.iter().any(|program| program.name == **name);
    NAMES.into_iter().filter(|name| !is_there(name)).collect()
}
