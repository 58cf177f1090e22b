//! Offsets of a VCI's unexpected queue that a debugger reads.

use std::mem::offset_of;

use super::{Address, Body, Engine, Message};
use crate::layout::Layout;
use crate::pt2pt::{matching, request};

/// Adds the offsets of the engine and its messages.
pub(crate) fn add(layout: &mut Layout) {
    layout.add("engine.unexpected", offset_of!(Engine, unexpected));
    let one = Message::new(
        Address { peer: 0, vci: 0 },
        Body::Eager {
            data: Vec::new(),
            sync: None,
        },
    );
    let message = |layout: &mut Layout, at: usize| {
        let from = at + offset_of!(Message, from);
        layout.add("message.peer", from + offset_of!(Address, peer));
        layout.add("message.length", at + offset_of!(Message, len));
        layout.add("message.data", at + offset_of!(Message, data));
    };
    matching::debugger::add(layout, message, one);
    request::debugger::add(layout);
}
