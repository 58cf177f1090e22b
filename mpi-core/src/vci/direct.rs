//! Direct access to a peer's memory: copies within the node, and signalled writes.

use netmod::{LaneError, Lost, Signal};

use super::VciState;
use crate::error::Error;
use crate::pt2pt::engine::{Address, lost_peer};

impl VciState {
    /// Copies `len` bytes between `local` and the memory of a process of this node, to it or from
    /// it.
    ///
    /// # Safety
    /// `local` is valid for `len` bytes, and the peer has lent what is at `remote`.
    pub unsafe fn copy_local(
        &mut self,
        to: Address,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<(), LaneError> {
        let lane = &mut self.route_to(to)?.lane;
        let direct = lane.node().and_then(|node| node.direct_copy());
        let direct = direct.ok_or(LaneError::Unsupported)?;
        // SAFETY: `local` is valid for `len` bytes, and the peer has lent what is at `remote`
        // (# Safety).
        let copied = unsafe {
            match write {
                true => direct.write(to.peer, to.vci, local, len, remote),
                false => direct.read(to.peer, to.vci, local, len, remote),
            }
        };
        if let Err(LaneError::PeerLost(lost)) = &copied {
            netmod::Sink::peer_lost(&mut self.engine, lost.peer, lost.why.clone());
        }
        copied
    }

    /// Writes data and words over it to a peer's exposed memory ([`Lane::signal`](netmod::Lane::signal)).
    pub fn signal(&mut self, to: Address, signal: Signal<'_>) -> Result<(), LaneError> {
        let route = self.route_to(to)?;
        route.lane.signal(to.peer, to.vci, signal)?;
        self.engine.counters.signals += 1;
        Ok(())
    }

    /// The error of a [`VciState::signal`] that can't be; what it says of the peer is noted.
    #[cold]
    pub fn signal_failed(&mut self, to: Address, error: LaneError) -> Error {
        let why = error.to_string();
        if let LaneError::PeerLost(lost) = error {
            let Lost { peer, why } = *lost;
            netmod::Sink::peer_lost(&mut self.engine, peer, why);
        }
        lost_peer(to.peer, &why)
    }
}
