//! Forwarding of the ranks' output to the launcher's standard output and error.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;

use crate::system;

/// The launcher's standard output or standard error.
///
/// Writes must not block the poll loop. The descriptors are shared with the parent process, so they
/// can't be made non-blocking; instead each write is at most [`ROOM`] bytes after a successful
/// poll.
pub struct Sink {
    descriptor: RawFd,
    queue: Vec<u8>,
    written: usize,
    /// The reader has closed the stream.
    broken: bool,
    /// Another error of a write; later output is discarded, and the ranks go on.
    failed: Option<io::Error>,
    /// Whether the last byte was not a newline.
    within_line: bool,
}

/// Bytes that a writable pipe takes without blocking: PIPE_BUF of Linux.
const ROOM: usize = 4096;

/// Queued bytes at which the launcher stops reading from ranks.
const ENOUGH: usize = 256 * 1024;

impl Sink {
    /// Creates the sink of descriptor 1 or 2.
    pub fn new(descriptor: RawFd) -> Sink {
        Sink {
            descriptor,
            queue: Vec::new(),
            written: 0,
            broken: false,
            failed: None,
            within_line: false,
        }
    }

    /// Returns the descriptor, to be polled for writing while [`Self::waits`].
    pub fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// Returns whether bytes are queued.
    pub fn waits(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Returns whether reading for this sink must pause.
    pub fn is_full(&self) -> bool {
        self.queue.len() - self.written >= ENOUGH
    }

    /// Returns whether the reader has closed the stream.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the error of a write, other than a closed stream.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Queues bytes. Discards them if the stream is closed or has failed.
    pub fn push(&mut self, bytes: &[u8]) {
        let open = !self.broken && self.failed.is_none();
        if let (true, Some(&last)) = (open, bytes.last()) {
            self.queue.extend_from_slice(bytes);
            self.within_line = last != b'\n';
        }
    }

    /// Writes as much as possible without blocking.
    pub fn write_ready(&mut self) {
        while self.waits() && self.is_writable(0) {
            self.write_some();
        }
    }

    /// Writes all queued bytes; blocks while the reader is slow.
    pub fn write_all(&mut self) {
        while self.waits() {
            self.is_writable(-1);
            self.write_some();
        }
    }

    fn is_writable(&self, timeout: i32) -> bool {
        let mut entry = [libc::pollfd {
            fd: self.descriptor,
            events: libc::POLLOUT,
            revents: 0,
        }];
        system::poll(&mut entry, timeout);
        entry[0].revents != 0
    }

    fn write_some(&mut self) {
        let rest = &self.queue[self.written..];
        let piece = &rest[..rest.len().min(ROOM)];
        match system::write(self.descriptor, piece) {
            Ok(n) => self.written += n,
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock) => {}
            Err(e) => {
                self.written = self.queue.len();
                match e.kind() {
                    io::ErrorKind::BrokenPipe => self.broken = true,
                    _ => self.failed = Some(e),
                }
            }
        }
        if self.written == self.queue.len() {
            self.queue.clear();
            self.written = 0;
        } else if self.written > ENOUGH {
            self.queue.drain(..self.written);
            self.written = 0;
        }
    }
}

/// Most bytes of a rank's output that are kept for the summary of wait reports.
pub const ATTENTION: usize = 256 * 1024;

/// Creates a file for ranks' output, and its folder if `folder`.
pub fn create(name: &OsStr, folder: bool) -> io::Result<File> {
    if let Some(folder) = std::path::Path::new(name).parent().filter(|_| folder) {
        std::fs::create_dir_all(folder)?;
    }
    File::create(name)
}

/// Writes a message of the launcher, on a line of its own.
pub fn message(sink: &mut Sink, text: &str) {
    if sink.within_line {
        sink.push(b"\n");
    }
    for line in text.lines() {
        sink.push(b"mpiexec: ");
        sink.push(line.as_bytes());
        sink.push(b"\n");
    }
    sink.write_ready();
}

/// Queued bytes for a rank.
#[derive(Default)]
pub struct Outbox {
    queue: Vec<u8>,
}

impl Outbox {
    /// Returns whether bytes are queued.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Discards the queue.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Queues bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Writes as much as the non-blocking `to` takes. Returns `false` if it is closed or has
    /// failed.
    pub fn write(&mut self, to: &mut impl Write) -> bool {
        while self.waits() {
            match to.write(&self.queue) {
                Ok(0) => return false,
                Ok(n) => drop(self.queue.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// Prints to standard output. Ignores a reader that has closed it.
pub fn print(text: &str) -> std::process::ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}
