//! Comparison of this process's user with the one that the kernel reports for a socket's peer.

use std::fs;

use rustix::process::geteuid;

/// User id that the kernel reports for users without a mapping in this user namespace, unless the
/// system administrator has changed it.
const DEFAULT_OVERFLOW: u32 = 65534;

/// Number of user ids; the last 32-bit number is none.
const ALL_USERS: u64 = u32::MAX as u64;

/// Returns whether a user id from `SO_PEERCRED` is this process's effective user.
///
/// In a user namespace all users without a mapping have the same overflow id. If this process's id is
/// that one, the result is true only if the namespace maps all users, so that the id is a real one.
pub fn is_same_user(uid: u32) -> bool {
    let me = geteuid().as_raw();
    uid == me && (me != overflow_id() || maps_all_users())
}

fn overflow_id() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/overflowuid");
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT_OVERFLOW)
}

fn maps_all_users() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| mapped_users(&map) >= ALL_USERS)
}

/// Number of users that a `uid_map` maps: the sum of its third column.
fn mapped_users(map: &str) -> u64 {
    let counts = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_user_is_the_same() {
        let me = geteuid().as_raw();
        assert!(!is_same_user(me.wrapping_add(1)));
        assert_eq!(is_same_user(me), me != overflow_id() || maps_all_users());
    }

    #[test]
    fn partial_maps_do_not_map_all_users() {
        let initial = "         0          0 4294967295\n";
        assert!(mapped_users(initial) >= ALL_USERS);
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(mapped_users(rootless), 65537);
        assert_eq!(mapped_users(""), 0);
    }
}
