//! Runs correct programs of `tests/c` a second time under `mpiexec -check`, which must report nothing.
//! Reports on wrong programs are tested by `tests/c/checked.c`.

use crate::job::Variant;
use crate::openmpi;
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

/// Programs that are also built by Open MPI's compiler.
const OPENMPI: [&str; 7] = [
    "attr_type",
    "coll_neighbor",
    "coll_nonblocking",
    "completion",
    "io_access",
    "requests_collective",
    "rma_epochs",
];

/// Returns the programs under the checker, named `NAME-checked`, over shared memory; some also for
/// the other ABIs.
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
    let wrong = || programs.iter().filter(|program| program.name == "checked");
    let standard = wrong().map(|program| checked(program, "abi", &["-abi=standard".to_owned()]));
    let by_openmpi = |program: &Program| {
        let flags = openmpi::FLAGS.map(str::to_owned);
        let name = match program.name.as_str() {
            "checked" => "openmpi",
            _ => "checked-openmpi",
        };
        let mut twin = checked(program, name, &flags);
        twin.ranks.drain(..twin.ranks.len() - 1);
        twin.timeout *= 3.0;
        twin
    };
    let few = programs
        .iter()
        .filter(|program| OPENMPI.contains(&program.name.as_str()));
    let openmpi = wrong().chain(few).map(by_openmpi);
    right.chain(standard).chain(openmpi).collect()
}

/// Returns the listed names that no program has.
pub fn unknown(programs: &[Program]) -> Vec<&'static str> {
    let is_there = |name: &&str| programs.iter().any(|program| program.name == **name);
    NAMES.into_iter().filter(|name| !is_there(name)).collect()
}
