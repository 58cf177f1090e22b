//! `mpiexec -top` on a terminal: what it draws, and that the terminal is as it was afterwards, however the job ends.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::job::clear;
use crate::program::{compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// The tests.
pub fn trials() -> Vec<Trial> {
    type Test = fn() -> Result;
    let tests: [(&str, Test); 4] = [
        ("picture", picture),
        ("crash", crash),
        ("killed", killed),
        ("pipe", pipe),
    ];
    let trial = |(name, test): (&str, Test)| timed(format!("top/{name}/3"), false, test);
    tests.into_iter().map(trial).collect()
}

const LINES: usize = 24;
const COLUMNS: usize = 110;

/// A terminal, as far as pictures go: characters, and where the next one goes.
struct Picture {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// Whether another page than the first is shown, and whether the cursor is hidden.
    other_page: bool,
    hidden: bool,
    rest: Vec<u8>,
}

impl Picture {
    fn new() -> Picture {
        Picture {
            cells: vec![vec![' '; COLUMNS]; LINES],
            at: (0, 0),
            other_page: false,
            hidden: false,
            rest: Vec::new(),
        }
    }

    /// Takes in what was written, as far as it is whole.
    fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        let mut at = 0;
        while at < bytes.len() {
            let used = self.step(&bytes[at..]);
            if used == 0 {
                self.rest = bytes[at..].to_vec();
                return;
            }
            at += used;
        }
    }

    fn step(&mut self, bytes: &[u8]) -> usize {
        match bytes {
            [0x1b, b'[', rest @ ..] => {
                let Some(end) = rest.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
                    return 0;
                };
                self.sequence(&String::from_utf8_lossy(&rest[..end]), rest[end]);
                end + 3
            }
            [0x1b] => 0,
            [0x1b, _, ..] => 2,
            [b'\r', ..] => {
                self.at.1 = 0;
                1
            }
            [b'\n', ..] => {
                self.at.0 = (self.at.0 + 1).min(LINES - 1);
                1
            }
            [first, ..] => {
                let length = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                if bytes.len() < length {
                    return 0;
                }
                let text = String::from_utf8_lossy(&bytes[..length]);
                let (line, column) = self.at;
                if let (Some(place), Some(one)) = (
                    self.cells
                        .get_mut(line)
                        .and_then(|line| line.get_mut(column)),
                    text.chars().next(),
                ) {
                    *place = one;
                }
                self.at.1 += 1;
                length
            }
            [] => 0,
        }
    }

    fn sequence(&mut self, numbers: &str, what: u8) {
        match (what, numbers) {
            (b'H', _) => {
                let mut parts = numbers.split(';').map(|one| one.parse().unwrap_or(1_usize));
                let (line, column) = (parts.next().unwrap_or(1), parts.next().unwrap_or(1));
                self.at = (line.max(1) - 1, column.max(1) - 1);
            }
            (b'J', _) => self.cells = vec![vec![' '; COLUMNS]; LINES],
            (b'h', "?1049") => self.other_page = true,
            (b'l', "?1049") => self.other_page = false,
            (b'l', "?25") => self.hidden = true,
            (b'h', "?25") => self.hidden = false,
            _ => {}
        }
    }

    fn text(&self) -> String {
        let lines = self
            .cells
            .iter()
            .map(|line| line.iter().collect::<String>());
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }
}

/// `mpiexec -top` on a terminal of its own.
struct Session {
    child: Child,
    master: File,
    /// The program's side, which shows how it is set.
    slave: OwnedFd,
    before: libc::termios,
    picture: Picture,
    /// All that was written after the last page was left.
    after: Vec<u8>,
    room: Room,
}

