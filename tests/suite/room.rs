//! Rooms: isolated environments of jobs, in which leftover files and processes are found.
//!
//! With the privilege to do so, each job has a private `/tmp` and `/dev/shm`: folders of the same file
//! systems, mounted over them in a mount namespace. Its processes have a mark in their environment.
//! Without the privilege a job has only the mark and `TMPDIR`.
//!
//! Jobs see an empty `/proc/kallsyms`: libfabric's verbs provider searches it twice per process for a
//! kernel symbol, which takes more processor time than the rest of most tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use crate::{Result, prefix};

/// The variable with the mark.
const MARK: &str = "WEFT_TEST_RUN";

/// Time for processes to end after their job.
const GRACE: Duration = Duration::from_secs(1);

/// The environment of a job, removed with its content when dropped.
pub struct Room {
    mark: String,
    tmp: PathBuf,
    shm: PathBuf,
}

/// Removes rooms of test runs that were killed.
pub fn clean() {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix("weft-test-")
            .and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Room {
    pub fn new() -> Result<Room> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("weft-test-{}-{count}", process::id());
        let tmp = prefix::target()?.join("test-rooms").join(&mark);
        let shm = Path::new("/dev/shm").join(&mark);
        for dir in [&tmp, &shm] {
            fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        Ok(Room { mark, tmp, shm })
    }

    /// Returns a command that runs `program` in the room and replaces itself by it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = if weft_needs::MOUNTS.lacking().is_none() {
            let over_tmp = !self.tmp.starts_with("/tmp") && !program.starts_with("/tmp");
            let tmp: OsString = if over_tmp {
                "/tmp".into()
            } else {
                self.tmp.clone().into()
            };
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c"]);
            command.arg(
                "mount --bind \"$1\" \"$2\" && mount --bind \"$3\" /dev/shm && shift 3 && \
                 { test ! -e /proc/kallsyms || mount --bind /dev/null /proc/kallsyms; } && exec \"$@\"",
            );
            command
                .arg("sh")
                .arg(&self.tmp)
                .arg(&tmp)
                .arg(&self.shm)
                .arg(program);
            command.env("TMPDIR", tmp);
            command
        } else {
            let mut command = Command::new(program);
            command.env("TMPDIR", &self.tmp);
            command
        };
        // The working folder is in the room, so core files are found, too.
        command.current_dir(&self.tmp);
        command.env(MARK, &self.mark);
        command
    }

    /// Returns the program's working folder, which is also its `/tmp`.
    pub fn folder(&self) -> &Path {
        &self.tmp
    }

    /// Returns the files and processes that the job has left, and ends these processes.
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for pid in self.survivors(GRACE) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            left.push(format!("process {pid} ({})", name.trim()));
        }
        self.end_all();
        for (dir, name) in [(&self.tmp, "/tmp"), (&self.shm, "/dev/shm")] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                left.push(format!("{name}/{}", entry.file_name().display()));
            }
        }
        left
    }

    /// Returns the processes of the job that still run after `grace`.
    fn survivors(&self, grace: Duration) -> Vec<i32> {
        let until = Instant::now() + grace;
        loop {
            let found = self.processes();
            if found.is_empty() || Instant::now() >= until {
                return found;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the running processes with the room's mark.
    fn processes(&self) -> Vec<i32> {
        let wanted = format!("{MARK}={}", self.mark);
        let marked = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(marked).collect()
    }

    /// Kills all processes with the room's mark.
    fn end_all(&self) {
        for pid in self.processes() {
            // SAFETY: `kill` gets values only; the mark shows that this test started the process.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.end_all();
        let _ = fs::remove_dir_all(&self.tmp);
        let _ = fs::remove_dir_all(&self.shm);
    }
}
