//! `mpiexec -top`: what it draws on a terminal that the test plays, and what it prints without one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use weft_needs::{MOUNTS, NAMESPACES, SSHD};

use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::sshd::Cluster;
use crate::{Result, lacks, patience, prefix, timed};

/// The tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| timed(name.to_owned(), false, test);
    let hosts = "top/hosts/4";
    let left_out = lacks::any(hosts, &[&MOUNTS, &NAMESPACES, &SSHD]);
    vec![
        trial("top/hang/3", || hang("mpicc")),
        trial("top/hang-standard/3", || hang("mpicc_abi")),
        trial("top/ends/2", ends),
        trial("top/leave/2", leave),
        trial("top/plain/2", plain),
        trial("top/refused/1", refused),
        timed(hosts.to_owned(), false, several_hosts).with_ignored_flag(left_out),
    ]
}

/// The program; each test has its own.
fn build(compiler: &str, name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("watched-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/watched.c");
    let mut build = Command::new(prefix.join("bin").join(compiler));
    compile(build.arg("-o").arg(&binary).arg(source))?;
    Ok(binary)
}

/// mpiexec -top of a program.
fn mpiexec(room: &Room, ranks: u32, program: &Path, words: &[&str]) -> Result<Command> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-top", "-timeout", "120", "-n", &ranks.to_string()]);
    command.arg(program).args(words);
    Ok(command)
}

/// A terminal that shows what a program draws.
struct Terminal {
    own: File,
    shown: Arc<Mutex<vt100::Parser>>,
    child: Child,
}

