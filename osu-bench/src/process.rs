//! Running a launcher with a time limit, so that nothing of the job is left afterwards.
//!
//! This process makes itself the reaper of orphans: whatever a launcher starts and abandons
//! becomes a child of this process and is found and ended here. One job runs at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How long a job that was told to stop, or has ended, has for taking its processes down.
const GRACE: Duration = Duration::from_secs(1);

/// The signal that asked this process to stop, or 0.
static STOPPED: AtomicI32 = AtomicI32::new(0);

/// How a command ended.
pub struct Finished {
    /// From the start to the end of the command itself.
    pub took: Duration,
    /// Standard output.
    pub stdout: String,
    /// What went wrong, if anything did.
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

/// Runs a command to its end or to the limit. An error is one of this process: the command could
/// not be started, or a signal asked to stop.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?);
    command.process_group(0);
    // SAFETY: prctl is a bare system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // If this process is killed outright, the launcher at least is told.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
            Ok(())
        });
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| Error::new(format!("could not start {program}: {error}")))?;
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
    let failure = match failure {
        Some(failure) => Some(with_tail(failure, &text(&mut err)?, &stdout)),
        None => None,
    };
    Ok(Finished {
        took,
        stdout,
        failure,
    })
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("exit code {}", status.code().unwrap_or(-1)),
    }
}

/// The most that is kept of what a failed command printed.
const TAIL: usize = 600;

/// The failure, with the end of what the command printed.
fn with_tail(failure: String, stderr: &str, stdout: &str) -> String {
    let said = if stderr.trim().is_empty() {
        stdout
    } else {
        stderr
    };
    let said = said.trim();
    let mut start = said.len().saturating_sub(TAIL);
    while !said.is_char_boundary(start) {
        start += 1;
    }
    if said.is_empty() {
        failure
    } else {
        format!("{failure}: {}", &said[start..])
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits without polling (a poll now and then would disturb what is measured). `None` when the
/// deadline passed or a signal asked to stop.
fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    // SAFETY: pidfd_open takes two integers; the child is not reaped yet, so the pid is its own.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
    if raw < 0 {
        // Before Linux 5.3, or already reaped: look now and then.
        return wait_by_looking(child, deadline);
    }
    // SAFETY: the descriptor was just made and has no other owner.
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
        // SAFETY: one pollfd, alive for the call.
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

/// Ends whatever is left of the job, and says how many processes had to be ended.
fn sweep(child: &mut Child) -> Result<usize> {
    let launcher_ended = child.try_wait()?.is_some();
    let patience = Instant::now()
        + if launcher_ended {
            GRACE
        } else {
            Duration::ZERO
        };
    let mut killed = Vec::new();
    loop {
        reap(child)?;
        let left = descendants();
        if left.is_empty() {
            return Ok(killed.len());
        }
        if Instant::now() >= patience {
            for &pid in &left {
                // SAFETY: a descendant of this process, seen an instant ago; pids are not reused
                // before we reap.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                if !killed.contains(&pid) {
                    killed.push(pid);
                }
            }
        }
        if Instant::now() >= patience + 5 * GRACE {
            return Err(Error::new(format!("processes {left:?} could not be ended")));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Takes the exit codes of orphans that have ended, and of the launcher.
fn reap(child: &mut Child) -> Result<()> {
    if child.try_wait()?.is_some() {
        // SAFETY: no status is asked for. The launcher itself is reaped already, so only
        // orphans that were handed to this process are taken.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
    Ok(())
}

/// The processes below this one that are alive.
fn descendants() -> Vec<libc::pid_t> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.parse::<libc::pid_t>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        match state_and_parent(&stat) {
            None | Some(('Z' | 'X', _)) => {}
            Some((_, parent)) => {
                parents.insert(pid, parent);
            }
        }
    }
    below(std::process::id() as libc::pid_t, &parents)
}

/// Those in `parents` (child to parent) that descend from `root`.
fn below(root: libc::pid_t, parents: &HashMap<libc::pid_t, libc::pid_t>) -> Vec<libc::pid_t> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            parents
                .iter()
                .filter(|(_, p)| **p == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.split_off(1)
}

/// State and parent in a line of `/proc/PID/stat`; the program's name may hold anything.
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
