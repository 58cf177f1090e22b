//! Published names (`MPI_Publish_name`): the connection from a job to the launcher or server that
//! keeps them.
//!
//! The launcher of a job keeps the names of its ranks. A spawned job asks the launcher of the job
//! that spawned it. With `-nameserver` they are kept by a server ([`server`]) that jobs of several
//! users and hosts may share. Every client gets the addresses of ports. Their secrets, and the
//! right to publish, need a proof ([`access`]): the secret of `-name-server-secret`, or the same
//! user on the same host.

mod access;
mod channel;
pub mod server;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use netmod_kit::admission::handshake::initiate_within;
use netmod_kit::admission::{Role, Secret};
use pmi::port_name::PortName;
use pmi::wire::{Line, Lines, escape};

use self::access::{ANSWER, GUEST, Greeting, PORT, PROTOCOL, SECRET};
use self::channel::Channel;
use crate::options::Options;
use crate::program::{NOT_RUNNABLE, Unfit};
use crate::system;

/// Time for which a launcher calls a server again that drops its connection.
const RETRY_TIME: Duration = Duration::from_secs(20);
/// Pause between two calls.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The origin of a request about names.
#[derive(Clone, Copy)]
pub enum Asker {
    /// A rank.
    Rank(usize),
    /// A spawned job.
    Spawned(usize),
}

/// The connection to the keeper of published names, with pending requests.
pub struct Upstream {
    connection: Connection,
    /// The origins of pending requests, in the order of their answers.
    waiting: VecDeque<Asker>,
}

/// The connection to the launcher or server that keeps the names.
enum Connection {
    /// The launcher of the job that spawned this one.
    Parent(RawFd, Lines),
    /// A name server to which this job has proved itself.
    Trusted(Channel),
    /// A name server that answers this job's questions about addresses only.
    Guest(Guest),
}

/// A name server that knows nothing of this job: it is called anew for each question.
struct Guest {
    addresses: Vec<SocketAddr>,
    /// The error text of all requests but lookups: what the job lacks for them.
    missing: String,
}

/// The outcome of [`Upstream::ask`].
pub enum Asked {
    /// The server will answer later.
    Sent,
    /// The server has answered.
    Answered(Vec<u8>),
}

impl Upstream {
    /// Connects as the command line says. Returns `None` if this launcher keeps the names itself.
    pub fn of(options: &Options) -> Result<Option<Upstream>, Unfit> {
        let connection = if let Some(name) = &options.name_server {
            let unfit = |why| Unfit {
                code: NOT_RUNNABLE,
                message: format!("the name server '{name}' {why}"),
            };
            find(name, options.name_server_secret.as_deref()).map_err(unfit)?
        } else if let Some(fd) = options.spawned.as_ref().and_then(|one| one.names) {
            Connection::Parent(fd, Lines::default())
        } else {
            return Ok(None);
        };
        Ok(Some(Upstream {
            connection,
            waiting: VecDeque::new(),
        }))
    }

    /// Returns the descriptor from which answers are read. Returns `None` if they come at once.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.connection {
            Connection::Parent(fd, _) => Some(*fd),
            Connection::Trusted(channel) => Some(channel.as_raw_fd()),
            Connection::Guest(_) => None,
        }
    }

    /// Sends a request. `line` ends with a newline.
    pub fn ask(&mut self, asker: Asker, line: &[u8]) -> Asked {
        // Requests are short, so they fit into the socket's buffer.
        let asked = match &mut self.connection {
            Connection::Parent(fd, _) => {
                system::write(*fd, line).is_ok_and(|bytes| bytes == line.len())
            }
            Connection::Trusted(channel) => channel.send(line).is_ok(),
            Connection::Guest(guest) => return Asked::Answered(guest.ask(line)),
        };
        if !asked {
            return Asked::Answered(lost(Some(line)));
        }
        self.waiting.push_back(asker);
        Asked::Sent
    }

    /// Returns the answers that have arrived, and whether the connection is open.
    pub fn answers(&mut self) -> (Vec<(Asker, Vec<u8>)>, bool) {
        let mut answers = Vec::new();
        let mut take = |line: &[u8]| {
            let line = [line, b"\n"].concat();
            answers.extend(self.waiting.pop_front().map(|asker| (asker, line)));
        };
        let got = match &mut self.connection {
            Connection::Guest(_) => return (answers, true),
            Connection::Parent(fd, lines) => {
                let mut buffer = [0; 4096];
                let got = system::read(*fd, &mut buffer);
                lines.push(&buffer[..*got.as_ref().unwrap_or(&0)]);
                while let Some(line) = lines.next_line() {
                    take(line);
                }
                got.map(|bytes| bytes > 0)
            }
            Connection::Trusted(channel) => channel.receive(take),
        };
        let open = match got {
            Ok(open) => open,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        (answers, open)
    }

    /// Takes the origins of all pending requests.
    pub fn unanswered(&mut self) -> impl Iterator<Item = Asker> + '_ {
        self.waiting.drain(..)
    }
}

