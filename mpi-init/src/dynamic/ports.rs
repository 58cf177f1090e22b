//! Ports (MPI-3.1 section 10.4): a listening socket, whose name says where it is and has a secret, by which those
//! who were told the name are known from strangers.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use super::socket::{Call, Patience, Socket};
use crate::settings;

/// What names of ports begin with.
const SCHEME: &str = "weft1";
/// What a client says first, before the secret.
const HELLO: &[u8; 8] = b"weftdyn1";
/// What the launcher says in its place when a spawned job has ended, before the secret and a text.
const ENDED: &[u8; 8] = b"weftend1";
/// What the server says to the client that it has taken, and that says it again.
const TAKEN: &[u8; 8] = b"weftyes1";
/// How long a client may take to say the secret.
const DUE: Duration = Duration::from_secs(10);
/// How long an address may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a client waits to be accepted, if it doesn't say.
const ACCEPTED: Duration = Duration::from_secs(180);

type Secret = [u8; 16];

/// Random bytes.
pub fn random() -> Secret {
    let mut bytes = [0; 16];
    // SAFETY: there is room for so many bytes. Should the call fail, the time must do.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = now.unwrap_or_default().as_nanos().to_ne_bytes();
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a port's name says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    secret: Secret,
    node: u64,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Name {
    fn to_text(&self, most: usize) -> String {
        let mut text = format!(
            "{SCHEME}/{}/{:x}/{}/",
            hex(&self.secret),
            self.node,
            self.port
        );
        for (number, address) in self.addresses.iter().enumerate() {
            let address = address.to_string();
            if text.len() + 1 + address.len() >= most {
                break;
            }
            if number > 0 {
                text.push(',');
            }
            text.push_str(&address);
        }
        text
    }

    fn parse(text: &str) -> Option<Name> {
        let mut parts = text.split('/');
        if parts.next()? != SCHEME {
            return None;
        }
        let secret = parts.next()?;
        let secret: Vec<u8> = (0..16)
            .map(|at| u8::from_str_radix(secret.get(2 * at..2 * at + 2)?, 16).ok())
            .collect::<Option<_>>()?;
        let node = u64::from_str_radix(parts.next()?, 16).ok()?;
        let port = parts.next()?.parse().ok()?;
        let addresses = parts.next()?.split(',').filter(|one| !one.is_empty());
        let addresses = addresses
            .map(|one| one.parse().ok())
            .collect::<Option<_>>()?;
        Some(Name {
            secret: secret.try_into().ok()?,
            node,
            port,
            addresses,
        })
    }
}

/// An open port.
pub struct Port {
    listener: TcpListener,
    name: Name,
    /// Those who have connected and not been taken.
    waiting: Mutex<Vec<Caller>>,
}

/// Somebody who has connected.
struct Caller {
    socket: Socket,
    said: Vec<u8>,
    since: Instant,
}

/// What a caller is known to be.
enum Known {
    Client,
    Ended(String),
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Class::Port, format!("{what}: {error}"))
}

/// Listens on a port number that the control variable allows.
fn listen() -> std::io::Result<TcpListener> {
    let range = settings::raw(netmod_tcp::PORTS_VARIABLE);
    let range = range.as_deref().and_then(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    });
    let (first, last): (u16, u16) = range.unwrap_or((0, 0));
    let mut result = Err(std::io::ErrorKind::AddrInUse.into());
    for port in first..=last {
        result = TcpListener::bind(("::", port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
        if result.is_ok() {
            break;
        }
    }
    result
}

impl Port {
    /// Opens a port of this process, on this node.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn open(node: u64) -> Result<Port> {
        let listener = listen().map_err(|error| failed("can't listen on a socket", &error))?;
        let set = listener.set_nonblocking(true);
        set.map_err(|error| failed("can't set the mode of a socket", &error))?;
        let at = listener.local_addr();
        let at = at.map_err(|error| failed("can't find the socket's address", &error))?;
        let mut addresses = netmod_tcp::addresses();
        addresses.sort_by_key(|address| address.is_loopback());
        if at.is_ipv4() {
            addresses.retain(IpAddr::is_ipv4);
        }
        Ok(Port {
            listener,
            name: Name {
                secret: random(),
                node,
                port: at.port(),
                addresses,
            },
            waiting: Mutex::default(),
        })
    }

    /// Its name, shorter than `most` bytes (`MPI_MAX_PORT_NAME`), with as many addresses as that has room for.
    pub fn name(&self, most: usize) -> String {
        self.name.to_text(most)
    }

    /// Waits for a client. Those who have nothing to say, or hang up, are passed by.
    ///
    /// # Errors
    /// The launcher says that the job that was to come has ended; a member of the call's communicator is lost.
    pub fn accept(&self, call: Call<'_>) -> Result<Socket> {
        let mut patience = Patience::default();
        loop {
            self.take_calls()?;
            match self.next_known() {
                Some((_, Known::Ended(why))) => return Err(Error::new(Class::Spawn, why)),
                Some((caller, Known::Client)) => {
                    // A client that has died since does not say it again.
                    let again = caller.socket.send_and_receive(call, TAKEN, TAKEN.len());
                    match again {
                        Ok(said) if said == TAKEN => return Ok(caller.socket),
                        Err(error) if error.class() != Class::Other => return Err(error),
                        _ => continue,
                    }
                }
                None => {}
            }
            let mut fds = vec![(self.listener.as_raw_fd(), libc::POLLIN)];
            let waiting = self.waiting.lock();
            fds.extend(waiting.iter().map(|one| (one.socket.fd(), libc::POLLIN)));
            drop(waiting);
            patience.wait(call, &fds)?;
        }
    }

    /// Takes in who has connected.
    fn take_calls(&self) -> Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.waiting.lock().push(Caller {
                    socket: Socket::new(OwnedFd::from(stream)),
                    said: Vec::new(),
                    since: Instant::now(),
                }),
                Err(error) => {
                    return match error.kind() {
                        std::io::ErrorKind::WouldBlock => Ok(()),
                        std::io::ErrorKind::Interrupted | std::io::ErrorKind::ConnectionAborted => {
                            continue;
                        }
                        _ => Err(failed("no connection can be taken", &error)),
                    };
                }
            }
        }
    }

    /// The first caller who has said the secret.
    fn next_known(&self) -> Option<(Caller, Known)> {
        let mut waiting = self.waiting.lock();
        let length = HELLO.len() + self.name.secret.len();
        let mut at = 0;
        while let Some(caller) = waiting.get_mut(at) {
            let is_end = caller.said.starts_with(ENDED);
            let wanted = if is_end { 1024 } else { length };
            let open = caller.socket.receive_some(&mut caller.said, wanted);
            let said = &caller.said;
            let complete = said.len() >= length && said[HELLO.len()..length] == self.name.secret;
            if complete && said.starts_with(HELLO) {
                return Some((waiting.remove(at), Known::Client));
            }
            // The text of the launcher ends with the connection.
            if complete && !open && is_end {
                let text = String::from_utf8_lossy(&said[length..]).into_owned();
                return Some((waiting.remove(at), Known::Ended(text)));
            }
            let wrong = said.len() >= length && !complete;
            if wrong || (!open && !is_end) || caller.since.elapsed() > DUE {
                waiting.remove(at);
            } else if said.starts_with(ENDED) != is_end {
                // Looked at again as what it is.
            } else {
                at += 1;
            }
        }
        None
    }
}

