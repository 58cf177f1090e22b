//! Builds, installs and tests Weft.

mod beside;
mod compare_with;
mod conda;
mod demo;
mod deny;
mod dist;
mod docs;
mod failing;
mod fresh;
mod fuzz;
mod handle_count;
mod headers;
mod image;
mod install;
mod instructions;
mod loom;
mod oldest;
mod packages;
mod races;
mod result;
mod stand_in;
mod test;
mod traced_count;
mod vm;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub(crate) use result::Result;

/// Builds, installs and tests Weft.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds and installs library, header, mpicc, mpiexec and osu-bench.
    Install(Place),
    /// Packs an installation: an archive, and a Debian package where dpkg-deb is.
    Dist {
        /// The folder for the packages; by default `dist` in cargo's target folder.
        #[arg(long)]
        to: Option<PathBuf>,
        /// Build fast, without optimization.
        #[arg(long)]
        dev: bool,
    },
    /// Installs, then compiles examples/pingpong.c and runs it on two ranks.
    Demo(Place),
    /// Runs the tests for a change in 10 minutes; with --full everything that must pass before it is merged; with names
    /// the tests of those crates and programs.
    Test(test::Options),
    /// Tries the lock-free parts under loom, in all orders with few preemptions.
    Loom,
    /// Runs the targets of fuzz/ under libFuzzer and AddressSanitizer.
    Fuzz(fuzz::Options),
    /// Counts the instructions of the short ways, and compares with tests/instructions.txt.
    Instructions {
        /// Take counts that are lower than the bounds as the new bounds.
        #[arg(long)]
        lower: bool,
    },
    /// Builds another commit too, and prints instruction counts, benchmarks and programs before and after.
    ///
    /// Its worktree and builds stay in target/compare. Benchmarks and programs run by turns; a figure counts if the first
    /// two cores were equally far from each other before and after it, and near and far cores have rows of their own.
    CompareWith(compare_with::Options),
    /// Compiles everything by the oldest Rust that is promised, which rustup fetches.
    Oldest,
    /// Checks the licences, sources and advisories of the dependencies by cargo-deny.
    Deny,
    /// Runs the README's commands in a fresh Debian 12 or 13, made by debootstrap; or tries the packages there.
    Fresh(fresh::Options),
    /// Builds the image of packaging/Containerfile by buildah, without a registry, and runs the tutorial in it.
    Image(image::Options),
    /// Builds the package of packaging/conda by rattler-build, without a channel, and runs its tests.
    Conda(conda::Options),
    /// Writes the generated headers and Fortran modules to include/.
    Headers {
        /// Only say whether they are up to date.
        #[arg(long)]
        check: bool,
    },
    /// Writes the generated documentation, docs/tuning.md.
    Docs,
    /// Reports which functions of MPI there are, by version of the standard.
    Coverage,
    /// Looks for data races: tests, and programs of many threads, under ThreadSanitizer.
    Races {
        /// How long the random program goes on.
        #[arg(long, default_value_t = 120)]
        seconds: u32,
    },
    /// Runs the tests that need RDMA devices, in a virtual machine.
    RdmaTest {
        /// Only tests whose names contain this.
        filter: Option<String>,
    },
    /// Runs a command in a throw-away virtual machine with two RDMA devices.
    RdmaVm(vm::Options),
}

#[derive(Args)]
struct Place {
    /// The folder to install to; it may be moved later.
    #[arg(long)]
    prefix: PathBuf,
    /// Build fast, without optimization.
    #[arg(long)]
    dev: bool,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Install(place) => install::run(&place.prefix, place.dev),
        Task::Dist { to, dev } => dist::run(to.as_deref(), dev),
        Task::Demo(place) => demo::run(&place.prefix, place.dev),
        Task::Test(options) => test::run(&options),
        Task::Loom => loom::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Instructions { lower } => instructions::run(lower),
        Task::CompareWith(options) => compare_with::run(&options),
        Task::Oldest => oldest::run().map(say_left_out),
        Task::Deny => deny::run().map(say_left_out),
        Task::Fresh(options) => fresh::run(&options),
        Task::Conda(options) => conda::run(&options),
        Task::Image(options) => image::run(&options),
        Task::Races { seconds } => races::run(seconds).map(say_left_out),
        Task::Headers { check } => headers::run(check),
        Task::Docs => docs::run(),
        Task::Coverage => headers::coverage(),
        Task::RdmaTest { filter } => vm::tests::run(filter.as_deref()),
        Task::RdmaVm(options) => return vm::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what could not be done on this machine, if anything.
fn say_left_out(lacking: Option<result::Lacking>) {
    if let Some(lacking) = lacking {
        eprintln!("xtask: *** LEFT OUT: {}", lacking.why);
    }
}
