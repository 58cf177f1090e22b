//! Standard input on its way to the ranks that do not inherit it.
//!
//! Ranks can't inherit a terminal: they are a background process group, which the terminal would stop
//! for reading. The root reads it while it is in the foreground.

use std::io::{self, IsTerminal};

use crate::system;

/// Bytes that are read at once.
const CHUNK: usize = 32 * 1024;

/// Standard input of this process, and the ranks that get it.
pub struct Input {
    ranks: Vec<u32>,
    terminal: bool,
    /// Messages that have not been taken yet.
    out: usize,
}

impl Input {
    /// Creates the reader for these ranks; `None` if there are none.
    pub fn new(ranks: &[u32]) -> Option<Input> {
        (!ranks.is_empty()).then(|| Input {
            ranks: ranks.to_vec(),
            terminal: io::stdin().is_terminal(),
            out: 0,
        })
    }

    /// Returns the ranks that get the input.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Returns whether to read on.
    pub fn is_wanted(&self) -> bool {
        self.out == 0 && !self.waits_for_terminal()
    }

    /// Returns whether the terminal has another process group in the foreground, whose end no event
    /// announces.
    pub fn waits_for_terminal(&self) -> bool {
        self.terminal && !system::owns_terminal()
    }

    /// Reads once. Returns nothing at the end, and `None` if there is no input now.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; CHUNK];
        match system::read(0, &mut buffer) {
            Ok(n) => {
                buffer.truncate(n);
                self.out += self.ranks.len();
                Some(buffer)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => None,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(Vec::new()),
        }
    }

    /// Records that a rank has taken a message.
    pub fn taken(&mut self) {
        self.out = self.out.saturating_sub(1);
    }
}
