//! Clients of a name server, for the fuzz targets only.

use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Initiator, Keys, Sealed};
use std::io::{Read, Write};

use super::*;
use crate::names::channel::MAX_LINE;

/// Connections, at most.
const CALLS: usize = 4;
/// Bytes of a piece whose length is a byte.
const ALL: u8 = 255;

/// A connection to the server.
struct Caller {
    stream: TcpStream,
    initiator: Option<Initiator>,
    sealed: Option<Sealed>,
    /// Whether it has proved the server's secret.
    is_member: bool,
}

/// Takes the first bytes of an input.
fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    head
}

fn byte(input: &mut &[u8]) -> u8 {
    take(input, 1).first().copied().unwrap_or(0)
}

fn piece<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    match byte(input) {
        ALL => take(input, usize::MAX),
        length => take(input, length.into()),
    }
}

impl Caller {
    /// Sends the hello of a member, or of a guest.
    fn hello(&mut self, is_member: bool) {
        let (context, secret) = match is_member {
            true => (SECRET, secret()),
            false => GUEST,
        };
        if self.initiator.is_some() {
            return;
        }
        let begun = Initiator::new(&PROTOCOL, &[context], &secret);
        let (initiator, hello) = begun.expect("random numbers");
        let _ = self.stream.write_all(&hello);
        (self.initiator, self.is_member) = (Some(initiator), is_member);
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
            self.sealed = Some(seal(&keys));
        }
    }

    fn ask(&mut self, line: &[u8]) {
        let mut frame = Vec::new();
        let sealed = self.sealed.as_mut();
        if sealed.is_some_and(|sealed| sealed.seal(line, &mut frame).is_ok()) {
            let _ = self.stream.write_all(&frame);
        }
    }

    /// Reads what the server has sent and checks it. Only members learn the secrets of ports.
    fn listen(&mut self) {
        let Some(sealed) = &mut self.sealed else {
            return;
        };
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = self.stream.read(&mut buffer) {
            sealed.push(&buffer[..bytes]);
            while let Some(line) = sealed.next_frame().expect("frames of the server") {
                assert!(!line.contains(&b'\n'));
                let line = Line::parse(&line);
                let port = line.text("port");
                let port = port.as_deref().and_then(pmi::port_name::PortName::parse);
                assert!(self.is_member || port.is_none_or(|port| port.secret.is_none()));
            }
        }
    }
}

fn secret() -> Secret {
    Secret::from_bytes([7; Secret::LENGTH])
}

fn seal(keys: &Keys) -> Sealed {
    Sealed::new(keys, Role::Initiator, MAX_LINE)
}

/// Has a name server serve members, guests and strangers in turn.
pub fn server(bytes: &[u8]) {
    let mut input = bytes;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    port.set_nonblocking(true).expect("a socket");
    let at = port.local_addr().expect("an address");
    let (socket, name) = access::listen().expect("a socket");
    let mut server = Server::new(port, socket, name, Some(secret()));
    let mut callers: Vec<Caller> = Vec::new();
    while !input.is_empty() {
        let code = byte(&mut input);
        let has_room = callers.len() < CALLS;
        let which = usize::from(code >> 4) % callers.len().max(1);
        match (code % 8, callers.get_mut(which)) {
            (0, _) if has_room => {
                let stream = TcpStream::connect(at).expect("the server listens");
                stream.set_nonblocking(true).expect("a socket");
                // A reset leaves no connection in TIME_WAIT, so ports don't run out.
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
                    .expect("a socket");
                callers.push(Caller {
                    stream,
                    initiator: None,
                    sealed: None,
                    is_member: false,
                });
            }
            (1, Some(caller)) => {
                let _ = caller.stream.write(piece(&mut input));
            }
            (2, Some(caller)) => caller.hello(true),
            (3, Some(caller)) => caller.hello(false),
            (4, Some(caller)) => caller.prove(),
            (5 | 6, Some(caller)) => caller.ask(piece(&mut input)),
            (7, Some(_)) => drop(callers.remove(which)),
            _ => {}
        }
        for _ in 0..2 {
            server.turn(Some(Duration::ZERO));
        }
        callers.iter_mut().for_each(Caller::listen);
    }
}
