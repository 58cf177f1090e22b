//! Lines that ranks print, put together from the pieces in which they come.
//!
//! Several ranks print to the same place, so a line is passed on when its end has come. A piece of a line
//! that stays without an end is passed on all the same after a while: it may be a question.

use std::time::{Duration, Instant};

/// How long the rest of a line is waited for: long enough for a rank that gets no processor.
pub const PIECE: Duration = Duration::from_secs(1);
/// The same for a rank that somebody at a terminal talks to: what has no end may be a question.
const QUESTION: Duration = Duration::from_millis(50);
/// A line longer than this is passed on in pieces.
const LONGEST: usize = 1 << 20;

/// One stream of one rank.
#[derive(Default)]
pub struct Lines {
    /// The start of a line whose end hasn't come.
    start: Vec<u8>,
    /// When it is passed on all the same.
    until: Option<Instant>,
    /// It may be a question to somebody who waits for it.
    asks: bool,
}

impl Lines {
    /// Says whether somebody at a terminal may be waiting for a question.
    pub fn set_asks(&mut self, asks: bool) {
        self.asks = asks;
    }

    /// Adds what has come; returns the lines that are whole.
    pub fn add(&mut self, bytes: &[u8], now: Instant) -> Vec<u8> {
        // Only what is new is searched.
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

    /// When a piece of a line is to be passed on.
    pub fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Everything that is left.
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
