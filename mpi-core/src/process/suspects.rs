//! Processes that may have ended. A thread that cannot call the process adds them; the next call
//! that needs the result checks them.

use std::sync::atomic::{AtomicBool, Ordering};

use netmod::Peer;
use parking_lot::Mutex;

/// Peers to check.
#[derive(Default)]
pub struct SuspectedPeers {
    any: AtomicBool,
    peers: Mutex<Vec<Peer>>,
}

impl SuspectedPeers {
    /// Adds a peer, for the next check.
    pub fn raise(&self, peer: Peer) {
        self.peers.lock().push(peer);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are peers to check. One relaxed load.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Takes all peers. Returns `None` if there are none.
    #[cold]
    pub(crate) fn take(&self) -> Option<Vec<Peer>> {
        let any = self.any.swap(false, Ordering::Acquire);
        any.then(|| std::mem::take(&mut *self.peers.lock()))
    }
}