/// How long `MPI_Comm_connect` waits for who accepts (MPI-4.1 section 11.4.3: a time of ours): as its Info says by
/// `timeout` in seconds, a key of MPICH's, or 3 minutes.
pub fn time_to_accept(info: Option<&Info>) -> Result<Duration> {
    let told = match info {
        Some(info) => info.get("timeout")?,
        None => None,
    };
    let seconds = told.and_then(|told| std::str::from_utf8(&told).ok()?.trim().parse().ok());
    Ok(seconds.map_or(ACCEPTED, Duration::from_secs))
}

/// Connects to the port of this name, and waits until it is taken, if told so at most for a time.
///
/// # Errors
/// `MPI_ERR_PORT`: that is no name of a port, nobody listens there any more, or nobody has accepted in that time.
pub fn connect(on: Call<'_>, name: &str, node: u64, within: Option<Duration>) -> Result<Socket> {
    let end = within.and_then(|time| Instant::now().checked_add(time));
    let parsed = Name::parse(name).ok_or_else(|| {
        Error::new(
            Class::Port,
            format!(
                "'{}' is not the name of a port; take it as MPI_Open_port or MPI_Lookup_name gave it",
                name.escape_debug()
            ),
        )
    })?;
    let socket = call(&parsed, node)?;
    let hello = [&HELLO[..], &parsed.secret].concat();
    let answer = socket.send_and_receive_by(on, &hello, TAKEN.len(), end);
    let closed = |why: &str| {
        let why = format!("nobody has accepted the connection: {why}; the port has been closed");
        Error::new(Class::Port, why)
    };
    match answer {
        Ok(said) if said == TAKEN => {}
        Ok(_) => return Err(closed("it is no port of this library")),
        Err(error) if error.class() == Class::Other => return Err(closed(error.detail())),
        Err(error) => return Err(error),
    }
    socket.send_and_receive(on, TAKEN, 0)?;
    Ok(socket)
}

/// Opens a connection to the first address that answers.
fn call(name: &Name, node: u64) -> Result<Socket> {
    let mut addresses = name.addresses.clone();
    if name.node == node {
        addresses.insert(0, Ipv4Addr::LOCALHOST.into());
    }
    let mut reasons = Vec::new();
    for address in addresses {
        let at = SocketAddr::new(address, name.port);
        match TcpStream::connect_timeout(&at, ANSWER) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(Socket::new(OwnedFd::from(stream)));
            }
            Err(error) => reasons.push(format!("{at}: {error}")),
        }
    }
    Err(Error::new(
        Class::Port,
        format!(
            "the port can't be reached ({}); is it still open, and does the process live that opened it?",
            reasons.join("; ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 256;

    #[test]
    fn names_come_back_and_nonsense_is_refused() {
        let name = Name {
            secret: random(),
            node: 77,
            port: 4711,
            addresses: vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
        };
        let text = name.to_text(MOST);
        assert!(text.len() < MOST);
        assert_eq!(Name::parse(&text), Some(name.clone()));
        for end in 0..text.rfind('/').unwrap() {
            assert_eq!(Name::parse(&text[..end]), None);
        }
        let many = Name {
            addresses: vec!["fe80::1234:5678:9abc:def0".parse().unwrap(); 40],
            ..name
        };
        assert!(many.to_text(MOST).len() < MOST);
        assert!(Name::parse(&many.to_text(MOST)).is_some());
    }
}
