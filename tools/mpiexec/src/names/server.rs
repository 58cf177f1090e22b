//! The name server: keeps names for the jobs of several launchers, until it is ended.
//!
//! Resources that strangers can use are bounded: unproved connections have slots ([`Pending`]),
//! guests have slots and a time, a connection's turn is one read, and a client that doesn't read
//! its answers is dropped.

#[doc(hidden)]
pub mod fuzzing;

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use netmod_kit::admission::{Accepted, Admitted, Pending, Role, Secret, Served, descriptors};
use pmi::names::{Names, Rights};
use pmi::wire::Line;

use super::access::{self, ANSWER, GUEST, Greeting, PORT, PROTOCOL, SECRET};
use super::channel::Channel;
use crate::options::NameServer;
use crate::system;

/// Most unproved connections.
const SLOTS: usize = 64;
/// Most clients that have proved nothing (guests).
const GUESTS: usize = 64;
/// Time for which a client that has proved nothing may stay idle.
const IDLE: Duration = Duration::from_secs(30);
/// Time until the next try if a connection can't be taken in.
const PAUSE: Duration = Duration::from_millis(100);

/// A client.
struct Client {
    channel: Channel,
    rights: Rights,
    /// The time of its last request.
    since: Instant,
}

/// The owner of a descriptor in the poll list.
#[derive(Clone, Copy)]
enum Whose {
    Port,
    Socket,
    Unproved(usize),
    Client(usize),
}

struct Server {
    port: TcpListener,
    socket: UnixListener,
    greeting: Greeting,
    secret: Option<Secret>,
    pending: Pending<TcpStream>,
    clients: Vec<Client>,
    names: Names,
    /// When to look at the listeners again, if a connection could not be taken in.
    pause: Option<Instant>,
}

/// Runs the server.
pub fn serve(settings: &NameServer) -> ExitCode {
    let error = match Server::open(settings) {
        Ok(mut server) => loop {
            server.turn(None);
        },
        Err(error) => error,
    };
    eprintln!("mpiexec: the name server can't be started: {error}");
    ExitCode::FAILURE
}

impl Server {
    fn open(settings: &NameServer) -> Result<Server, String> {
        let secret = settings
            .secret
            .as_deref()
            .map(|file: &OsStr| access::FILE.read(file));
        let secret = secret.transpose()?;
        let port = settings.port.unwrap_or(PORT);
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .and_then(|one| one.set_nonblocking(true).map(|()| one));
        let listener = listener.map_err(|error| format!("port {port}: {error}"))?;
        let socket = access::listen().map_err(|error| format!("a Unix socket: {error}"));
        let (socket, name) = socket?;
        let at = listener.local_addr().map_or(port, |at| at.port());
        println!("mpiexec: the name server listens on port {at}");
        Ok(Server::new(listener, socket, name, secret))
    }

    /// Serves `port` and, for processes of the same user, `socket`, whose name is `name`.
    fn new(
        port: TcpListener,
        socket: UnixListener,
        name: String,
        secret: Option<Secret>,
    ) -> Server {
        Server {
            port,
            socket,
            greeting: Greeting {
                socket: Some(name),
                has_secret: secret.is_some(),
            },
            secret,
            pending: Pending::new(PROTOCOL, SLOTS, ANSWER),
            clients: Vec::new(),
            names: Names::default(),
            pause: None,
        }
    }

