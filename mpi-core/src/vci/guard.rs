//! A VCI with its lock, or the promise that takes the lock's place, and the guard for either.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crossbeam_utils::CachePadded;

use super::VciState;
use super::access::Lease;
use crate::lock::{Acquired, BiasedLock};
use crate::pt2pt::engine::Counters;
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
    /// Never taken, and so without an owner, if there is a shared lock.
    pub(super) lock: BiasedLock,
    /// A [`LockMode`].
    pub(super) mode: AtomicU8,
    /// Whether no lock is taken because one thread alone uses this VCI. Other threads don't visit it.
    exclusive: AtomicBool,
    /// The lock to take in place of `lock`.
    shared: Option<SharedLock>,
    /// Whether there is a guard without a lock: a second guard breaks the promise of the first.
    #[cfg(debug_assertions)]
    pub(super) in_use: AtomicBool,
    pub returned: Arc<Returned>,
    pub(super) state: UnsafeCell<VciState>,
}

// SAFETY: `state` is reached through `VciGuard`, `Lease` and `Unlocked` only. The first two hold the
// lock; the third stands for the program's promise that calls do not overlap (MPI-5.0 section
// 11.6.2, or the hint for one VCI). Threads that the promise does not cover come by `Vci::visit`.
unsafe impl Sync for Vci {}

/// Exclusive access to a VCI by the thread that acquired it; neither `Send` nor `Sync`.
pub(crate) struct VciGuard<'a> {
    vci: &'a Vci,
    /// How its lock was taken, if one was.
    acquired: Option<Acquired>,
    of_thread: PhantomData<*mut VciState>,
}

impl Vci {
    /// Offset of the state, for debuggers.
    #[cfg(not(loom))]
    pub const STATE: usize = std::mem::offset_of!(Vci, state);

