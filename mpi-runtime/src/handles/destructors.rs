//! Deferred calls of the program's destructors (`MPIX_Op_create_x`,
//! `MPIX_Comm_create_errhandler_x`).
//!
//! The last use of an object with a state may end anywhere, even with locks held. Its destructor is
//! therefore queued, and called by the next call that frees or replaces such an object, by
//! progress, or by `MPI_Finalize`.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// A function of the program that frees a state.
pub type Destructor = unsafe extern "C" fn(*mut c_void);

/// A state of the program, whose destructor is queued when this is dropped.
pub struct OwnedState {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

// SAFETY: the library never dereferences `state`; it passes it to the program's functions, and the
// program that gave it synchronizes its own threads (`OwnedState::new`).
unsafe impl Send for OwnedState {}
// SAFETY: a shared reference only gives the address, which the library never dereferences.
unsafe impl Sync for OwnedState {}

impl OwnedState {
    /// Creates a state with its destructor.
    ///
    /// # Safety
    /// The destructor may be called with the state, by any thread.
    pub unsafe fn new(state: *mut c_void, destructor: Option<Destructor>) -> OwnedState {
        OwnedState { state, destructor }
    }

    /// Returns the address of the state.
    pub fn state(&self) -> *mut c_void {
        self.state
    }
}

impl Drop for OwnedState {
    fn drop(&mut self) {
        let (state, Some(destructor)) = (self.state, self.destructor) else {
            return;
        };
        ENDED.lock().push(Ended { state, destructor });
        ANY.store(true, Ordering::Release);
        if let Some(hook) = HOOK.get() {
            hook();
        }
    }
}

/// A queued call of a destructor.
struct Ended {
    state: *mut c_void,
    destructor: Destructor,
}

// SAFETY: the library never dereferences `state`; `OwnedState::new` requires that any thread may call the
// destructor.
unsafe impl Send for Ended {}

/// The queue. Operations and error handlers outlive `MPI_Finalize`, so the queue does, too.
static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);
static HOOK: OnceLock<fn()> = OnceLock::new();

/// Sets a hook that runs when a destructor is queued, in the thread that ended the last use. It
/// must not wait.
pub fn when_any(hook: fn()) {
    let _ = HOOK.set(hook);
}

/// Returns whether destructors are queued.
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Calls all queued destructors. The caller must hold no lock.
pub fn run() {
    while any() {
        let all = {
            let mut ended = ENDED.lock();
            ANY.store(false, Ordering::Release);
            std::mem::take(&mut *ended)
        };
        for Ended { state, destructor } in all {
            // SAFETY: `OwnedState::new` requires that any thread may call the destructor; the entry was
            // taken out of the queue, so this is the only call.
            unsafe { destructor(state) };
        }
    }
}