    /// Waits for an event, at most for `limit`, and handles it.
    fn turn(&mut self, limit: Option<Duration>) {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut whose = Vec::new();
        let mut add = |fd: RawFd, one| {
            entries.push(libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            whose.push(one);
        };
        let now = Instant::now();
        self.pause.take_if(|until| *until <= now);
        if self.pause.is_none() {
            add(self.socket.as_raw_fd(), Whose::Socket);
            if self.pending.has_room() {
                add(self.port.as_raw_fd(), Whose::Port);
            }
        }
        for (fd, slot) in self.pending.descriptors() {
            add(fd, Whose::Unproved(slot));
        }
        for (number, client) in self.clients.iter().enumerate() {
            add(client.channel.as_raw_fd(), Whose::Client(number));
        }
        let guests = self
            .clients
            .iter()
            .filter(|one| one.rights == Rights::LookUp);
        let due = guests.map(|one| one.since + IDLE).min();
        let due = [
            due,
            self.pending.deadline(),
            self.pause,
            limit.map(|limit| now + limit),
        ]
        .into_iter()
        .flatten()
        .min();
        let wait = due.map_or(-1, |due| {
            let left = due.saturating_duration_since(now);
            // Rounded up, so that poll does not return before the deadline.
            left.as_millis().min(60_000) as i32 + 1
        });
        system::poll(&mut entries, wait);
        let ready = entries.iter().map(|entry| entry.revents != 0);
        let ready: Vec<Whose> = ready
            .zip(whose)
            .filter(|one| one.0)
            .map(|one| one.1)
            .collect();
        // Clients are removed at the end, since `ready` refers to them by index.
        let mut gone = Vec::new();
        for one in ready {
            match one {
                Whose::Client(number) => gone.extend((!self.hear(number)).then_some(number)),
                Whose::Unproved(slot) => self.admit(slot),
                Whose::Port => self.accept(),
                Whose::Socket => self.accept_own(),
            }
        }
        for number in gone.into_iter().rev() {
            self.clients.remove(number);
        }
        self.look_at_clock();
    }

    /// Takes in connections at the TCP port.
    fn accept(&mut self) {
        let accept = || {
            let (stream, _) = self.port.accept()?;
            // A client that does not read its answers must not hold up others.
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        if self.pending.accept(accept, |_, _| Ok(())) == Accepted::Short && self.pending.has_room()
        {
            self.make_way();
        }
    }

    /// Takes in connections at the socket for the own user.
    fn accept_own(&mut self) {
        for _ in 0..16 {
            match self.socket.accept() {
                Ok((stream, _)) => {
                    if netmod_kit::is_own(&stream) && stream.set_nonblocking(true).is_ok() {
                        self.add(Channel::own(stream), Rights::All);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if descriptors::are_short(&error) => {
                    if !descriptors::raise_limit() && !self.pending.drop_oldest() {
                        return self.make_way();
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Drops a guest to free a descriptor, or pauses accepting.
    fn make_way(&mut self) {
        if !self.drop_guest() {
            self.pause = Some(Instant::now() + PAUSE);
        }
    }

    /// Drops the guest that has been idle for longest.
    fn drop_guest(&mut self) -> bool {
        let guests = self.clients.iter().enumerate();
        let guests = guests.filter(|(_, one)| one.rights == Rights::LookUp);
        let oldest = guests
            .min_by_key(|(_, one)| one.since)
            .map(|(number, _)| number);
        oldest.map(|number| self.clients.remove(number)).is_some()
    }

    /// Continues the handshake of an unproved connection.
    fn admit(&mut self, slot: usize) {
        let secret = self.secret;
        let served = self.pending.serve(slot, |context| match context {
            [SECRET] => secret,
            [one] if *one == GUEST.0 => Some(GUEST.1),
            _ => None,
        });
        if let Served::Admitted(Admitted {
            connection,
            context,
            keys,
        }) = served
        {
            let rights = match context == [SECRET] {
                true => Rights::All,
                false => {
                    self.pending.forget_proof();
                    Rights::LookUp
                }
            };
            self.add(Channel::sealed(connection, &keys, Role::Responder), rights);
        }
    }

    fn add(&mut self, channel: Channel, rights: Rights) {
        self.clients.push(Client {
            channel,
            rights,
            since: Instant::now(),
        });
    }

    /// Answers a client's requests. Returns whether the client is still connected.
    fn hear(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(number) else {
            return true;
        };
        let rights = client.rights;
        let (mut answers, mut understood) = (Vec::new(), true);
        let received = client.channel.receive(|line| {
            let line = Line::parse(line);
            let answer = match line.command() {
                b"weft_names" => Some(self.greeting.to_line()),
                _ => self.names.answer(&line, rights),
            };
            understood &= answer.is_some();
            answers.extend(answer);
        });
        let mut send = |answer: &Vec<u8>| client.channel.send(answer);
        let answered = answers.iter().try_for_each(&mut send);
        client.since = Instant::now();
        let open = match received {
            Ok(open) => open,
            Err(error) => is_harmless(&error),
        };
        open && understood && answered.is_ok()
    }

    /// Drops connections past their deadline, and surplus guests.
    fn look_at_clock(&mut self) {
        let now = Instant::now();
        self.pending.expire(now);
        self.clients
            .retain(|one| one.rights == Rights::All || now < one.since + IDLE);
        let guests = |clients: &[Client]| {
            let guests = clients.iter().filter(|one| one.rights == Rights::LookUp);
            guests.count()
        };
        while guests(&self.clients) > GUESTS {
            self.drop_guest();
        }
    }
}

fn is_harmless(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
