//! Peers that a lane has found lost, for the other lanes of the transport.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use netmod::Peer;

/// Lost peers with their reasons.
#[derive(Default)]
pub struct LostPeers(Mutex<HashMap<Peer, String>>);

impl LostPeers {
    /// Returns the reason why a peer is lost, or `None` if no lane has reported it.
    pub fn reason(&self, peer: Peer) -> Option<String> {
        let lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get(&peer).cloned()
    }

    /// Records a lost peer for the other lanes. The first reason stays.
    pub fn add(&self, peer: Peer, why: &str) {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.entry(peer).or_insert_with(|| why.to_string());
    }
}
