//! Processes that may have ended: noted by a thread that must make no calls on the process, looked after by the next call
//! that asks.

use std::sync::atomic::{AtomicBool, Ordering};

use netmod::Peer;
use parking_lot::Mutex;

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

    /// Whether there are some. Costs a look at a word.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Takes them, if there are some.
    #[cold]
    pub(crate) fn take(&self) -> Option<Vec<Peer>> {
        let any = self.any.swap(false, Ordering::Acquire);
        any.then(|| std::mem::take(&mut *self.peers.lock()))
    }
}
