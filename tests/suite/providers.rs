//! Runs a few programs over each libfabric provider (`WEFT_OFI_PROVIDER`): messages, long messages,
//! probes, data with gaps. docs/run.md lists the supported providers.

use std::sync::Arc;

use libtest_mimic::Trial;

use crate::job::{Job, Variant};
use crate::program::Program;
use crate::{Result, lacks, prefix, timed};

/// Providers that need no adapter, except those that lose messages or hang (libfabric 1.17):
/// udp;ofi_rxd and sockets.
const PROVIDERS: [&str; 4] = ["tcp", "tcp;ofi_rxm", "net", "shm"];

/// Programs with two ranks.
const PROGRAMS: [&str; 4] = ["modes", "probe", "gaps_long", "synchronous"];

/// Lists the tests of a program.
pub fn trials(program: &Arc<Program>) -> Vec<Trial> {
    if !PROGRAMS.contains(&program.name.as_str()) {
        return Vec::new();
    }
    let trial = |provider| {
        let name = format!("providers/{provider}/{}/2", program.name);
        let program = program.clone();
        let left_out = lacks::any(&name, &[&weft_needs::LIBFABRIC]);
        timed(name, program.company, move || run(&program, provider)).with_ignored_flag(left_out)
    };
    PROVIDERS.into_iter().map(trial).collect()
}

fn run(program: &Program, provider: &'static str) -> Result {
    let prefix = prefix::get()?;
    let job = Job {
        binary: program.binary(prefix)?,
        ranks: 2,
        variant: Variant::Ofi,
        program,
        case: &program.cases[0],
        setting: Some(("WEFT_OFI_PROVIDER", provider)),
        under: None,
    };
    job.run(prefix)
}
