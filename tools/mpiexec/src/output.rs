//! What ranks print, on its way to our own standard output and error.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use crate::lines::Lines;
use crate::system;

/// Where lines end up: standard output or standard error.
///
/// Writing must not keep the launcher from its other duties, but our descriptors are shared with
/// whoever started us, so they can't be made non-blocking: each write is small enough for the
/// room that poll vouches for.
pub struct Sink {
    descriptor: RawFd,
    queue: Vec<u8>,
    written: usize,
    /// The reader has left.
    broken: bool,
    /// Writing has failed for another reason: what comes is lost, but whoever prints goes on.
    failed: Option<io::Error>,
    /// The last byte that came was not the end of a line.
    within_line: bool,
}

/// A pipe that poll calls writable takes this much (POSIX's PIPE_BUF on Linux) without waiting.
const ROOM: usize = 4096;

/// From this many waiting bytes on the ranks have to wait, too.
const ENOUGH: usize = 256 * 1024;

impl Sink {
    /// Standard output (1) or standard error (2).
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

    /// To be polled for writing when something waits.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// Whether something waits to be written.
    pub fn waits(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Whether no more should be read for this sink at the moment.
    pub fn is_full(&self) -> bool {
        self.queue.len() - self.written >= ENOUGH
    }

    /// Whether the reader has left.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Why it can't be written to any more, the reader's leave aside.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Adds bytes to what waits.
    pub fn push(&mut self, bytes: &[u8]) {
        let open = !self.broken && self.failed.is_none();
        if let (true, Some(&last)) = (open, bytes.last()) {
            self.queue.extend_from_slice(bytes);
            self.within_line = last != b'\n';
        }
    }

    /// Writes as much as can be written without waiting.
    pub fn write_ready(&mut self) {
        while self.waits() && self.is_writable(0) {
            self.write_some();
        }
    }

    /// Writes everything, however long the reader takes.
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

/// The reading end of one rank's standard output or error.
pub struct Source {
    pipe: File,
    /// The start of a line whose end hasn't come yet, with labels.
    line: Vec<u8>,
    /// The same without: it isn't kept for ever.
    pieces: Lines,
    /// How many lines have ended.
    lines: usize,
    /// What has come since it is listened to, up to a limit.
    heard: Option<Vec<u8>>,
}

/// As much of what a rank says is listened to.
pub const ATTENTION: usize = 256 * 1024;

/// Makes a file that ranks' output goes to; `folder` says whether to make the folder that it is in.
pub fn create(name: &OsStr, folder: bool) -> io::Result<File> {
    if let Some(folder) = std::path::Path::new(name).parent().filter(|_| folder) {
        std::fs::create_dir_all(folder)?;
    }
    File::create(name)
}

/// A line longer than this is passed on in pieces.
const LONGEST: usize = 16 << 20;

impl From<Source> for File {
    fn from(source: Source) -> File {
        source.pipe
    }
}

impl Source {
    /// Over the pipe that a rank writes to.
    pub fn new(pipe: OwnedFd) -> io::Result<Source> {
        system::set_nonblocking(&pipe)?;
        Ok(Source {
            pipe: File::from(pipe),
            line: Vec::new(),
            pieces: Lines::default(),
            lines: 0,
            heard: None,
        })
    }

    /// To be polled for reading.
    pub fn descriptor(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// Says whether somebody at a terminal may be waiting for a question.
    pub fn set_asks(&mut self, asks: bool) {
        self.pieces.set_asks(asks);
    }

    /// When a piece of a line is to be passed on.
    pub fn due(&self) -> Option<Instant> {
        self.pieces.due()
    }

    /// Passes on the piece of a line that has waited long enough. Returns `false` when no more will come.
    pub fn pass_piece(&mut self, sink: &mut Sink, now: Instant) -> bool {
        let Some(until) = self.due().filter(|until| now >= *until) else {
            return true;
        };
        // The rest may have come while nothing could be read.
        let open = self.read(sink, None);
        if self.due() == Some(until) {
            sink.push(&self.pieces.rest());
        }
        open
    }

    /// How many lines have come to their end.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Keeps what comes from now on.
    pub fn listen(&mut self) {
        self.heard = Some(Vec::new());
    }

    /// What has come since then.
    pub fn heard(&self) -> &[u8] {
        self.heard.as_deref().unwrap_or_default()
    }

    /// Passes on to `sink` what is there, each line behind `label` if there is one. Returns `false`
    /// when no more will come.
    pub fn read(&mut self, sink: &mut Sink, label: Option<&[u8]>) -> bool {
        let mut buffer = [0u8; 16 * 1024];
        match self.pipe.read(&mut buffer) {
            Ok(0) => {
                self.finish(sink, label);
                false
            }
            Ok(n) => {
                if let Some(heard) = &mut self.heard {
                    let room = ATTENTION.saturating_sub(heard.len());
                    heard.extend_from_slice(&buffer[..n.min(room)]);
                }
                self.lines += buffer[..n].iter().filter(|&&b| b == b'\n').count();
                match label {
                    None => sink.push(&self.pieces.add(&buffer[..n], Instant::now())),
                    Some(label) => self.label(&buffer[..n], sink, label),
                }
                true
            }
            Err(e) => matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    /// Passes on everything that is in the pipe now, and then a last line without end.
    pub fn drain(&mut self, sink: &mut Sink, label: Option<&[u8]>) {
        let mut entry = [libc::pollfd {
            fd: self.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        }];
        loop {
            entry[0].revents = 0;
            system::poll(&mut entry, 0);
            if entry[0].revents & libc::POLLIN == 0 || !self.read(sink, label) {
                break;
            }
            if sink.is_full() {
                sink.write_all();
            }
        }
        self.finish(sink, label);
    }

    fn finish(&mut self, sink: &mut Sink, label: Option<&[u8]>) {
        sink.push(&self.pieces.rest());
        if !self.line.is_empty() {
            self.label(b"\n", sink, label.unwrap_or_default());
        }
    }

    fn label(&mut self, bytes: &[u8], sink: &mut Sink, label: &[u8]) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > LONGEST {
                sink.push(label);
                sink.push(&self.line);
                if !piece.ends_with(b"\n") {
                    sink.push(b"\n");
                }
                self.line.clear();
            }
        }
    }
}

/// Writes a message of our own to standard error, behind what the ranks wrote there.
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

/// Bytes on their way to a rank.
#[derive(Default)]
pub struct Outbox {
    queue: Vec<u8>,
}

impl Outbox {
    /// Whether something waits to be written.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Forgets what waits: nobody will read it.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Writes what the non-blocking `to` takes now. `false` when it takes no more for ever.
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
