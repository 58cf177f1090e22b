//! `mpiexec -top`: a live view of what the ranks of a job do and wait for.
//!
//! `mpiexec -top` replaces itself by this program, which starts mpiexec again for the job with the
//! preloaded library `libweft_profile.so`. That library sends its rank's state twice a second in
//! datagrams to the addresses in `WEFT_TOP`.
//!
//! The view captures the job's output to the terminal: it shows the last lines below the table, and
//! prints everything when it is closed.

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
use rustix::process::{self, Pid, Signal};
use screen::{Screen, Wish};
use socket::Socket;

/// Time between two redraws.
const STEP: Duration = Duration::from_millis(500);
/// Time between two checks whether the job has ended.
const LOOK: Duration = Duration::from_millis(50);
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.len() < 2 {
        eprintln!(
            "weft-top: a command line is missing; start this program by mpiexec -top -n N program"
        );
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

/// Returns why the view can't be drawn, if so.
fn no_terminal() -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        return Some("standard output is not a terminal");
    }
    let kind = std::env::var_os("TERM").unwrap_or_default();
    (kind.is_empty() || kind == "dumb").then_some("TERM is empty or 'dumb'")
}

fn run(words: &[OsString]) -> Result<ExitStatus, String> {
    let failed =
        |error: io::Error| format!("the socket for the ranks' reports can't be opened: {error}");
    let socket = Socket::new().map_err(failed)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("WEFT_TOP", socket.setting().map_err(failed)?);
    let plain = no_terminal();
    if plain.is_none() {
        command.stdout(Stdio::piped());
        if io::stderr().is_terminal() {
            command.stderr(Stdio::piped());
        }
        // The view reads the keys.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        // After the view is left, only this process gets the terminal's signals, and passes them
        // on.
        command.process_group(0);
    }
    let parent = Some(process::getpid());
    let ends_with_us = move || {
        let _ = process::set_parent_process_death_signal(Some(Signal::TERM));
        if process::getppid() != parent {
            // SAFETY: takes a value only.
            unsafe { libc::_exit(1) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe system calls, and does not allocate.
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
        // The view has restored the terminal.
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
    // The child is not reaped yet, so the number is its own.
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = process::kill_process(Pid::from_child(child), signal);
    }
}

/// Passes pending signals on, and returns the job's exit status if it has ended.
fn look(child: &mut Child) -> Result<Option<ExitStatus>, String> {
    if let Some(signal) = signals::wanted() {
        send(child, signal);
    }
    child
        .try_wait()
        .map_err(|error| format!("the job: {error}"))
}

/// Prints lines until the job ends.
fn follow(child: &mut Child, socket: &Socket, mut plain: Plain) -> Result<ExitStatus, String> {
    let mut board = Board::default();
    loop {
        if let Some(status) = look(child)? {
            return Ok(status);
        }
        socket.take(|message| board.hear(message, Instant::now()));
        plain.print_due(&board);
        std::thread::sleep(LOOK);
    }
}

/// Draws the view until it is left, and returns when the job ends.
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
