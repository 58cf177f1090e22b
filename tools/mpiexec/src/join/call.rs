//! The part of the other machines: they connect to the first one, and are agents from then on.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use netmod_kit::admission::{Role, handshake};

use super::{ENDING, LATE, Meeting};
use crate::agent;
use crate::report::host;
use crate::system::{self, Signals};
use crate::wire::greeting::VERSION;
use crate::wire::join::{PROTOCOL, Reply, Request};
use crate::wire::link::Link;

/// Time for one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time for the first machine to prove the secret.
const ANSWER: Duration = Duration::from_secs(5);
/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Joins the job, and looks after the ranks of this machine. Returns the exit code.
pub fn run(meeting: &Meeting) -> ExitCode {
    let signals = match Signals::take(ENDING) {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("can't take signals over: {error}")),
    };
    let joined = join(meeting, &signals);
    match joined {
        // The first machine's patience begins before or after this one's.
        Ok(link) => agent::run_joined(link, signals, meeting.patience() + meeting.patience()),
        Err(text) => fail(&text),
    }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("mpiexec on {}: {text}", host());
    ExitCode::FAILURE
}

/// Connects to the first machine until it answers or the time is over.
fn join(meeting: &Meeting, signals: &Signals) -> Result<Link, String> {
    let began = Instant::now();
    let until = began + meeting.patience();
    let mut is_late = false;
    loop {
        let why = match attempt(meeting) {
            Ok(link) => match ask(meeting, signals, link, until)? {
                Some(link) => return Ok(link),
                // It drops connections without a proof for newer ones, and may have read none in time.
                None => "it has hung up".to_owned(),
            },
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                "the process there has another secret, or is no mpiexec -join".to_owned()
            }
            Err(error) => error.to_string(),
        };
        signals.obey();
        let now = Instant::now();
        if now >= until {
            return Err(format!(
                "the first machine (index 0) can't be joined within {} seconds at {}: {why}; start the \
                 same command there, or wait longer by -bootstrap-timeout SECONDS",
                meeting.patience, meeting.place
            ));
        }
        if !is_late && now >= began + LATE {
            is_late = true;
            eprintln!(
                "mpiexec on {}: waiting for the first machine (index 0) at {}: {why}",
                host(),
                meeting.place
            );
        }
        std::thread::sleep(PAUSE.min(until - now));
    }
}

fn attempt(meeting: &Meeting) -> io::Result<Link> {
    let mut failed = io::Error::from(ErrorKind::NotFound);
    for address in meeting.addresses()? {
        let joined = TcpStream::connect_timeout(&address, ATTEMPT).and_then(|stream| {
            stream.set_nodelay(true)?;
            let secret = &meeting.secret;
            let keys = handshake::initiate_within(&stream, ANSWER, &PROTOCOL, &[], secret)?;
            Link::new(stream, &keys, Role::Initiator)
        });
        match joined {
            Ok(link) => return Ok(link),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Asks to join over a connection that has proved the secret. Returns `None` if the first machine has ended the
/// connection before it answered.
fn ask(
    meeting: &Meeting,
    signals: &Signals,
    mut link: Link,
    until: Instant,
) -> Result<Option<Link>, String> {
    link.send(&Request::Join {
        version: VERSION.to_owned(),
        size: meeting.size as u32,
        index: meeting.index.map(|index| index as u32),
        name: host(),
    });
    loop {
        match link.next::<Reply>() {
            Ok(Some(Reply::Welcome {})) => return Ok(Some(link)),
            Ok(Some(Reply::Refused { text })) => return Err(text),
            Ok(None) => {}
            Err(_) => return Err("the first machine sent something that is no answer".to_owned()),
        }
        if !link.is_open() {
            return Ok(None);
        }
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err("the first machine (index 0) has not answered".to_owned());
        }
        let mut entries = [link.descriptor(), signals.descriptor()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        system::poll(&mut entries, wait.as_millis() as i32 + 1);
        signals.obey();
        link.flush();
        link.read();
    }
}
