//! Runs programs of `tests/c` and `tests/f` on ranks of another processor, which QEMU emulates, or with
//! musl as their C library.
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

/// A processor with Debian's cross compilers and QEMU, or x86-64 with Debian's `musl-tools`.
#[derive(Clone, Copy, PartialEq, ValueEnum, Debug)]
pub enum Platform {
    Aarch64,
    Riscv64,
    Ppc64le,
    Musl,
}

/// Options of `cargo xtask emulate`.
#[derive(Args)]
pub struct Options {
    /// The processor, or the C library.
    #[arg(long, value_enum, default_value = "aarch64")]
    arch: Platform,
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

/// Programs of the sample that reduce `long double`, which are two doubles on ppc64le: Weft refuses these.
const REDUCES_LONG_DOUBLE: &[&str] = &["coll_pairs", "long_double"];

/// The factor of programs' time limits: emulated ranks are some ten times slower.
const PATIENCE: (&str, &str) = ("WEFT_TEST_PATIENCE", "12");

/// Packages whose unit tests run without ranks, and hold what depends on the platform.
const UNITS: &[&str] = &["mpi-types", "mpi-core", "shmring", "netmod-kit", "shmmod"];

impl Platform {
    /// Rust's name of the target.
    fn target(self) -> &'static str {
        match self {
            Platform::Aarch64 => "aarch64-unknown-linux-gnu",
            Platform::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Platform::Ppc64le => "powerpc64le-unknown-linux-gnu",
            Platform::Musl => "x86_64-unknown-linux-musl",
        }
    }

    /// GNU's name of the target, and of the folder in `/usr` with its libraries.
    fn gnu(self) -> &'static str {
        match self {
            Platform::Aarch64 => "aarch64-linux-gnu",
            Platform::Riscv64 => "riscv64-linux-gnu",
            Platform::Ppc64le => "powerpc64le-linux-gnu",
            Platform::Musl => "x86_64-linux-musl",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Platform::Aarch64 => "aarch64",
            Platform::Riscv64 => "riscv64",
            Platform::Ppc64le => "ppc64le",
            Platform::Musl => "musl",
        }
    }

    fn tool(self, name: &str) -> String {
        match self {
            Platform::Musl => format!("musl-{name}"),
            _ => format!("{}-{name}", self.gnu()),
        }
    }

    /// Returns QEMU's command before that of a program; empty if this machine's processor runs it.
    fn emulator(self) -> String {
        match self {
            Platform::Musl => String::new(),
            _ => format!("qemu-{}-static -L /usr/{}", self.name(), self.gnu()),
        }
    }

    /// Returns a folder with the unwinder of Rust's musl target under the name that shared libraries
    /// link: the one of Debian's gcc needs glibc.
    fn unwinder(self) -> Result<PathBuf> {
        let libraries = Path::new(&fresh::sysroot()?).join("lib/rustlib");
        let unwinder = libraries
            .join(self.target())
            .join("lib/self-contained/libunwind.a");
        let tree = Tree {
            prefix: install::made(&workspace::target()?.join("emulated/unwinder"))?,
        };
        tree.copy(&unwinder, "libgcc_s.a", 0o644)?;
        Ok(tree.prefix)
    }

    /// Returns a command of cargo that builds for this platform.
    fn cargo(self) -> Result<Command> {
        let mut command = workspace::cargo();
        let target = self.target().to_uppercase().replace('-', "_");
        command
            .env("CC", self.tool("gcc"))
            .env(format!("CARGO_TARGET_{target}_LINKER"), self.tool("gcc"))
            .env("CARGO_PROFILE_DEV_DEBUG", "none");
        if self == Platform::Musl {
            let flags = format!(
                "-Ctarget-feature=-crt-static -Lnative={}",
                self.unwinder()?.display()
            );
            command.env(format!("CARGO_TARGET_{target}_RUSTFLAGS"), flags);
        } else {
            command.env(format!("CARGO_TARGET_{target}_RUNNER"), self.emulator());
        }
        Ok(command)
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

    /// Returns the packages to build: a processor's libraries; musl's library and launcher, since Debian
    /// has no Fortran compiler for musl.
    fn packages(self) -> [&'static str; 2] {
        match self {
            Platform::Musl => ["libmpi", "mpiexec"],
            _ => ["libmpi", "mpifort"],
        }
    }

    /// Builds the libraries and installs them, for a processor with this machine's launcher. Returns
    /// the prefix.
    fn install(self) -> Result<PathBuf> {
        let mut build = self.cargo()?;
        build.args(["build", "--target", self.target()]);
        build.args(self.packages().iter().flat_map(|name| ["--package", name]));
        let what = format!("building for {}", self.name());
        workspace::run(&mut build, &what)?;
        let is_native = self != Platform::Musl;
        if is_native && !install::is_built() {
            let mut build = workspace::cargo();
            build.args(["build", "--package", "mpiexec"]);
            workspace::run(&mut build, "building the launcher")?;
        }
        let target = workspace::target()?;
        let built = target.join(self.target()).join("debug");
        let tree = Tree {
            prefix: install::made(&target.join("emulated").join(self.name()))?,
        };
        let libraries = ["libmpi", "libmpifort"].into_iter();
        for name in libraries.filter(|name| built.join(format!("{name}.so")).exists()) {
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
        let launchers = if is_native {
            target.join("debug")
        } else {
            built
        };
        tree.copy(&launchers.join("mpiexec"), "bin/mpiexec", 0o755)?;
        Ok(tree.prefix)
    }

    /// Has the suite of programs run these on the platform.
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
pub fn lacking(platform: Platform) -> Result<Option<Lacking>> {
    if platform.has_target()? {
        return Ok(None);
    }
    let why = format!(
        "tests on {}: Rust's libraries for {} are not there and rustup can't fetch them",
        platform.name(),
        platform.target()
    );
    Ok(Some(Lacking { need: RUSTUP, why }))
}

/// Returns the exact names of the sample's runs that the platform can make.
fn sample(platform: Platform) -> Vec<String> {
    let sources = workspace::root().join("tests/c");
    let can_run = |run: &&&str| {
        let name = run.split('/').next().unwrap_or_default();
        match platform {
            Platform::Musl => sources.join(format!("{name}.c")).exists(),
            Platform::Ppc64le => !REDUCES_LONG_DOUBLE.contains(&name),
            _ => true,
        }
    };
    let runs = SAMPLE.iter().filter(can_run);
    runs.map(|name| format!("={name}")).collect()
}

/// Runs programs or unit tests.
pub fn run(options: &Options) -> Result<Option<Lacking>> {
    let platform = options.arch;
    if let Some(lacking) = lacking(platform)? {
        return Ok(Some(lacking));
    }
    let what = format!("running tests on {}", platform.name());
    if options.units {
        let mut command = platform.cargo()?;
        command.args([
            "test",
            "--no-fail-fast",
            "--lib",
            "--target",
            platform.target(),
        ]);
        command.args(UNITS.iter().flat_map(|name| ["--package", name]));
        command.arg("--").args(&options.names);
        workspace::run(&mut command, &what)?;
        return Ok(None);
    }
    let names = match options.names.as_slice() {
        [] => sample(platform),
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
    platform.equip(&mut suite, &names)?;
    suite.env(PATIENCE.0, PATIENCE.1);
    workspace::run(&mut suite, &what)?;
    Ok(None)
}
