//! Connections of the provider: when a peer's host last answered on one of them.
//!
//! A host that answers on its connections needs no other proof that it is reachable, and one that
//! ceases to do so is gone, whatever firewalls are in between. The provider does not expose its
//! connections, so they are found among the process's descriptors by the ports that only the
//! provider knows. The kernel's keep-alive is enabled on them, so that they are probed while idle.

use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::net::{getpeername, getsockname, sockopt};

/// Time between two keep-alive probes.
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// Unanswered probes after which the kernel ends the connection: later than Weft does.
const KEEP_LOOKS: u32 = 9;

/// A connection to a peer's host.
struct Link(RawFd);

/// State of the connections to a host.
pub(crate) struct State {
    /// Whether keep-alive was enabled only now.
    pub(crate) is_new: bool,
    /// Time since the last data or acknowledgement.
    pub(crate) silent: Duration,
}

/// Parses the bytes of a `sockaddr`.
pub(crate) fn parse(address: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
    Some(match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = address.get(4..8)?.try_into().ok()?;
            SocketAddr::from((ip, port))
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = address.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(address.get(24..28)?.try_into().ok()?);
            SocketAddrV6::new(ip.into(), port, 0, scope).into()
        }
        _ => return None,
    })
}

/// Returns the port in a socket address.
pub(crate) fn port(address: &[u8]) -> Option<u16> {
    parse(address).map(|address| address.port())
}

/// Iterates over the open descriptors of this process.
fn descriptors() -> impl Iterator<Item = RawFd> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok())
}

/// Borrows a descriptor by its number, which is none of a value of this crate.
fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: numbers come from /proc/self/fd, so none is -1. If it is closed meanwhile, the calls here
    // fail, or ask another file.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Returns the address of a socket.
fn own_of(fd: RawFd) -> Option<SocketAddr> {
    getsockname(borrow(fd)).ok()?.try_into().ok()
}

/// Returns the address that a socket is connected to.
fn peer_of(fd: RawFd) -> Option<SocketAddr> {
    getpeername(borrow(fd)).ok()??.try_into().ok()
}

/// Returns the state of the connections to the host of the peer that listens at `peer`: those to
/// that address, and those from its host to this process's own `port`. The most recent answer
/// counts. `None`: no connection.
pub(crate) fn state(peer: &[u8], port: u16) -> Option<State> {
    let peer = parse(peer)?;
    let host = peer.ip().to_canonical();
    descriptors()
        .filter(|fd| {
            // Only a connected socket has a peer.
            peer_of(*fd).is_some_and(|other| {
                other.ip().to_canonical() == host
                    && (other.port() == peer.port() || is_at(*fd, port))
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
    descriptors().find(|fd| is_at(*fd, port) && peer_of(*fd).is_none())
}

/// Returns whether a descriptor is a socket at this process's own `port`.
pub(crate) fn is_at(fd: RawFd, port: u16) -> bool {
    own_of(fd).is_some_and(|own| own.port() == port)
}

impl Link {
    /// Enables keep-alive, and returns how long the other side has been silent. `None` if the
    /// connection is ending.
    fn state(&self) -> Option<State> {
        let socket = borrow(self.0);
        let is_new = sockopt::socket_keepalive(socket) == Ok(false);
        if is_new {
            let _ = sockopt::set_tcp_keepidle(socket, KEEP_EVERY);
            let _ = sockopt::set_tcp_keepintvl(socket, KEEP_EVERY);
            let _ = sockopt::set_tcp_keepcnt(socket, KEEP_LOOKS);
            let _ = sockopt::set_socket_keepalive(socket, true);
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
