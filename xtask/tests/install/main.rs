//! Tests an installation: by hand, with pkg-config and with CMake, and after moving it.

mod environment;
mod fortran;
mod mpicc;
mod packages;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Seconds that a command may take, multiplied by `WEFT_TEST_PATIENCE`.
const LIMIT: f64 = 300.0;

/// A program that needs no launcher and no `MPI_Init`.
const PROGRAM: &str = "#include <mpi.h>\n\
    #include <stdio.h>\n\
    int main(void) {\n\
        int version, subversion;\n\
        MPI_Get_version(&version, &subversion);\n\
        printf(\"%d.%d\\n\", version, subversion);\n\
        return 0;\n\
    }\n";

/// A temporary folder, removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name} {}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the installation that all tests copy. Its path has no blank, which build systems reject.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let _ = fs::remove_dir_all(&prefix);
        let mut install = Command::new(env!("CARGO_BIN_EXE_xtask"));
        run(install.args(["install", "--dev", "--prefix"]).arg(&prefix));
        prefix
    })
}

/// Returns a command's output. Panics if it fails or takes too long.
fn run(command: &mut Command) -> String {
    let (success, text) = attempt(command);
    assert!(success, "{command:?}:\n{text}");
    text
}

fn attempt(command: &mut Command) -> (bool, String) {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "log-{}-{:?}",
        std::process::id(),
        thread::current().id()
    ));
    let file = fs::File::create(&log).expect("a log");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a log"))
        .stderr(file)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    let factor = std::env::var("WEFT_TEST_PATIENCE").ok();
    let factor = factor.and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let limit = Duration::from_secs_f64(LIMIT * factor);
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} ran longer than {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = fs::read_to_string(&log).expect("a log");
    let _ = fs::remove_file(&log);
    (status.success(), text)
}

fn mpicc() -> PathBuf {
    installed().join("bin/mpicc")
}

#[test]
fn everything_is_in_its_place() {
    let prefix = installed();
    for name in [
        "lib/libmpi.so",
        "lib/libmpi.so.12",
        "lib/libmpich.so",
        "lib/libmpich.so.12",
        "lib/libmpifort.so",
        "lib/libmpifort.so.12",
        "lib/libmpichfort.so.12",
        "lib/libmpicxx.so",
        "lib/libmpicxx.so.12",
        "lib/libmpichcxx.so.12",
        "include/mpi.h",
        "include/mpicxx.h",
        "include/mpif.h",
        "include/mpi.f90",
        "include/mpi_f08.F90",
        "include/sentinels.s",
        "include/abi/mpif.h",
        "include/abi/mpi_f08.F90",
        "include/abi/sentinels.s",
        "lib/libmpifort_abi.so.1",
        "bin/mpifort",
        "bin/mpifort_abi",
        "bin/mpif90",
        "bin/mpif77",
        "bin/mpicc",
        "bin/mpicxx",
        "bin/mpiCC",
        "bin/mpif08",
        "bin/mpichversion",
        "bin/mpivars.sh",
        "lib/pkgconfig/mpi.pc",
        "lib/pkgconfig/mpich.pc",
        "lib/pkgconfig/weft.pc",
        "share/doc/weft/LICENSE-MIT",
    ] {
        assert!(prefix.join(name).exists(), "{name} is missing");
    }
    let target = fs::read_link(prefix.join("lib/libmpich.so.12")).expect("a link");
    assert_eq!(target, Path::new("libmpi.so.12"));
}
