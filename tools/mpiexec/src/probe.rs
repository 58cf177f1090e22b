//! The part of `-info` that shows how MPI would start here.
//!
//! The library may end its process if it can't start. So a child process with this program opens
//! the library, and calls `MPI_Init` and `MPI_Finalize`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::options::PROBE;
use crate::system;

/// Time for the library to try all launchers and transports.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the library that is installed with this program.
fn library() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let path = exe.parent()?.parent()?.join("lib/libmpi.so.12");
    path.exists().then_some(path)
}

/// Returns the library's report of its choices (`WEFT_INFO=all`).
pub fn choices() -> String {
    let Some(library) = library() else {
        return "library:   not found beside mpiexec (../lib/libmpi.so.12)\n".to_owned();
    };
    let head = format!("library:   {}\n", library.display());
    match probe(&library) {
        Ok(text) => head + &text,
        Err(error) => format!("{head}           the probe failed: {error}\n"),
    }
}

fn probe(library: &PathBuf) -> std::io::Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(format!("-{PROBE}"))
        .arg(library)
        .env("WEFT_INFO", "all")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let pipe = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut pipe) = pipe {
            let _ = std::io::Read::read_to_string(&mut pipe, &mut text);
        }
        text
    });
    let until = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    reader.join().map_err(|_| {
        std::io::Error::other(
            "internal error: the thread that reads the probe's output has panicked",
        )
    })
}

/// Starts and finalizes MPI of `library`, which prints its choices to standard error.
pub fn start(library: &OsStr) -> ExitCode {
    match system::start_and_stop_mpi(library) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpiexec: {error}");
            ExitCode::FAILURE
        }
    }
}
