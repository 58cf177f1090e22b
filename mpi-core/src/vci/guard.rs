//! A VCI's lock, or the promise that takes its place, and the guard that stands for either.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crossbeam_utils::CachePadded;

use super::VciState;
use crate::lock::Lock;
use crate::pt2pt::request::Returned;

/// The lock of [`CriticalSections::Global`](super::CriticalSections::Global).
pub(crate) type SharedLock = Arc<CachePadded<Lock>>;

/// No lock is taken: there are no threads, or only one comes.
pub(crate) const NO_LOCK: u8 = 0;
/// That of the VCI is taken.
pub(crate) const OWN_LOCK: u8 = 1;
/// The one of all VCIs is taken.
pub(crate) const SHARED_LOCK: u8 = 2;

/// A VCI with its lock.
pub(crate) struct Vci {
    lock: Lock,
    /// Which lock is to be taken: [`NO_LOCK`], [`OWN_LOCK`] or [`SHARED_LOCK`].
    which: AtomicU8,
    /// Whether no lock is taken because one thread alone uses this VCI. Others keep away.
    exclusive: AtomicBool,
    /// The lock to take in place of `lock`.
    shared: Option<SharedLock>,
    /// Whether there is a guard without a lock: a second one breaks the promise that it stands on.
    #[cfg(debug_assertions)]
    in_use: AtomicBool,
    pub returned: Arc<Returned>,
    state: UnsafeCell<VciState>,
}

// SAFETY: `state` is reached through `VciGuard` only, which holds the lock; where the lock is not
// taken, the program has promised that calls do not overlap (MPI-3.1 section 12.4.3, or the hint for
// one VCI), and threads that it knows nothing of come by `Vci::visit`.
unsafe impl Sync for Vci {}

/// Exclusive access to a VCI, of the thread that has got it: neither sent nor shared.
pub(crate) struct VciGuard<'a> {
    vci: &'a Vci,
    locked: bool,
    of_thread: PhantomData<*mut VciState>,
}

impl Vci {
    /// Where its state is, for debuggers.
    #[cfg(not(loom))]
    pub const STATE: usize = std::mem::offset_of!(Vci, state);

    /// `shared` is a lock to take in place of one of its own.
    pub fn new(state: VciState, threaded: bool, shared: Option<SharedLock>) -> Self {
        Vci {
            lock: Lock::new(),
            which: AtomicU8::new(match &shared {
                _ if !threaded => NO_LOCK,
                None => OWN_LOCK,
                Some(_) => SHARED_LOCK,
            }),
            exclusive: AtomicBool::new(false),
            shared,
            #[cfg(debug_assertions)]
            in_use: AtomicBool::new(false),
            returned: state.engine.records.returned(),
            state: UnsafeCell::new(state),
        }
    }

    #[inline(always)]
    fn raw(&self) -> &Lock {
        match &self.shared {
            None => &self.lock,
            Some(shared) => shared,
        }
    }

