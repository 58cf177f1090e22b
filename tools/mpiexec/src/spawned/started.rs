//! A spawned job in the launcher of the spawning rank.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pmi::server::SPAWN_NUMBER;
use pmi::wire::Lines;
use pmi::words;

use super::{SPAWNED, ended, tell_end};
use crate::system::{self, Ending, Pid, Signals, Start};

/// Time for a new launcher to read its options.
const READ: Duration = Duration::from_secs(30);

/// A spawned job, until its launcher has ended.
pub struct SpawnedJob {
    /// The process number of its launcher.
    pub pid: Pid,
    /// The rank that has spawned it.
    pub asker: usize,
    /// The number of its processes.
    pub size: usize,
    /// Hosts and numbers of processes, once it runs.
    pub places: Vec<(String, usize)>,
    /// Whether the job has been started.
    runs: bool,
    /// The socket on which its launcher answers whether it runs, and the answer so far.
    status: Option<UnixStream>,
    word: Vec<u8>,
    names: Option<UnixStream>,
    lines: Lines,
    preput: Vec<(String, String)>,
}

impl SpawnedJob {
    /// Starts the launcher of a job.
    pub fn start(
        asker: usize,
        spawn: &pmi::Spawn,
        words: &[OsString],
        signals: &Signals,
    ) -> Result<SpawnedJob, String> {
        let failed =
            |error: std::io::Error| format!("the job's launcher can't be started: {error}");
        let (status, their_status) = UnixStream::pair().map_err(failed)?;
        let (names, their_names) = UnixStream::pair().map_err(failed)?;
        names.set_nonblocking(true).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let number = |end: &UnixStream| end.as_raw_fd().to_string().into();
        let arguments = [
            program.clone().into(),
            format!("-{SPAWNED}").into(),
            number(&their_status),
            number(&their_names),
        ];
        let nothing = File::open("/dev/null").map_err(failed)?;
        let start = Start {
            program: &program,
            arguments: &arguments,
            environment: std::env::vars_os().collect(),
            folder: None,
            streams: [Some(nothing.into()), None, None],
            inherit: vec![their_status.as_fd(), their_names.as_fd()],
            group: None,
            cpus: Vec::new(),
            memory: None,
            files: None,
        };
        let pid = system::start(start, signals).map_err(failed)?;
        drop((their_status, their_names));
        // Blocks only if the options exceed the socket's buffer, some 200 KB. If the launcher
        // doesn't read them, `news` returns the error.
        let _ = status.set_write_timeout(Some(READ));
        let _ = (&status).write_all(&words::encode(words.iter().map(OsString::as_os_str)));
        let _ = status.shutdown(Shutdown::Write);
        status.set_nonblocking(true).map_err(failed)?;
        Ok(SpawnedJob {
            pid,
            asker,
            size: spawn.size(),
            places: Vec::new(),
            runs: false,
            status: Some(status),
            word: Vec::new(),
            names: Some(names),
            lines: Lines::default(),
            preput: spawn.preput.clone(),
        })
    }

    /// Returns the status socket, until the answer has arrived.
    pub fn status(&self) -> Option<RawFd> {
        self.status.as_ref().map(UnixStream::as_raw_fd)
    }

    /// Returns the socket for published names.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.names.as_ref().map(UnixStream::as_raw_fd)
    }

    /// Returns once whether the job was started, when that is known.
    pub fn news(&mut self) -> Option<Result<usize, String>> {
        let status = self.status.as_mut()?;
        let mut buffer = [0; 4096];
        loop {
            match status.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => self.word.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => break,
            }
        }
        self.status = None;
        let word = String::from_utf8_lossy(&self.word).into_owned();
        let mut lines = word.lines();
        if lines.next() == Some("ok") {
            self.runs = true;
            let place = |line: &str| {
                let (name, count) = line.rsplit_once(' ')?;
                Some((name.to_owned(), count.parse().ok()?))
            };
            self.places = lines.filter_map(place).collect();
            return Some(Ok(self.size));
        }
        Some(Err(match word.strip_prefix("no ") {
            Some(why) => why.to_owned(),
            None => "the job's launcher has ended before it started anything".to_owned(),
        }))
    }

    /// Returns the number that the spawning rank has given the job; may be empty.
    pub fn number(&self) -> &str {
        let number = self.preput.iter().find(|pair| pair.0 == SPAWN_NUMBER);
        number.map_or("", |pair| &pair.1)
    }

    /// Returns the reason of the job's end if a signal has killed its launcher, which then can't
    /// report it.
    pub fn killed(&self, ending: Ending) -> Option<String> {
        match ending {
            Ending::Signal { number, .. } if self.runs => Some(ended(&format!(
                "its launcher was killed by signal {number}"
            ))),
            _ => None,
        }
    }

    /// Handles the end of its launcher and returns the job's exit code. Reports the end to the
    /// waiting process if the launcher was killed and could not do so itself.
    pub fn ended(&self, ending: Ending) -> i32 {
        match ending {
            _ if !self.runs => 0,
            Ending::Code(code) => code & 0xff,
            Ending::Signal { number, .. } => {
                let preput = self.preput.clone();
                let why = format!("its launcher was killed by signal {number}");
                // In a thread, since the waiting process may answer late.
                std::thread::spawn(move || tell_end(&preput, &ended(&why)));
                128 + number
            }
        }
    }

    /// Reads the job's requests.
    pub fn questions(&mut self) -> Vec<Vec<u8>> {
        let Some(names) = &mut self.names else {
            return Vec::new();
        };
        let mut buffer = [0; 4096];
        match names.read(&mut buffer) {
            Ok(0) => self.names = None,
            Ok(bytes) => self.lines.push(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.names = None,
        }
        std::iter::from_fn(|| self.lines.next_line().map(<[u8]>::to_vec)).collect()
    }

    /// Answers a request.
    pub fn answer(&mut self, line: &[u8]) {
        // Answers are short, so the socket's buffer has room for all pending ones.
        if let Some(names) = &mut self.names
            && names.write_all(line).is_err()
        {
            self.names = None;
        }
    }
}
