//! An index of unexpected messages by the wildcard keys that match them.

#![deny(unsafe_code)]

use super::{Key, Links, NIL, Table, UNLINKED};
use crate::{ANY_SOURCE, ANY_TAG};

/// Number of wildcard patterns of a key, in the order of [`Key::wild`].
const KINDS: usize = 3;

/// Entries of a queue, each in three lists, oldest first.
///
/// A link is three times the number of an entry, plus the pattern.
pub(super) struct WildIndex {
    table: Table,
    links: Vec<[Links; KINDS]>,
    /// Number of entries; `room` is the number that the table was made for.
    len: usize,
    room: usize,
}

impl WildIndex {
    /// Creates an index for twice as many entries.
    pub fn new(entries: usize) -> WildIndex {
        let room = 2 * entries.max(1);
        WildIndex {
            table: Table::new(KINDS * room),
            links: Vec::new(),
            len: 0,
            room,
        }
    }

    pub fn has_room(&self) -> bool {
        self.len < self.room
    }

    /// Appends an entry.
    pub fn add(&mut self, entry: u32, key: &Key) {
        let place = entry as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, [UNLINKED; KINDS]);
        }
        self.len += 1;
        for (kind, key) in key.wild().iter().enumerate() {
            let node = entry * KINDS as u32 + kind as u32;
            let list = self.table.list_mut(key);
            let prev = std::mem::replace(&mut list.tail, node);
            match prev {
                NIL => list.head = node,
                prev => self.links[prev as usize / KINDS][prev as usize % KINDS].next = node,
            }
            self.links[place][kind] = Links { next: NIL, prev };
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, entry: u32, key: &Key) {
        self.len -= 1;
        for (kind, key) in key.wild().iter().enumerate() {
            let Links { next, prev } = self.links[entry as usize][kind];
            let list = self.table.list_mut(key);
            match prev {
                NIL => list.head = next,
                prev => self.links[prev as usize / KINDS][prev as usize % KINDS].next = next,
            }
            match next {
                NIL => list.tail = prev,
                next => self.links[next as usize / KINDS][next as usize % KINDS].prev = prev,
            }
        }
    }

    /// Returns the oldest entry that a receive with the wildcard key `key` matches.
    pub fn find<'a>(&self, key: &Key, key_of: impl Fn(u32) -> &'a Key) -> Option<u32> {
        let kind = match (key.source == ANY_SOURCE, key.tag == ANY_TAG) {
            (true, false) => 0,
            (false, _) => 1,
            (true, true) => 2,
        };
        let mut node = self.table.list(key).head;
        while node != NIL {
            let entry = node / KINDS as u32;
            if node % KINDS as u32 == kind && key.accepts(key_of(entry)) {
                return Some(entry);
            }
            node = self.links[entry as usize][node as usize % KINDS].next;
        }
        None
    }
}
