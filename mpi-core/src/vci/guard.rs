//! A VCI with its lock, or the promise that takes its place, and the guard that stands for either.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crossbeam_utils::CachePadded;

use super::VciState;
use super::access::Lease;
use crate::lock::{Acquired, BiasedLock};
use crate::pt2pt::request::Returned;

/// The lock of [`CriticalSections::Global`](super::CriticalSections::Global).
pub(crate) type SharedLock = Arc<CachePadded<BiasedLock>>;

/// The lock that calls take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum LockMode {
    /// None: there are no threads, or one thread alone uses the VCI.
    Unlocked,
    /// The VCI's own.
    Own,
    /// The one of all VCIs.
    Shared,
}

/// A VCI with its lock.
pub(crate) struct Vci {
    /// Never taken, and so without an owner, where there is a shared one.
    pub(super) lock: BiasedLock,
    /// A [`LockMode`].
    mode: AtomicU8,
    /// Whether no lock is taken because one thread alone uses this VCI. Others keep away.
    exclusive: AtomicBool,
    /// The lock to take in place of `lock`.
    shared: Option<SharedLock>,
    /// Whether there is a guard without a lock: a second one breaks the promise that it stands on.
    #[cfg(debug_assertions)]
    pub(super) in_use: AtomicBool,
    pub returned: Arc<Returned>,
    pub(super) state: UnsafeCell<VciState>,
}

// SAFETY: `state` is reached through `VciGuard`, `Lease` and `Unlocked` only. The first two hold the
// lock; the third stands for the program's promise that calls do not overlap (MPI-5.0 section
// 11.6.2, or the hint for one VCI). Threads that the promise does not cover come by `Vci::visit`.
unsafe impl Sync for Vci {}

/// Exclusive access to a VCI, of the thread that has got it: neither sent nor shared.
pub(crate) struct VciGuard<'a> {
    vci: &'a Vci,
    /// How its lock was taken, if one was.
    acquired: Option<Acquired>,
    of_thread: PhantomData<*mut VciState>,
}

impl Vci {
    /// Where its state is, for debuggers.
    #[cfg(not(loom))]
    pub const STATE: usize = std::mem::offset_of!(Vci, state);

    /// `shared` is a lock to take in place of one of its own.
    pub fn new(state: VciState, threaded: bool, shared: Option<SharedLock>) -> Self {
        Vci {
            lock: BiasedLock::new(threaded && shared.is_none()),
            mode: AtomicU8::new(match &shared {
                _ if !threaded => LockMode::Unlocked,
                shared => mode_of_threads(shared),
            } as u8),
            exclusive: AtomicBool::new(false),
            shared,
            #[cfg(debug_assertions)]
            in_use: AtomicBool::new(false),
            returned: state.engine.records.returned(),
            state: UnsafeCell::new(state),
        }
    }

    #[inline(always)]
    fn raw(&self) -> &BiasedLock {
        match &self.shared {
            None => &self.lock,
            Some(shared) => shared,
        }
    }

