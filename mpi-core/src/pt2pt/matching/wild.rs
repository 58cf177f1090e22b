//! Messages by the keys of receives with wildcards that would take them.

#![deny(unsafe_code)]

use super::{Key, Links, NIL, Table, UNLINKED};
use crate::{ANY_SOURCE, ANY_TAG};

/// The kinds of keys with wildcards, in the order of [`Key::wild`].
const KINDS: usize = 3;

/// Entries of a queue, each in three lists, oldest first.
///
/// A link is the number of an entry times three and a kind.
pub(super) struct WildIndex {
    table: Table,
    links: Vec<[Links; KINDS]>,
    /// Entries that there are, and for how many the table is made.
    len: usize,
    room: usize,
}

impl WildIndex {
    /// For twice as many entries, and some.
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

    /// Takes an entry out.
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

    /// The oldest entry that a receive with this key takes, which has a wildcard.
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
