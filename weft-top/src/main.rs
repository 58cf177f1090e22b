//! `mpiexec -top`: a live view of what the ranks of a job do and wait for.
//!
//! It starts mpiexec for the job itself, with the library that measures calls (`libweft_profile.so`) before MPI's. That
//! keeps what its rank is doing in a file, one for each rank, which is mapped and read here twice a second. What the job
//! prints goes through here, too; its end is shown below the table, and all of it that still fits is printed when the
//! terminal is as it was.

mod board;
mod output;
mod screen;
mod signals;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use board::Board;
use output::Output;
use screen::Screen;

/// Between two pictures.
const STEP: Duration = Duration::from_millis(500);
/// Between two looks whether the job has ended.
const LOOK: Duration = Duration::from_millis(50);
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if !io::stdout().is_terminal() {
        eprintln!(
            "mpiexec: option -top draws on a terminal, and standard output is none; leave it out, or use -stats, \
             which prints a table at the end"
        );
        return ExitCode::from(USAGE);
    }
    match run(&words) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("mpiexec: option -top: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A folder for the ranks' files, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let name = format!("weft-top-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(words: &[std::ffi::OsString]) -> Result<u8, String> {
    let (program, rest) = words.split_first().ok_or("mpiexec starts this program")?;
    let folder = Folder::new().map_err(|error| format!("no place for what ranks tell: {error}"))?;
    signals::take();
    let mut command = Command::new(program);
    command.args(rest).env("WEFT_TOP", &folder.0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    {
        use std::os::unix::process::CommandExt as _;
        let die_too = || {
            // SAFETY: a plain call, of those that are allowed here.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            Ok(())
        };
        // SAFETY: what is called there only makes a system call.
        unsafe { command.pre_exec(die_too) };
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let output = Output::of(&mut child);
    let status = watch(&mut child, &folder, &output);
    // The terminal is as it was from here on.
    output.print();
    status
}

/// Draws until the job has ended.
fn watch(child: &mut Child, folder: &Folder, output: &Output) -> Result<u8, String> {
    let failed = |error: io::Error| format!("the terminal: {error}");
    let mut screen = Screen::new().map_err(failed)?;
    let mut board = Board::default();
    let mut next = Instant::now();
    loop {
        if let Some(signal) = signals::wanted().or_else(|| screen.typed()) {
            // SAFETY: a plain call; the child has not been waited for.
            unsafe { libc::kill(child.id().cast_signed(), signal) };
        }
        let ended = child.try_wait().map_err(failed)?;
        if ended.is_some() || Instant::now() >= next {
            board.look(&folder.0);
            screen.draw(&board, output).map_err(failed)?;
            next = Instant::now() + STEP;
        }
        if let Some(status) = ended {
            use std::os::unix::process::ExitStatusExt as _;
            let killed = status.signal().map(|signal| 128 + signal);
            let code = status.code().or(killed).unwrap_or(1);
            return Ok(u8::try_from(code).unwrap_or(1));
        }
        std::thread::sleep(LOOK);
    }
}
