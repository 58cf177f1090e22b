//! Spawned jobs (`MPI_Comm_spawn`): each has a launcher of its own, this program with internal
//! options.

mod arguments;
mod offspring;
mod pool;
mod started;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use netmod_kit::admission::{Protocol, Role, Sealed, Secret, handshake};
use pmi::port_name::{self, PortName};
use pmi::wire::escape;
use pmi::words;

use crate::hosts::place::Placement;
use crate::system;

pub use offspring::{Offspring, Whose};
pub use pool::{read_used, show, slots};

/// The option of a spawned job's launcher, followed by two descriptors.
///
/// The first is a socket, from which the launcher reads all other options, and on which it answers
/// whether the job was started. The second is for published names, or -1. Other options are not on
/// the command line, since every user can read that.
pub const SPAWNED: &str = "spawned-by";
/// The option with a key and a value of the job's initial key-value space.
pub const PREPUT: &str = "preput";
/// The option with hosts, in the format of a host file, for sections that name none.
pub const OFFER: &str = "spawn-offer";
/// The option with the hosts of one section.
pub const OWN: &str = "spawn-hosts";
/// The option with all hosts of the job and their slots.
pub const POOL: &str = "spawn-pool";
/// The option with the slots of these that other jobs use: a host and a number per line.
pub const USED: &str = "spawn-used";
/// The command on the descriptor for published names that reports why the job has ended.
const END: &[u8] = b"weft_end";
/// The key of the port that the processes of a job spawned by Weft connect to.
const PARENT: &str = "weft-parent";
/// Time for an address to accept a connection.
const ANSWER: Duration = Duration::from_millis(200);
/// Time for the process that waits for a spawned job to prove the port's secret.
const PROOF: Duration = Duration::from_secs(10);
/// Time for which a report is sent again whose connection was dropped.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two such reports.
const PAUSE: Duration = Duration::from_millis(20);

/// The options of a spawned job.
#[derive(Debug)]
pub struct Spawned {
    status: RawFd,
    /// The descriptor for published names.
    pub names: Option<RawFd>,
    /// Keys and values.
    pub preput: Vec<(String, String)>,
}

fn number(text: &OsStr) -> Option<RawFd> {
    text.to_str()?.parse().ok()
}

impl Spawned {
    /// Reads the two descriptors.
    pub fn read(
        value: &mut impl FnMut(&str) -> Result<OsString, String>,
    ) -> Result<Spawned, String> {
        let mut one = || {
            number(&value("a descriptor")?)
                .ok_or_else(|| format!("internal error: -{SPAWNED} needs two descriptors"))
        };
        let status = one()?;
        let names = Some(one()?).filter(|fd| *fd >= 0);
        names.into_iter().chain([status]).for_each(system::keep);
        Ok(Spawned {
            status,
            names,
            preput: Vec::new(),
        })
    }

    /// Answers that the job has been started, and on which hosts.
    pub fn started(&self, placement: &Placement) {
        let mut text = String::from("ok");
        for (host, ranks) in placement.hosts.iter().zip(placement.ranks()) {
            text.push_str(&format!("\n{} {}", host.name, ranks.len()));
        }
        answer(self.status, &text);
    }

    /// Answers why the job can't be started.
    pub fn failed(&self, why: &str) {
        answer(self.status, &format!("no {why}"));
    }

    /// Reports the end of the job to the process that waits for its connection.
    ///
    /// The report goes to that process's port, or to its launcher if the port can't be reached.
    pub fn tell_end(&self, why: &str) {
        let why = ended(why);
        let Err(unreached) = tell_end(&self.preput, &why) else {
            return;
        };
        let Some(names) = self.names else { return };
        let why = format!(
            "{why}; the job's launcher can't reach the port of the process that spawned it ({unreached})"
        );
        let line = [b"cmd=", END, b" msg=", &escape(why.as_bytes()), b"\n"].concat();
        // The launcher of a process that does not wait any more may be gone.
        let _ = system::write(names, &line);
    }
}

/// Returns the error text for the process that waits for the connection of an ended job.
fn ended(why: &str) -> String {
    let mut text = format!("the spawned job has ended before it called MPI_Init: {why}");
    let cut = (0..=text.len().min(port_name::MAX_TEXT)).rfind(|at| text.is_char_boundary(*at));
    text.truncate(cut.unwrap_or(0));
    text
}

/// Reports the end of a spawned job with these keys to the process that waits for its connection.
///
/// # Errors
/// The reasons why no address was reached: the job has connected and the port is closed, or is on
/// another network.
fn tell_end(preput: &[(String, String)], text: &str) -> Result<(), String> {
    let port = preput.iter().find(|one| one.0 == PARENT);
    let Some(port) = port.and_then(|(_, port)| PortName::parse(port)) else {
        return Ok(());
    };
    let Some(secret) = port.secret.as_deref().and_then(Secret::from_hex) else {
        return Ok(());
    };
    // If the waiting process is on another host, no program behind a loopback address proves the
    // secret.
    let mut addresses = port.addresses;
    addresses.sort_by_key(|address| !address.is_loopback());
    let mut reasons = Vec::new();
    for address in addresses {
        let at = SocketAddr::new(address, port.port);
        match tell_end_at(at, &secret, text.as_bytes()) {
            Ok(()) => return Ok(()),
            Err(error) => reasons.push(format!("{at}: {error}")),
        }
    }
    Err(reasons.join("; "))
}

