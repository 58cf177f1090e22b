//! Programs of `tests/c` that use MPI rightly run a second time under `mpiexec -check`, which has nothing to say of
//! them. What it says of wrong ones is in `tests/c/checked.c`.

use crate::job::Variant;
use crate::program::Program;

const NAMES: [&str; 31] = [
    "attr_comm",
    "attr_type",
    "bsend",
    "cancel",
    "coll_halving",
    "coll_inter",
    "coll_neighbor",
    "coll_nonblocking",
    "coll_persistent",
    "coll_reduce",
    "comm",
    "comm_create",
    "comm_intercomm",
    "completion",
    "group_sets",
    "info_basics",
    "io_access",
    "io_shared",
    "io_views",
    "modes",
    "mpi4_buffers",
    "op_char",
    "ordering",
    "pairs",
    "partitioned",
    "probe",
    "request_free",
    "requests_collective",
    "rma_epochs",
    "rma_mixed",
    "rma_transfer",
];

/// The same programs under the checker: named `NAME-checked`, over shared memory; and one for the standard ABI.
pub fn twins(programs: &[Program]) -> Vec<Program> {
    let checked = |program: &Program, name: &str, flags: &[String]| {
        let mut twin = program.build(name, flags);
        twin.variants = vec![Variant::Shm];
        twin.launcher.push("-check".to_owned());
        twin
    };
    let right = programs
        .iter()
        .filter(|program| NAMES.contains(&program.name.as_str()));
    let right = right.map(|program| {
        let mut twin = checked(program, "checked", &[]);
        twin.ranks.drain(..twin.ranks.len() - 1);
        twin.timeout *= 3.0;
        twin
    });
    let wrong = programs.iter().filter(|program| program.name == "checked");
    let wrong = wrong.map(|program| checked(program, "abi", &["-abi=standard".to_owned()]));
    right.chain(wrong).collect()
}

/// The names that no program has.
pub fn unknown(programs: &[Program]) -> Vec<&'static str> {
    let is_there = |name: &&str| programs.iter().any(|program| program.name == **name);
    NAMES.into_iter().filter(|name| !is_there(name)).collect()
}
