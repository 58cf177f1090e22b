//! Whether yielding the core lets other ranks of the node run.
//!
//! `sched_yield` gives the core to threads of the caller's scheduling group only. Each rank has a
//! group of its own if the launcher gives it a session and the kernel groups by sessions (sched(7),
//! "The autogroup feature"), or if it has a cgroup with the cpu controller. Such a rank must sleep
//! for others to run.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;

/// Returns the process at the other end, if it is visible from this PID namespace.
pub fn peer(stream: &UnixStream) -> Option<i32> {
    netmod_kit::socket_peer(stream)?.pid
}

/// Returns whether a process of this machine is in another scheduling group. A process that is
/// invisible (in another container) counts as such.
pub fn is_apart(pid: Option<i32>) -> bool {
    let Some(pid) = pid else { return true };
    let mine = cpu_cgroup("self");
    if mine != cpu_cgroup(&pid.to_string()) {
        return true;
    }
    mine.is_none() && groups_by_session() && session(pid) != session(0)
}

/// Returns whether this process leads a session that the kernel schedules as a group.
///
/// Launchers that give each rank a session are recognized so when no other rank is visible.
pub fn is_alone() -> bool {
    cpu_cgroup("self").is_none()
        && groups_by_session()
        && session(0) == Some(process::id().cast_signed())
}

/// Returns the session of a process, or for 0, of this one. A session whose leader is invisible in
/// this PID namespace has the number 0, which `rustix::process::getsid` does not allow.
fn session(pid: i32) -> Option<i32> {
    // SAFETY: `getsid` takes and returns numbers only.
    let session = unsafe { libc::getsid(pid) };
    (session >= 0).then_some(session)
}

fn groups_by_session() -> bool {
    fs::read("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.starts_with(b"1"))
}

/// Returns the cgroup by which the kernel schedules a process. `None` is the root cgroup, whose
/// processes are grouped by session.
fn cpu_cgroup(process: &str) -> Option<String> {
    let list = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    find_cpu_cgroup(&list, |path| {
        Path::new("/sys/fs/cgroup")
            .join(path.trim_start_matches('/'))
            .join("cpu.weight")
            .exists()
    })
}

/// Finds the cgroup of [`cpu_cgroup`] in the text of `/proc/PID/cgroup`. `has_cpu` returns whether
/// a cgroup v2 path has the cpu controller.
fn find_cpu_cgroup(list: &str, has_cpu: impl Fn(&str) -> bool) -> Option<String> {
    let fields = |line: &str| -> Option<(String, String)> {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?.to_string(), fields.next()?.to_string()))
    };
    let lines: Vec<_> = list.lines().filter_map(fields).collect();
    if let Some((_, path)) = lines
        .iter()
        .find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"))
    {
        return (path != "/").then(|| path.clone());
    }
    // The nearest ancestor that has the controller schedules the process.
    let (_, path) = lines
        .iter()
        .find(|(controllers, _)| controllers.is_empty())?;
    let mut path = path.as_str();
    while path.len() > 1 {
        if has_cpu(path) {
            return Some(path.to_string());
        }
        path = &path[..path.rfind('/')?];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_that_of_the_cpu_controller() {
        let never = |_: &str| panic!("version 1 has it in the list");
        let first = "4:memory:/a\n2:cpuset:/b\n1:cpu,cpuacct:/job/task_0\n0::/c\n";
        assert_eq!(
            find_cpu_cgroup(first, never),
            Some("/job/task_0".to_string())
        );
        assert_eq!(find_cpu_cgroup("1:cpu:/\n0::/c\n", never), None);
        let second = "0::/system.slice/job/task_0\n";
        let has = |path: &str| path == "/system.slice/job";
        assert_eq!(
            find_cpu_cgroup(second, has),
            Some("/system.slice/job".to_string())
        );
        assert_eq!(find_cpu_cgroup(second, |_| false), None);
        assert_eq!(find_cpu_cgroup("0::/\n", |_| true), None);
        assert_eq!(find_cpu_cgroup("", |_| true), None);
    }

    #[test]
    fn a_process_is_not_apart_from_itself() {
        let (one, _other) = UnixStream::pair().unwrap();
        let me = peer(&one);
        assert_eq!(me, Some(std::process::id().cast_signed()));
        assert!(!is_apart(me));
        assert!(is_apart(None));
    }

    /// Variable that makes the test below a process whose session is invisible.
    const INVISIBLE_SESSION: &str = "WEFT_CONFORMANCE_INVISIBLE_SESSION";

    #[test]
    fn a_session_outside_of_the_pid_namespace_is_none_of_its_processes() {
        if std::env::var_os(INVISIBLE_SESSION).is_some() {
            assert_eq!(session(0), Some(0));
            assert!(!is_alone());
            assert!(!is_apart(Some(process::id().cast_signed())));
            return;
        }
        if !weft_needs::CONTAINERS.there_or_left_out() {
            return;
        }
        let test = "a_session_outside_of_the_pid_namespace_is_none_of_its_processes";
        let mut child = process::Command::new("unshare");
        child.args(["--user", "--map-root-user", "--pid", "--fork"]);
        child.arg(std::env::current_exe().unwrap());
        child.arg(format!("bootstrap::scheduling::tests::{test}"));
        child.arg("--exact").env(INVISIBLE_SESSION, "1");
        assert!(child.status().unwrap().success());
    }
}