impl Terminal {
    fn start(mut command: Command, rows: u16, columns: u16) -> Result<Terminal> {
        let (mut own, mut theirs) = (-1, -1);
        let mut size = size(rows, columns);
        let nothing = std::ptr::null_mut();
        // SAFETY: all places can be written to or are null.
        let code = unsafe {
            libc::openpty(
                &raw mut own,
                &raw mut theirs,
                nothing,
                std::ptr::null_mut(),
                &raw mut size,
            )
        };
        if code != 0 {
            let error = std::io::Error::last_os_error();
            return Err(format!("no pseudo terminal: {error}"));
        }
        // SAFETY: both were opened just now, and are nobody else's.
        let (own, theirs) = unsafe { (OwnedFd::from_raw_fd(own), OwnedFd::from_raw_fd(theirs)) };
        let copy = || theirs.try_clone().map_err(|error| error.to_string());
        command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
        command.env("TERM", "xterm-256color");
        let control = || {
            // SAFETY: plain system calls, fit to run between fork and exec.
            let code = unsafe {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0)
            };
            match code {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure is fit to run between fork and exec.
        unsafe { command.pre_exec(control) };
        let child = command
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        drop(command);
        drop(theirs);
        let own = File::from(own);
        let mut from = own.try_clone().map_err(|error| error.to_string())?;
        let shown = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 1000)));
        let parser = shown.clone();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut piece) {
                let mut parser = parser.lock().unwrap_or_else(PoisonError::into_inner);
                parser.process(&piece[..len]);
            }
        });
        Ok(Terminal { own, shown, child })
    }

    fn text(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen().contents()
    }

    /// Whether the program has the terminal for a picture.
    fn is_drawn_on(&self) -> bool {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen().alternate_screen()
    }

    /// Waits until all of this is shown.
    fn wait(&self, what: &[&str]) -> Result {
        let until = Instant::now() + patience(30.0);
        loop {
            let text = self.text();
            let lacks: Vec<_> = what.iter().filter(|part| !text.contains(**part)).collect();
            if lacks.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(format!("{lacks:?} not in\n{text}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&mut self, keys: &[u8]) -> Result {
        let pressed = self.own.write_all(keys).and_then(|()| self.own.flush());
        pressed.map_err(|error| error.to_string())
    }

    fn resize(&self, rows: u16, columns: u16) -> Result {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen_mut().set_size(rows, columns);
        let size = size(rows, columns);
        // SAFETY: the place can be read.
        let code = unsafe { libc::ioctl(self.own.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        match code {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }

    /// The exit code, when the job has ended. The terminal is then no longer drawn on.
    fn end(&mut self, room: &Room, expected: i32) -> Result {
        let until = Instant::now() + patience(30.0);
        let status = loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                break status;
            }
            if Instant::now() >= until {
                return Err(format!("it does not end; shown is\n{}", self.text()));
            }
            thread::sleep(Duration::from_millis(20));
        };
        // What was written last is read soon.
        thread::sleep(Duration::from_millis(200));
        let text = self.text();
        if status.code() != Some(expected) {
            return Err(format!("it ended with {status}, not {expected}\n{text}"));
        }
        if self.is_drawn_on() {
            return Err(format!("the terminal is left as it was drawn on\n{text}"));
        }
        let left = room.leftovers();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("left behind: {left:?}")),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// A job that hangs is shown, at any size of the terminal, and Ctrl-C ends it.
fn hang(compiler: &str) -> Result {
    let program = build(compiler, &format!("hang-{compiler}"))?;
    let room = Room::new()?;
    let mut terminal = Terminal::start(mpiexec(&room, 3, &program, &["hang"])?, 30, 120)?;
    terminal.wait(&[
        "MPI_Recv",
        "from 1",
        "MPI_Wait",
        "MPI_Irecv from 0",
        "MPI_Allreduce",
        "solver",
        "MPI_COMM_WORLD",
        "rank 2 is here",
        "100 %",
    ])?;
    if !terminal.is_drawn_on() {
        return Err(format!("no picture, but\n{}", terminal.text()));
    }
    terminal.wait(&[
        "no call of any rank has returned for",
        "they wait for each other: 0 -> 1 -> 0",
        "rank 2 in MPI_Allreduce on 'solver'",
    ])?;
    terminal.resize(20, 170)?;
    // The title's bar goes from edge to edge.
    let until = Instant::now() + patience(20.0);
    while !terminal
        .text()
        .lines()
        .any(|line| line.starts_with("─") || line.contains(&"─".repeat(150)))
    {
        if Instant::now() >= until {
            return Err(format!(
                "not drawn anew after a resize:\n{}",
                terminal.text()
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
    terminal.wait(&["MPI_Recv", "they wait for each other"])?;
    terminal.press(b"s")?;
    terminal.wait(&["sort by rank"])?;
    terminal.press(b"\x03")?;
    terminal.end(&room, 130)?;
    terminal.wait(&["rank 0 is here", "rank 1 is here", "rank 2 is here"])
}

/// A job that ends while it is shown: its exit code is ours, and what it printed is there.
fn ends() -> Result {
    let program = build("mpicc", "ends")?;
    let room = Room::new()?;
    let mut terminal = Terminal::start(mpiexec(&room, 2, &program, &["ends"])?, 24, 100)?;
    terminal.wait(&["2 ranks", "MPI_Bcast", "root 0", "computes"])?;
    terminal.end(&room, 5)?;
    terminal.wait(&["rank 0 is here", "rank 1 has done its work"])
}

/// The key q ends the view and not the job.
fn leave() -> Result {
    let program = build("mpicc", "leave")?;
    let room = Room::new()?;
    let file = programs(prefix::get()?)?.join(format!("leave-{}", std::process::id()));
    let path = file.display().to_string();
    let command = mpiexec(&room, 2, &program, &["file", &path])?;
    let mut terminal = Terminal::start(command, 24, 100)?;
    terminal.wait(&["2 ranks", "MPI_Bcast"])?;
    terminal.press(b"q")?;
    let until = Instant::now() + patience(10.0);
    while terminal.is_drawn_on() {
        if Instant::now() >= until {
            return Err(format!("still drawn on:\n{}", terminal.text()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    terminal.wait(&["rank 1 is here"])?;
    if let Ok(Some(status)) = terminal.child.try_wait() {
        return Err(format!("the job ended with {status}"));
    }
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let ended = terminal.end(&room, 5);
    let _ = fs::remove_file(&file);
    ended?;
    terminal.wait(&["rank 0 has done its work"])
}

/// Without a terminal lines come, and the output is the program's alone.
fn plain() -> Result {
    let program = build("mpicc", "plain")?;
    let room = Room::new()?;
    let mut command = mpiexec(&room, 2, &program, &["ends"])?;
    let outcome = Outcome::of(&mut command, patience(60.0))?;
    let case = Case {
        exit: 5,
        stdout: vec!["rank 1 has done its work".to_owned()],
        stderr: vec![
            "mpiexec: option -top: standard output is no terminal, so that a line comes every 5 seconds".to_owned(),
            "mpiexec: top: rank".to_owned(),
        ],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

/// Mistakes on the command line are told as ever, and nothing is drawn.
fn refused() -> Result {
    let room = Room::new()?;
    for (words, message) in [
        (&["-top", "-n", "0", "true"][..], "option -n is 0"),
        (
            &["-top", "-check", "true"],
            "-check can't be used together with -top",
        ),
        (
            &["-top", "-gdb", "true"],
            "-gdb can't be used together with -top",
        ),
    ] {
        let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
        clear(&mut command);
        let outcome = Outcome::of(command.args(words), patience(20.0))?;
        let case = Case {
            exit: 2,
            stderr: vec![message.to_owned()],
            ..Case::default()
        };
        outcome.judge(&case, &room.leftovers())?;
    }
    Ok(())
}

/// Ranks of other hosts are seen, too.
fn several_hosts() -> Result {
    let program = build("mpicc", "hosts")?;
    let cluster = Cluster::start(2)?;
    let mut command = cluster.mpiexec()?;
    let program = program.display().to_string();
    let file = cluster.dir().join("go");
    let path = file.display().to_string();
    command.args(["-top", "-timeout", "60", "-hosts", &cluster.names()]);
    command.args(["-ppn", "2", "-n", "4", &program, "file", &path]);
    let mut terminal = Terminal::start(command, 30, 140)?;
    terminal.wait(&[
        "4 ranks",
        "host",
        cluster.name(0),
        cluster.name(1),
        "MPI_Bcast",
    ])?;
    let seen = |rank: u32| {
        let text = terminal.text();
        text.lines()
            .any(|line| line.starts_with(&format!("{rank} ")))
    };
    let until = Instant::now() + patience(10.0);
    while !(0..4).all(seen) {
        if Instant::now() >= until {
            return Err(format!("a rank is missing in\n{}", terminal.text()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let room = Room::new()?;
    terminal.end(&room, 5)?;
    cluster.gone(5.0).map(drop)
}
