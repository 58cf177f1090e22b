//! Pending long gets by messages. (`pull` carries them out.)

use netmod::{Peer, VciId};
use std::collections::{HashMap, VecDeque};

/// Bytes. Gets of at least this size are requested by messages.
pub(crate) const LEAST: usize = 16 << 10;

/// A request: the key's three words, offset, length, and the operation's number.
pub(crate) type PullRequest = [u64; 6];

/// Requests of a lane and of its peers.
#[derive(Default)]
pub(crate) struct Pulls {
    pub(crate) next: u64,
    /// Operations whose data has not arrived, by the number in the request.
    pub(crate) open: HashMap<u64, u32>,
    /// Requests of peers.
    pub(crate) requests: VecDeque<(Peer, VciId, PullRequest)>,
}

impl Pulls {
    /// Adds a peer's request. Garbled ones are dropped.
    pub(crate) fn asked(&mut self, peer: Peer, vci: VciId, data: &[u8]) {
        let mut request = PullRequest::default();
        if data.len() == size_of::<PullRequest>() {
            for (word, bytes) in request.iter_mut().zip(data.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
            self.requests.push_back((peer, vci, request));
        }
    }

    /// Returns whether a peer waits for an answer.
    pub(crate) fn are_asked(&self) -> bool {
        !self.requests.is_empty()
    }
}
