//! Proofs of the right to publish names and get the secrets of ports: a secret in a file, or the
//! same user and host.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use netmod_kit::admission::{Protocol, Secret, random};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;

use super::channel::Channel;

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

/// Least and most bytes of a secret in a file.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;
/// The beginning of the names of servers' sockets; 32 hexadecimal digits follow.
const SOCKET: &str = "weft-names-";

/// Reads the file of `-name-server-secret`.
///
/// # Errors
/// It can't be read, others could have read or changed it, or it is too short to be a secret.
pub fn read_secret(path: &OsStr) -> Result<Secret, String> {
    let name = path.display();
    let wrong = |why: String| format!("the file '{name}' (-name-server-secret) {why}");
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "; make it by '(umask 077; head -c 32 /dev/urandom | base64 > {name})', and copy it to all users \
                 of the server"
            ),
            _ => String::new(),
        };
        wrong(format!("can't be read: {error}{hint}"))
    };
    // Checked before opening the file, since opening a pipe would block.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(wrong("is not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if ![geteuid().as_raw(), 0].contains(&data.uid()) {
        return Err(wrong(
            "belongs to another user; copy it to a file of your own".to_owned(),
        ));
    }
    if data.mode() & 0o077 != 0 {
        return Err(wrong(format!(
            "can be read or changed by others (its mode is {:o}); chmod 600 {name}",
            data.mode() & 0o777
        )));
    }
    let mut text = Vec::new();
    let limit = *LENGTHS.end() as u64 + 1;
    file.take(limit).read_to_end(&mut text).map_err(failed)?;
    let text = text.trim_ascii();
    if !LENGTHS.contains(&text.len()) {
        return Err(wrong(format!(
            "has {} bytes; a secret has {} to {}",
            text.len(),
            LENGTHS.start(),
            LENGTHS.end()
        )));
    }
    let purpose = "Weft 2026-11-28 secret of a name server";
    Ok(Secret::derive(purpose, text))
}

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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_that_others_can_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &[u8], mode| {
            let path = dir.path().join("secret");
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_secret(path.as_os_str())
        };
        let secret = read(b"0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(read(b" 0123456789abcdef", 0o400), Ok(secret));
        assert_ne!(read(b"0123456789abcdeg", 0o600), Ok(secret));
        for mode in [0o640, 0o604, 0o620, 0o602] {
            let why = read(b"0123456789abcdef", mode).unwrap_err();
            assert!(why.contains("chmod 600"), "{why}");
        }
        for text in [&b"0123456789abcde\n"[..], b"", &[b'x'; 5000]] {
            assert!(
                read(text, 0o600)
                    .unwrap_err()
                    .contains("bytes; a secret has")
            );
        }
        let why = read_secret(dir.path().join("none").as_os_str()).unwrap_err();
        assert!(why.contains("head -c 32"), "{why}");
        assert!(read_secret(dir.path().as_os_str()).is_err());
    }

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
