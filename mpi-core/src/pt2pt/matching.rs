//! The posted queue and the unexpected queue of a VCI.
//!
//! Invariant (MPI-3.1 section 3.5): between one sender and one receiver, within a communicator,
//! messages are received in the order they were sent, wildcards or not. Both queues therefore keep
//! order: a message takes the *oldest* matching receive, a receive takes the *oldest* matching
//! message.
//!
//! Matching takes constant time for any queue length: both queues are hashed by the whole key, in
//! tables that grow. The first few receives with a wildcard are in a separate list, later ones are
//! hashed by the key with its wildcards; a sequence number decides which of several candidates is
//! older. Messages are also linked in order of arrival, which a wildcard receive walks. After a
//! long walk, messages are hashed by the keys of wildcard receives as well (`wild.rs`).

use crate::pt2pt::wire::Key;
use crate::{ANY_SOURCE, ANY_TAG};

pub(crate) mod debugger;
mod wild;

use wild::WildIndex;

/// Initial number of lists of a table. Small in tests, as are the next two, so that all paths are
/// taken.
const BUCKETS: usize = if cfg!(test) { 2 } else { 256 };
/// Maximum number of wildcard receives that are searched linearly.
const WILD_LISTED: u32 = if cfg!(test) { 2 } else { 8 };
/// Number of messages that a wildcard receive walks before they are hashed for it.
const WALK: usize = if cfg!(test) { 3 } else { 256 };
const NIL: u32 = u32::MAX;

/// Hashes the whole key for a table of any size; the lowest bits are used first. The factor was
/// found by trial: regular steps of tags, ranks and contexts spread as well as random ones.
#[inline(always)]
fn hash(key: &Key) -> usize {
    let mixed = key.context
        ^ u64::from(key.source as u32).wrapping_mul(0x9e37_79b9)
        ^ (u64::from(key.tag as u32) << 24);
    ((u128::from(mixed) * 0x2545_f491_4f6c_dd1d) >> 64) as usize
}

impl Key {
    /// Whether a receive with this key names a wildcard.
    #[inline(always)]
    pub fn is_wild(&self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }

    /// Whether a receive with this key matches a message with key `message`.
    #[inline(always)]
    pub fn accepts(&self, message: &Key) -> bool {
        self.context == message.context
            && (self.source == message.source || self.source == ANY_SOURCE)
            && (self.tag == message.tag || self.tag == ANY_TAG)
    }

    /// Returns the wildcard keys of receives that match a message with this key.
    fn wild(&self) -> [Key; 3] {
        let [mut any_source, mut any_tag] = [*self; 2];
        any_source.source = ANY_SOURCE;
        any_tag.tag = ANY_TAG;
        let mut any = any_source;
        any.tag = ANY_TAG;
        [any_source, any_tag, any]
    }
}

/// A doubly linked list through the entries of a slab.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List {
    head: NIL,
    tail: NIL,
};

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    prev: u32,
}

const UNLINKED: Links = Links {
    next: NIL,
    prev: NIL,
};

/// Lists of entries by hash.
struct Table {
    lists: Box<[List]>,
    /// Number of lists, a power of two, minus one.
    mask: usize,
}

impl Table {
    fn new(lists: usize) -> Table {
        let lists = vec![EMPTY; lists.next_power_of_two()].into_boxed_slice();
        let mask = lists.len() - 1;
        Table { lists, mask }
    }

    /// Returns the list of a key.
    #[inline(always)]
    fn list(&self, key: &Key) -> List {
        let place = hash(key) & self.mask;
        // SAFETY: `place` is at most `mask`, which `new` made less than the number of lists;
        // neither changes.
        *unsafe { self.lists.get_unchecked(place) }
    }

    #[inline(always)]
    fn list_mut(&mut self, key: &Key) -> &mut List {
        let place = hash(key) & self.mask;
        // SAFETY: `place` is at most `mask`, which `new` made less than the number of lists;
        // neither changes.
        unsafe { self.lists.get_unchecked_mut(place) }
    }

    /// Distributes the entries over more lists. `of` returns an entry's key and its links in them.
    #[cold]
    fn grow<E>(&mut self, entries: &mut [E], of: impl Fn(&mut E) -> (Key, &mut Links)) {
        let grown = Table::new(4 * self.lists.len());
        for list in std::mem::replace(self, grown).lists {
            let mut index = list.head;
            while index != NIL {
                let (key, links) = of(&mut entries[index as usize]);
                let to = self.list_mut(&key);
                let next = std::mem::replace(&mut links.next, NIL);
                let tail = std::mem::replace(&mut to.tail, index);
                links.prev = tail;
                match tail {
                    NIL => to.head = index,
                    tail => of(&mut entries[tail as usize]).1.next = index,
                }
                index = next;
            }
        }
    }
}