/// Proves the secret to a port, and says in one frame that the spawned job has ended.
///
/// A port drops connections without a proof for newer ones, so this one may end before its proof is read.
/// It is made again then.
fn tell_end_at(at: SocketAddr, secret: &Secret, text: &[u8]) -> io::Result<()> {
    let until = Instant::now() + AGAIN;
    loop {
        let dropped = match report(at, secret, text) {
            Err(error) => error,
            done => return done,
        };
        let is_dropped = matches!(
            dropped.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        );
        if !is_dropped || Instant::now() >= until {
            return Err(dropped);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends the report once, and waits for the frame that says that it is read.
fn report(at: SocketAddr, secret: &Secret, text: &[u8]) -> io::Result<()> {
    const PROTOCOL: Protocol = Protocol::new(port_name::LABEL, 1);
    let mut stream = TcpStream::connect_timeout(&at, ANSWER)?;
    let context = [port_name::ENDED];
    let keys = handshake::initiate_within(&stream, PROOF, &PROTOCOL, &context, secret)?;
    let mut frame = Vec::new();
    let mut sealed = Sealed::new(&keys, Role::Initiator, port_name::MAX_TEXT);
    sealed.seal(text, &mut frame).map_err(io::Error::other)?;
    stream.write_all(&frame)?;
    let mut bytes = [0; 64];
    loop {
        if let Some(frame) = sealed.next_frame().map_err(io::Error::other)? {
            return match frame == port_name::TAKEN {
                true => Ok(()),
                false => Err(io::Error::other("the port answered something else")),
            };
        }
        match stream.read(&mut bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => sealed.push(&bytes[..count]),
        }
    }
}

fn answer(status: RawFd, text: &str) {
    // The spawning process may be gone.
    let _ = system::write(status, text.as_bytes());
    system::hang_up(status);
}

/// Returns the socket for the answer, if the command line is that of a spawned job.
fn status(args: &[OsString]) -> Option<RawFd> {
    let [first, status, ..] = args else {
        return None;
    };
    let is_spawned = first.to_str().and_then(|text| text.strip_prefix('-')) == Some(SPAWNED);
    number(status).filter(|_| is_spawned)
}

/// Answers why the job can't be started, if it is a spawned one. Returns whether it is.
pub fn refuse(args: &[OsString], why: &str) -> bool {
    let status = status(args);
    if let Some(status) = status {
        answer(status, &format!("no {why}"));
    }
    status.is_some()
}

/// Returns the command line; for a spawned job, with the options from its socket.
///
/// # Errors
/// The spawning process ended before it had written them all.
pub fn whole_line(args: &[OsString]) -> Result<Cow<'_, [OsString]>, String> {
    let Some(status) = status(args) else {
        return Ok(args.into());
    };
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        match system::read(status, &mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the spawned job's options can't be read: {error}")),
        }
    }
    let words = words::decode(&bytes);
    let words = words
        .ok_or("the spawned job's options are incomplete because the spawning process has ended")?;
    Ok([args, &words].concat().into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use netmod_kit::admission::Pending;

    use super::*;

    /// Lets a launcher in, and returns its connection with the frames.
    fn admit(listener: &TcpListener, secret: &Secret) -> (TcpStream, Sealed) {
        let protocol = Protocol::new(port_name::LABEL, 1);
        let mut pending = Pending::new(protocol, 1, PROOF);
        let accept = || {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        pending.accept(accept, |_, _| Ok(()));
        loop {
            if let Some(admitted) = pending.serve_all(|_| Some(*secret)).pop() {
                admitted.connection.set_nonblocking(false).unwrap();
                let sealed = Sealed::new(&admitted.keys, Role::Responder, port_name::MAX_TEXT);
                return (admitted.connection, sealed);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_report_that_a_port_drops_is_sent_again() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (at, secret) = (listener.local_addr().unwrap(), Secret::random().unwrap());
        let theirs = secret;
        let launcher = thread::spawn(move || tell_end_at(at, &theirs, b"it has ended"));
        // Before and after the proof.
        drop(listener.accept().unwrap());
        drop(admit(&listener, &secret));
        let (mut stream, mut sealed) = admit(&listener, &secret);
        let (mut bytes, mut frame) = ([0; 1024], Vec::new());
        let text = loop {
            let count = stream.read(&mut bytes).unwrap();
            sealed.push(&bytes[..count]);
            if let Some(text) = sealed.next_frame().unwrap() {
                break text;
            }
        };
        assert_eq!(text, b"it has ended");
        assert!(!launcher.is_finished());
        sealed.seal(port_name::TAKEN, &mut frame).unwrap();
        stream.write_all(&frame).unwrap();
        launcher.join().unwrap().unwrap();
    }
}
