//! What `/proc` says about processes of this host.

use std::fs;

use crate::system::Pid;

/// Returns whether a process has a handler for a signal.
pub fn catches(pid: Pid, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns the processes of a process group.
pub fn of_group(group: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| group_of(*pid) == Some(group)).collect()
}

fn group_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have any characters.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_group() {
        let own = std::process::id() as Pid;
        let group = group_of(own).unwrap();
        assert!(of_group(group).contains(&own));
        // Rust's library has a handler for stack overflows.
        assert!(catches(own, libc::SIGSEGV) && !catches(own, libc::SIGURG));
        assert!(!catches(0, libc::SIGQUIT));
    }
}
