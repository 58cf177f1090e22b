//! Jobs on several hosts.
//!
//! An agent, which is this program in another role, looks after the ranks of each host. Agents are
//! started by ssh or the like, in a tree; each calls whoever started it and shows that it knows a secret.
//! What agents report ends up in [`root`], which decides as [`crate::job`] does for one machine.

pub mod agent;
mod boot;
mod children;
mod greeting;
mod here;
mod link;
mod messages;
pub mod plan;
mod root;
#[cfg(test)]
mod simulated;
mod system;
mod tree;
mod wire;

pub use boot::KINDS;
pub use greeting::OPTION;
pub use here::canonical;

use std::process::ExitCode;

use crate::options::Options;
use crate::{affinity, job, report};

/// The exit code for mistakes on the command line.
const USAGE: u8 = 2;

/// Runs a job, on this machine or on several.
pub fn run(mut options: Options) -> ExitCode {
    let planned = match plan::plan(&mut options, &plan::Here) {
        Ok(planned) => planned,
        Err(message) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&message),
                None => eprintln!("mpiexec: {message}"),
            }
            return ExitCode::from(USAGE);
        }
    };
    if options.many.print_map {
        print!("{}", plan::map(&options, planned.as_ref()));
    }
    match planned {
        None => {
            if options.many.report_bindings {
                report_bindings(&options);
            }
            job::run(&options)
        }
        Some(placement) => {
            for note in &options.notes {
                eprintln!("mpiexec: {note}");
            }
            root::run(&options, &placement)
        }
    }
}

/// Says what the ranks of this machine will be bound to.
fn report_bindings(options: &Options) {
    let count = options.sections.iter().map(|section| section.count).sum();
    let pictures = affinity::pictures(&options.bind, count);
    for (rank, picture) in pictures.iter().enumerate() {
        eprintln!("mpiexec: rank {rank} on {} is {picture}", report::host());
    }
}
