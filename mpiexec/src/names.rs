//! Published names (`MPI_Publish_name`): the server that keeps them for jobs of any host, and the way to whoever
//! keeps them for this one.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;
use std::time::Duration;

use pmi::names::Names;
use pmi::wire::{Line, Lines};

use crate::options::Options;
use crate::program::{NOT_RUNNABLE, Unfit};
use crate::system;

/// The port of the name server, unless it is told another.
const PORT: u16 = 6493;
/// How long the name server may take to answer a call.
const ANSWER: Duration = Duration::from_secs(5);

/// Who wants to know something about names.
#[derive(Clone, Copy)]
pub enum Asker {
    /// A rank.
    Rank(usize),
    /// A spawned job.
    Spawned(usize),
}

/// Who keeps the names.
pub struct Upstream {
    stream: TcpOrPair,
    lines: Lines,
    /// Who waits for answers, in order.
    waiting: VecDeque<Asker>,
}

/// A descriptor that was inherited, or a connection of ours.
enum TcpOrPair {
    Tcp(TcpStream),
    Pair(RawFd),
}

impl Upstream {
    /// As the command line says; none if names are kept here.
    pub fn of(options: &Options) -> Result<Option<Upstream>, Unfit> {
        let stream = if let Some(name) = &options.name_server {
            let failed = |why: String| Unfit {
                code: NOT_RUNNABLE,
                message: format!(
                    "the name server '{name}' can't be reached: {why}; start it there with 'mpiexec \
                     -name-server'"
                ),
            };
            let full = match name.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok() => name.clone(),
                _ => format!("{name}:{PORT}"),
            };
            let places = full.to_socket_addrs().map_err(|e| failed(e.to_string()))?;
            let mut reached = Err(failed("no address".into()));
            for place in places {
                reached = TcpStream::connect_timeout(&place, ANSWER)
                    .map_err(|e| failed(format!("{place}: {e}")));
                if reached.is_ok() {
                    break;
                }
            }
            let stream = reached?;
            let _ = stream.set_nodelay(true);
            TcpOrPair::Tcp(stream)
        } else if let Some(fd) = options.spawned.as_ref().and_then(|one| one.names) {
            TcpOrPair::Pair(fd)
        } else {
            return Ok(None);
        };
        Ok(Some(Upstream {
            stream,
            lines: Lines::default(),
            waiting: VecDeque::new(),
        }))
    }

    /// Where answers come from.
    pub fn descriptor(&self) -> RawFd {
        match &self.stream {
            TcpOrPair::Tcp(stream) => stream.as_raw_fd(),
            TcpOrPair::Pair(fd) => *fd,
        }
    }

    /// Asks; the line has its newline. Returns whether that was possible.
    pub fn ask(&mut self, asker: Asker, line: &[u8]) -> bool {
        // Questions are short, and each waits for its answer.
        let asked = system::write(self.descriptor(), line).is_ok_and(|bytes| bytes == line.len());
        if asked {
            self.waiting.push_back(asker);
        }
        asked
    }

    /// The answers that have come, and whether there will be any more.
    pub fn answers(&mut self) -> (Vec<(Asker, Vec<u8>)>, bool) {
        let mut buffer = [0; 4096];
        let open = match system::read(self.descriptor(), &mut buffer) {
            Ok(0) => false,
            Ok(bytes) => {
                self.lines.push(&buffer[..bytes]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut answers = Vec::new();
        while let Some(line) = self.lines.next_line() {
            let line = [line, b"\n"].concat();
            answers.extend(self.waiting.pop_front().map(|asker| (asker, line)));
        }
        (answers, open)
    }

    /// Who still waits.
    pub fn disappointed(&mut self) -> impl Iterator<Item = Asker> + '_ {
        self.waiting.drain(..)
    }
}

/// What to answer when nobody keeps the names any more.
pub fn lost(line: Option<&[u8]>) -> Vec<u8> {
    let command = line.map(|line| Line::parse(line).command().to_vec());
    let result = match command.as_deref() {
        Some(b"publish_name") => "publish_result",
        Some(b"unpublish_name") => "unpublish_result",
        _ => "lookup_result",
    };
    format!("cmd={result} rc=1 info=fail msg=the_name_server_is_gone\n").into_bytes()
}

/// A client of the name server.
struct Client {
    stream: TcpStream,
    lines: Lines,
}

/// Keeps names for whoever asks, until it is ended.
pub fn serve(port: Option<u16>) -> ExitCode {
    let port = port.unwrap_or(PORT);
    let listener =
        TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
    let listener = match listener.and_then(|one| one.set_nonblocking(true).map(|()| one)) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("mpiexec: the name server can't listen on port {port}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let at = listener.local_addr().map_or(port, |at| at.port());
    println!("mpiexec: the name server listens on port {at}");
    let mut names = Names::default();
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = vec![entry(listener.as_raw_fd())];
        entries.extend(clients.iter().map(|one| entry(one.stream.as_raw_fd())));
        system::poll(&mut entries, -1);
        while let Ok((stream, _)) = listener.accept() {
            // A client that does not read its answers must not hold up others.
            let _ = stream.set_nonblocking(true);
            clients.push(Client {
                stream,
                lines: Lines::default(),
            });
        }
        clients.retain_mut(|client| client.serve(&mut names));
    }
}

impl Client {
    /// Answers what it asks. Returns whether it is still there.
    fn serve(&mut self, names: &mut Names) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(bytes) => self.lines.push(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return !self.lines.overlong();
                }
                Err(_) => return false,
            }
            while let Some(line) = self.lines.next_line() {
                let Some(answer) = names.answer(&Line::parse(line)) else {
                    return false;
                };
                if self.stream.write_all(&answer).is_err() {
                    return false;
                }
            }
        }
    }
}
