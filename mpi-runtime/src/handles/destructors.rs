//! Functions of the program's that are called when an object is gone for which it keeps a state (`MPIX_Op_create_x`,
//! `MPIX_Comm_create_errhandler_x`).
//!
//! The last use of an object may end anywhere, also where locks are held. So its function is put down here, and called
//! by the next call that frees or replaces such objects, by progress, or by `MPI_Finalize`.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// A function of the program's that frees a state.
pub type Destructor = unsafe extern "C" fn(*mut c_void);

/// A state of the program's, whose destructor is called once this is dropped.
pub struct Kept {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

// SAFETY: the address is only handed to functions of the program's, which gave it for that; its threads mind what they
// share.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Kept {
    /// A state, with what frees it.
    ///
    /// # Safety
    /// The destructor may be called with the state, by any thread.
    pub unsafe fn new(state: *mut c_void, destructor: Option<Destructor>) -> Kept {
        Kept { state, destructor }
    }

    /// The state.
    pub fn state(&self) -> *mut c_void {
        self.state
    }
}

impl Drop for Kept {
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

/// A destructor that is to be called.
struct Ended {
    state: *mut c_void,
    destructor: Destructor,
}

// SAFETY: as for `Kept`.
unsafe impl Send for Ended {}

/// Operations and error handlers outlive `MPI_Finalize`, so this does, too.
static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);
static HOOK: OnceLock<fn()> = OnceLock::new();

/// Has `hook` called when there are destructors to be called, by whoever has ended what they were for. It must not wait.
pub fn when_any(hook: fn()) {
    let _ = HOOK.set(hook);
}

/// Whether there are destructors to be called.
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Calls the destructors of all states that are gone. To be called without a lock.
pub fn run() {
    while any() {
        let all = {
            let mut ended = ENDED.lock();
            ANY.store(false, Ordering::Release);
            std::mem::take(&mut *ended)
        };
        for Ended { state, destructor } in all {
            // SAFETY: promised to `Kept::new`; it was taken out, so this is the only call.
            unsafe { destructor(state) };
        }
    }
}