    /// Waits for the lock, if locks are needed.
    #[inline(always)]
    pub fn lock(&self) -> VciGuard<'_> {
        let mut guard = self.lock_uncounted();
        if guard.locked {
            guard.engine.counters.locked += 1;
        }
        guard
    }

    /// As [`Vci::lock`], not counted.
    #[inline(always)]
    pub fn lock_uncounted(&self) -> VciGuard<'_> {
        let locked = self.which_lock() != NO_LOCK;
        if locked && !self.raw().try_lock() {
            return self.lock_contended();
        }
        self.guard(locked)
    }

    /// The guard of a VCI whose lock is had, or not wanted. In debug builds it makes sure that there is
    /// no other.
    #[inline(always)]
    fn guard(&self, locked: bool) -> VciGuard<'_> {
        #[cfg(debug_assertions)]
        if !locked && self.in_use.swap(true, Ordering::Relaxed) {
            panic!(
                "two calls use a VCI at once that takes no lock, since the program has said that its \
                 calls don't overlap"
            );
        }
        VciGuard {
            vci: self,
            locked,
            of_thread: PhantomData,
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> VciGuard<'_> {
        self.raw().lock();
        let mut guard = self.guard(true);
        guard.engine.counters.contended += 1;
        guard
    }

    /// Which lock is to be taken.
    #[inline(always)]
    pub fn which_lock(&self) -> u8 {
        self.which.load(Ordering::Relaxed)
    }

    /// Acts under the VCI's own lock, not counted: what [`OWN_LOCK`] asks for, in the fewest
    /// instructions if `act` succeeds.
    #[inline(always)]
    pub fn under_own_lock(&self, act: impl FnOnce(&mut VciState) -> bool) -> bool {
        if !self.lock.try_lock() {
            self.wait_for_own_lock();
        }
        // SAFETY: this thread has the lock.
        if !act(unsafe { &mut *self.state.get() }) {
            // SAFETY: taken above.
            unsafe { self.give_own_lock_back() };
            return false;
        }
        // SAFETY: taken above. (A panic ends the process.)
        unsafe { self.lock.unlock() };
        true
    }

    /// Apart, so that what the caller needs after a failure is not kept at hand for a success.
    ///
    /// # Safety
    /// This thread has the VCI's own lock.
    #[cold]
    #[inline(never)]
    unsafe fn give_own_lock_back(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.unlock() };
    }

    #[cold]
    #[inline(never)]
    fn wait_for_own_lock(&self) {
        self.lock.lock();
        // SAFETY: this thread has the lock, which its caller gives back.
        let state = unsafe { &mut *self.state.get() };
        state.engine.counters.contended += 1;
    }

    /// Access without taking the lock.
    ///
    /// # Safety
    /// Nobody else may have access at the time.
    #[inline(always)]
    pub unsafe fn unlocked(&self) -> VciGuard<'_> {
        self.guard(false)
    }

    /// `None` if another thread has the lock.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<VciGuard<'_>> {
        let locked = self.which_lock() != NO_LOCK;
        // A guard that is made is dropped, and unlocks: make none without the lock.
        (!locked || self.raw().try_lock()).then(|| {
            let mut guard = self.guard(locked);
            if locked {
                guard.engine.counters.locked += 1;
            }
            guard
        })
    }

    /// As [`Vci::try_lock`], for a thread that has nothing to do with this VCI: `None` too if one
    /// thread has it for itself.
    #[inline]
    pub fn visit(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) {
            return None;
        }
        let guard = self.try_lock()?;
        // It may have been given to one thread meanwhile.
        (!self.exclusive.load(Ordering::Relaxed)).then_some(guard)
    }

    /// As [`Vci::visit`], and waits for the lock.
    pub fn visit_blocking(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) {
            return None;
        }
        let guard = self.lock();
        (!self.exclusive.load(Ordering::Relaxed)).then_some(guard)
    }

    /// Whether one thread has it for itself.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Relaxed)
    }

    /// Gives the VCI to one thread, which takes no lock, or ends that. Without threads nothing
    /// changes.
    ///
    /// Nobody may be using it at the time but visitors.
    pub fn set_exclusive(&self, exclusive: bool) {
        if self.exclusive.load(Ordering::Relaxed) == exclusive {
            return;
        }
        if exclusive && self.which_lock() == OWN_LOCK {
            // Visitors have left when the lock is had, and later ones look once more.
            let _guard = self.lock_uncounted();
            self.exclusive.store(true, Ordering::Relaxed);
            self.which.store(NO_LOCK, Ordering::Relaxed);
        } else if !exclusive {
            self.which.store(OWN_LOCK, Ordering::Relaxed);
            // Release: who comes by a lock from now on sees what the one thread has done.
            self.exclusive.store(false, Ordering::Release);
        }
    }
}

/// A place for a VCI, which is filled once: a word as long as it is empty.
#[derive(Default)]
pub(crate) struct VciSlot(AtomicPtr<CachePadded<Vci>>);

impl VciSlot {
    /// The VCI, if it is open.
    #[inline(always)]
    pub fn get(&self) -> Option<&Vci> {
        let vci = self.0.load(Ordering::Acquire);
        // SAFETY: null, or made from a box by `fill` and valid until the slot is dropped; shared
        // references only are given out.
        unsafe { vci.as_ref() }.map(|vci| &**vci)
    }

    /// Fills an empty slot.
    pub fn fill(&self, vci: Vci) {
        let vci = Box::into_raw(Box::new(CachePadded::new(vci)));
        // Release: whoever finds it sees all of it.
        let filled = self.0.compare_exchange(
            std::ptr::null_mut(),
            vci,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if filled.is_err() {
            // SAFETY: made above, and nobody else has it.
            drop(unsafe { Box::from_raw(vci) });
        }
    }
}

impl Drop for VciSlot {
    fn drop(&mut self) {
        let vci = *self.0.get_mut();
        if !vci.is_null() {
            // SAFETY: made from a box by `fill`; no reference outlives the slot.
            drop(unsafe { Box::from_raw(vci) });
        }
    }
}

// SAFETY: a slot owns a VCI, which may be sent to and shared with other threads like any other.
unsafe impl Send for VciSlot {}
// SAFETY: as above.
unsafe impl Sync for VciSlot {}

impl Deref for VciGuard<'_> {
    type Target = VciState;
    #[inline(always)]
    fn deref(&self) -> &VciState {
        // SAFETY: the guard stands for exclusive access.
        unsafe { &*self.vci.state.get() }
    }
}

impl DerefMut for VciGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut VciState {
        // SAFETY: the guard stands for exclusive access, and is itself borrowed exclusively.
        unsafe { &mut *self.vci.state.get() }
    }
}

impl Drop for VciGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.locked {
            // SAFETY: the lock was taken for this guard, by this thread: guards are not sent.
            unsafe { self.vci.raw().unlock() };
        }
        #[cfg(debug_assertions)]
        if !self.locked {
            self.vci.in_use.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::assert_of_one_thread;

    assert_of_one_thread!(VciGuard<'static>);
}
