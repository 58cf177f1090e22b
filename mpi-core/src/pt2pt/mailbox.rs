//! Rings in shared memory that a VCI accesses without a call of their lane (see
//! [`netmod::Lane::mailbox`]).

use std::ptr::NonNull;

use netmod::Lane;
use netmod::Peer;
use netmod::VciId;
use netmod::ring;

/// The ring of a peer's VCI for inline messages. Copies refer to the same ring.
#[derive(Clone, Copy)]
pub(crate) struct Mailbox(NonNull<ring::Mailbox>);

// SAFETY: the ring is accessed only under the lock of the VCI whose lane made it.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// Returns the ring of VCI `vci` of `to`, if the lane sends through one.
    pub fn of(lane: &mut dyn Lane, to: Peer, vci: VciId) -> Option<Mailbox> {
        lane.mailbox(to, vci).map(Mailbox)
    }

    /// Returns the ring.
    ///
    /// # Safety
    /// The lane lives, has not reported the peer lost, and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::Mailbox {
        // SAFETY: the lane keeps the ring valid while it lives and has not reported the peer lost,
        // and does not access it outside of calls; the caller ensures that (# Safety).
        unsafe { self.0.as_mut() }
    }
}

/// The ring by which a lane receives inline messages.
pub(crate) struct Inbox(NonNull<ring::Inbox>);

// SAFETY: the ring is accessed only under the lock of the VCI whose lane made it.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Returns the ring of a lane, if the lane receives by one.
    pub fn of(lane: &mut dyn Lane) -> Option<Inbox> {
        lane.inbox().map(Inbox)
    }

    /// Returns the ring.
    ///
    /// # Safety
    /// The lane lives and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::Inbox {
        // SAFETY: the lane keeps the ring valid while it lives, and does not access it outside of
        // calls; the caller ensures that (# Safety).
        unsafe { self.0.as_mut() }
    }
}
