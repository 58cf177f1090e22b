//! Sends, receives and probes.

use netmod::ring::Sent;
use netmod::{Peer, VciId};

use super::{Destination, NOBODY, Process, Source};
use crate::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Address, MatchedMessage, probe_status};
use crate::pt2pt::request::{RequestId, Status};
use crate::pt2pt::wire::Key;
use crate::vci::{Looked, Mode, NO_LOCK, OWN_LOCK, Vci, VciSlot, VciState};

/// Polls of the ring by a blocking receive before it waits as other calls do: a few microseconds.
const LOOKS: u32 = 200;

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

    /// Sends `data` from `vci` to the same VCI of `peer` if it can leave immediately. Returns
    /// whether it was sent; if not, nothing has changed. `vci` may be a number that no VCI has.
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
        // Branches on the lock mode once, so that each path is straight-line code.
        if slot.which_lock() == NO_LOCK {
            // SAFETY: the mode is `NO_LOCK`: calls of the process (`OneAtATime`) or of this VCI
            // (`weft_lockless`) never overlap, as the program promised.
            unsafe { slot.unlocked() }.send_now(to, key, data)
        } else {
            try_send_under_lock(slot, to, key, data)
        }
    }

    /// Writes an inline message of `len` bytes at `data` to the ring of `peer`. Fails if a lock is
    /// needed that this thread does not own.
    #[inline(always)]
    pub(crate) unsafe fn try_mail(
        &self,
        vci: u32,
        peer: Peer,
        key: Key,
        data: *const u8,
        len: usize,
    ) -> Sent {
        let Some(slot) = self.fast_vcis.get(vci as usize).and_then(VciSlot::get) else {
            return Sent::Full;
        };
        let vci = vci as VciId;
        let to = Address { peer, vci };
        if slot.which_lock() == NO_LOCK {
            // SAFETY: calls that use this VCI never overlap (`NO_LOCK`); `data` is valid for `len`
            // bytes (# Safety).
            return unsafe { slot.unlocked().mail(to, key, data, len) };
        }
        // SAFETY: this thread holds no guard of the VCI: guards are dropped before a call returns
        // and before callbacks run.
        match unsafe { slot.as_owner() } {
            // SAFETY: `data` is valid for `len` bytes (# Safety).
            Some(mut state) => unsafe { state.mail(to, key, data, len) },
            None => Sent::Full,
        }
    }

    /// Wakes the receiver of a message sent by [`Process::try_mail`].
    #[cold]
    pub(crate) fn wake_tx_ring(&self, vci: u32, peer: Peer) {
        if let Ok(mut state) = self.lock(vci as VciId) {
            state.wake(peer, vci as VciId);
        }
    }

    /// Receives a message that matches `key` from the ring of `vci`, if no lock is needed or this
    /// thread owns the lock. Returns its length.
    ///
    /// # Safety
    /// `room` bytes at `place` are valid for writes; `THREADS` equals [`Process::is_threaded`].
    #[inline(always)]
    pub(crate) unsafe fn try_take<const THREADS: bool>(
        &self,
        vci: u32,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Option<usize> {
        debug_assert_eq!(self.is_threaded(), THREADS);
        let slot = self.fast_vcis.get(vci as usize).and_then(VciSlot::get)?;
        let looked = if !THREADS || slot.which_lock() == NO_LOCK {
            // SAFETY: calls that use this VCI never overlap (`NO_LOCK`, or no threads); `place` is
            // valid for `room` bytes (# Safety).
            unsafe { slot.unlocked().take_now::<false>(key, place, room) }
        } else {
            // SAFETY: this thread holds no guard of the VCI: guards are dropped before a call
            // returns and before callbacks run. `place` is valid for `room` bytes (# Safety).
            unsafe { slot.as_owner()?.take_now::<false>(key, place, room) }
        };
        match looked {
            Looked::Taken(_, len) => Some(len),
            _ => None,
        }
    }

    /// Receives a message of any length that matches `key` from the ring of `vci`. Polls for a few
    /// microseconds for a message of `peer` if each rank has a core and no source has work.
    ///
    /// # Safety
    /// `room` bytes at `place` are valid for writes.
    pub(crate) unsafe fn take_soon(
        &self,
        vci: u32,
        peer: Peer,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Option<(u64, usize)> {
        let slot = self.fast_vcis.get(vci as usize).and_then(VciSlot::get)?;
        let found = if slot.which_lock() != NO_LOCK {
            // SAFETY: `place` is valid for `room` bytes (# Safety).
            unsafe { take_under_lock(slot, key, place, room) }
        } else {
            // SAFETY: calls that use this VCI never overlap (`NO_LOCK`).
            let mut state = unsafe { slot.unlocked() };
            let patient = peer != NOBODY && !self.is_oversubscribed() && !self.sources.have_work();
            if patient && state.is_by_rx_ring(peer) {
                state.watch_rx_ring(LOOKS);
            }
            // SAFETY: `place` is valid for `room` bytes (# Safety).
            unsafe { state.take_now::<true>(key, place, room) }
        };
        match found {
            Looked::Taken(names, len) => Some((names, len)),
            Looked::Nothing | Looked::Other => None,
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
        let slot = self.vci(vci)?;
        if slot.which_lock() == NO_LOCK {
            // SAFETY: calls that use this VCI never overlap (`NO_LOCK`).
            let mut state = unsafe { slot.unlocked() };
            return receive(&mut state, from, buffer);
        }
        if slot.which_lock() == OWN_LOCK
            // SAFETY: this thread holds no guard of the VCI: guards are dropped before a call
            // returns and before callbacks run.
            && let Some(mut state) = unsafe { slot.as_owner() }
        {
            return receive(&mut state, from, buffer);
        }
        receive_under_lock(slot, from, buffer)
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

/// Starts a receive under the lock, which has no owner or another one.
#[cold]
#[inline(never)]
fn receive_under_lock(
    slot: &Vci,
    from: &Source,
    buffer: impl FnOnce() -> Buffer,
) -> Result<RequestId> {
    receive(&mut slot.lock(), from, buffer)
}

/// Continues [`Process::take_soon`] under the VCI's own lock. Separate, so that the path without a
/// lock stays short.
///
/// # Safety
/// `room` bytes at `place` are valid for writes.
#[inline(never)]
unsafe fn take_under_lock(slot: &Vci, key: Key, place: *mut u8, room: usize) -> Looked {
    // SAFETY: `place` is valid for `room` bytes (# Safety).
    slot.under_own_lock(|state| unsafe { state.take_now::<true>(key, place, room) })
}

/// Continues [`Process::try_send`] under the VCI's own lock.
#[inline(never)]
fn try_send_under_lock(slot: &Vci, to: Address, key: Key, data: &[u8]) -> bool {
    slot.under_own_lock(|state| state.mail_now(to, key, data))
}
