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
mod system;
mod tree;
mod wire;

pub use boot::KINDS;
pub use greeting::OPTION;

use std::process::ExitCode;

use crate::job;
use crate::options::Options;

/// The exit code for mistakes on the command line.
const USAGE: u8 = 2;

/// Runs a job, on this machine or on several.
pub fn run(mut options: Options) -> ExitCode {
    let planned = match plan::plan(&mut options, &plan::Here) {
        Ok(planned) => planned,
        Err(message) => {
            eprintln!("mpiexec: {message}");
            return ExitCode::from(USAGE);
        }
    };
    if options.many.print_map {
        print!("{}", plan::map(&options, planned.as_ref()));
    }
    match planned {
        None => job::run(&options),
        Some(placement) => {
            for note in &options.notes {
                eprintln!("mpiexec: {note}");
            }
            root::run(&options, &placement)
        }
    }
}
