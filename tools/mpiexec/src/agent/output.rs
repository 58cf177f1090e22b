//! Standard output, error and input of an agent's ranks.

use std::fs::File;
use std::io::{self, ErrorKind, PipeWriter, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use crate::lines::Lines;
use crate::output::Outbox;
use crate::system;

/// What a rank prints to one of its streams.
#[derive(Default)]
pub struct Output {
    pipe: Option<File>,
    /// The start of an unfinished line.
    pieces: Lines,
    /// Number of finished lines.
    lines: usize,
    /// `lines` when the rank was last asked for a wait report.
    marked: usize,
}

impl Output {
    /// Creates the reader of a pipe. `asks` is whether an unfinished line may be a prompt.
    pub fn new(pipe: OwnedFd, asks: bool) -> io::Result<Output> {
        system::set_nonblocking(&pipe)?;
        let mut output = Output {
            pipe: Some(File::from(pipe)),
            ..Output::default()
        };
        output.pieces.set_asks(asks);
        Ok(output)
    }

    /// Returns the descriptor to be polled for reading; `None` at the end of the stream.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Returns when to call [`Self::piece`].
    pub fn due(&self) -> Option<Instant> {
        self.pieces.due()
    }

    /// Closes the pipe, which the rank notices when it writes.
    pub fn close(&mut self) {
        self.pipe = None;
        self.pieces.rest();
    }

    /// Starts counting the lines for [`Self::has_answered`].
    pub fn mark(&mut self) {
        self.marked = self.lines;
    }

    /// Returns whether `lines` lines have followed the mark.
    pub fn has_answered(&self, lines: usize) -> bool {
        self.lines >= self.marked + lines
    }

    /// Reads once. Returns the whole lines.
    pub fn read(&mut self, now: Instant) -> Vec<u8> {
        let mut buffer = [0u8; 16 * 1024];
        let Some(pipe) = &mut self.pipe else {
            return Vec::new();
        };
        match pipe.read(&mut buffer) {
            Ok(n) if n > 0 => {
                let got = &buffer[..n];
                self.lines += got.iter().filter(|&&b| b == b'\n').count();
                self.pieces.add(got, now)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Vec::new()
            }
            _ => {
                self.pipe = None;
                self.pieces.rest()
            }
        }
    }

    /// Returns an unfinished line that is due.
    pub fn piece(&mut self, now: Instant) -> Vec<u8> {
        let Some(until) = self.due().filter(|until| now >= *until) else {
            return Vec::new();
        };
        // The rest may have come while nothing could be read.
        let mut whole = self.read(now);
        if self.due() == Some(until) {
            whole.extend(self.pieces.rest());
        }
        whole
    }

    /// Returns everything that is left, and closes the pipe even if a process still holds the other
    /// end.
    pub fn drain(&mut self) -> Vec<u8> {
        let mut all = self.pieces.rest();
        if let Some(mut pipe) = self.pipe.take() {
            let mut buffer = [0u8; 16 * 1024];
            while let Ok(n) = pipe.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                all.extend_from_slice(&buffer[..n]);
            }
        }
        all
    }
}

/// Standard input on its way to a rank.
pub struct Feed {
    to: Option<PipeWriter>,
    waiting: Outbox,
    /// Whether the input ends behind what waits.
    ends: bool,
    /// Messages that the rank has not taken yet.
    owed: usize,
}

impl Feed {
    /// Creates the writer of a rank's standard input.
    pub fn new(to: PipeWriter) -> io::Result<Feed> {
        system::set_nonblocking(&to)?;
        Ok(Feed {
            to: Some(to),
            waiting: Outbox::default(),
            ends: false,
            owed: 0,
        })
    }

    /// Returns the descriptor to be polled for writing, while input waits.
    pub fn wanted(&self) -> Option<RawFd> {
        let to = self.to.as_ref().filter(|_| self.waiting.waits())?;
        Some(to.as_raw_fd())
    }

    /// Queues the input of one message; an empty message ends the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ends |= bytes.is_empty();
        self.waiting.push(bytes);
        self.owed += 1;
    }

    /// Writes what the rank takes. Returns the number of messages that are done with.
    pub fn write(&mut self) -> usize {
        if let Some(to) = &mut self.to
            && !self.waiting.write(to)
        {
            // The rank reads no more.
            self.to = None;
        }
        if self.to.is_none() {
            self.waiting.clear();
        }
        if self.waiting.waits() {
            return 0;
        }
        if self.ends {
            self.to = None;
        }
        std::mem::take(&mut self.owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::PIECE;
    use std::io::Write;

    #[test]
    fn lines_are_passed_on_whole() {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut output = Output::new(read.into(), false).unwrap();
        let now = Instant::now();
        write.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(output.read(now), b"one\ntwo\n");
        assert!(output.has_answered(2) && !output.has_answered(3));
        assert!(output.piece(now).is_empty());
        write.write_all(b"ee\nfo").unwrap();
        assert_eq!(output.read(now), b"three\n");
        assert_eq!(output.piece(now + PIECE), b"fo");
        assert_eq!(output.due(), None);
        write.write_all(b"ur").unwrap();
        drop(write);
        assert!(output.read(now).is_empty());
        assert_eq!(output.read(now), b"ur");
        assert_eq!(output.descriptor(), None);
    }
}
