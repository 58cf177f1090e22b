//! The posted-receive queue and the unexpected-message queue of a VCI.
//!
//! Invariant (MPI-3.1 section 3.5): between one sender and one receiver, within a communicator,
//! messages are received in the order they were sent, wildcards or not. Both queues therefore keep
//! order: a message takes the *oldest* receive that fits, a receive takes the *oldest* message.
//!
//! Finding it takes constant time for receives without wildcards: both queues are hashed by the
//! whole key. Receives with a wildcard stand in a list of their own with a sequence number that
//! settles which of two candidates is older; messages are also linked in order of arrival, which is
//! what a wildcard receive walks.

use crate::wire::Key;
use crate::{ANY_SOURCE, ANY_TAG};

const BUCKETS: usize = 256;
const NIL: u32 = u32::MAX;

#[inline(always)]
fn bucket_of(key: &Key) -> usize {
    let mixed = key.context
        ^ u64::from(key.source as u32).wrapping_mul(0x9e37_79b9)
        ^ (u64::from(key.tag as u32) << 24);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl Key {
    /// Whether a receive with this key names a wildcard.
    #[inline(always)]
    pub fn is_wild(&self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }

    /// Whether a receive with this key takes a message with key `message`.
    #[inline(always)]
    pub fn accepts(&self, message: &Key) -> bool {
        self.context == message.context
            && (self.source == message.source || self.source == ANY_SOURCE)
            && (self.tag == message.tag || self.tag == ANY_TAG)
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

/// Names an entry of a queue until it is taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

struct PostedEntry<T> {
    key: Key,
    order: u64,
    links: Links,
    value: Option<T>,
}

/// Receives that wait for their message, oldest first per key.
pub(crate) struct PostedQueue<T> {
    entries: Vec<PostedEntry<T>>,
    free: Vec<u32>,
    buckets: Box<[List; BUCKETS]>,
    wild: List,
    order: u64,
}

impl<T> PostedQueue<T> {
    pub fn new() -> Self {
        PostedQueue {
            entries: Vec::new(),
            free: Vec::new(),
            buckets: Box::new([EMPTY; BUCKETS]),
            wild: EMPTY,
            order: 0,
        }
    }

    /// The number of waiting receives.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Appends a receive.
    #[inline]
    pub fn post(&mut self, key: Key, value: T) -> Place {
        self.order += 1;
        let order = self.order;
        let index = match self.free.pop() {
            Some(index) => {
                let entry = &mut self.entries[index as usize];
                *entry = PostedEntry {
                    key,
                    order,
                    links: UNLINKED,
                    value: Some(value),
                };
                index
            }
            None => {
                self.entries.push(PostedEntry {
                    key,
                    order,
                    links: UNLINKED,
                    value: Some(value),
                });
                (self.entries.len() - 1) as u32
            }
        };
        let list = if key.is_wild() {
            &mut self.wild
        } else {
            &mut self.buckets[bucket_of(&key)]
        };
        let tail = list.tail;
        list.tail = index;
        if tail == NIL {
            list.head = index;
        } else {
            self.entries[index as usize].links.prev = tail;
            self.entries[tail as usize].links.next = index;
        }
        Place(index)
    }

    /// Takes out the oldest receive that accepts a message with `key`.
    #[inline]
    pub fn take_match(&mut self, key: &Key) -> Option<T> {
        let found = self.find_match(key)?;
        self.remove(found)
    }

    /// What [`PostedQueue::take_match`] would take out.
    pub fn peek_match(&self, key: &Key) -> Option<&T> {
        let Place(found) = self.find_match(key)?;
        self.entries.get(found as usize)?.value.as_ref()
    }

    #[inline(always)]
    fn find_match(&self, key: &Key) -> Option<Place> {
        let exact = self.first_in(self.buckets[bucket_of(key)].head, key);
        let found = if self.wild.head == NIL {
            exact?
        } else {
            match (exact, self.first_in(self.wild.head, key)) {
                (Some(a), Some(b)) => {
                    let older = self.entries[a as usize].order < self.entries[b as usize].order;
                    if older { a } else { b }
                }
                (a, b) => a.or(b)?,
            }
        };
        Some(Place(found))
    }

    /// Takes out a receive (cancelled, or its peer is lost).
    #[inline]
    pub fn remove(&mut self, place: Place) -> Option<T> {
        let entry = self.entries.get_mut(place.0 as usize)?;
        let value = entry.value.take()?;
        let (key, Links { next, prev }) = (entry.key, entry.links);
        let list = if key.is_wild() {
            &mut self.wild
        } else {
            &mut self.buckets[bucket_of(&key)]
        };
        if prev == NIL {
            list.head = next;
        }
        if next == NIL {
            list.tail = prev;
        }
        if prev != NIL {
            self.entries[prev as usize].links.next = next;
        }
        if next != NIL {
            self.entries[next as usize].links.prev = prev;
        }
        self.free.push(place.0);
        Some(value)
    }

    /// All waiting receives, oldest first (not fast).
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        let mut live: Vec<_> = self.entries.iter().filter(|e| e.value.is_some()).collect();
        live.sort_by_key(|entry| entry.order);
        live.into_iter()
            .filter_map(|entry| entry.value.as_ref().map(|value| (&entry.key, value)))
    }

    #[inline(always)]
    fn first_in(&self, mut index: u32, key: &Key) -> Option<u32> {
        while index != NIL {
            let entry = &self.entries[index as usize];
            if entry.key.accepts(key) {
                return Some(index);
            }
            index = entry.links.next;
        }
        None
    }
}

struct UnexpectedEntry<T> {
    key: Key,
    in_bucket: Links,
    in_arrival: Links,
    value: Option<T>,
}

/// Messages that arrived before their receive, oldest first.
pub(crate) struct UnexpectedQueue<T> {
    entries: Vec<UnexpectedEntry<T>>,
    free: Vec<u32>,
    buckets: Box<[List; BUCKETS]>,
    arrival: List,
}

impl<T> UnexpectedQueue<T> {
    pub fn new() -> Self {
        UnexpectedQueue {
            entries: Vec::new(),
            free: Vec::new(),
            buckets: Box::new([EMPTY; BUCKETS]),
            arrival: EMPTY,
        }
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Appends a message.
    pub fn push(&mut self, key: Key, value: T) {
        let bucket = bucket_of(&key);
        let tails = (self.buckets[bucket].tail, self.arrival.tail);
        let entry = UnexpectedEntry {
            key,
            in_bucket: Links {
                next: NIL,
                prev: tails.0,
            },
            in_arrival: Links {
                next: NIL,
                prev: tails.1,
            },
            value: Some(value),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.buckets[bucket].tail = index;
        match tails.0 {
            NIL => self.buckets[bucket].head = index,
            tail => self.entries[tail as usize].in_bucket.next = index,
        }
        self.arrival.tail = index;
        match tails.1 {
            NIL => self.arrival.head = index,
            tail => self.entries[tail as usize].in_arrival.next = index,
        }
    }

    /// The oldest message that a receive with `key` would take.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<(Place, &Key, &T)> {
        if self.arrival.head == NIL {
            return None;
        }
        let wild = key.is_wild();
        let mut index = if wild {
            self.arrival.head
        } else {
            self.buckets[bucket_of(key)].head
        };
        while index != NIL {
            let entry = &self.entries[index as usize];
            if key.accepts(&entry.key) {
                return entry
                    .value
                    .as_ref()
                    .map(|value| (Place(index), &entry.key, value));
            }
            index = if wild {
                entry.in_arrival.next
            } else {
                entry.in_bucket.next
            };
        }
        None
    }

    /// Takes out the oldest message that a receive with `key` accepts.
    #[inline]
    pub fn take(&mut self, key: &Key) -> Option<(Key, T)> {
        let place = self.find(key)?.0;
        self.remove(place)
    }

    /// Takes out the oldest message for which `wanted` holds (not fast).
    pub fn take_where(&mut self, wanted: impl Fn(&T) -> bool) -> Option<(Key, T)> {
        let mut index = self.arrival.head;
        while index != NIL {
            let entry = &self.entries[index as usize];
            if entry.value.as_ref().is_some_and(&wanted) {
                return self.remove(Place(index));
            }
            index = entry.in_arrival.next;
        }
        None
    }

    /// All messages in order of arrival (for reports).
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        let mut index = self.arrival.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(index as usize)?;
            index = entry.in_arrival.next;
            entry.value.as_ref().map(|value| (&entry.key, value))
        })
    }

    fn remove(&mut self, place: Place) -> Option<(Key, T)> {
        let entry = self.entries.get_mut(place.0 as usize)?;
        let value = entry.value.take()?;
        let key = entry.key;
        let (bucket, arrival) = (entry.in_bucket, entry.in_arrival);

        let list = &mut self.buckets[bucket_of(&key)];
        if bucket.prev == NIL {
            list.head = bucket.next;
        } else {
            self.entries[bucket.prev as usize].in_bucket.next = bucket.next;
        }
        if bucket.next == NIL {
            list.tail = bucket.prev;
        } else {
            self.entries[bucket.next as usize].in_bucket.prev = bucket.prev;
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
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a queue is asked to do; keys are drawn from a small space so that they collide.
    #[derive(Clone, Debug)]
    enum Step {
        Add(Key),
        Take(Key),
        Remove(usize),
    }

    fn key(wild: bool) -> impl Strategy<Value = Key> {
        let least = if wild { -1 } else { 0 };
        (0..2u64, least..3i32, least..3i32).prop_map(|(context, source, tag)| Key {
            context,
            source: if source < 0 { ANY_SOURCE } else { source },
            tag: if tag < 0 { ANY_TAG } else { tag },
        })
    }

    fn steps(add_wild: bool, take_wild: bool) -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(
            prop_oneof![
                key(add_wild).prop_map(Step::Add),
                key(take_wild).prop_map(Step::Take),
                (0..8usize).prop_map(Step::Remove),
            ],
            0..200,
        )
    }

    proptest! {
        #[test]
        fn posted_queue_is_a_list_searched_from_the_front(steps in steps(true, false)) {
            let mut queue = PostedQueue::new();
            let mut model: Vec<(Key, usize, Place)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Add(key) => {
                        let place = queue.post(key, number);
                        model.push((key, number, place));
                    }
                    Step::Take(key) => {
                        let at = model.iter().position(|(posted, ..)| posted.accepts(&key));
                        let expected = at.map(|at| model.remove(at).1);
                        prop_assert_eq!(queue.take_match(&key), expected);
                    }
                    Step::Remove(at) if at < model.len() => {
                        let (_, number, place) = model.remove(at);
                        prop_assert_eq!(queue.remove(place), Some(number));
                        prop_assert_eq!(queue.remove(place), None);
                    }
                    Step::Remove(_) => {}
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!(queue.iter().map(|(_, n)| *n).eq(model.iter().map(|m| m.1)));
            }
        }

        #[test]
        fn unexpected_queue_is_a_list_searched_from_the_front(steps in steps(false, true)) {
            let mut queue = UnexpectedQueue::new();
            let mut model: Vec<(Key, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Add(key) => {
                        queue.push(key, number);
                        model.push((key, number));
                    }
                    Step::Take(key) => {
                        let at = model.iter().position(|(message, _)| key.accepts(message));
                        prop_assert_eq!(queue.find(&key).map(|f| *f.2), at.map(|at| model[at].1));
                        let expected = at.map(|at| model.remove(at));
                        prop_assert_eq!(queue.take(&key), expected);
                    }
                    Step::Remove(at) => {
                        let expected = (at < model.len()).then(|| model.remove(at));
                        let number = expected.map(|e| e.1);
                        prop_assert_eq!(queue.take_where(|n| Some(*n) == number), expected);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!(queue.iter().map(|(_, n)| *n).eq(model.iter().map(|m| m.1)));
            }
        }
    }
}
