//! `mpiexec`: starts the ranks of an MPI job, on this machine or on several, and looks after them
//! to the end. The program is [`main`]; it is a library as well so that its parsers can be fuzzed.
//!
//! One thread and one poll loop serve everything: the ranks' PMI sockets, their output, signals
//! and time limits. See `mpiexec -h` for the options and the exit codes.
//!
//! - `root` places the ranks, has agents start them, and decides when the job is over.
//! - `agent` looks after the ranks of one host, the own one among them; `children` are the agents that a
//!   root or an agent starts; `wire` are the messages between them.
//! - `join`: agents that nobody starts: the same command runs on each machine, and the first is the root.
//! - `hosts`: names of hosts in lists, files and batch systems, and the placement of ranks; pure
//!   functions.
//! - `affinity`, `binding`, `topology`, `cgroup`: which CPUs a rank gets.
//! - `spawned`, `names`: jobs started by `MPI_Comm_spawn`, and published names.
//! - Output goes up in whole lines within the credit that the root has given, so a slow reader
//!   never blocks the messages that report the end of a rank.

#![deny(unsafe_code)]

mod affinity;
mod agent;
mod binding;
mod cgroup;
mod children;
mod completion;
mod core_files;
mod debugger;
mod foreign;
#[doc(hidden)]
pub mod fuzzing;
mod guardian;
mod hang;
mod hang_detector;
mod help;
mod hosts;
mod join;
mod label;
mod library_path;
mod lines;
mod names;
mod options;
mod orphans;
mod output;
mod probe;
mod processes;
mod profile;
mod program;
mod report;
mod root;
mod secret_file;
mod spawned;
mod system;
mod topology;
mod wire;

use std::process::ExitCode;

use options::Request;
use output::print;
use program::USAGE;

/// Runs the command line and returns the exit code.
pub fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if args
        .first()
        .is_some_and(|first| first == wire::greeting::OPTION)
    {
        return agent::run();
    }
    let parsed = spawned::whole_line(&args)
        .and_then(|args| options::parse(&args, |name| std::env::var_os(name)));
    match parsed {
        Ok(Request::Help(topic)) => match help::text(topic.as_deref()) {
            Ok(text) => print(&text),
            Err(message) => refuse(&message),
        },
        Ok(Request::Version) => print(&report::version()),
        Ok(Request::Info) => print(&format!("{}{}", report::info(), probe::choices())),
        Ok(Request::Completion(text) | Request::Report(text)) => print(&text),
        Ok(Request::Probe(library)) => probe::start(&library),
        Ok(Request::NameServer(settings)) => names::server::serve(&settings),
        Ok(Request::Top) => profile::top(&args),
        Ok(Request::Run(mut options)) => match options.many.join.take() {
            Some(how) => join::run(*options, how),
            None => root::run(*options, |_| Ok(root::Joined::default())),
        },
        Err(message) if spawned::refuse(&args, &message) => ExitCode::from(USAGE),
        Err(message) => refuse(&message),
    }
}

/// Reports a mistake on the command line.
fn refuse(message: &str) -> ExitCode {
    eprintln!("mpiexec: {message}\nmpiexec: 'mpiexec -h' lists the options");
    ExitCode::from(USAGE)
}
