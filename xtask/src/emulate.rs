//! Runs programs of `tests/c` and `tests/f` on ranks of another processor, which QEMU emulates.
//!
//! Libraries and programs are cross-compiled; the launcher is this machine's. QEMU's user emulation
//! runs on this machine's memory order and caches, so it shows no missing fence. It has neither
//! `process_vm_readv` nor `futex_waitv`, and no reading of a signal mask that isn't there.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::features::Features;
use crate::install::{self, Tree};
use crate::result::Lacking;
use crate::test::needs::RUSTUP;
use crate::test::units;
use crate::{Result, fresh, headers, workspace};

/// A processor with Debian's cross compilers and QEMU.
#[derive(Clone, Copy, ValueEnum, Debug)]
pub enum Processor {
    Aarch64,
    Riscv64,
    Ppc64le,
}

/// Options of `cargo xtask emulate`.
#[derive(Args)]
pub struct Options {
    /// The processor.
    #[arg(long, value_enum, default_value = "aarch64")]
    arch: Processor,
    /// Run unit tests (UNITS) instead of programs.
    #[arg(long)]
    units: bool,
    /// Run only the programs' runs with these words in their names, as `cargo xtask test` does.
    names: Vec<String>,
}

/// Runs without names: quick ones, of all parts of the library.
const SAMPLE: &[&str] = &[
    "attr_comm/shm/2",
    "bsend/shm/2",
    "coll_data/shm/2",
    "coll_nonblocking/shm/2",
    "coll_pairs/shm/2",
    "coll_persistent/shm/2",
    "coll_quick/shm/2",
    "coll_reduce/shm/2",
    "coll_slots/shm/2",
    "coll_types/shm/2",
    "coll_types/tcp/2",
    "comm/shm/2",
    "comm_create/shm/2",
    "dyn_connect/shm/2",
    "f08_large/shm/2",
    "gaps_long/shm/2",
    "handle_arrays/shm/2",
    "in_place/shm/2",
    "io_at_once/shm/2",
    "io_datarep_end/shm/2",
    "io_shared/shm/2",
    "isendrecv/shm/2",
    "long_double/shm/2",
    "modes/shm/2",
    "modes/tcp/2",
    "mpi_t_pvars/shm/2",
    "mpix_streams/shm/2",
    "op_threads/shm/2",
    "optional_types/shm/2",
    "ordering/shm/2",
    "pairs/shm/2",
    "partitioned/shm/2",
    "persistent/shm/2",
    "persistent_f08/shm/2",
    "probe/shm/2",
    "rma_quick_locks/shm/2",
    "rma_transfer/shm/2",
    "rma_windows/shm/2",
    "rma_windows/tcp/2",
    "rma_words/shm/2",
    "sections_later/shm/2",
    "sendrecv/shm/2",
    "sendrecv/tcp/2",
    "session_basics/shm/2",
    "synchronous/shm/2",
    "threadcomm/shm/2",
    "threads_own/shm/2",
    "threads_owners/shm/2",
    "threads_wait/shm/2",
    "topo_cart/shm/2",
    "truncate/shm/2",
    "ulfm/shm/2",
    "wide_swap/auto/shm/2",
];

/// The factor of programs' time limits: emulated ranks are some ten times slower.
const PATIENCE: (&str, &str) = ("WEFT_TEST_PATIENCE", "12");

/// Packages whose unit tests run without ranks, and hold what depends on the processor.
const UNITS: &[&str] = &["mpi-types", "mpi-core", "shmring", "netmod-kit", "shmmod"];

