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

/// Looks into the inbox by a receive before it waits as all do: a few microseconds.
const LOOKS: u32 = 200;

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
            try_send_under_lock(slot, to, key, data)
        }
    }

    /// Sends `len` bytes at `data` as [`Process::try_send`] does, where no lock is taken, or one that
    /// leans to this thread, and the peer has a mailbox.
    ///
    /// # Safety
    /// They are valid for reads.
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
            return Sent::NoRoom;
        };
        let vci = vci as VciId;
        let to = Address { peer, vci };
        if slot.which_lock() == NO_LOCK {
            // SAFETY: of the access as in `try_send`; of the data, the caller's contract.
            return unsafe { slot.unlocked().mail(to, key, data, len) };
        }
        // SAFETY: who sends has no access: it would wait for itself in `try_send`, which is next if this fails.
        match unsafe { slot.as_owner() } {
            // SAFETY: the caller's contract.
            Some(mut state) => unsafe { state.mail(to, key, data, len) },
            None => Sent::NoRoom,
        }
    }

    /// Wakes the receiver of what [`Process::try_mail`] has sent.
    #[cold]
    pub(crate) fn wake_mailbox(&self, vci: u32, peer: Peer) {
        if let Ok(mut state) = self.lock(vci as VciId) {
            state.wake(peer, vci as VciId);
        }
    }

    /// Takes a message from the inbox of `vci` if that is what `key` asks for, where no lock is taken, or one that leans to
    /// this thread. Returns its bytes.
    ///
    /// # Safety
    /// `room` bytes at `place` are the program's receive buffer; `THREADS` says whether [there are](Process::is_threaded).
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
            // SAFETY: of the access as in `try_send`, since without threads no VCI has a lock; of the place, the caller's contract.
            unsafe { slot.unlocked().take_now::<false>(key, place, room) }
        } else {
            // SAFETY: who receives has no access: it would wait for itself in `take_soon`, which is next if this fails.
            // Of the place, the caller's contract.
            unsafe { slot.as_owner()?.take_now::<false>(key, place, room) }
        };
        match looked {
            Looked::Taken(_, len) => Some(len),
            _ => None,
        }
    }

    /// As [`Process::try_take`], for messages of any length, and if locks are taken; waits a little for a
    /// message of `peer`'s if each rank has a core and nothing else is under way.
    ///
    /// # Safety
    /// As there.
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
            // SAFETY: the caller's contract.
            unsafe { take_under_lock(slot, key, place, room) }
        } else {
            // SAFETY: as in `try_send`.
            let mut state = unsafe { slot.unlocked() };
            let patient = peer != NOBODY && !self.is_oversubscribed() && !self.sources.have_work();
            if patient && state.is_by_inbox(peer) {
                state.watch_inbox(LOOKS);
            }
            // SAFETY: the caller's contract.
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

    /// Starts a receive on `vci` into what `buffer` gives.
    #[inline(always)]
    pub(crate) fn irecv_into(
        &self,
        vci: VciId,
        from: &Source,
        buffer: impl FnOnce() -> Buffer,
    ) -> Result<RequestId> {
        let slot = self.vci(vci)?;
        if slot.which_lock() == NO_LOCK {
            // SAFETY: as in `try_send`.
            let mut state = unsafe { slot.unlocked() };
            return receive(&mut state, from, buffer);
        }
        if slot.which_lock() == OWN_LOCK
            // SAFETY: who starts a receive has no access, or would wait for itself below.
            && let Some(mut state) = unsafe { slot.as_owner() }
        {
            return receive(&mut state, from, buffer);
        }
        receive_under_lock(slot, from, buffer)
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

/// Starts a receive into what `buffer` gives.
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

/// As [`receive`], where the lock leans to no thread, or to another one.
#[cold]
#[inline(never)]
fn receive_under_lock(
    slot: &Vci,
    from: &Source,
    buffer: impl FnOnce() -> Buffer,
) -> Result<RequestId> {
    receive(&mut slot.lock(), from, buffer)
}

/// What [`Process::take_soon`] does where a lock is to be taken: apart, so that who needs none doesn't carry it along.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn take_under_lock(slot: &Vci, key: Key, place: *mut u8, room: usize) -> Looked {
    // SAFETY: the caller's contract.
    slot.under_own_lock(|state| unsafe { state.take_now::<true>(key, place, room) })
}

/// What [`Process::try_send`] does where a lock is to be taken.
#[inline(never)]
fn try_send_under_lock(slot: &Vci, to: Address, key: Key, data: &[u8]) -> bool {
    slot.under_own_lock(|state| state.mail_now(to, key, data))
}
