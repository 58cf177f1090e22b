//! Proofs of the right to publish names and get the secrets of ports: a secret in a file, or the
//! same user and host.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use netmod_kit::admission::{Protocol, Secret, random};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::channel::Channel;
use crate::secret_file::SecretFile;

/// The default TCP port of the name server.
pub const PORT: u16 = 6493;
/// Time that each end has to answer.
pub const ANSWER: Duration = Duration::from_secs(5);

/// The handshake with a name server. Its context says by which secret.
pub const PROTOCOL: Protocol = Protocol::new(*b"WeftNam\x01", 1);
/// The context of launchers that prove the secret of `-name-server-secret`.
pub const SECRET: u8 = b's';
/// The context and the secret, which is public, of launchers without another one.
pub const GUEST: (u8, Secret) = (b'g', Secret::from_bytes([0; Secret::LENGTH]));

/// The beginning of the names of servers' sockets; 32 hexadecimal digits follow.
const SOCKET: &str = "weft-names-";

/// The file of `-name-server-secret`.
pub const FILE: SecretFile = SecretFile {
    option: "-name-server-secret",
    purpose: "Weft 2026-11-28 secret of a name server",
    copy: "copy it to all users of the server",
    forbidden: 0o077,
};

/// Opens a socket for processes of this host, and returns it with its random name. Other users can
/// connect, so the caller must check [`netmod_kit::is_own`].
///
/// # Errors
/// No socket can be opened.
pub fn listen() -> io::Result<(UnixListener, String)> {
    let digits = random::<16>()?.map(|byte| format!("{byte:02x}")).concat();
    let name = format!("{SOCKET}{digits}");
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

/// Connects to a socket of any process, with a time limit.
fn connect(name: &str) -> io::Result<UnixStream> {
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Bounds the wait for room in the listener's queue, too.
    set_socket_timeout(&socket, Timeout::Send, Some(ANSWER))?;
    rustix::net::connect(&socket, &name)?;
    Ok(UnixStream::from(socket))
}

/// Connects to the socket of a name server, if that is a process of the same user on the same host.
pub fn call_own(name: &str) -> Option<Channel> {
    let stream = connect(name).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.set_write_timeout(Some(ANSWER)).ok()?;
    netmod_kit::is_own(&stream).then(|| Channel::own(stream))
}

/// A name server's description of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The socket for processes of its user on its host.
    pub socket: Option<String>,
    /// Whether the server was started with `-name-server-secret`.
    pub has_secret: bool,
}

impl Greeting {
    /// The request for a greeting.
    pub const QUESTION: &[u8] = b"cmd=weft_names\n";

    /// Returns the greeting as a line with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let socket = self.socket.as_deref().unwrap_or("-");
        let secret = u8::from(self.has_secret);
        format!("cmd=weft_names_result rc=0 socket={socket} secret={secret}\n").into_bytes()
    }

    /// Parses a greeting, which proves nothing: a socket whose name is not a name server's is
    /// ignored.
    pub fn parse(line: &[u8]) -> Option<Greeting> {
        let line = pmi::wire::Line::parse(line);
        if line.command() != b"weft_names_result" {
            return None;
        }
        let is_socket = |name: &String| {
            let digits = name.strip_prefix(SOCKET).unwrap_or_default();
            digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        Some(Greeting {
            socket: line.text("socket").filter(is_socket),
            has_secret: line.raw("secret") == Some(b"1"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_name_servers_are_believed() {
        let greeting = Greeting {
            socket: Some(format!("{SOCKET}{}", "a5".repeat(16))),
            has_secret: true,
        };
        assert_eq!(
            Greeting::parse(greeting.to_line().trim_ascii()),
            Some(greeting)
        );
        let none = Greeting {
            socket: None,
            has_secret: false,
        };
        let line = "cmd=weft_names_result rc=0 socket=/tmp/dbus secret=0";
        assert_eq!(Greeting::parse(line.as_bytes()), Some(none));
        assert_eq!(Greeting::parse(b"cmd=lookup_result"), None);
    }

    #[test]
    fn a_process_of_the_same_user_finds_the_socket() {
        let (listener, name) = listen().unwrap();
        let mut channel = call_own(&name).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert!(netmod_kit::is_own(&stream));
        channel.send(b"a line\n").unwrap();
        let mut server = Channel::own(stream);
        assert!(server.receive(|line| assert_eq!(line, b"a line")).unwrap());
        assert!(call_own("weft-names-nobody").is_none());
    }
}
