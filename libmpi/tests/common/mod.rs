//! Helpers of the tests of the C ABI.

#![allow(dead_code, reason = "every test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use mpi_table::Table;
use tempfile::TempDir;

/// `libmpi/`.
pub fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with Weft's `mpi.h`.
pub fn include() -> PathBuf {
    crate_root().join("../include")
}

/// Returns the folder with the `mpi.h` of another library of the same ABI: `WEFT_TEST_MPICH_INCLUDE`,
/// or MPICH's. Returns `None` if MPICH is not installed and the test is skipped.
pub fn mpich_include() -> Option<PathBuf> {
    let path = match env::var_os("WEFT_TEST_MPICH_INCLUDE") {
        Some(path) => PathBuf::from(path),
        None if !weft_needs::MPICH.met() => return None,
        None => format!("/usr/include/{}-linux-gnu/mpich", env::consts::ARCH).into(),
    };
    assert!(
        path.join("mpi.h").exists(),
        "{} has no mpi.h: install libmpich-dev, or set WEFT_TEST_MPICH_INCLUDE",
        path.display()
    );
    Some(path)
}

/// Returns the library that cargo built for this test, or the one in `WEFT_TEST_LIBRARY`.
pub fn library() -> PathBuf {
    if let Some(path) = env::var_os("WEFT_TEST_LIBRARY") {
        return fs::canonicalize(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
    let test = env::current_exe().expect("a running test has a path");
    let path = test.with_file_name("libmpi.so");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// Returns the table of the library's functions: with the Cargo features of this package, or those of
/// the library in `WEFT_TEST_LIBRARY` if `WEFT_TEST_FEATURES` names them.
pub fn table() -> Table {
    let features = env::var("WEFT_TEST_FEATURES").unwrap_or(env!("WEFT_FEATURES").to_owned());
    Table::with_features(&features).expect("a good table")
}

/// Makes a folder with the library under the names by which programs find it.
pub fn installed() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["libmpi.so", "libmpi.so.12"] {
        std::os::unix::fs::symlink(library(), dir.path().join(name)).expect("a link");
    }
    dir
}

/// Compiles and links; panics with the compiler's messages.
pub fn compile(command: &mut Command) {
    let output = run(command, Duration::from_secs(60));
    assert!(
        output.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns a command of the C compiler with the folder of `mpi.h`.
pub fn cc(include: &Path) -> Command {
    let mut command = Command::new("cc");
    command.arg("-I").arg(include);
    command
}

/// Compiles `source` with Weft's header and library to a program in `dir`.
pub fn program(dir: &Path, source: &Path, program: &str) -> PathBuf {
    let path = dir.join(program);
    compile(
        cc(&include())
            .args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o"])
            .arg(&path)
            .arg(source)
            .arg("-L")
            .arg(dir)
            .arg(format!("-Wl,-rpath,{}", dir.display()))
            .arg("-lmpi"),
    );
    path
}

/// Writes a file in `dir`.
pub fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).expect("a temporary file");
    path
}

/// Returns a program's output; panics if it fails.
pub fn stdout(command: &mut Command) -> String {
    let output = run(command, Duration::from_secs(60));
    assert!(
        output.status.success(),
        "{command:?} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a program to its end, but kills it after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let pid = child.id();
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = read(out.take().map(|stream| Box::new(stream) as _));
    let stderr = read(err.take().map(|stream| Box::new(stream) as _));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} (pid {pid}) ran longer than {limit:?}");
        }
        thread::sleep(Duration::from_millis(2));
    };
    Output {
        status,
        stdout: stdout.join().expect("a reader"),
        stderr: stderr.join().expect("a reader"),
    }
}