/// Identifies an entry of a queue until it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryId(u32);

impl EntryId {
    /// An arbitrary entry, for debuggers.
    pub const ANY: EntryId = EntryId(0);
}

struct PostedEntry<T> {
    key: Key,
    /// Twice the sequence number, plus one for a hashed receive with a wildcard.
    order: u64,
    links: Links,
    value: Option<T>,
}

/// Removes the entry between `prev` and `next` from its list.
#[inline(always)]
fn unlink<T>(entries: &mut [PostedEntry<T>], list: &mut List, Links { next, prev }: Links) {
    match entries.get_mut(prev as usize) {
        Some(entry) => entry.links.next = next,
        None => list.head = next,
    }
    match entries.get_mut(next as usize) {
        Some(entry) => entry.links.prev = prev,
        None => list.tail = prev,
    }
}

/// Posted receives, oldest first per key.
pub(crate) struct PostedQueue<T> {
    entries: Vec<PostedEntry<T>>,
    free: Vec<u32>,
    table: Table,
    /// The first receives with wildcards.
    wild: List,
    /// Number of receives in `wild`; `wild_all` counts all with wildcards.
    wild_listed: u32,
    wild_all: u32,
    order: u64,
}

impl<T> PostedQueue<T> {
    pub fn new() -> Self {
        PostedQueue {
            entries: Vec::new(),
            free: Vec::new(),
            table: Table::new(BUCKETS),
            wild: EMPTY,
            wild_listed: 0,
            wild_all: 0,
            order: 0,
        }
    }

    /// Whether no receive is posted.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// Returns the number of posted receives.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Appends a receive.
    #[inline(always)] // counted: tests/instructions.txt
    pub fn post(&mut self, key: Key, value: T) -> EntryId {
        self.order += 2;
        let entry = PostedEntry {
            key,
            order: self.order,
            links: UNLINKED,
            value: Some(value),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => self.add(entry),
        };
        let list = if key.is_wild() {
            self.wild_list(index)
        } else {
            self.table.list_mut(&key)
        };
        let tail = list.tail;
        list.tail = index;
        if tail == NIL {
            list.head = index;
        } else {
            self.entries[index as usize].links.prev = tail;
            self.entries[tail as usize].links.next = index;
        }
        EntryId(index)
    }

