//! Clients of a port for the fuzz target of connecting jobs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Admitted, Initiator, Role, Sealed};
use pmi::port_name::{self, PortName};
use rustix::net::sockopt::set_socket_linger;

use super::ports::{PROTOCOL, Port, Reach};
use super::socket::{Frame, Input as _, MAX_MESSAGE};

/// Most clients at a time.
const CLIENTS: usize = 4;

/// A client's end of a connection.
struct Client {
    stream: TcpStream,
    initiator: Option<Initiator>,
    sealed: Option<Sealed>,
    /// Whether it has sent only a correct handshake and correct frames.
    is_honest: bool,
    sent: Vec<Vec<u8>>,
}

/// The port's end of an admitted client.
struct Accepted {
    stream: TcpStream,
    sealed: Sealed,
    /// The local port of the client.
    client: u16,
    received: usize,
    is_over: bool,
}

impl Client {
    fn call(port: u16) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port listens");
        stream.set_nonblocking(true).expect("a socket");
        // A reset leaves no connection in TIME_WAIT, so ports don't run out.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        Client {
            stream,
            initiator: None,
            sealed: None,
            is_honest: true,
            sent: Vec::new(),
        }
    }

    fn hello(&mut self, context: u8, port: &Port) {
        if self.initiator.is_none() {
            let begun = Initiator::new(&PROTOCOL, &[context], port.secret());
            let (initiator, hello) = begun.expect("random numbers");
            let _ = self.stream.write_all(&hello);
            self.initiator = Some(initiator);
        }
    }

    fn prove(&mut self) {
        let mut challenge = [0; CHALLENGE];
        let Some(initiator) = &mut self.initiator else {
            return;
        };
        if self.sealed.is_some() || self.stream.read_exact(&mut challenge).is_err() {
            return;
        }
        if let Ok((proof, keys)) = initiator.answer(&challenge) {
            let _ = self.stream.write_all(&proof);
            self.sealed = Some(Sealed::new(&keys, Role::Initiator, MAX_MESSAGE as usize));
        }
    }

    fn send(&mut self, content: &[u8]) {
        let mut frame = Vec::new();
        let Some(sealed) = &mut self.sealed else {
            return;
        };
        if sealed.seal(content, &mut frame).is_ok() && self.stream.write_all(&frame).is_ok() {
            self.sent.push(content.to_vec());
        }
    }

    fn number(&self) -> u16 {
        self.stream.local_addr().map_or(0, |at| at.port())
    }
}

impl Accepted {
    fn of(admitted: Admitted<TcpStream>) -> Accepted {
        Accepted {
            client: admitted.connection.peer_addr().map_or(0, |at| at.port()),
            sealed: Sealed::new(&admitted.keys, Role::Responder, MAX_MESSAGE as usize),
            stream: admitted.connection,
            received: 0,
            is_over: false,
        }
    }

    /// Reads frames and checks that they are those that the client has sealed.
    fn receive(&mut self, client: Option<&Client>) {
        let mut buffer = [0; 64];
        while !self.is_over {
            let mut input = Frame::new(&mut self.sealed, true);
            let mut is_right = input.look().is_ok();
            while is_right && input.wanted() > 0 {
                match self.stream.read(&mut buffer) {
                    Ok(bytes @ 1..) => is_right = input.take(&buffer[..bytes]).is_ok(),
                    Ok(0) => self.is_over = true,
                    _ => return,
                }
                if self.is_over {
                    return;
                }
            }
            match input.frame() {
                Some(frame) if is_right => {
                    if let Some(client) = client {
                        assert_eq!(client.sent.get(self.received), Some(&frame));
                    }
                    self.received += 1;
                }
                _ => {
                    assert!(client.is_none_or(|client| !client.is_honest));
                    self.is_over = true;
                }
            }
        }
    }
}

/// Opens a port and runs clients, honest and hostile ones, as the input directs.
pub fn port(bytes: &[u8]) {
    let mut input = bytes;
    let mut take = |count: usize| {
        let (head, rest) = input.split_at(count.min(input.len()));
        input = rest;
        head.to_vec()
    };
    let port = Port::open_for_spawn(1, Reach::Host).expect("a loopback interface");
    let name = PortName::parse(&port.name(256)).expect("a name");
    let mut clients: Vec<Client> = Vec::new();
    let mut accepted: Vec<Accepted> = Vec::new();
    while let [code] = take(1)[..] {
        let has_room = clients.len() < CLIENTS;
        let which = usize::from(code >> 4) % clients.len().max(1);
        match (code % 8, clients.get_mut(which)) {
            (0, _) if has_room => clients.push(Client::call(name.port)),
            (1, Some(client)) => {
                let count = take(1).first().copied().unwrap_or(0);
                let piece = take(count.into());
                client.is_honest &= piece.is_empty();
                let _ = client.stream.write_all(&piece);
            }
            (2, Some(client)) => client.hello(port_name::CLIENT, &port),
            (3, Some(client)) => client.hello(port_name::ENDED, &port),
            (4, Some(client)) => client.prove(),
            (5 | 6, Some(client)) => {
                let count = take(1).first().copied().unwrap_or(0);
                client.send(&take(count.into()));
            }
            (7, Some(_)) => drop(clients.remove(which)),
            _ => {}
        }
        for _ in 0..3 {
            accepted.extend(port.next_admitted().map(Accepted::of));
        }
        for one in &mut accepted {
            let client = clients.iter().find(|client| client.number() == one.client);
            assert!(client.is_none_or(|client| client.sealed.is_some()));
            one.receive(client);
        }
        accepted.retain(|one| !one.is_over);
    }
}
