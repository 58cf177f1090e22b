//! Remote memory and arrived messages of one VCI, for crates that stand above this one: what
//! one-sided communication asks of a VCI while it has the lock.

use std::sync::Arc;

use netmod::{LaneError, RemoteAddr, RemoteKey, VciId};

use super::{Process, Source};
use crate::error::Result;
use crate::pt2pt::engine::{Address, MatchedMessage};
use crate::pt2pt::operations::{Access, Flight, Run};
use crate::vci::Started;

impl Process {
    /// The name of the transport that leads from a VCI to a peer, if it has remote memory of its
    /// own; and whether a burst of small accesses had better go by messages: where they travel
    /// together, and the target's processor is needed anyway.
    ///
    /// # Errors
    /// The VCI is not open.
    pub fn remote_memory(&self, vci: VciId, to: Address) -> Result<Option<(&'static str, bool)>> {
        // Keys are those of the transports within the job.
        if self.foreign().is_foreign(to.peer) {
            return Ok(None);
        }
        Ok(self.lock(vci)?.remote_memory(to))
    }

    /// Begins a put, a get or atomics from a VCI; with an `owner`, for whom a request is made if it
    /// is not complete at once.
    ///
    /// # Errors
    /// The target is lost, or there are too many requests.
    ///
    /// # Safety
    /// What `access` says of its memory holds until it is complete, and the peer has exposed the
    /// runs.
    #[inline]
    pub unsafe fn start_access(
        &self,
        vci: VciId,
        access: Access,
        owner: Option<u32>,
    ) -> Result<Started> {
        // SAFETY: the caller's promise.
        unsafe { self.lock(vci)?.start_access(access, owner) }
    }

    /// Puts one run from plain memory from a VCI, if there is room; by a transport of this number, or by the
    /// one that leads there. Returns whether it was issued; if not, nothing was done, and
    /// [`Process::start_access`] tells why.
    ///
    /// # Errors
    /// The VCI is not open.
    ///
    /// # Safety
    /// As for [`Process::start_access`]; `local` holds the run's bytes.
    #[inline]
    pub unsafe fn put_at_once(
        &self,
        vci: VciId,
        to: (u32, Address),
        way: Option<usize>,
        place: (RemoteKey, Run),
        local: *const u8,
        flight: &Arc<Flight>,
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.lock(vci)?.put_at_once(to, way, place, local, flight) })
    }

    /// Issues more of an access that was [`Started::Partly`]. Returns whether nothing is left to
    /// issue.
    ///
    /// # Errors
    /// The VCI is not open.
    #[inline]
    pub fn go_on_with_access(&self, vci: VciId, index: u32) -> Result<bool> {
        Ok(self.lock(vci)?.go_on(index))
    }

    /// The rest of an access will not be issued, because of `why`.
    ///
    /// # Errors
    /// The VCI is not open.
    pub fn give_up_access(&self, vci: VciId, index: u32, why: LaneError) -> Result<()> {
        self.lock(vci)?.give_up(index, why);
        Ok(())
    }

    /// Writes data and words over it to a peer's exposed memory ([`Lane::signal`](netmod::Lane::signal)). Returns
    /// whether there was room.
    ///
    /// # Errors
    /// The VCI is not open, or the peer is lost.
    #[inline]
    pub fn signal(
        &self,
        vci: VciId,
        to: Address,
        data: &[u8],
        remote: RemoteAddr,
        words: &[u64],
        at: RemoteAddr,
    ) -> Result<bool> {
        let mut state = self.lock(vci)?;
        match state.signal(to, data, remote, words, at) {
            Ok(()) => Ok(true),
            Err(LaneError::Again) => Ok(false),
            Err(error) => Err(state.signal_failed(to, error)),
        }
    }

    /// Asks for the completion, at the target, of what was written there from a VCI, by a transport of this
    /// number or the one that leads there; `number` of `flight` ends with it. Returns whether there was room.
    ///
    /// # Errors
    /// The VCI is not open.
    #[inline]
    pub fn start_flush(
        &self,
        vci: VciId,
        to: Address,
        way: Option<usize>,
        flight: &Arc<Flight>,
        number: u64,
    ) -> Result<bool> {
        Ok(self.lock(vci)?.start_flush(to, way, flight, number))
    }

    /// Whether messages have arrived on a VCI that no receive waits for. `false` if another thread
    /// has it, which is about to look itself.
    ///
    /// # Errors
    /// The VCI is not open.
    #[inline]
    pub fn has_unexpected(&self, vci: VciId) -> Result<bool> {
        let state = self.vci(vci)?.try_lock_once();
        Ok(state.is_some_and(|state| !state.engine.unexpected.is_empty()))
    }

    /// As [`Process::improbe`], without progress, and only if no other thread has the VCI, which
    /// is about to look itself.
    ///
    /// # Errors
    /// The VCI is not open.
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
