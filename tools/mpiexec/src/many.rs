//! Jobs on several hosts.
//!
//! An agent, which is this program in another role, looks after the ranks of each host. Agents are
//! started by ssh or the like, in a tree; each calls whoever started it and shows that it knows a secret.
//! What agents report ends up in [`root`], which decides as [`crate::job`] does for one machine.

pub mod agent;
mod boot;
mod check;
mod children;
pub mod greeting;
mod here;
mod keys;
mod link;
mod listen;
mod messages;
pub mod plan;
pub mod root;
#[cfg(test)]
mod simulated;
mod system;
mod tree;
pub mod variables;
mod wire;

pub use boot::KINDS;
pub use greeting::OPTION;
pub use here::canonical;

use std::process::ExitCode;

use crate::affinity::Affinity;
use crate::hosts::place::Placement;
use crate::options::Options;

/// The exit code for mistakes on the command line.
const USAGE: u8 = 2;

/// Places the ranks of a job and runs it.
pub fn run(mut options: Options) -> ExitCode {
    let placement = match plan::plan(&mut options, &plan::Here) {
        Ok(placement) => placement,
        Err(message) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&message),
                None => eprintln!("mpiexec: {message}"),
            }
            return ExitCode::from(USAGE);
        }
    };
    if options.many.print_map {
        print!("{}", plan::map(&placement));
    }
    if options.many.dry_run {
        return dry_run(&options, &placement);
    }
    for note in &options.notes {
        eprintln!("mpiexec: {note}");
    }
    root::run(&options, &placement)
}

/// Prints the host and the binding of each rank, as if all hosts were like this one.
fn dry_run(options: &Options, placement: &Placement) -> ExitCode {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (host, ranks) in placement.hosts.iter().zip(placement.ranks()) {
        let name = &host.name;
        let numbers: Vec<u32> = ranks.iter().map(|&rank| rank as u32).collect();
        match Affinity::find(&options.bind.clone().of(&numbers), ranks.len()) {
            Ok(affinity) => {
                let pictures = affinity.pictures().into_iter();
                let line =
                    |(rank, picture)| (rank, format!("rank {rank} on {name} is {picture}\n"));
                lines.extend(ranks.into_iter().zip(pictures).map(line));
            }
            Err(why) => {
                eprintln!("mpiexec: on host '{name}': {why}");
                return ExitCode::from(USAGE);
            }
        }
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    crate::print(&text)
}
