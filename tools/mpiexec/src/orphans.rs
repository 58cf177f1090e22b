//! Orphans: processes that outlive the rank that started them.
//!
//! The launcher is their subreaper, so they become its children, even if they have left the job's
//! process group.

use std::time::{Duration, Instant};

use crate::guardian::Guardian;
use crate::system::{self, Pid};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(100);
/// Time for killed processes to disappear; only the kernel can delay that.
const LAST: Duration = Duration::from_secs(2);

/// Ends all orphans, then the guardian. Orphans get SIGTERM and [`GRACE`] first, unless `hurry`.
pub fn end(guardian: &mut Guardian, not_ours: &[Pid], hurry: bool) {
    let group = guardian.group();
    let orphans = || {
        let mut orphans = children();
        orphans.retain(|pid| *pid != group && !not_ours.contains(pid));
        orphans
    };
    let until = Instant::now() + GRACE;
    let mut asked = Vec::new();
    loop {
        while system::reap().is_some() {}
        let left = orphans();
        if left.is_empty() || hurry || Instant::now() >= until {
            break;
        }
        // Children of ended orphans become orphans in turn.
        for pid in left {
            if !asked.contains(&pid) {
                system::kill(pid, libc::SIGTERM);
                system::kill(pid, libc::SIGCONT);
                asked.push(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    guardian.end();
    let until = Instant::now() + LAST;
    loop {
        while system::reap().is_some() {}
        let left = orphans();
        if left.is_empty() || Instant::now() >= until {
            break;
        }
        left.iter()
            .for_each(|&pid| system::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the children of this process; empty if `/proc` does not list them.
pub fn children() -> Vec<Pid> {
    let list = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = list.split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}
