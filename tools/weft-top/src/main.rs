//! `mpiexec -top`: a live view of what the ranks of a job do and wait for.
//!
//! mpiexec replaces itself by this program, which starts mpiexec again for the job, with the library that measures
//! calls (`libweft_profile.so`) before MPI's. That tells twice a second what its rank is doing, by datagrams to an
//! address in `WEFT_TOP`. What the job prints goes through here, too, as far as it would go to the terminal: its last
//! lines are shown below the table, and all of it is printed when the view is closed.

mod board;
mod message;
mod output;
mod plain;
mod screen;
mod signals;
mod socket;
mod text;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use board::Board;
use output::Output;
use plain::Plain;
use screen::{Screen, Wish};
use socket::Socket;

/// Between two pictures.
const STEP: Duration = Duration::from_millis(500);
/// Between two looks whether the job has ended.
const LOOK: Duration = Duration::from_millis(50);
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.len() < 2 {
        eprintln!("weft-top: mpiexec starts this program: call mpiexec -top -n N program");
        return ExitCode::from(USAGE);
    }
    match run(&words) {
        Ok(status) => {
            let killed = status.signal().map(|signal| 128 + signal);
            let code = status.code().or(killed).unwrap_or(1);
            ExitCode::from(u8::try_from(code).unwrap_or(1))
        }
        Err(why) => {
            eprintln!("mpiexec: option -top: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is no picture, if there can be none.
fn no_terminal() -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        return Some("standard output is no terminal");
    }
    let kind = std::env::var_os("TERM").unwrap_or_default();
    (kind.is_empty() || kind == "dumb").then_some("the terminal can't be drawn on (TERM)")
}

fn run(words: &[OsString]) -> Result<ExitStatus, String> {
    let no_place = |error: io::Error| format!("no socket for what ranks tell: {error}");
    let socket = Socket::new().map_err(no_place)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("WEFT_TOP", socket.told().map_err(no_place)?);
    let plain = no_terminal();
    if plain.is_none() {
        command.stdout(Stdio::piped());
        if io::stderr().is_terminal() {
            command.stderr(Stdio::piped());
        }
        // The keys are ours.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        // Keys that make signals, after the view was left, come once: from here.
        command.process_group(0);
    }
    // SAFETY: getpid can't fail.
    let parent = unsafe { libc::getpid() };
    let ends_with_us = move || {
        // SAFETY: plain system calls on values, fit to run between fork and exec.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            if libc::getppid() != parent {
                libc::_exit(1);
            }
        }
        Ok(())
    };
    // SAFETY: the closure is fit to run between fork and exec, as said above.
    unsafe { command.pre_exec(ends_with_us) };
    signals::take();
    let mut child = command
        .spawn()
        .map_err(|error| format!("{}: {error}", words[0].display()))?;
    let output = Output::of(&mut child).map_err(|error| format!("the job's output: {error}"));
    let ended = output.and_then(|output| {
        let status = match plain {
            Some(why) => follow(&mut child, &socket, Plain::new(why)),
            None => watch(&mut child, &socket, &output),
        };
        // The terminal is as it was from here on.
        output.finish();
        status
    });
    if ended.is_err() {
        send(&child, libc::SIGTERM);
        let _ = child.wait();
    }
    ended
}

fn send(child: &Child, signal: i32) {
    // SAFETY: a plain call; the child has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), signal) };
}

/// The end of the job, if it has come; passes signals on.
fn look(child: &mut Child) -> Result<Option<ExitStatus>, String> {
    if let Some(signal) = signals::wanted() {
        send(child, signal);
    }
    child
        .try_wait()
        .map_err(|error| format!("the job: {error}"))
}

/// Prints lines until the job has ended.
fn follow(child: &mut Child, socket: &Socket, mut plain: Plain) -> Result<ExitStatus, String> {
    let mut board = Board::default();
    loop {
        if let Some(status) = look(child)? {
            return Ok(status);
        }
        socket.take(|message| board.hear(message, Instant::now()));
        plain.tell(&board);
        std::thread::sleep(LOOK);
    }
}

/// Draws until the job has ended or the view is left.
fn watch(child: &mut Child, socket: &Socket, output: &Output) -> Result<ExitStatus, String> {
    let failed = |error: io::Error| format!("the terminal: {error}");
    let mut screen = Some(Screen::new(child.id()).map_err(failed)?);
    let mut board = Board::default();
    let mut next = Instant::now();
    loop {
        if let Some(status) = look(child)? {
            return Ok(status);
        }
        let Some(view) = &mut screen else {
            std::thread::sleep(LOOK);
            continue;
        };
        socket.take(|message| board.hear(message, Instant::now()));
        if Instant::now() >= next {
            view.draw(&board, output).map_err(failed)?;
            next = Instant::now() + STEP;
        }
        match view.typed(LOOK) {
            Some(Wish::Signal(signal)) => send(child, signal),
            Some(Wish::Leave) => {
                screen = None;
                output.let_through();
            }
            Some(Wish::Draw) => next = Instant::now(),
            None => {}
        }
    }
}
