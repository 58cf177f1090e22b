//! Running the launcher under test, always with a time limit.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nothing that is tested takes longer, however slow the machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A launcher at work.
pub struct Running {
    pub child: Child,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
    began: Instant,
}

/// What a launcher left behind.
pub struct Outcome {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

pub fn mpiexec() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("PMI") || name.starts_with("MPI") || name.starts_with("WEFT_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs `mpiexec ARGS…` to its end.
pub fn run(args: &[&str]) -> Outcome {
    start(mpiexec().args(args)).finish()
}

/// Runs `mpiexec ARGS… sh -c SCRIPT` to its end.
pub fn shell(args: &[&str], script: &str) -> Outcome {
    start(mpiexec().args(args).args(["sh", "-c", script])).finish()
}

pub fn start(command: &mut Command) -> Running {
    start_with_input(command, None)
}

#[allow(unsafe_code, reason = "what std has no function for")]
pub fn start_with_input(command: &mut Command, input: Option<Vec<u8>>) -> Running {
    // The tests may be a background job of a script, which ignores this one.
    let heed_quit = || {
        // SAFETY: takes values only, and installs no handler.
        unsafe { libc::signal(libc::SIGQUIT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure is fit to run between fork and exec: a system call and nothing else.
    unsafe { command.pre_exec(heed_quit) };
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // Whoever doesn't read it all may leave.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let out = Some(collect(child.stdout.take().unwrap()));
    let err = Some(collect(child.stderr.take().unwrap()));
    Running {
        child,
        out,
        err,
        began,
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

impl Running {
    /// Waits for the end.
    pub fn finish(mut self) -> Outcome {
        let until = self.began + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() >= until {
                // Its death takes the job along.
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                break None;
            }
            thread::sleep(Duration::from_millis(1));
        };
        let took = self.began.elapsed();
        let text = |stream: &mut Option<JoinHandle<Vec<u8>>>| {
            let bytes = stream.take().unwrap().join().unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        let Some(status) = status else {
            panic!("took longer than {LIMIT:?}; stdout:\n{out}\nstderr:\n{err}")
        };
        Outcome {
            status,
            out,
            err,
            took,
        }
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Sends SIGTERM without starting a program for it.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed assertion; a launcher that has ended doesn't mind.
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Outcome {
    /// The exit code, -1 if there is none.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    #[track_caller]
    pub fn expect(&self, code: i32) -> &Outcome {
        assert_eq!(
            self.code(),
            code,
            "stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    pub fn says(&self, part: &str) -> &Outcome {
        assert!(self.err.contains(part), "no '{part}' in:\n{}", self.err);
        self
    }

    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// Sends a signal to a process that this test started.
pub fn signal(pid: u32, name: &str) {
    // The shell's own `kill`: not every system has the program.
    let script = format!("kill -s {name} {pid}");
    let status = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(status.success(), "kill -s {name} {pid}");
}

/// Waits until `ready` says so.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut ready: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !ready() {
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter of a process, `None` if there is no such process.
pub fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Whether a process is there and more than a corpse that its parent has yet to bury.
pub fn alive(pid: &str) -> bool {
    assert!(pid.parse::<u32>().is_ok(), "'{pid}' is no process number");
    !matches!(state(pid), None | Some('Z' | 'X'))
}

#[track_caller]
pub fn all_gone(pids: &str, count: usize) {
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert_eq!(pids.len(), count, "{pids:?}");
    for pid in pids {
        assert!(!alive(pid), "process {pid} is still there");
    }
}

/// The words that ranks have appended to a file, once there are `count`.
#[track_caller]
pub fn words(file: &Path, count: usize) -> String {
    let mut text = String::new();
    wait_until("ranks have written", LIMIT, || {
        text = std::fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().count() >= count
    });
    text
}
