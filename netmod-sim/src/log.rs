//! A log of the last events, for analysing failures.

use std::collections::VecDeque;
use std::fmt;

use netmod::{Header, Peer, VciId};

/// A lane: process and VCI.
pub(crate) type Place = (Peer, VciId);

/// An event that has occurred.
pub(crate) struct Entry {
    pub at: u64,
    pub what: &'static str,
    pub from: Place,
    pub to: Place,
    pub len: usize,
    pub header: Option<Header>,
}

/// The last events.
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    room: usize,
}

impl Log {
    pub fn new(room: usize) -> Log {
        Log {
            entries: VecDeque::new(),
            room,
        }
    }

    pub fn note(&mut self, entry: Entry) {
        if self.room == 0 {
            return;
        }
        if self.entries.len() == self.room {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let ((from, from_vci), (to, to_vci)) = (entry.from, entry.to);
            let (at, what, len) = (entry.at, entry.what, entry.len);
            write!(
                f,
                "{at:>10} ns {what:<9} {from}.{from_vci} -> {to}.{to_vci} {len} bytes"
            )?;
            if let Some(Header([a, b, c])) = entry.header {
                write!(f, " [{a:#x} {b:#x} {c:#x}]")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