    /// Makes a VCI whose calls take `shared`, if there is one, in place of its own lock.
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
        if guard.acquired.is_some_and(|acquired| !acquired.is_owners()) {
            guard.engine.counters.locked += 1;
        }
        guard
    }

    /// Waits for the lock like [`Vci::lock`], without counting it.
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

    /// Makes the guard of a VCI whose lock is held or not needed. In debug builds, panics if there is
    /// another guard without a lock.
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

    /// Tries the lock for a round of progress. Returns `None` if another thread holds it, or keeps
    /// taking it for rounds of its own.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<VciGuard<'_>> {
        if self.mode() == LockMode::Unlocked {
            return Some(self.guard(None));
        }
        self.looked(self.raw().try_poll())
    }

    /// Tries the lock once. Returns `None` if another thread holds it.
    #[inline(always)]
    pub fn try_lock_once(&self) -> Option<VciGuard<'_>> {
        match self.mode() {
            LockMode::Unlocked => Some(self.guard(None)),
            _ => self.looked(self.raw().try_poll_once()),
        }
    }

    #[inline(always)]
    fn looked(&self, acquired: Option<Acquired>) -> Option<VciGuard<'_>> {
        // Dropping a guard unlocks, so none is made without the lock.
        let acquired = acquired?;
        let mut guard = self.guard(Some(acquired));
        guard.engine.counters.locked += u64::from(!acquired.is_owners());
        Some(guard)
    }

    /// Tries the lock for a thread that does not use this VCI otherwise. Returns `None` also if one
    /// thread uses the VCI exclusively, or keeps coming back to it.
    #[inline]
    pub fn visit(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) || self.raw().has_active_owner() {
            return None;
        }
        self.visited(|lock| lock.try_poll_once())
    }

    /// Waits for the lock for a visitor ([`Vci::visit`]). Returns `None` if the VCI is exclusive.
    pub fn visit_blocking(&self) -> Option<VciGuard<'_>> {
        if self.exclusive.load(Ordering::Acquire) {
            return None;
        }
        self.visited(|lock| Some(lock.lock()))
    }

    /// Acquires access for a visitor by `take`.
    #[inline(always)]
    fn visited(&self, take: impl FnOnce(&BiasedLock) -> Option<Acquired>) -> Option<VciGuard<'_>> {
        if self.mode() == LockMode::Unlocked {
            return (!self.is_exclusive()).then(|| self.guard(None));
        }
        let acquired = take(self.raw())?;
        let mut guard = self.guard(Some(acquired));
        // The VCI may have become exclusive to one thread meanwhile.
        if self.is_exclusive() {
            return None;
        }
        guard.engine.counters.locked += u64::from(!acquired.is_owners());
        Some(guard)
    }

    /// Returns what has been counted so far, or `None` if the VCI is exclusive.
    pub fn counters(&self) -> Option<Counters> {
        let mut state = self.visit_blocking()?;
        let (turns, counters) = (self.lock.owner_turns(), &mut state.engine.counters);
        let more = turns.wrapping_sub(counters.owner_turns) & (u32::MAX >> 1);
        counters.locked += u64::from(more);
        counters.owner_turns = turns;
        Some(state.counters())
    }

    /// Returns whether another thread keeps coming back to it, so that no visitor needs to poll it.
    pub fn has_active_owner(&self) -> bool {
        self.raw().has_active_owner()
    }

    /// Returns whether any thread may be waiting for an operation on it: until the operation's request
    /// is freed, which is the waiting thread's last access to the VCI.
    pub fn has_operations(&self) -> bool {
        // Under the lock: a thread that has freed a request has released the lock and won't take it again.
        let state = self.visit_blocking();
        state.is_some_and(|state| state.engine.records.any_live())
    }

    /// Makes all later calls take the lock, as threads may call at the same time.
    ///
    /// No call may be in progress, and no lock may have been taken before.
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

    /// Returns whether one thread uses it exclusively.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Relaxed)
    }

    /// Makes the VCI exclusive to one thread, which takes no lock, or ends that. Does nothing without
    /// threads.
    ///
    /// No call but visitors' may be in progress.
    pub fn set_exclusive(&self, exclusive: bool) {
        if self.exclusive.load(Ordering::Relaxed) == exclusive {
            return;
        }
        if exclusive && self.mode() == LockMode::Own {
            // Once the lock is held, no visitor is inside, and later ones check `exclusive` again. Locking
            // by the word ends the ownership of a thread that would miss what is done without a lock.
            let acquired = self.raw().lock_by_word();
            let _guard = self.guard(Some(acquired));
            self.exclusive.store(true, Ordering::Relaxed);
            self.set_mode(LockMode::Unlocked);
        } else if !exclusive {
            self.set_mode(LockMode::Own);
            // Release: threads that take the lock from now on see what the one thread has done.
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

/// A slot for a VCI, filled once; one word while it is empty.
#[derive(Default)]
pub(crate) struct VciSlot(AtomicPtr<CachePadded<Vci>>);

impl VciSlot {
    /// Returns the VCI, if it is open.
    #[inline(always)]
    pub fn get(&self) -> Option<&Vci> {
        let vci = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or comes from a box in `fill` and is valid until the slot is
        // dropped; only shared references are given out.
        unsafe { vci.as_ref() }.map(|vci| &**vci)
    }

    /// Fills an empty slot.
    pub fn fill(&self, vci: Vci) {
        let vci = Box::into_raw(Box::new(CachePadded::new(vci)));
        // Release: threads that read the pointer see the whole VCI.
        let filled = self.0.compare_exchange(
            std::ptr::null_mut(),
            vci,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if filled.is_err() {
            // SAFETY: the box was made above, and its pointer was not published.
            drop(unsafe { Box::from_raw(vci) });
        }
    }
}

impl Drop for VciSlot {
    fn drop(&mut self) {
        let vci = *self.0.get_mut();
        if !vci.is_null() {
            // SAFETY: the pointer comes from a box in `fill`; no reference outlives the slot.
            drop(unsafe { Box::from_raw(vci) });
        }
    }
}

// SAFETY: a slot owns a `Vci`, which is `Send` and `Sync`, and is changed only by an atomic exchange.
unsafe impl Send for VciSlot {}
// SAFETY: a slot gives out shared references to a `Vci`, which is `Sync`; it is filled by an atomic
// exchange.
unsafe impl Sync for VciSlot {}

impl VciGuard<'_> {
    /// Releases the VCI to threads that wait for it, when there is nothing more to do.
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
            // SAFETY: this thread took the lock for this guard, as `acquired` says: guards are not `Send`.
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
