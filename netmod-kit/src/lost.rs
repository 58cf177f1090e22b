//! Lost peers that some lane has found: the other lanes of the transport learn of them here.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use netmod::Peer;

/// Which peers are lost, and why.
#[derive(Default)]
pub struct LostPeers(Mutex<HashMap<Peer, String>>);

impl LostPeers {
    /// Why a peer is lost, if a lane found that.
    pub fn why(&self, peer: Peer) -> Option<String> {
        let lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get(&peer).cloned()
    }

    /// Tells the other lanes that a peer is lost. The first reason stays.
    pub fn add(&self, peer: Peer, why: &str) {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.entry(peer).or_insert_with(|| why.to_string());
    }
}
