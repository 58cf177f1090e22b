//! Connections of the provider: when a peer's host last answered on one of them.
//!
//! A host that answers on its connections needs no other proof that it is reachable, and one that
//! ceases to do so is gone, whatever firewalls are in between. The provider does not expose its
//! connections, so they are found among the process's descriptors by the ports that only the
//! provider knows. The kernel's keep-alive is enabled on them, so that they are probed while idle.

use std::os::fd::RawFd;
use std::time::Duration;

/// Seconds between two keep-alive probes.
const KEEP_EVERY: libc::c_int = 2;
/// Unanswered probes after which the kernel ends the connection: later than Weft does.
const KEEP_LOOKS: libc::c_int = 9;

/// A connection to a peer's host.
struct Link(RawFd);

/// State of the connections to a host.
pub(crate) struct State {
    /// Whether keep-alive was enabled only now.
    pub(crate) is_new: bool,
    /// Time since the last data or acknowledgement.
    pub(crate) silent: Duration,
}

/// IP address and port of a socket address.
type Name = ([u8; 16], u16);

/// Parses the bytes of a `sockaddr`.
fn name(address: &[u8]) -> Option<Name> {
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
    let mut ip = [0; 16];
    match i32::from(family) {
        libc::AF_INET => {
            ip[10..12].fill(0xff); // IPv4-mapped
            ip[12..].copy_from_slice(address.get(4..8)?);
        }
        libc::AF_INET6 => ip.copy_from_slice(address.get(8..24)?),
        _ => return None,
    }
    Some((ip, port))
}

/// Returns the port in a socket address.
pub(crate) fn port(address: &[u8]) -> Option<u16> {
    name(address).map(|(_, port)| port)
}

type Getter =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn name_of(fd: RawFd, getter: Getter) -> Option<Name> {
    let mut address = [0_u64; 16];
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` has `len` bytes.
    let rc = unsafe { getter(fd, address.as_mut_ptr().cast(), &mut len) };
    if rc != 0 {
        return None;
    }
    let bytes: Vec<u8> = address.iter().flat_map(|word| word.to_ne_bytes()).collect();
    name(&bytes[..(len as usize).min(bytes.len())])
}

/// Returns the state of the connections to the host of the peer that listens at `peer`: those to
/// that address, and those from its host to this process's own `port`. The most recent answer
/// counts. `None`: no connection.
pub(crate) fn state(peer: &[u8], port: u16) -> Option<State> {
    let peer = name(peer)?;
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    let descriptors = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
    descriptors
        .filter(|fd| {
            // Only a connected socket has a peer.
            name_of(*fd, libc::getpeername).is_some_and(|other| {
                let own = || name_of(*fd, libc::getsockname).map(|(_, port)| port);
                other == peer || (other.0 == peer.0 && own() == Some(port))
            })
        })
        .filter_map(|fd| Link(fd).state())
        .reduce(|one, other| State {
            is_new: one.is_new || other.is_new,
            silent: one.silent.min(other.silent),
        })
}

/// Finds the socket that listens at this process's own `port`.
pub(crate) fn listener(port: u16) -> Option<RawFd> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    let mut descriptors =
        files.filter_map(|file| file.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    descriptors.find(|fd| is_at(*fd, port) && name_of(*fd, libc::getpeername).is_none())
}

/// Returns whether a descriptor is a socket at this process's own `port`.
pub(crate) fn is_at(fd: RawFd, port: u16) -> bool {
    name_of(fd, libc::getsockname).is_some_and(|(_, own)| own == port)
}

impl Link {
    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
        // SAFETY: the options take an integer of this size.
        unsafe {
            libc::setsockopt(
                self.0,
                level,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
    }

    /// Enables keep-alive, and returns how long the other side has been silent. `None` if the
    /// connection is ending.
    fn state(&self) -> Option<State> {
        let mut kept: libc::c_int = 0;
        let mut len = size_of_val(&kept) as libc::socklen_t;
        // SAFETY: `kept` has `len` bytes.
        let rc = unsafe {
            libc::getsockopt(
                self.0,
                libc::SOL_SOCKET,
                libc::SO_KEEPALIVE,
                (&raw mut kept).cast(),
                &mut len,
            )
        };
        let is_new = rc == 0 && kept == 0;
        if is_new {
            self.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEP_EVERY);
            self.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEP_EVERY);
            self.set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEP_LOOKS);
            self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        }
        // The head of the kernel's `struct tcp_info`: 8 bytes, then words.
        const ESTABLISHED: u8 = 1;
        const LAST_DATA_RECV: usize = 2 + 11;
        const LAST_ACK_RECV: usize = 2 + 12;
        let mut info = [0_u32; 26];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` has `len` bytes.
        let rc = unsafe {
            libc::getsockopt(
                self.0,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &mut len,
            )
        };
        let complete = rc == 0 && len as usize > 4 * LAST_ACK_RECV;
        let established = info[0].to_ne_bytes()[0] == ESTABLISHED;
        (complete && established).then(|| State {
            is_new,
            silent: Duration::from_millis(info[LAST_DATA_RECV].min(info[LAST_ACK_RECV]).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn address(port: u16) -> Vec<u8> {
        let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([127, 0, 0, 1]);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn a_connection_is_found_from_both_sides_and_shows_the_last_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = nobody.local_addr().unwrap().port();
        assert!(state(&address(port), other).is_none());
        let mut near = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let look = || state(&address(port), other).unwrap();
        assert!(look().is_new);
        // The other end is in this process, too, and is found by its accepting port.
        assert!(state(&address(other), port).unwrap().is_new);
        assert!(!state(&address(other), port).unwrap().is_new);
        assert!(state(&address(other), other).is_none());
        std::thread::sleep(Duration::from_millis(300));
        assert!(look().silent >= Duration::from_millis(250));
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        assert!(look().silent < Duration::from_millis(250));
        // A connection that is ending has no state.
        drop(far);
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!(state(&address(port), other).is_none());
    }
}
