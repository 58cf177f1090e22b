//! Running a launcher with a time limit, so that nothing of the job is left afterwards.
//!
//! This process makes itself the reaper of orphans: whatever a launcher starts and abandons
//! becomes a child of this process and is found and ended here. One job runs at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Time for a job to end its processes, after SIGTERM or after the launcher's end.
const GRACE: Duration = Duration::from_secs(1);

/// The signal that this process has received, or 0.
static STOPPED: AtomicI32 = AtomicI32::new(0);

/// The outcome of a command.
pub struct Finished {
    /// The time from its start to its end.
    pub took: Duration,
    /// Standard output.
    pub stdout: String,
    /// The failure, if there was one.
    pub failure: Option<String>,
}

/// Prepares this process for [`run`]: it becomes the reaper of its orphaned descendants, and
/// interrupts are noted rather than fatal, so that jobs are ended first.
pub fn prepare() -> Result<()> {
    extern "C" fn note(signal: libc::c_int) {
        STOPPED.store(signal, Ordering::Relaxed);
    }
    // SAFETY: prctl with these arguments reads and writes no memory.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zero is a valid sigaction; the handler only stores to an atomic, and
        // without SA_RESTART it ends the wait in `wait_until`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// Runs a command to its end or to the limit.
///
/// # Errors
/// The command can't be started, or this process has received a signal.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?);
    command.process_group(0);
    // SAFETY: prctl is async-signal-safe, as pre_exec requires.
    unsafe {
        command.pre_exec(|| {
            // If this process is killed, the launcher gets a signal.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
            Ok(())
        });
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| Error::new(format!("{program} can't be started: {error}")))?;
    let ended = wait_until(&mut child, began + limit)?;
    let took = began.elapsed();
    if ended.is_none() {
        // SAFETY: signals only the process group that this function created.
        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGTERM) };
        wait_until(&mut child, Instant::now() + GRACE)?;
    }
    let left = sweep(&mut child)?;
    let stopped = STOPPED.load(Ordering::Relaxed);
    if stopped != 0 {
        return Err(Error::new(format!("stopped by signal {stopped}")));
    }
    let stdout = text(&mut out)?;
    let failure = match ended {
        Some(status) if status.success() && left == 0 => None,
        Some(status) if status.success() => Some(format!("left {left} processes behind")),
        Some(status) => Some(describe(status)),
        None => Some(format!("did not end within {} s", limit.as_secs_f64())),
    };
    let stderr = text(&mut err)?;
    let failure = failure.map(|failure| with_tail(failure, &stderr, &stdout));
    Ok(Finished {
        took,
        stdout,
        failure,
    })
}

/// Runs a command named `what` to its end or to the limit. Returns its output, or an error if it
/// failed.
pub fn successful(command: &mut Command, limit: Duration, what: &str) -> Result<String> {
    let finished = run(command, limit)?;
    match finished.failure {
        None => Ok(finished.stdout),
        Some(failure) => Err(Error::new(format!("{what}: {failure}"))),
    }
}

/// Returns the command of a program, with real-time priority if `chrt`.
pub fn prioritized(program: &Path, chrt: bool) -> Command {
    if !chrt {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["-r", "5"]).arg(program);
    command
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("exit code {}", status.code().unwrap_or(-1)),
    }
}

/// Most bytes that are kept of a failed command's output.
const TAIL: usize = 600;

/// Describes a failure with the end of the command's output.
fn with_tail(failure: String, stderr: &str, stdout: &str) -> String {
    let said = [stderr, stdout].map(str::trim);
    let said = if said[0].is_empty() { said[1] } else { said[0] };
    let mut start = said.len().saturating_sub(TAIL);
    while !said.is_char_boundary(start) {
        start += 1;
    }
    match said.is_empty() {
        true => failure,
        false => format!("{failure}: {}", &said[start..]),
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the end of a command without periodic wake-ups, which would disturb the measurement.
/// Returns `None` after the deadline or a signal.
fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    // SAFETY: pidfd_open takes two integers; the child is not reaped yet, so the pid is its own.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
    if raw < 0 {
        // No pidfd before Linux 5.3, or the child is already reaped: poll.
        return wait_by_looking(child, deadline);
    }
    // SAFETY: pidfd_open has just returned the descriptor, and it has no other owner.
    let pidfd = unsafe { OwnedFd::from_raw_fd(raw as libc::c_int) };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || STOPPED.load(Ordering::Relaxed) != 0 {
            return Ok(None);
        }
        let mut poll = libc::pollfd {
            fd: pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = left.as_millis().clamp(1, 1000) as libc::c_int;
        // SAFETY: the pointer is to one local pollfd, and the count is 1.
        unsafe { libc::poll(&mut poll, 1, milliseconds) };
    }
}

fn wait_by_looking(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || STOPPED.load(Ordering::Relaxed) != 0 {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kills the remaining processes of a job, and returns their number.
fn sweep(child: &mut Child) -> Result<usize> {
    let launcher_ended = child.try_wait()?.is_some();
    let grace = if launcher_ended {
        GRACE
    } else {
        Duration::ZERO
    };
    let patience = Instant::now() + grace;
    let mut killed = Vec::new();
    loop {
        reap(child)?;
        let left = descendants();
        if left.is_empty() {
            return Ok(killed.len());
        }
        if Instant::now() >= patience {
            for &pid in &left {
                // SAFETY: kill gets values only; the process descends from this one, and its number
                // is not reused before this process reaps it.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                if !killed.contains(&pid) {
                    killed.push(pid);
                }
            }
        }
        if Instant::now() >= patience + 5 * GRACE {
            return Err(Error::new(format!(
                "processes {left:?} can't be killed; end them before the next run"
            )));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reaps orphans that have ended.
fn reap(child: &mut Child) -> Result<()> {
    if child.try_wait()?.is_some() {
        // SAFETY: the status pointer is null. The launcher is reaped already, so only orphans of
        // this subreaper are reaped here.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
    Ok(())
}

/// Returns the living descendants of this process.
fn descendants() -> Vec<libc::pid_t> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.parse::<libc::pid_t>().ok());
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let (Some(pid), Some((state, parent))) = (pid, state_and_parent(&stat))
            && !matches!(state, 'Z' | 'X')
        {
            parents.insert(pid, parent);
        }
    }
    below(std::process::id() as libc::pid_t, &parents)
}

/// Returns the keys of `parents` (child to parent) that descend from `root`.
fn below(root: libc::pid_t, parents: &HashMap<libc::pid_t, libc::pid_t>) -> Vec<libc::pid_t> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        let children = parents.iter().filter(|(_, p)| **p == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Parses state and parent in `/proc/PID/stat`; the program's name may contain any characters.
fn state_and_parent(stat: &str) -> Option<(char, libc::pid_t)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_parse() {
        assert_eq!(
            state_and_parent("12 (a) b) (c) S 7 12 12 0"),
            Some(('S', 7))
        );
        assert_eq!(state_and_parent("nonsense"), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 9), (9, 1)]);
        let mut found = below(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert!(below(7, &parents).is_empty());
    }

    #[test]
    fn tails_end_at_characters() {
        let long = "é".repeat(TAIL);
        let said = with_tail("exit code 1".into(), &long, "");
        assert!(said.starts_with("exit code 1: é") && said.len() < TAIL + 20);
        assert_eq!(with_tail("x".into(), " ", "out"), "x: out");
        assert_eq!(with_tail("x".into(), "", ""), "x");
    }
}
