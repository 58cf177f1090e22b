//! What operations are given: where messages go, which are accepted, which VCIs are polled.

#![deny(unsafe_code)]

use netmod::{Peer, VciId};

use crate::pt2pt::wire::Key;

/// Where a message goes and how it is matched there.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The receiving process.
    pub peer: Peer,
    /// Its VCI.
    pub vci: VciId,
    /// The communication context.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub rank: i32,
    /// The tag.
    pub tag: i32,
    /// Given back by the request, for the caller's use.
    pub owner: u32,
}

/// Which messages a receive or probe accepts.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The communication context.
    pub context: u64,
    /// The sender's rank or [`crate::ANY_SOURCE`].
    pub rank: i32,
    /// The tag or [`crate::ANY_TAG`].
    pub tag: i32,
    /// Given back by the request, for the caller's use.
    pub owner: u32,
    /// The sending process, so that its loss is known to matter; [`NOBODY`](crate::pt2pt::NOBODY) if any may send.
    pub peer: Peer,
}

impl Source {
    pub(crate) fn key(&self) -> Key {
        Key {
            context: self.context,
            source: self.rank,
            tag: self.tag,
        }
    }
}

/// Some VCIs, each once: as many as are worth polling in turn. What happens on others the rounds
/// over all VCIs take in.
#[derive(Clone, Copy, Default, Debug)]
pub struct Vcis {
    list: [VciId; 8],
    len: usize,
}

impl Vcis {
    /// Adds one, if there is room.
    pub fn add(&mut self, vci: VciId) {
        if self.len < self.list.len() && !self.list[..self.len].contains(&vci) {
            self.list[self.len] = vci;
            self.len += 1;
        }
    }

    /// Those that were added; VCI 0 if none was.
    pub(super) fn get(&self) -> &[VciId] {
        &self.list[..self.len.max(1)]
    }
}
