//! Processes that may have ended: noted by a thread that must make no calls on the process, looked after by the next call
//! that asks.

use std::sync::atomic::{AtomicBool, Ordering};

use netmod::Peer;
use parking_lot::Mutex;

use super::Process;
use crate::error::Result;
use crate::vci::Vci;

/// Peers to be looked after.
#[derive(Default)]
pub struct Doubts {
    any: AtomicBool,
    peers: Mutex<Vec<Peer>>,
}

impl Doubts {
    /// Has the next call that asks look after a peer.
    pub fn raise(&self, peer: Peer) {
        self.peers.lock().push(peer);
        self.any.store(true, Ordering::Release);
    }
}

impl Process {
    /// The processes that may have ended.
    pub fn doubts(&self) -> &std::sync::Arc<Doubts> {
        &self.doubts
    }

    /// Returns whether a process is lost, or may be. Costs a look at two words.
    #[inline]
    pub fn may_have_losses(&self) -> bool {
        self.losses() != 0 || self.doubts.any.load(Ordering::Relaxed)
    }

    /// Looks after the processes that may have ended, so that those that have count as lost.
    #[cold]
    pub fn settle_doubts(&self) -> Result<()> {
        if !self.doubts.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        let peers = std::mem::take(&mut *self.doubts.peers.lock());
        // A transport counts a process as lost that it finds ended twice, with a poll in between for what it has sent.
        for _ in 0..2 {
            for vci in self.open_vcis() {
                if let Some(mut state) = self.vci(vci).ok().and_then(Vci::visit) {
                    state.check_peers(peers.clone());
                }
            }
            self.poll_all()?;
        }
        Ok(())
    }
}