fn program() -> Result<(&'static Path, PathBuf)> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join("top");
    // Each test makes it anew, under a name of its own first: others may be using it.
    let aside = binary.with_extension(format!("{:?}", std::thread::current().id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/top.c");
    compile(
        Command::new(prefix.join("bin/mpicc"))
            .arg("-o")
            .arg(&aside)
            .arg(source),
    )?;
    std::fs::rename(&aside, &binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok((prefix, binary))
}

fn settings(terminal: &OwnedFd) -> Result<libc::termios> {
    // SAFETY: zeroes are a good value, which the call fills in.
    unsafe {
        let mut found: libc::termios = std::mem::zeroed();
        match libc::tcgetattr(terminal.as_raw_fd(), &raw mut found) {
            0 => Ok(found),
            _ => Err("the terminal can't be asked".to_owned()),
        }
    }
}

impl Session {
    fn start(arguments: &[&str]) -> Result<Session> {
        let (prefix, binary) = program()?;
        let room = Room::new()?;
        let size = libc::winsize {
            ws_row: LINES as u16,
            ws_col: COLUMNS as u16,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: the places can be written to, and the size is one.
        let opened = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                null_mut(),
                null_mut(),
                &raw const size,
            )
        };
        if opened != 0 {
            return Err("no pseudo terminal can be had".to_owned());
        }
        // SAFETY: both were opened above, for us.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let before = settings(&slave)?;
        let mut command = room.command(&prefix.join("bin/mpiexec"));
        clear(&mut command);
        let limit = patience(60.0).as_secs().to_string();
        command.args(["-timeout", &limit, "-top", "-n", "3"]);
        command
            .arg(&binary)
            .args(arguments)
            .env("TERM", "xterm-256color");
        let copy = || slave.try_clone().map_err(|error| error.to_string());
        command
            .stdin(Stdio::from(copy()?))
            .stdout(Stdio::from(copy()?))
            .stderr(Stdio::from(copy()?));
        let own_terminal = || {
            // SAFETY: plain calls, of those that are allowed here.
            unsafe {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        };
        // SAFETY: what is called there only makes system calls.
        unsafe { command.pre_exec(own_terminal) };
        let child = command
            .spawn()
            .map_err(|error| format!("mpiexec: {error}"))?;
        // SAFETY: a plain call.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Ok(Session {
            child,
            master,
            slave,
            before,
            picture: Picture::new(),
            after: Vec::new(),
            room,
        })
    }

    /// Takes in what was drawn.
    fn look(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = self.master.read(&mut bytes) {
            self.picture.write(&bytes[..len]);
            self.after.extend_from_slice(&bytes[..len]);
        }
    }

    /// Waits for a picture.
    fn until(&mut self, what: &str, seen: impl Fn(&str) -> bool) -> Result {
        let end = Instant::now() + patience(30.0);
        while Instant::now() < end {
            self.look();
            if seen(&self.picture.text()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{what} is not seen:\n{}", self.picture.text()))
    }

    /// Waits for the end, after which the terminal must be as it was. Gives what came after the last picture.
    fn end(mut self) -> Result<(ExitStatus, String)> {
        let end = Instant::now() + patience(30.0);
        let status = loop {
            self.look();
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if Instant::now() > end => {
                    let _ = self.child.kill();
                    return Err(format!("it does not end:\n{}", self.picture.text()));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        self.look();
        let now = settings(&self.slave)?;
        let modes = |one: &libc::termios| (one.c_iflag, one.c_oflag, one.c_lflag, one.c_cflag);
        if modes(&now) != modes(&self.before) || self.picture.other_page || self.picture.hidden {
            return Err("the terminal is not as it was".to_owned());
        }
        let leftovers = self.room.leftovers();
        if !leftovers.is_empty() {
            return Err(format!("left over: {leftovers:?}"));
        }
        let text = String::from_utf8_lossy(&self.after);
        let after = text.rsplit("\x1b[?1049l").next().unwrap_or_default();
        Ok((status, after.to_owned()))
    }
}

/// A line of the table has these words in this order.
fn has(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| {
        let found: Vec<&str> = line.trim_start_matches('│').split_whitespace().collect();
        let mut rest = found.iter();
        words.iter().all(|word| rest.any(|one| one == word))
    })
}

fn picture() -> Result {
    let mut session = Session::start(&[])?;
    session.until("rank 0 in its receive", |text| {
        has(
            text,
            &[
                "0", "MPI_Recv", "s", "2", "7", "halo", "100", "%", "1000", "B",
            ],
        )
    })?;
    session.until("rank 1 in its barrier", |text| {
        has(
            text,
            &["1", "MPI_Barrier", "s", "MPI_COMM_WORLD", "100", "%"],
        )
    })?;
    session.until("rank 2 at work", |text| {
        has(text, &["2", "computes", "0", "%"])
    })?;
    session.until("what was printed", |text| {
        text.contains("\nprinted by rank 2\n")
    })?;
    let text = session.picture.text();
    if !text.contains("3 ranks (q ends the job)")
        || !has(&text, &["rank", "function", "communicator"])
    {
        return Err(format!("the head is not seen:\n{text}"));
    }
    println!("{text}");
    session
        .master
        .write_all(b"q")
        .map_err(|error| error.to_string())?;
    let (status, after) = session.end()?;
    match status.code() {
        Some(143) if after.contains("printed by rank 2") => Ok(()),
        code => Err(format!("ended with {code:?}, and after it:\n{after}")),
    }
}

/// A rank that crashes ends the job, and the message is there.
fn crash() -> Result {
    let session = Session::start(&["crash"])?;
    let (status, after) = session.end()?;
    match status.code() {
        Some(134) if after.contains("rank 2") && after.contains("SIGABRT") => Ok(()),
        code => Err(format!("ended with {code:?}, and after it:\n{after}")),
    }
}

/// A signal to the whole ends the job, too.
fn killed() -> Result {
    let mut session = Session::start(&[])?;
    session.until("rank 2 at work", |text| has(text, &["2", "computes"]))?;
    let pid = session.child.id().cast_signed();
    // SAFETY: a plain call, for a process of ours that was not waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let (status, after) = session.end()?;
    match (status.code(), status.signal()) {
        (Some(143), None) => Ok(()),
        code => Err(format!("ended with {code:?}, and after it:\n{after}")),
    }
}

/// Without a terminal it says so and starts nothing.
fn pipe() -> Result {
    let (prefix, binary) = program()?;
    let mut command = Command::new(prefix.join("bin/mpiexec"));
    clear(&mut command);
    let output = command.args(["-top", "-n", "3"]).arg(binary).output();
    let output = output.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(2) if errors.contains("option -top draws on a terminal") => Ok(()),
        code => Err(format!("ended with {code:?}:\n{errors}")),
    }
}