/// Returns the answer to a request if the keeper of published names is gone.
pub fn lost(line: Option<&[u8]>) -> Vec<u8> {
    refusal(line, "the name server is gone")
}

/// Returns the answer to a request that fails.
fn refusal(line: Option<&[u8]>, why: &str) -> Vec<u8> {
    let command = line.map(|line| Line::parse(line).command().to_vec());
    let result = match command.as_deref() {
        Some(b"publish_name") => "publish_result",
        Some(b"unpublish_name") => "unpublish_result",
        _ => "lookup_result",
    };
    let why = escape(why.as_bytes());
    [
        format!("cmd={result} rc=1 info=fail msg=").as_bytes(),
        &why,
        b"\n",
    ]
    .concat()
}

/// Connects to the first address that answers.
fn call(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other("it has no address"));
    for address in addresses {
        let called = TcpStream::connect_timeout(address, ANSWER);
        result =
            called.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")));
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    let _ = stream.set_nodelay(true);
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    Ok(stream)
}

/// Asks a server for its greeting. Calls again for [`RETRY_TIME`] if the server drops the connection for a newer one
/// or does not answer in time.
fn greet(addresses: &[SocketAddr], proof: (u8, &Secret)) -> io::Result<(Channel, Vec<u8>)> {
    let end = Instant::now() + RETRY_TIME;
    loop {
        match ask(addresses, proof, Greeting::QUESTION) {
            Err(error) if was_dropped(&error) && Instant::now() < end => thread::sleep(RETRY_PAUSE),
            answered => return answered,
        }
    }
}

/// Returns whether another attempt may succeed. A read that takes too long fails with `WouldBlock`.
fn was_dropped(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
    )
}

/// Calls a server, proves a secret and asks a question. Returns the answer, too.
fn ask(
    addresses: &[SocketAddr],
    (context, secret): (u8, &Secret),
    question: &[u8],
) -> io::Result<(Channel, Vec<u8>)> {
    let stream = call(addresses)?;
    let keys = initiate_within(&stream, ANSWER, &PROTOCOL, &[context], secret)?;
    let mut channel = Channel::sealed(stream, &keys, Role::Initiator);
    let answer = channel.ask(question)?;
    Ok((channel, answer))
}

/// Parses `HOST[:PORT]`, where an IPv6 address before a port is in brackets.
fn host_and_port(name: &str) -> (&str, u16) {
    let address = name.split('%').next().unwrap_or_default();
    let is_address = address.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if !is_address => match port.parse() {
            Ok(port) => (host, port),
            Err(_) => (name, PORT),
        },
        _ => (name, PORT),
    };
    let inner = host.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    (inner.unwrap_or(host), port)
}

