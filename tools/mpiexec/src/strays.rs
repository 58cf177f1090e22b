//! Processes that outlive the rank that started them.
//!
//! They become children of the launcher, as it is their subreaper, and so do those that left the
//! job's process group.

use std::time::{Duration, Instant};

use crate::guardian::Guardian;
use crate::system::{self, Pid};

/// Time for them between being asked and being made to end.
const GRACE: Duration = Duration::from_millis(100);
/// Time for those that were killed to be gone; only the kernel can keep them.
const LAST: Duration = Duration::from_secs(2);

/// Ends the processes that ranks left behind, and last the guardian. They are asked first, unless
/// there is no time for that.
pub fn end(guardian: &Guardian, not_ours: &[Pid], hurry: bool) {
    let strays = || {
        let mut strays = children();
        strays.retain(|pid| *pid != guardian.group() && !not_ours.contains(pid));
        strays
    };
    let until = Instant::now() + GRACE;
    let mut asked = Vec::new();
    loop {
        while system::reap().is_some() {}
        let left = strays();
        if left.is_empty() || hurry || Instant::now() >= until {
            break;
        }
        // Children of those that have ended become ours, so new ones may turn up.
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
        let left = strays();
        if left.is_empty() || Instant::now() >= until {
            break;
        }
        left.iter()
            .for_each(|&pid| system::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The children of this process; empty if the kernel doesn't tell.
pub fn children() -> Vec<Pid> {
    let list = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = list.split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}
