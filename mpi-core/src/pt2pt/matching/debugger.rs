//! Offsets of unexpected messages that a debugger reads.

use std::mem::offset_of;

use super::{Links, List, NIL, UnexpectedEntry, UnexpectedQueue};
use crate::layout::{Layout, of_vec};
use crate::pt2pt::wire::Key;

/// Adds the offsets for a queue of messages of type `T`. `message` adds those of a message, given
/// the offset of the message in its entry.
pub(crate) fn add<T>(layout: &mut Layout, message: impl FnOnce(&mut Layout, usize), value: T) {
    let held = Some(value);
    let inside = match &held {
        Some(value) => crate::layout::offset_in(&held, value),
        None => 0,
    };
    let (pointer, _) = of_vec();
    let entries = offset_of!(UnexpectedQueue<T>, entries);
    layout.add("unexpected.entries", entries + pointer);
    let first = offset_of!(UnexpectedQueue<T>, arrival) + offset_of!(List, head);
    layout.add("unexpected.first", first);
    layout.add("unexpected.none", NIL as usize);
    layout.add("message.size", size_of::<UnexpectedEntry<T>>());
    let next = offset_of!(UnexpectedEntry<T>, in_arrival) + offset_of!(Links, next);
    layout.add("message.next", next);
    layout.add("message.key", offset_of!(UnexpectedEntry<T>, key));
    layout.add("key.context", offset_of!(Key, context));
    layout.add("key.source", offset_of!(Key, source));
    layout.add("key.tag", offset_of!(Key, tag));
    message(layout, offset_of!(UnexpectedEntry<T>, value) + inside);
}
