//! Offsets of a VCI's unexpected queue that a debugger reads.

use std::mem::offset_of;

use super::{Address, Body, Engine, Message};
use crate::places::Places;
use crate::pt2pt::{matching, request};

/// Adds the offsets of the engine and its messages.
pub(crate) fn add(places: &mut Places) {
    places.add("engine.unexpected", offset_of!(Engine, unexpected));
    let one = Message::new(
        Address { peer: 0, vci: 0 },
        Body::Eager {
            data: Vec::new(),
            sync: None,
        },
    );
    let message = |places: &mut Places, at: usize| {
        let from = at + offset_of!(Message, from);
        places.add("message.peer", from + offset_of!(Address, peer));
        places.add("message.length", at + offset_of!(Message, len));
        places.add("message.data", at + offset_of!(Message, data));
    };
    matching::debugger::add(places, message, one);
    request::debugger::add(places);
}