    /// Waits for the lock, if locks are needed.
    #[inline(always)]
    pub fn lock(&self) -> VciGuard<'_> {
        let mut guard = self.lock_uncounted();
        if guard.acquired.is_some() {
            guard.engine.counters.locked += 1;
        }
        guard
    }

    /// As [`Vci::lock`], not counted.
    #[inline(always)]
    pub fn lock_uncounted(&self) -> VciGuard<'_> {
        if self.mode() == LockMode::Unlocked {
            return self.guard(None);
        }
        match self.raw().try_lock() {
            None => self.lock_contended(),
            acquired => self.guard(acquired),
        }
    }

    /// The guard of a VCI whose lock is had, or not wanted. In debug builds it makes sure that there is
    /// no other.
    #[inline(always)]
    fn guard(&self, acquired: Option<Acquired>) -> VciGuard<'_> {
        #[cfg(debug_assertions)]
        if acquired.is_none() {
            self.begin_use();
        }
        VciGuard {
            vci: self,
            acquired,
            of_thread: PhantomData,
        }
    }

    #[cfg(debug_assertions)]
    pub(super) fn begin_use(&self) {
        assert!(
            !self.in_use.swap(true, Ordering::Relaxed),
            "two calls use a VCI at once that takes no lock, since the program has said that its calls don't overlap"
        );
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> VciGuard<'_> {
        let acquired = self.raw().lock();
        let mut guard = self.guard(Some(acquired));
        guard.engine.counters.contended += 1;
        guard
    }

    /// Returns which lock calls take.
    #[inline(always)]
    pub fn mode(&self) -> LockMode {
        match self.mode.load(Ordering::Relaxed) {
            0 => LockMode::Unlocked,
            1 => LockMode::Own,
            _ => LockMode::Shared,
        }
    }

    /// For a round of progress: `None` if another thread has the lock, or makes one round after the other.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<VciGuard<'_>> {
        if self.mode() == LockMode::Unlocked {
            return Some(self.guard(None));
        }
        self.looked(self.raw().try_poll())
    }

    /// `None` if another thread has the lock.
    #[inline(always)]
    pub fn try_lock_once(&self) -> Option<VciGuard<'_>> {
        match self.mode() {
            LockMode::Unlocked => Some(self.guard(None)),
            _ => self.looked(self.raw().try_poll_once()),
        }
    }

    #[inline(always)]
    fn looked(&self, acquired: Option<Acquired>) -> Option<VciGuard<'_>> {
        // A guard that is made is dropped, and unlocks: make none without the lock.
        let mut guard = self.guard(Some(acquired?));
        guard.engine.counters.locked += 1;
        Some(guard)
    }

    /// As [`Vci::try_lock_once`], for a thread that has nothing to do with this VCI: `None` too if one
    /// thread has it for itself, or comes for it again and again.
    #[inline]
    pub fn visit(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) || self.raw().has_active_owner() {
            return None;
        }
        self.visited(|lock| lock.try_poll_once())
    }

    /// As [`Vci::visit`], and waits for the lock.
    pub fn visit_blocking(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) {
            return None;
        }
        self.visited(|lock| Some(lock.lock()))
    }

    /// Access for a visitor, by what `take` does with the lock.
    #[inline(always)]
    fn visited(&self, take: impl FnOnce(&BiasedLock) -> Option<Acquired>) -> Option<VciGuard<'_>> {
        if self.mode() == LockMode::Unlocked {
            return (!self.is_exclusive()).then(|| self.guard(None));
        }
        let mut guard = self.guard(Some(take(self.raw())?));
        // It may have been given to one thread meanwhile, whose all of it is then.
        if self.is_exclusive() {
            return None;
        }
        guard.engine.counters.locked += 1;
        Some(guard)
    }

    /// Whether another thread comes for it again and again, so that nobody else need look after it.
    pub fn has_active_owner(&self) -> bool {
        self.raw().has_active_owner()
    }

    /// Whether any thread may be waiting for an operation on it: until its request is freed, the last that who waits does to
    /// the VCI.
    pub fn has_operations(&self) -> bool {
        // With the lock: whoever has freed a request does not have it any more, and does not take it again.
        let state = self.visit_blocking();
        state.is_some_and(|state| state.engine.records.any_live())
    }

    /// Has its lock taken from now on: threads may come at the same time.
    ///
    /// Nobody may be using it at the time, and no lock may have been taken before.
    pub fn start_locking(&self) {
        debug_assert!(self.mode() == LockMode::Unlocked && !self.is_exclusive());
        if self.shared.is_none() {
            self.lock.enable_bias();
        }
        self.set_mode(mode_of_threads(&self.shared));
    }

    fn set_mode(&self, mode: LockMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
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
        if exclusive && self.mode() == LockMode::Own {
            // Visitors have left when the lock is had, and later ones look once more. By the word: an owner, who would not
            // see what is done without a lock, is none any more.
            let acquired = self.raw().lock_by_word();
            let _guard = self.guard(Some(acquired));
            self.exclusive.store(true, Ordering::Relaxed);
            self.set_mode(LockMode::Unlocked);
        } else if !exclusive {
            self.set_mode(LockMode::Own);
            // Release: who comes by a lock from now on sees what the one thread has done.
            self.exclusive.store(false, Ordering::Release);
        }
    }
}

/// Returns the lock that threads take; `shared` is one to take in place of a VCI's own.
fn mode_of_threads(shared: &Option<SharedLock>) -> LockMode {
    match shared {
        None => LockMode::Own,
        Some(_) => LockMode::Shared,
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

impl VciGuard<'_> {
    /// Gives the VCI back, to others that wait for it: there is nothing more to do for now.
    #[inline(always)]
    pub fn vacate(self) {
        let vci = self.vci;
        let locked = self.acquired.is_some();
        drop(self);
        if locked {
            vci.raw().vacate();
        }
    }
}

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
        if let Some(acquired) = self.acquired {
            // SAFETY: the lock was taken for this guard in this acquired, by this thread: guards are not sent.
            unsafe { self.vci.raw().unlock(acquired) };
        }
        #[cfg(debug_assertions)]
        if self.acquired.is_none() {
            self.vci.in_use.store(false, Ordering::Relaxed);
        }
    }
}

impl<'a> From<Lease<'a>> for VciGuard<'a> {
    #[inline(always)]
    fn from(lease: Lease<'a>) -> VciGuard<'a> {
        let (vci, turn) = lease.into_parts();
        vci.guard(Some(turn.into()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::assert_of_one_thread;

    assert_of_one_thread!(VciGuard<'static>);
}
