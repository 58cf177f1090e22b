//! Sends, receives and probes.

use netmod::{Peer, VciId};

use super::{Destination, Process, Source};
use crate::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Address, MatchedMessage, probe_status};
use crate::pt2pt::request::{RequestId, Status};
use crate::pt2pt::wire::Key;
use crate::vci::{Mode, NO_LOCK, VciSlot};

impl Process {
    /// Starts a send from `vci`. `None`: it is complete.
    #[inline]
    pub fn isend(
        &self,
        vci: VciId,
        to: &Destination,
        buffer: Buffer,
        mode: Mode,
    ) -> Result<Option<RequestId>> {
        let key = Key {
            context: to.context,
            source: to.rank,
            tag: to.tag,
        };
        self.lock(vci)?.send(
            Address {
                peer: to.peer,
                vci: to.vci,
            },
            key,
            buffer,
            mode,
            to.owner,
        )
    }

    /// Sends `data` from `vci` to the same VCI of `peer` if it can leave at once. Returns whether it
    /// has; if not, nothing was done. (`vci` may be a number that no VCI can have.)
    #[inline(always)]
    pub(crate) fn try_send(
        &self,
        vci: u32,
        peer: Peer,
        context: u64,
        rank: i32,
        tag: i32,
        data: &[u8],
    ) -> bool {
        let Some(slot) = self.fast_vcis.get(vci as usize).and_then(VciSlot::get) else {
            return false;
        };
        let vci = vci as VciId;
        let key = Key {
            context,
            source: rank,
            tag,
        };
        let to = Address { peer, vci };
        // Asked once, so that there are two straight paths rather than two questions on one.
        if slot.which_lock() == NO_LOCK {
            // SAFETY: `OneAtATime` was promised for all VCIs, or as much for this one.
            unsafe { slot.unlocked() }.send_now(to, key, data)
        } else {
            slot.under_own_lock(|state| state.send_now(to, key, data))
        }
    }

    /// Starts a receive on `vci`.
    pub fn irecv(&self, vci: VciId, from: &Source, buffer: Buffer) -> Result<RequestId> {
        self.irecv_into(vci, from, || buffer)
    }

    /// Starts a receive on `vci` into what `buffer` gives.
    #[inline(always)]
    pub(crate) fn irecv_into(
        &self,
        vci: VciId,
        from: &Source,
        buffer: impl FnOnce() -> Buffer,
    ) -> Result<RequestId> {
        let mut state = self.lock(vci)?;
        let id = state
            .engine
            .receive(from.key(), buffer, from.owner, from.peer)?;
        if !state.engine.outbox.is_empty() {
            state.dispatch();
        }
        Ok(id)
    }

    /// Starts the receive of a message that a matched probe took.
    pub fn imrecv(&self, message: MatchedMessage, buffer: Buffer) -> Result<RequestId> {
        let mut state = self.lock(message.vci)?;
        let id = state.engine.receive_matched(message, buffer)?;
        state.dispatch();
        Ok(id)
    }

    /// Looks for a message without receiving it, after one round of progress if there is none.
    pub fn iprobe(&self, vci: VciId, from: &Source) -> Result<Option<Status>> {
        let key = from.key();
        let look = || -> Result<Option<Status>> {
            let mut state = self.lock(vci)?;
            let found = state.engine.unexpected.find(&key);
            Ok(found.map(|(_, key, message)| probe_status(key, message.len())))
        };
        match look()? {
            None => match self.poll(vci).and_then(|_| look())? {
                None => self.check_not_lost(from).map(|()| None),
                found => Ok(found),
            },
            found => Ok(found),
        }
    }

    /// As [`Process::iprobe`]; the message found is taken out of matching.
    pub fn improbe(&self, vci: VciId, from: &Source) -> Result<Option<MatchedMessage>> {
        let key = from.key();
        let take = || -> Result<Option<MatchedMessage>> {
            let found = self.lock(vci)?.engine.unexpected.take(&key);
            let owner = from.owner;
            Ok(found.map(|(key, message)| MatchedMessage {
                key,
                vci,
                owner,
                message,
            }))
        };
        match take()? {
            None => match self.poll(vci).and_then(|_| take())? {
                None => self.check_not_lost(from).map(|()| None),
                found => Ok(found),
            },
            found => Ok(found),
        }
    }
}