    /// Adds an entry, because none is free.
    #[cold]
    #[inline(never)]
    fn add(&mut self, entry: PostedEntry<T>) -> u32 {
        if self.entries.len() > self.table.mask {
            self.table
                .grow(&mut self.entries, |entry| (entry.key, &mut entry.links));
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// Returns the list for a new receive with a wildcard.
    #[inline]
    fn wild_list(&mut self, index: u32) -> &mut List {
        self.wild_all += 1;
        if self.wild_listed < WILD_LISTED {
            self.wild_listed += 1;
            return &mut self.wild;
        }
        let entry = &mut self.entries[index as usize];
        entry.order |= 1;
        self.table.list_mut(&entry.key)
    }

    /// Removes the oldest receive that matches a message with `key`.
    #[inline]
    pub fn take_match(&mut self, key: &Key) -> Option<T> {
        if self.wild_all > 0 {
            let found = self.find_match(key)?;
            return self.remove(found);
        }
        // Without wildcards: `find_match` and `remove` in one table lookup.
        let list = self.table.list_mut(key);
        let mut index = list.head;
        let entry = loop {
            let entry = self.entries.get_mut(index as usize)?; // NIL is not among them
            if entry.key == *key {
                break entry;
            }
            index = entry.links.next;
        };
        let value = entry.value.take()?;
        let links = entry.links;
        unlink(&mut self.entries, list, links);
        self.free.push(index);
        Some(value)
    }

    /// Returns the receive that [`PostedQueue::take_match`] would remove.
    pub fn peek_match(&self, key: &Key) -> Option<&T> {
        let EntryId(found) = self.find_match(key)?;
        self.entries.get(found as usize)?.value.as_ref()
    }

    #[inline(always)]
    fn find_match(&self, key: &Key) -> Option<EntryId> {
        let exact = self.first_of(key);
        Some(EntryId(match self.wild_all {
            0 => exact?,
            _ => self.oldest(exact, key)?,
        }))
    }

    /// Returns the older of `exact` and the oldest wildcard receive that matches `key`.
    #[inline]
    fn oldest(&self, exact: Option<u32>, key: &Key) -> Option<u32> {
        let listed = self.first_in(self.wild.head, |posted| posted.accepts(key));
        let mut found = self.older(exact, listed);
        if self.wild_all > self.wild_listed {
            for wild in key.wild() {
                found = self.older(found, self.first_of(&wild));
            }
        }
        found
    }

    #[inline]
    fn older(&self, one: Option<u32>, other: Option<u32>) -> Option<u32> {
        match (one, other) {
            (Some(a), Some(b)) => {
                let first = self.entries[a as usize].order < self.entries[b as usize].order;
                Some(if first { a } else { b })
            }
            (a, b) => a.or(b),
        }
    }

    /// Removes a receive that was cancelled or whose peer failed.
    #[inline]
    pub fn remove(&mut self, place: EntryId) -> Option<T> {
        let entry = self.entries.get_mut(place.0 as usize)?;
        let value = entry.value.take()?;
        let (key, order, links) = (entry.key, entry.order, entry.links);
        let list = if key.is_wild() {
            self.wild_all -= 1;
            match order & 1 {
                0 => {
                    self.wild_listed -= 1;
                    &mut self.wild
                }
                _ => self.table.list_mut(&key),
            }
        } else {
            self.table.list_mut(&key)
        };
        unlink(&mut self.entries, list, links);
        self.free.push(place.0);
        Some(value)
    }

    /// Returns all posted receives, oldest first. Slow.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        let mut live: Vec<_> = self.entries.iter().filter(|e| e.value.is_some()).collect();
        live.sort_by_key(|entry| entry.order);
        live.into_iter()
            .filter_map(|entry| entry.value.as_ref().map(|value| (&entry.key, value)))
    }

    /// Returns the oldest hashed receive with exactly this key.
    #[inline(always)]
    fn first_of(&self, key: &Key) -> Option<u32> {
        self.first_in(self.table.list(key).head, |posted| posted == key)
    }

    #[inline(always)]
    fn first_in(&self, mut index: u32, fits: impl Fn(&Key) -> bool) -> Option<u32> {
        while index != NIL {
            let entry = &self.entries[index as usize];
            if fits(&entry.key) {
                return Some(index);
            }
            index = entry.links.next;
        }
        None
    }
}

struct UnexpectedEntry<T> {
    key: Key,
    in_list: Links,
    in_arrival: Links,
    value: Option<T>,
}

/// Unexpected messages, oldest first.
pub(crate) struct UnexpectedQueue<T> {
    entries: Vec<UnexpectedEntry<T>>,
    free: Vec<u32>,
    table: Table,
    arrival: List,
    /// Index for wildcard receives; exists after a long walk, until the queue is empty.
    wild: Option<Box<WildIndex>>,
}

impl<T> UnexpectedQueue<T> {
    pub fn new() -> Self {
        UnexpectedQueue {
            entries: Vec::new(),
            free: Vec::new(),
            table: Table::new(BUCKETS),
            arrival: EMPTY,
            wild: None,
        }
    }

    /// Whether the queue is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Appends a message.
    pub fn push(&mut self, key: Key, value: T) {
        let entry = UnexpectedEntry {
            key,
            in_list: UNLINKED,
            in_arrival: Links {
                next: NIL,
                prev: self.arrival.tail,
            },
            value: Some(value),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => self.add(entry),
        };
        let list = self.table.list_mut(&key);
        let tail = std::mem::replace(&mut list.tail, index);
        match tail {
            NIL => list.head = index,
            tail => {
                self.entries[index as usize].in_list.prev = tail;
                self.entries[tail as usize].in_list.next = index;
            }
        }
        match std::mem::replace(&mut self.arrival.tail, index) {
            NIL => self.arrival.head = index,
            tail => self.entries[tail as usize].in_arrival.next = index,
        }
        if self.wild.is_some() {
            self.index(index);
        }
    }