/// Connects to the name server with the most rights that this job can prove.
///
/// # Errors
/// The failure, as a predicate whose subject is the server.
fn find(name: &str, file: Option<&OsStr>) -> Result<Connection, String> {
    let unreachable = |error: io::Error| {
        format!("can't be reached: {error}; start it there with 'mpiexec -name-server'")
    };
    let addresses = host_and_port(name).to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses.map_err(unreachable)?.collect();
    let file = file.map(|file| Ok::<_, String>((file, access::FILE.read(file)?)));
    let file = file
        .transpose()
        .map_err(|why| format!("can't be asked: {why}"))?;
    // Guests may be many and are dropped oldest first: a client with the secret proves it without
    // being a guest.
    if let Some((_, secret)) = &file
        && let Ok((channel, _)) = ask(&addresses, (SECRET, secret), Greeting::QUESTION)
    {
        return Ok(Connection::Trusted(channel));
    }
    // The greeting is unproved: it only decides which proof to try.
    let (_, greeting) = greet(&addresses, (GUEST.0, &GUEST.1)).map_err(unreachable)?;
    let greeting = Greeting::parse(&greeting)
        .ok_or_else(|| unreachable(io::Error::other("another program listens on the port")))?;
    if let Some((file, secret)) = &file {
        if !greeting.has_secret {
            return Err(format!(
                "has no secret, but this job has one ('{}'); start it with -name-server-secret FILE",
                file.display()
            ));
        }
        return match greet(&addresses, (SECRET, secret)) {
            Ok((channel, _)) => Ok(Connection::Trusted(channel)),
            Err(error) if was_dropped(&error) => Err(unreachable(error)),
            Err(error) => Err(format!(
                "has another secret than '{}' ({error}); give both the same file",
                file.display()
            )),
        };
    }
    if let Some(channel) = greeting.socket.and_then(|socket| access::call_own(&socket)) {
        return Ok(Connection::Trusted(channel));
    }
    let missing = match greeting.has_secret {
        true => format!(
            "the name server '{name}' does not know this job; give mpiexec the server's -name-server-secret FILE"
        ),
        false => format!(
            "the name server '{name}' runs on another host or as another user and has no secret; give it and the \
             mpiexec of all jobs a file with the same one (-name-server-secret FILE)"
        ),
    };
    Ok(Connection::Guest(Guest { addresses, missing }))
}

impl Guest {
    /// Returns the answer to a request.
    fn ask(&self, line: &[u8]) -> Vec<u8> {
        if Line::parse(line).command() != b"lookup_name" {
            return refusal(Some(line), &self.missing);
        }
        match ask(&self.addresses, (GUEST.0, &GUEST.1), line) {
            Ok((_, answer)) => Guest::pass_on(line, &answer),
            Err(_) => lost(Some(line)),
        }
    }

    /// Returns the answer to a look-up for which the server has answered `answer`.
    fn pass_on(line: &[u8], answer: &[u8]) -> Vec<u8> {
        let port = Line::parse(answer).text("port");
        match port.as_deref().and_then(PortName::parse) {
            // The server has proved nothing, so a secret in its answer could be an attacker's.
            Some(port) => {
                let port = port.without_secret().to_text(usize::MAX);
                format!("cmd=lookup_result rc=0 info=ok port={port}\n").into_bytes()
            }
            None => refusal(Some(line), "the service is not published"),
        }
    }
}

/// The end of a client, for the fuzz targets only.
#[doc(hidden)]
pub mod fuzzing {
    use super::*;

    /// Parses the answers of an unproved server, and checks what a launcher passes on of them.
    pub fn client(bytes: &[u8]) {
        if let Some(greeting) = Greeting::parse(bytes) {
            let line = greeting.to_line();
            assert_eq!(Greeting::parse(line.trim_ascii_end()), Some(greeting));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (line, answer) = bytes.split_at(end.unwrap_or(0));
        for said in [
            Guest::pass_on(line, answer),
            refusal(Some(line), "why not"),
            lost(None),
        ] {
            assert_eq!(said.iter().filter(|byte| **byte == b'\n').count(), 1);
            let port = Line::parse(said.trim_ascii_end()).text("port");
            let port = port.map(|port| PortName::parse(&port).expect("a port"));
            assert!(port.is_none_or(|port| port.secret.is_none()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_has_an_address_of_either_kind() {
        for (name, expected) in [
            ("host", ("host", PORT)),
            ("host:70", ("host", 70)),
            ("10.0.0.1:70", ("10.0.0.1", 70)),
            ("::1", ("::1", PORT)),
            ("fd98::1:70", ("fd98::1:70", PORT)),
            ("[fd98::1]", ("fd98::1", PORT)),
            ("[fd98::1]:70", ("fd98::1", 70)),
            ("fe80::1%eth0", ("fe80::1%eth0", PORT)),
        ] {
            assert_eq!(host_and_port(name), expected, "{name}");
        }
    }
}
