//! Access to a VCI on the fast paths: the lock mode is looked at once per call.
//!
//! [`Unlocked`] and [`Lease`] cost next to nothing. [`VciGuard`](super::VciGuard) is the third kind
//! of access, and the only one that waits. Whoever holds any of the three holds the VCI.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use super::VciState;
use super::guard::{LockMode, Vci};
use crate::lock::OwnersTurn;

/// Access to a VCI that takes no lock, since its calls do not overlap. Not sent to other threads.
pub(crate) struct Unlocked<'a> {
    vci: &'a Vci,
    of_thread: PhantomData<*mut VciState>,
}

/// Access of the thread that owns the VCI's lock, by plain loads and stores. Not sent to other
/// threads.
pub(crate) struct Lease<'a> {
    vci: &'a Vci,
    turn: OwnersTurn,
    of_thread: PhantomData<*mut VciState>,
}

/// Evaluates `$act` with access to a VCI that costs neither an atomic exchange nor waiting: unlocked,
/// or by a lease; `$otherwise` if only the lock would do. A macro, since a closure that is called on
/// two branches is not inlined.
macro_rules! with_access {
    ($vci:expr, $state:ident => $act:expr, otherwise $otherwise:expr) => {
        if let Some(mut $state) = $vci.try_unlocked() {
            $act
        } else if let Some(mut $state) = $vci.try_lease() {
            $act
        } else {
            $otherwise
        }
    };
}
pub(crate) use with_access;

impl Vci {
    /// Returns access if the VCI takes no lock.
    #[inline(always)]
    pub fn try_unlocked(&self) -> Option<Unlocked<'_>> {
        if self.mode.load(Ordering::Relaxed) != LockMode::Unlocked as u8 {
            return None;
        }
        #[cfg(debug_assertions)]
        self.begin_use();
        Some(Unlocked {
            vci: self,
            of_thread: PhantomData,
        })
    }

    /// Returns access if the calling thread owns the VCI's lock and does not hold it.
    #[inline(always)]
    pub fn try_lease(&self) -> Option<Lease<'_>> {
        // In the other modes nobody owns this lock: with a shared one it is never taken, and the
        // end of an ownership comes before the mode without a lock.
        Some(Lease {
            vci: self,
            turn: self.lock.try_owner()?,
            of_thread: PhantomData,
        })
    }
}

impl<'a> Lease<'a> {
    /// Returns the VCI and the turn, which the caller has to end.
    #[inline(always)]
    pub(super) fn into_parts(self) -> (&'a Vci, OwnersTurn) {
        let lease = ManuallyDrop::new(self);
        (lease.vci, lease.turn)
    }
}

impl Deref for Unlocked<'_> {
    type Target = VciState;
    #[inline(always)]
    fn deref(&self) -> &VciState {
        // SAFETY: the mode `Unlocked` stands for the program's promise that calls on the VCI do not
        // overlap, and visitors keep away (`Vci::visit`).
        unsafe { &*self.vci.state.get() }
    }
}

impl DerefMut for Unlocked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut VciState {
        // SAFETY: as in `deref`; the guard itself is borrowed exclusively.
        unsafe { &mut *self.vci.state.get() }
    }
}

#[cfg(debug_assertions)]
impl Drop for Unlocked<'_> {
    fn drop(&mut self) {
        self.vci.in_use.store(false, Ordering::Relaxed);
    }
}

impl Deref for Lease<'_> {
    type Target = VciState;
    #[inline(always)]
    fn deref(&self) -> &VciState {
        // SAFETY: the lease's turn holds the lock until `drop`; `BiasedLock::try_owner` begins no
        // second turn meanwhile.
        unsafe { &*self.vci.state.get() }
    }
}

impl DerefMut for Lease<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut VciState {
        // SAFETY: as in `deref`; the lease itself is borrowed exclusively.
        unsafe { &mut *self.vci.state.get() }
    }
}

impl Drop for Lease<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the turn was begun on this lock, by this thread: leases are not sent.
        unsafe { self.vci.lock.end_turn(self.turn) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::assert_of_one_thread;

    assert_of_one_thread!(Lease<'static>);
    assert_of_one_thread!(Unlocked<'static>);
}
