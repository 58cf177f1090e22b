//! Standard input on its way to ranks of any host.

use std::io::{self, IsTerminal};

use crate::system;

/// Bytes that are read at once.
const CHUNK: usize = 32 * 1024;

/// What is read, for whom, and whether they have taken it.
pub struct Input {
    ranks: Vec<u32>,
    terminal: bool,
    /// Messages that have not been taken yet.
    out: usize,
}

impl Input {
    /// For these ranks; `None` if there are none.
    pub fn new(ranks: &[u32]) -> Option<Input> {
        (!ranks.is_empty()).then(|| Input {
            ranks: ranks.to_vec(),
            terminal: io::stdin().is_terminal(),
            out: 0,
        })
    }

    /// Who gets it.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Whether to read on.
    pub fn is_wanted(&self) -> bool {
        self.out == 0 && !self.waits_for_terminal()
    }

    /// Whether the terminal belongs to another job, whose end nobody tells us.
    pub fn waits_for_terminal(&self) -> bool {
        self.terminal && !system::owns_terminal()
    }

    /// Reads once; nothing at its end, `None` if there is nothing now.
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

    /// A rank has taken what it was sent.
    pub fn taken(&mut self) {
        self.out = self.out.saturating_sub(1);
    }
}
