//! Rings in shared memory that a VCI accesses without a call of their lane (see
//! [`netmod::NodeLane::tx_ring`]).

use std::ptr::NonNull;

use netmod::Lane;
use netmod::Peer;
use netmod::VciId;
use shmring::ring;

/// The ring of a peer's VCI for inline messages. Copies refer to the same ring.
#[derive(Clone, Copy)]
pub(crate) struct TxRing(NonNull<ring::TxRing>);

// SAFETY: the ring is accessed only under the lock of the VCI whose lane made it.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Returns the ring of VCI `vci` of `to`, if the lane sends through one.
    pub fn of(lane: &mut dyn Lane, to: Peer, vci: VciId) -> Option<TxRing> {
        lane.node()?.tx_ring(to, vci).map(TxRing)
    }

    /// Returns the ring.
    ///
    /// # Safety
    /// The lane lives, has not reported the peer lost, and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::TxRing {
        // SAFETY: the lane keeps the ring valid while it lives and has not reported the peer lost,
        // and does not access it outside of calls; the caller ensures that (# Safety).
        unsafe { self.0.as_mut() }
    }
}

/// The ring by which a lane receives inline messages.
pub(crate) struct RxRing(NonNull<ring::RxRing>);

// SAFETY: the ring is accessed only under the lock of the VCI whose lane made it.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Returns the ring of a lane, if the lane receives by one.
    pub fn of(lane: &mut dyn Lane) -> Option<RxRing> {
        lane.node()?.rx_ring().map(RxRing)
    }

    /// Returns the ring.
    ///
    /// # Safety
    /// The lane lives and is not being called.
    #[inline(always)]
    pub unsafe fn get(&mut self) -> &mut ring::RxRing {
        // SAFETY: the lane keeps the ring valid while it lives, and does not access it outside of
        // calls; the caller ensures that (# Safety).
        unsafe { self.0.as_mut() }
    }
}
