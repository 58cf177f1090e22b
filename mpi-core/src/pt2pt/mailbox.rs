//! The ends of queues in shared memory that a VCI reaches without a call of their lane (see
//! [`netmod::Lane::mailbox`]).

use std::ptr::NonNull;

use netmod::Lane;
use netmod::Peer;
use netmod::VciId;
use netmod::ring;

/// The queue of a peer's VCI. Copies name the same.
#[derive(Clone, Copy)]
pub(crate) struct Mailbox(NonNull<ring::Mailbox>);

// SAFETY: it is used under the lock of the VCI whose lane made it, by whichever thread has that.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// That of `vci` of `to`, if the lane sends to it by one.
    pub fn of(lane: &mut dyn Lane, to: Peer, vci: VciId) -> Option<Mailbox> {
        lane.mailbox(to, vci).map(Mailbox)
    }

    /// # Safety
    /// The lane lives, has not reported the peer lost, and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::Mailbox {
        // SAFETY: the lane's contract, which the caller keeps.
        unsafe { self.0.as_mut() }
    }
}

/// The queue by which a lane receives.
pub(crate) struct Inbox(NonNull<ring::Inbox>);

// SAFETY: as above.
unsafe impl Send for Inbox {}

impl Inbox {
    /// That of a lane, if it receives by one.
    pub fn of(lane: &mut dyn Lane) -> Option<Inbox> {
        lane.inbox().map(Inbox)
    }

    /// # Safety
    /// The lane lives and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::Inbox {
        // SAFETY: the lane's contract, which the caller keeps.
        unsafe { self.0.as_mut() }
    }
}
