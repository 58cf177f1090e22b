//! Sends, receives and probes.

use netmod::{Peer, VciId};

use super::{Destination, NOBODY, Process, Source};
use crate::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Address, MatchedMessage, probe_status};
use crate::pt2pt::request::{RequestId, Status};
use crate::pt2pt::wire::Key;
use crate::vci::{Front, LockMode, Mode, Vci, VciState, with_access};

/// Polls of the ring by a blocking receive before it is posted: a few microseconds.
const RING_POLLS: u32 = 200;

impl Process {
    /// Starts a send from `vci`. Returns `None` if it is already complete.
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

    /// Receives the message at the front of the ring of `vci` if it matches `key`, which has no
    /// wildcards. Returns the message's source and tag as headers have them, and its length. `None`:
    /// the receive must be posted; nothing has changed.
    ///
    /// # Safety
    /// `room` bytes at `place` are valid for writes.
    #[inline(always)]
    pub(crate) unsafe fn receive_inline(
        &self,
        vci: u32,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Option<(u64, usize)> {
        let slot = self.find_vci(vci)?;
        let front = with_access!(slot, state => {
            // SAFETY: `place` is valid for `room` bytes (# Safety).
            unsafe { state.receive_front::<false>(key, place, room) }
        }, otherwise return None);
        match front {
            Front::Received(names, len) => Some((names, len)),
            Front::Empty | Front::Other => None,
        }
    }

    /// Receives like [`Process::receive_inline`], after some microseconds of polling for a message of
    /// `peer` if each rank has a core and no source has work.
    ///
    /// # Safety
    /// `room` bytes at `place` are valid for writes.
    pub(crate) unsafe fn receive_polling(
        &self,
        vci: u32,
        peer: Peer,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Option<(u64, usize)> {
        let slot = self.find_vci(vci)?;
        // Threads that share the VCI must not wait for this one's polls.
        let patient = slot.mode() == LockMode::Unlocked
            && peer != NOBODY
            && !self.is_oversubscribed()
            && !self.sources.have_work();
        let mut state = slot.lock_uncounted();
        if patient && state.may_come_inline(peer) {
            state.watch_ring(RING_POLLS);
        }
        // SAFETY: `place` is valid for `room` bytes (# Safety).
        let front = unsafe { state.receive_front::<true>(key, place, room) };
        match front {
            Front::Received(names, len) => Some((names, len)),
            Front::Empty | Front::Other => None,
        }
    }

    /// Starts a receive on `vci`.
    pub fn irecv(&self, vci: VciId, from: &Source, buffer: Buffer) -> Result<RequestId> {
        self.irecv_into(vci, from, || buffer)
    }

    /// Starts a receive on `vci` into the buffer that `buffer` returns.
    #[inline(always)]
    pub(crate) fn irecv_into(
        &self,
        vci: VciId,
        from: &Source,
        buffer: impl FnOnce() -> Buffer,
    ) -> Result<RequestId> {
        let vci = self.vci(vci)?;
        with_access!(vci, state => {
            receive(&mut state, from, buffer)
        }, otherwise receive_under_lock(vci, from, buffer))
    }

    /// Starts the receive of a message from [`Process::improbe`].
    pub fn imrecv(&self, message: MatchedMessage, buffer: Buffer) -> Result<RequestId> {
        let mut state = self.lock(message.vci)?;
        let id = state.engine.receive_matched(message, buffer)?;
        state.dispatch();
        Ok(id)
    }

    /// Looks for a message without receiving it. Polls once if there is none.
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

    /// Looks for a message and removes it from matching. Polls once if there is none.
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

/// Starts a receive into the buffer that `buffer` returns.
#[inline(always)]
fn receive(
    state: &mut VciState,
    from: &Source,
    buffer: impl FnOnce() -> Buffer,
) -> Result<RequestId> {
    let id = state
        .engine
        .receive(from.key(), buffer, from.owner, from.peer)?;
    if !state.engine.outbox.is_empty() {
        state.clear_outbox();
    }
    Ok(id)
}

/// Starts a receive under the lock.
#[cold]
#[inline(never)]
fn receive_under_lock(
    vci: &Vci,
    from: &Source,
    buffer: impl FnOnce() -> Buffer,
) -> Result<RequestId> {
    receive(&mut vci.lock(), from, buffer)
}