    /// Adds an entry, because none is free.
    #[cold]
    #[inline(never)]
    fn add(&mut self, entry: UnexpectedEntry<T>) -> u32 {
        if self.entries.len() > self.table.mask {
            self.table
                .grow(&mut self.entries, |entry| (entry.key, &mut entry.in_list));
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// Returns the oldest message that a receive with `key` matches.
    #[inline]
    pub fn find(&mut self, key: &Key) -> Option<(EntryId, &Key, &T)> {
        if self.arrival.head == NIL {
            return None;
        }
        let index = match key.is_wild() {
            true => self.find_wild(key),
            false => self.first_of(key),
        }?;
        let entry = &self.entries[index as usize];
        let value = entry.value.as_ref()?;
        Some((EntryId(index), &entry.key, value))
    }

    /// Returns the oldest message with exactly this key.
    #[inline(always)]
    fn first_of(&self, key: &Key) -> Option<u32> {
        let mut index = self.table.list(key).head;
        while index != NIL {
            let entry = &self.entries[index as usize];
            if entry.key == *key {
                return Some(index);
            }
            index = entry.in_list.next;
        }
        None
    }

    /// Returns the oldest message that a wildcard receive matches.
    #[inline]
    fn find_wild(&mut self, key: &Key) -> Option<u32> {
        if self.wild.is_none() {
            let mut index = self.arrival.head;
            for _ in 0..WALK {
                let entry = self.entries.get(index as usize)?;
                if key.accepts(&entry.key) {
                    return Some(index);
                }
                index = entry.in_arrival.next;
            }
            if index == NIL {
                return None;
            }
            self.index_all();
        }
        let wild = self.wild.as_ref()?;
        wild.find(key, |index| &self.entries[index as usize].key)
    }

    /// Hashes all messages for wildcard receives.
    #[cold]
    #[inline(never)]
    fn index_all(&mut self) {
        let mut wild = Box::new(WildIndex::new(self.len()));
        let mut index = self.arrival.head;
        while let Some(entry) = self.entries.get(index as usize) {
            wild.add(index, &entry.key);
            index = entry.in_arrival.next;
        }
        self.wild = Some(wild);
    }

    /// Hashes a new message for wildcard receives.
    #[cold]
    #[inline(never)]
    fn index(&mut self, index: u32) {
        match &mut self.wild {
            Some(wild) if wild.has_room() => wild.add(index, &self.entries[index as usize].key),
            _ => self.index_all(),
        }
    }

    /// Removes the oldest message that a receive with `key` matches.
    #[inline]
    pub fn take(&mut self, key: &Key) -> Option<(Key, T)> {
        let place = self.find(key)?.0;
        self.remove(place)
    }

    /// Removes the oldest message with `key` for which `wanted` returns true.
    pub fn take_where(&mut self, key: &Key, wanted: impl Fn(&T) -> bool) -> Option<(Key, T)> {
        let mut index = self.table.list(key).head;
        while index != NIL {
            let entry = &self.entries[index as usize];
            if entry.key == *key && entry.value.as_ref().is_some_and(&wanted) {
                return self.remove(EntryId(index));
            }
            index = entry.in_list.next;
        }
        None
    }

    /// Returns all messages in order of arrival, for reports.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        let mut index = self.arrival.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(index as usize)?;
            index = entry.in_arrival.next;
            entry.value.as_ref().map(|value| (&entry.key, value))
        })
    }

    fn remove(&mut self, place: EntryId) -> Option<(Key, T)> {
        let entry = self.entries.get_mut(place.0 as usize)?;
        let value = entry.value.take()?;
        let key = entry.key;
        let (in_list, arrival) = (entry.in_list, entry.in_arrival);

        let list = self.table.list_mut(&key);
        if in_list.prev == NIL {
            list.head = in_list.next;
        } else {
            self.entries[in_list.prev as usize].in_list.next = in_list.next;
        }
        if in_list.next == NIL {
            list.tail = in_list.prev;
        } else {
            self.entries[in_list.next as usize].in_list.prev = in_list.prev;
        }

        if arrival.prev == NIL {
            self.arrival.head = arrival.next;
        } else {
            self.entries[arrival.prev as usize].in_arrival.next = arrival.next;
        }
        if arrival.next == NIL {
            self.arrival.tail = arrival.prev;
        } else {
            self.entries[arrival.next as usize].in_arrival.prev = arrival.prev;
        }
        self.free.push(place.0);
        if let Some(wild) = &mut self.wild {
            wild.remove(place.0, &key);
            if self.arrival.head == NIL {
                self.wild = None;
            }
        }
        Some((key, value))
    }
}

#[cfg(test)]
mod tests;