impl Processor {
    /// Rust's name of the target.
    fn target(self) -> &'static str {
        match self {
            Processor::Aarch64 => "aarch64-unknown-linux-gnu",
            Processor::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Processor::Ppc64le => "powerpc64le-unknown-linux-gnu",
        }
    }

    /// GNU's name of the target, and of the folder in `/usr` with its libraries.
    fn gnu(self) -> &'static str {
        match self {
            Processor::Aarch64 => "aarch64-linux-gnu",
            Processor::Riscv64 => "riscv64-linux-gnu",
            Processor::Ppc64le => "powerpc64le-linux-gnu",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Processor::Aarch64 => "aarch64",
            Processor::Riscv64 => "riscv64",
            Processor::Ppc64le => "ppc64le",
        }
    }

    fn tool(self, name: &str) -> String {
        format!("{}-{name}", self.gnu())
    }

    /// Returns QEMU's command before that of a program.
    fn emulator(self) -> String {
        format!("qemu-{}-static -L /usr/{}", self.name(), self.gnu())
    }

    /// Returns a command of cargo that builds for this processor.
    fn cargo(self) -> Command {
        let mut command = workspace::cargo();
        let target = self.target().to_uppercase().replace('-', "_");
        command
            .env("CC", self.tool("gcc"))
            .env(format!("CARGO_TARGET_{target}_LINKER"), self.tool("gcc"))
            .env(format!("CARGO_TARGET_{target}_RUNNER"), self.emulator())
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        command
    }

    /// Returns whether Rust's libraries for this processor are installed; has rustup fetch them if needed.
    fn has_target(self) -> Result<bool> {
        let libraries = Path::new(&fresh::sysroot()?).join("lib/rustlib");
        let libraries = libraries.join(self.target()).join("lib");
        if !libraries.exists() {
            let mut rustup = Command::new("rustup");
            let _ = rustup.args(["target", "add", self.target()]).status();
        }
        Ok(libraries.exists())
    }

    /// Builds the libraries and installs them with this machine's launcher. Returns the prefix.
    fn install(self) -> Result<PathBuf> {
        let mut build = self.cargo();
        build.args([
            "build",
            "--lib",
            "--package",
            "libmpi",
            "--package",
            "mpifort",
        ]);
        build.args(["--target", self.target()]);
        let what = format!("building libraries for {}", self.name());
        workspace::run(&mut build, &what)?;
        if !install::is_built() {
            let mut build = workspace::cargo();
            build.args(["build", "--package", "mpiexec"]);
            workspace::run(&mut build, "building the launcher")?;
        }
        let target = workspace::target()?;
        let built = target.join(self.target()).join("debug");
        let tree = Tree {
            prefix: install::made(&target.join("emulated").join(self.name()))?,
        };
        for name in ["libmpi", "libmpifort"] {
            tree.copy(
                &built.join(format!("{name}.so")),
                &format!("lib/{name}.so.12"),
                0o755,
            )?;
            tree.link(&format!("{name}.so.12"), &format!("lib/{name}.so"))?;
        }
        for (name, text) in headers::files(&Features::default().table()?) {
            tree.write(&text, &format!("include/{name}"), 0o644)?;
        }
        tree.write(install::WRAPPER, "bin/mpicc", 0o755)?;
        tree.write(install::FORTRAN_WRAPPER, "bin/mpifort", 0o755)?;
        tree.copy(&target.join("debug/mpiexec"), "bin/mpiexec", 0o755)?;
        Ok(tree.prefix)
    }

    /// Has the suite of programs run these on the processor.
    fn equip(self, suite: &mut Command, names: &[String]) -> Result {
        suite
            .env("WEFT_TEST_PREFIX", self.install()?)
            .env("WEFT_TEST_EMULATOR", self.emulator())
            .env("WEFT_TEST_NAMES", names.join(" "))
            .env("WEFT_CC", self.tool("gcc"))
            .env("WEFT_FC", self.tool("gfortran"));
        Ok(())
    }
}

/// Returns the reason if Rust's libraries for a processor are not there and rustup can't fetch them.
pub fn lacking(processor: Processor) -> Result<Option<Lacking>> {
    if processor.has_target()? {
        return Ok(None);
    }
    let why = format!(
        "tests on an emulated {}: Rust's libraries for {} are not there and rustup can't fetch them",
        processor.name(),
        processor.target()
    );
    Ok(Some(Lacking { need: RUSTUP, why }))
}

/// Returns the exact names of the sample's runs.
fn sample() -> Vec<String> {
    SAMPLE.iter().map(|name| format!("={name}")).collect()
}

/// Runs programs or unit tests.
pub fn run(options: &Options) -> Result<Option<Lacking>> {
    let processor = options.arch;
    if let Some(lacking) = lacking(processor)? {
        return Ok(Some(lacking));
    }
    let what = format!("running tests on an emulated {}", processor.name());
    if options.units {
        let mut command = processor.cargo();
        command.args(["test", "--lib", "--target", processor.target()]);
        command.args(UNITS.iter().flat_map(|name| ["--package", name]));
        command.arg("--").args(&options.names);
        workspace::run(&mut command, &what)?;
        return Ok(None);
    }
    let names = match options.names.as_slice() {
        [] => sample(),
        names => names.to_vec(),
    };
    // A build of one package would unify other features and compile its dependencies again.
    let built = match install::is_built() {
        true => units::built("weft-tests")?,
        false => Vec::new(),
    };
    let is_suite = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("suite-"))
    };
    let mut suite = match built.iter().find(is_suite) {
        Some(path) => Command::new(path),
        None => {
            let mut suite = workspace::cargo();
            suite.args(["test", "--package", "weft-tests"]);
            suite
        }
    };
    suite.env(weft_needs::VARIABLE, weft_needs::ANY);
    processor.equip(&mut suite, &names)?;
    suite.env(PATIENCE.0, PATIENCE.1);
    workspace::run(&mut suite, &what)?;
    Ok(None)
}
