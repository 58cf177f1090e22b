//! Runs a few programs and their launcher on a kernel that lacks what came after Linux 4.18, which
//! `c/tools/old_kernel.c` makes of this one by a filter of system calls.

use std::sync::Arc;

use libtest_mimic::Trial;

use crate::job::{Job, Variant};
use crate::launchers::tool;
use crate::program::Program;
use crate::{Result, prefix, timed};

/// Programs and their variants: messages of all sizes, threads, windows, checks of buffers, files, spawned
/// processes, ports, a lost rank.
const PROGRAMS: &[(&str, &[Variant])] = &[
    ("ordering", &[Variant::Shm, Variant::Tcp]),
    ("sendrecv", &[Variant::Shm, Variant::Tcp]),
    ("bad_buffer", &[Variant::Shm]),
    ("threads_wait", &[Variant::Shm, Variant::Tcp]),
    ("rma_transfer", &[Variant::Shm, Variant::Tcp]),
    ("io_access", &[Variant::Shm]),
    ("io_shared", &[Variant::Shm]),
    ("dyn_spawn", &[Variant::Shm, Variant::Tcp]),
    ("dyn_connect", &[Variant::Shm]),
    ("loss", &[Variant::Shm]),
];

/// Lists the tests of a program.
pub fn trials(program: &Arc<Program>) -> Vec<Trial> {
    let found = PROGRAMS.iter().find(|(name, _)| *name == program.name);
    let trial = |&variant: &Variant| {
        let ranks = program.ranks.iter().copied().find(|ranks| *ranks >= 2);
        let ranks = ranks.unwrap_or(2);
        let name = format!("old-kernel/{}/{}/{ranks}", program.name, variant.name());
        let program = program.clone();
        timed(name, program.company, move || run(&program, variant, ranks))
    };
    let variants = found.map_or(&[] as &[_], |(_, variants)| variants);
    variants.iter().map(trial).collect()
}

fn run(program: &Program, variant: Variant, ranks: usize) -> Result {
    let prefix = prefix::get()?;
    let job = Job {
        binary: program.binary(prefix)?,
        ranks,
        variant,
        program,
        case: &program.cases[0],
        setting: None,
        under: Some(&tool("old_kernel")?),
    };
    job.run(prefix)
}
