//! Builds, installs and tests Weft.

mod beside;
mod compare_with;
mod conda;
mod demo;
mod deny;
mod dist;
mod docs;
mod emulate;
mod failing;
mod features;
mod fresh;
mod functions;
mod fuzz;
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
mod vm;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use features::Features;
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
    Install(InstallOptions),
    /// Packs an installation: an archive, a wheel, and Debian and rpm packages if their tools are
    /// installed.
    Dist {
        /// The folder for the packages; by default `dist` in cargo's target folder.
        #[arg(long)]
        to: Option<PathBuf>,
        /// Build fast, without optimization.
        #[arg(long)]
        dev: bool,
        /// Link for this version of glibc, for example 2.28, with symbol lists of PyPI's ziglang.
        #[arg(long, value_name = "VERSION")]
        glibc: Option<String>,
    },
    /// Makes all files of a release from a clean source tree: the packages of `dist` for glibc 2.28, the
    /// sources, a bill of materials and checksums.
    Release {
        /// The folder for the files; by default `release-files` in cargo's target folder. Its old content
        /// is removed.
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Installs, then compiles examples/pingpong.c and runs it on two ranks.
    Demo(InstallOptions),
    /// Runs the tests for a change in 10 minutes; with --full all tests that must pass before a
    /// merge; with names only the tests of those crates and programs.
    Test(test::Options),
    /// Tests the lock-free parts under loom, in all orders with few preemptions.
    Loom,
    /// Runs the targets of fuzz/ under libFuzzer and AddressSanitizer.
    Fuzz(fuzz::Options),
    /// Counts the instructions of the fast paths and compares them with tests/instructions.txt.
    Instructions(instructions::Options),
    /// Builds another commit too, and prints instruction counts, benchmarks and programs before and after.
    ///
    /// The other commit's worktree and builds stay in target/compare. Benchmarks and programs of both
    /// run alternately. A figure counts if the distance of the first two cores was the same before
    /// and after it; near and far cores have separate rows.
    CompareWith(compare_with::Options),
    /// Compiles everything by the oldest supported Rust, which rustup fetches.
    Oldest,
    /// Checks the licences, sources and advisories of the dependencies by cargo-deny.
    Deny,
    /// Runs the README's commands, or tries the packages, in a fresh Debian 12 or 13 made by
    /// debootstrap.
    Fresh(fresh::Options),
    /// Builds the image of packaging/Containerfile by buildah without a registry, and runs the
    /// tutorial in it.
    Image(image::Options),
    /// Builds the package of packaging/conda by rattler-build without a channel, and runs its tests.
    Conda(conda::Options),
    /// Writes the generated C headers to include/ and Fortran's to target/include/, for reading.
    Headers {
        /// Only report whether they are up to date.
        #[arg(long)]
        check: bool,
    },
    /// Writes the generated documentation, docs/tuning.md.
    Docs,
    /// Reports which functions of MPI Weft has, by version of the standard.
    Coverage(Features),
    /// Runs tests and multithreaded programs under ThreadSanitizer.
    Races {
        /// Seconds of the random program.
        #[arg(long, default_value_t = 120)]
        seconds: u32,
    },
    /// Runs programs or unit tests on an emulated processor of another kind, or with musl.
    Emulate(emulate::Options),
    /// Runs the tests that need RDMA devices, in a virtual machine.
    RdmaTest {
        /// Only tests whose names contain this.
        filter: Option<String>,
    },
    /// Runs a command in a throw-away virtual machine with two RDMA devices.
    RdmaVm(vm::Options),
}

#[derive(Args)]
struct InstallOptions {
    /// The folder to install to, which may be moved later.
    #[arg(long)]
    prefix: PathBuf,
    /// Build fast, without optimization.
    #[arg(long)]
    dev: bool,
    #[command(flatten)]
    features: Features,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Install(place) => install::run(&place.prefix, place.dev, &place.features),
        Task::Dist { to, dev, glibc } => dist::run(to.as_deref(), dev, glibc.as_deref()).map(drop),
        Task::Release { to } => dist::release::run(to.as_deref()),
        Task::Demo(place) => demo::run(&place.prefix, place.dev, &place.features),
        Task::Test(options) => test::run(&options),
        Task::Loom => loom::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Instructions(options) if options.functions => functions::print(&options),
        Task::Instructions(options) => instructions::run(&options),
        Task::CompareWith(options) => compare_with::run(&options),
        Task::Oldest => oldest::run().map(say_left_out),
        Task::Deny => deny::run().map(say_left_out),
        Task::Fresh(options) => fresh::run(&options),
        Task::Conda(options) => conda::run(&options),
        Task::Image(options) => image::run(&options),
        Task::Races { seconds } => races::run(seconds).map(say_left_out),
        Task::Emulate(options) => emulate::run(&options).map(say_left_out),
        Task::Headers { check } => headers::run(check),
        Task::Docs => docs::run(),
        Task::Coverage(features) => headers::coverage(&features),
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

/// Prints the part of a task that this machine can't do, if any.
fn say_left_out(lacking: Option<result::Lacking>) {
    if let Some(lacking) = lacking {
        eprintln!("xtask: *** LEFT OUT: {}", lacking.why);
    }
}
