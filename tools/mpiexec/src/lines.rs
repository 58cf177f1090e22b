//! Assembly of output into whole lines.
//!
//! Several ranks print to one stream, so bytes are passed on in whole lines. An unfinished line is
//! passed on after a while, too, since it may be a prompt.

use std::time::{Duration, Instant};

/// Time for the rest of a line: long enough for a rank that the scheduler has preempted.
pub const PIECE: Duration = Duration::from_secs(1);
/// Time for the rest of a line if it may be a prompt for a user at a terminal.
const QUESTION: Duration = Duration::from_millis(50);
/// Bytes after which an unfinished line is passed on.
const LONGEST: usize = 1 << 20;

/// The unfinished line of one stream of a rank.
#[derive(Default)]
pub struct Lines {
    /// The start of the unfinished line.
    start: Vec<u8>,
    /// The time at which it is passed on.
    until: Option<Instant>,
    /// Whether it may be a prompt for a user at a terminal.
    asks: bool,
}

impl Lines {
    /// Sets whether an unfinished line may be a prompt for a user at a terminal.
    pub fn set_asks(&mut self, asks: bool) {
        self.asks = asks;
    }

    /// Adds bytes; returns the whole lines.
    pub fn add(&mut self, bytes: &[u8], now: Instant) -> Vec<u8> {
        // `start` has no newline.
        let whole = match bytes.iter().rposition(|&b| b == b'\n') {
            Some(end) => end + 1,
            None if self.start.len() + bytes.len() > LONGEST => bytes.len(),
            None => 0,
        };
        let (end, start) = bytes.split_at(whole);
        let mut lines = Vec::new();
        if whole > 0 {
            lines = std::mem::take(&mut self.start);
            lines.extend_from_slice(end);
        }
        self.start.extend_from_slice(start);
        let patience = if self.asks { QUESTION } else { PIECE };
        self.until = (!self.start.is_empty()).then_some(now + patience);
        lines
    }

    /// Returns when the unfinished line is due.
    pub fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Takes the unfinished line.
    pub fn rest(&mut self) -> Vec<u8> {
        self.until = None;
        std::mem::take(&mut self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_passed_on_whole() {
        let mut lines = Lines::default();
        let now = Instant::now();
        assert_eq!(lines.add(b"one\ntwo\nthr", now), b"one\ntwo\n");
        assert_eq!(lines.due(), Some(now + PIECE));
        assert!(lines.add(b"e", now).is_empty());
        assert_eq!(lines.add(b"e\nfo", now), b"three\n");
        assert_eq!(lines.rest(), b"fo");
        assert_eq!(lines.due(), None);
        assert!(lines.add(b"ur", now).is_empty());
        assert_eq!(lines.rest(), b"ur");
        // Without an end for ever.
        assert_eq!(lines.add(&[b'x'; LONGEST + 1], now).len(), LONGEST + 1);
        assert_eq!(lines.due(), None);
        lines.set_asks(true);
        assert!(lines.add(b"how many? ", now).is_empty());
        assert_eq!(lines.due(), Some(now + QUESTION));
    }
}
