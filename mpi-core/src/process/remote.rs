//! One-sided operations and unexpected messages of one VCI, for crates above this one.

use std::sync::Arc;

use netmod::{LaneError, Signal, VciId};

use super::{Process, Source};
use crate::error::Result;
use crate::pt2pt::engine::{Address, MatchedMessage};
use crate::pt2pt::operations::{Access, Flight};
use crate::vci::Started;

impl Process {
    /// Returns the name of the transport to a peer if it has RDMA. Also returns whether a burst of
    /// small accesses is faster by messages, which travel together; the target's processor is
    /// needed anyway.
    pub fn remote_memory(&self, vci: VciId, to: Address) -> Result<Option<(&'static str, bool)>> {
        // Remote keys belong to the transports within the job.
        if self.foreign().is_foreign(to.peer) {
            return Ok(None);
        }
        Ok(self.lock(vci)?.remote_memory(to))
    }

    /// Starts an access from a VCI. With an `owner`, makes a request if the access is not complete
    /// immediately. Takes `place`'s access if it is pending. Returns `None` if there is no space.
    ///
    /// # Errors
    /// The target is lost, or there are too many requests.
    ///
    /// # Safety
    /// The memory of the access meets the requirements of its fields until the access is complete,
    /// and the peer has exposed the blocks.
    #[inline]
    pub unsafe fn start_access(
        &self,
        vci: VciId,
        place: &mut Option<Access>,
        flight: &Arc<Flight>,
        owner: Option<u32>,
    ) -> Result<Option<Started>> {
        // SAFETY: the caller keeps the access's memory valid, and the peer has exposed the blocks
        // (# Safety).
        unsafe { self.lock(vci)?.start_access(place, flight, owner) }
    }

    /// Issues more blocks of an access that was [`Started::Partly`]. Returns whether all are
    /// issued.
    ///
    /// # Errors
    /// If the VCI is not open.
    #[inline]
    pub fn continue_access(&self, vci: VciId, index: u32) -> Result<bool> {
        Ok(self.lock(vci)?.go_on(index))
    }

    /// Fails the rest of an access with `why`.
    ///
    /// # Errors
    /// If the VCI is not open.
    pub fn abort_access(&self, vci: VciId, index: u32, why: LaneError) -> Result<()> {
        self.lock(vci)?.give_up(index, why);
        Ok(())
    }

    /// Writes data, and then words, to a peer's exposed memory
    /// ([`Lane::signal`](netmod::Lane::signal)). Returns whether the transport had space.
    ///
    /// # Errors
    /// If the VCI is not open, or the peer is lost.
    #[inline]
    pub fn signal(&self, vci: VciId, to: Address, signal: Signal<'_>) -> Result<bool> {
        let mut state = self.lock(vci)?;
        match state.signal(to, signal) {
            Ok(()) => Ok(true),
            Err(LaneError::Again) => Ok(false),
            Err(error) => Err(state.signal_failed(to, error)),
        }
    }

    /// Whether the unexpected queue of a VCI has messages. Returns false if another thread holds
    /// the VCI, since that thread checks itself.
    ///
    /// # Errors
    /// If the VCI is not open.
    #[inline]
    pub fn has_unexpected(&self, vci: VciId) -> Result<bool> {
        let state = self.vci(vci)?.try_lock_once();
        Ok(state.is_some_and(|state| !state.engine.unexpected.is_empty()))
    }

    /// Takes a message from the unexpected queue without progress. Returns `None` also if another
    /// thread holds the VCI, since that thread checks itself.
    ///
    /// # Errors
    /// If the VCI is not open.
    #[inline]
    pub fn try_improbe(&self, vci: VciId, from: &Source) -> Result<Option<MatchedMessage>> {
        let Some(mut state) = self.vci(vci)?.try_lock_once() else {
            return Ok(None);
        };
        if state.engine.unexpected.is_empty() {
            return Ok(None);
        }
        let found = state.engine.unexpected.take(&from.key());
        Ok(found.map(|(key, message)| MatchedMessage {
            key,
            vci,
            owner: from.owner,
            message,
        }))
    }
}
