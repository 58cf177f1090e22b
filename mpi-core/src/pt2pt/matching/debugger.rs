//! Offsets of unexpected messages that a debugger reads.

use std::mem::offset_of;

use super::{Links, List, NIL, UnexpectedEntry, UnexpectedQueue};
use crate::places::{Places, of_vec};
use crate::pt2pt::wire::Key;

/// Adds the offsets for a queue of messages of type `T`. `message` adds those of a message, given
/// the offset of the message in its entry.
pub(crate) fn add<T>(places: &mut Places, message: impl FnOnce(&mut Places, usize), value: T) {
    let held = Some(value);
    let inside = match &held {
        Some(value) => crate::places::within(&held, value),
        None => 0,
    };
    let (pointer, _) = of_vec();
    let entries = offset_of!(UnexpectedQueue<T>, entries);
    places.add("unexpected.entries", entries + pointer);
    let first = offset_of!(UnexpectedQueue<T>, arrival) + offset_of!(List, head);
    places.add("unexpected.first", first);
    places.add("unexpected.none", NIL as usize);
    places.add("message.size", size_of::<UnexpectedEntry<T>>());
    let next = offset_of!(UnexpectedEntry<T>, in_arrival) + offset_of!(Links, next);
    places.add("message.next", next);
    places.add("message.key", offset_of!(UnexpectedEntry<T>, key));
    places.add("key.context", offset_of!(Key, context));
    places.add("key.source", offset_of!(Key, source));
    places.add("key.tag", offset_of!(Key, tag));
    message(places, offset_of!(UnexpectedEntry<T>, value) + inside);
}
