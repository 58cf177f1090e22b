//! Arguments of operations: destinations, sources and sets of VCIs.

#![deny(unsafe_code)]

use netmod::{Peer, VciId};

use crate::pt2pt::wire::Key;

/// The destination of a message and its match key there.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The receiving process.
    pub peer: Peer,
    /// The receiving VCI.
    pub vci: VciId,
    /// The communication context.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub rank: i32,
    /// The tag.
    pub tag: i32,
    /// Reported by the request, for the caller's use.
    pub owner: u32,
}

/// The messages that a receive or probe accepts.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The communication context.
    pub context: u64,
    /// The sender's rank or [`crate::ANY_SOURCE`].
    pub rank: i32,
    /// The tag or [`crate::ANY_TAG`].
    pub tag: i32,
    /// Reported by the request, for the caller's use.
    pub owner: u32,
    /// The sending process, whose failure ends the operation; [`NOBODY`](crate::pt2pt::NOBODY) for
    /// any source.
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

/// A small set of VCIs to poll in turn. Events on VCIs that do not fit are found by the rounds over
/// all VCIs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Vcis {
    list: [VciId; 8],
    len: usize,
}

impl Vcis {
    /// Adds a VCI, if the set is not full.
    pub fn add(&mut self, vci: VciId) {
        if self.len < self.list.len() && !self.list[..self.len].contains(&vci) {
            self.list[self.len] = vci;
            self.len += 1;
        }
    }

    /// Returns the VCIs; VCI 0 if the set is empty.
    pub(super) fn get(&self) -> &[VciId] {
        &self.list[..self.len.max(1)]
    }
}
