//! Checks for namespaces, by making some.

use std::process;
use std::thread;
use std::time::{Duration, Instant};

use crate::run;

/// A mount namespace with a mount in it.
pub fn mounts() -> Result<(), String> {
    let script = "mount --bind /dev/shm /dev/shm";
    run(&["unshare", "--mount", "sh", "-c", script]).map(drop)
}

/// Checks for user, PID and UTS namespaces, and for running programs as another user.
pub fn containers() -> Result<(), String> {
    run(&["unshare", "-U", "-r", "true"])?;
    run(&["unshare", "-p", "-f", "--mount-proc", "true"])?;
    run(&["unshare", "-u", "true"])?;
    run(&["setpriv", "--reuid", "65534", "--clear-groups", "true"]).map(drop)
}

/// Script for a shell: runs "$@" in a new control group, with half a core or 100 MB as `ON` says, and ends with
/// its exit code.
pub const CGROUP: &str = "case $ON in cpu) one=cpu.cfs_quota_us; two=cpu.max; limit=50000 ;; \
                          *) one=memory.limit_in_bytes; two=memory.max; limit=100000000 ;; esac; \
                          top=/sys/fs/cgroup/$ON; [ -d $top ] || { top=/sys/fs/cgroup; one=$two; }; \
                          group=$top/weft-test-$$; mkdir $group || exit 9; \
                          echo $limit > $group/$one && echo $$ > $group/cgroup.procs && \"$@\"; code=$?; \
                          echo $$ > $top/cgroup.procs; until rmdir $group; do sleep 0.05; done; exit $code";

/// Checks for control groups with limits.
pub fn cgroups() -> Result<(), String> {
    for controller in ["cpu", "memory"] {
        let on = format!("ON={controller}");
        run(&["env", &on, "sh", "-c", CGROUP, "sh", "true"])?;
    }
    Ok(())
}

/// Namespaces that are removed at the end.
struct Spaces([String; 2]);

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = run(&["ip", "netns", "del", name]);
        }
    }
}

/// Checks for two network namespaces joined by a veth pair, a bridge, and a UTS namespace.
pub fn network() -> Result<(), String> {
    mounts()?;
    let spaces = Spaces(["a", "b"].map(|side| format!("weft-need{}{side}", process::id())));
    let [a, b] = &spaces.0;
    for name in [a, b] {
        run(&["ip", "netns", "add", name])?;
    }
    let cable = "link add weft0 type veth peer name weft0 netns";
    let mut words = vec!["ip", "-n", a];
    words.extend(cable.split(' ').chain([b.as_str()]));
    run(&words)?;
    run(&["ip", "-n", a, "link", "add", "switch", "type", "bridge"])?;
    for name in [a, b] {
        run(&["ip", "-n", name, "link", "set", "weft0", "up"])?;
    }
    let inside = "unshare --uts hostname weft-need";
    let mut words = vec!["ip", "netns", "exec", a];
    words.extend(inside.split(' '));
    run(&words)?;
    // The kernel reports an interface up a little after its veth pair is up.
    let until = Instant::now() + Duration::from_secs(10);
    while !run(&["ip", "-n", a, "link", "show", "weft0"])?.contains("state UP") {
        if Instant::now() >= until {
            return Err("a cable between network namespaces does not come up".to_owned());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
