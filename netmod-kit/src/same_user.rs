//! The process at the other end of a socket, as the kernel reports it, and whether its user is this
//! process's.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

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
fn is_same_user(uid: u32) -> bool {
    let me = geteuid().as_raw();
    uid == me && (me != overflow_id() || maps_all_users())
}

/// The process that connected to a socket, or that made the socket connected to.
pub struct SocketPeer {
    /// Its number, if it is visible from this PID namespace.
    pub pid: Option<i32>,
    /// Its user id in this user namespace.
    pub uid: u32,
}

/// Asks the kernel for the process at the other end.
///
/// `rustix::net::sockopt::socket_peercred` requires a process number above 0. The kernel reports 0 for a
/// process that is invisible in this PID namespace.
pub fn socket_peer(stream: &UnixStream) -> Option<SocketPeer> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` is a local variable of `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut len,
        )
    };
    (rc == 0).then(|| SocketPeer {
        pid: Some(peer.pid).filter(|pid| *pid > 0),
        uid: peer.uid,
    })
}

/// Returns whether the process at the other end runs as this process's user.
pub fn is_own(stream: &UnixStream) -> bool {
    socket_peer(stream).is_some_and(|peer| is_same_user(peer.uid))
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

    /// Variable with the name of the socket that a child in another PID namespace connects to.
    const SOCKET: &str = "WEFT_CONFORMANCE_SOCKET";

    #[test]
    fn a_process_in_another_pid_namespace_has_a_user_and_no_number() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};
        use std::process::Command;
        let address = |name: &str| SocketAddr::from_abstract_name(name).unwrap();
        if let Ok(name) = std::env::var(SOCKET) {
            let peer = socket_peer(&UnixStream::connect_addr(&address(&name)).unwrap()).unwrap();
            assert_eq!((peer.pid, peer.uid), (None, geteuid().as_raw()));
            return;
        }
        let name = format!("weft-test-{}", std::process::id());
        let listener = UnixListener::bind_addr(&address(&name)).unwrap();
        let here = UnixStream::connect_addr(&address(&name)).unwrap();
        assert_eq!(
            socket_peer(&here).unwrap().pid,
            Some(std::process::id().cast_signed())
        );
        if !weft_needs::CONTAINERS.there_or_left_out() {
            return;
        }
        let me = std::env::current_exe().unwrap();
        let test = "same_user::tests::a_process_in_another_pid_namespace_has_a_user_and_no_number";
        let mut child = Command::new("unshare");
        child.args(["--user", "--map-root-user", "--pid", "--fork"]);
        child.arg(me).args(["--exact", test]).env(SOCKET, &name);
        assert!(child.status().unwrap().success());
        drop(listener);
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
