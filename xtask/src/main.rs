//! Builds, installs and tests Weft.

mod headers;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, installs and tests Weft.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Writes the generated C headers to include/.
    Headers {
        /// Only say whether they are up to date.
        #[arg(long)]
        check: bool,
    },
    /// Reports which functions of MPI-3.1 there are.
    Coverage,
}

/// What a task gives: the text says what went wrong and what to do.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Headers { check } => headers::run(check),
        Task::Coverage => headers::coverage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
