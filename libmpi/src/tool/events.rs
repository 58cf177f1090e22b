//! Events (MPI-4.1 section 15.3.8): what tools are told of when it happens.
//!
//! An event is told in the middle of what brings it about, by the thread that does, so that nothing is
//! kept and nothing dropped. Where no tool listens, a look at one number is all that it costs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::result::Result;
use crate::abi::{
    MPI_Count, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_ERR_INVALID,
    MPI_T_ERR_INVALID_HANDLE, MPI_T_cb_safety, MPI_T_event_cb_function,
};

/// A kind of event.
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// The category that it is in.
    pub category: &'static str,
    /// How many elements it has, all of them ints.
    pub elements: usize,
}

/// An error is about to be given to an error handler: its class.
pub const ERROR: usize = 0;
/// A communicator has been made: its handle, this process's rank and the number of ranks in it.
pub const COMM: usize = 1;

/// All kinds of events, by number.
pub const EVENTS: [Event; 2] = [
    Event {
        name: "weft_error_raised",
        help: "An error is about to be given to an error handler. Element 0: its class.",
        category: "general",
        elements: 1,
    },
    Event {
        name: "weft_comm_created",
        help: "A communicator has been made. Elements: its handle, this process's rank, its size.",
        category: "general",
        elements: 3,
    },
];

/// An event that is being told.
pub struct Instance {
    /// Which kind.
    pub event: usize,
    /// When it happened, in nanoseconds.
    pub time: MPI_Count,
    /// Its elements.
    pub elements: [c_int; 3],
}

/// What a tool has asked for.
#[derive(Clone, Copy)]
struct Callback {
    function: MPI_T_event_cb_function,
    user_data: *mut c_void,
}

/// A registration: the kind of event, and a callback by the safety that it keeps to.
struct Registration {
    event: usize,
    callbacks: [Option<Callback>; 4],
}

// SAFETY: the pointers are the tool's, handed back to it and never followed; that its callbacks may be
// called by any thread is what the tool agrees to when it registers them.
unsafe impl Send for Registration {}

static REGISTRATIONS: Mutex<BTreeMap<usize, Registration>> = Mutex::new(BTreeMap::new());
/// How many there are, for a quick look.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The event that this thread is telling.
    static TOLD: Cell<*const Instance> = const { Cell::new(ptr::null()) };
}

/// The time of events: nanoseconds since something looked first.
pub fn now() -> MPI_Count {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as MPI_Count
}

/// Adds a registration under a number.
pub fn register(number: usize, event: usize) {
    let mut all = REGISTRATIONS.lock();
    all.insert(
        number,
        Registration {
            event,
            callbacks: [None; 4],
        },
    );
    LISTENERS.store(all.len(), Ordering::Release);
}

/// Takes one out.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn unregister(number: usize) -> Result {
    let mut all = REGISTRATIONS.lock();
    let removed = all.remove(&number);
    LISTENERS.store(all.len(), Ordering::Release);
    removed.map(drop).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// Takes all out.
pub fn forget() {
    REGISTRATIONS.lock().clear();
    LISTENERS.store(0, Ordering::Release);
}

/// Whether there is such a registration.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn check(number: usize) -> Result {
    let known = REGISTRATIONS.lock().contains_key(&number);
    known.then_some(()).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// The place of a level of safety.
///
/// # Errors
/// `MPI_T_ERR_INVALID`.
pub fn level(safety: MPI_T_cb_safety) -> Result<usize> {
    match safety {
        MPI_T_CB_REQUIRE_NONE => Ok(0),
        MPI_T_CB_REQUIRE_MPI_RESTRICTED => Ok(1),
        MPI_T_CB_REQUIRE_THREAD_SAFE => Ok(2),
        MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE => Ok(3),
        _ => Err(MPI_T_ERR_INVALID),
    }
}

/// Sets the callback of a registration for a level of safety; none takes it away.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`, or `MPI_T_ERR_INVALID` for the level.
pub fn set_callback(
    number: usize,
    safety: MPI_T_cb_safety,
    function: Option<MPI_T_event_cb_function>,
    user_data: *mut c_void,
) -> Result {
    let level = level(safety)?;
    let mut all = REGISTRATIONS.lock();
    let found = all.get_mut(&number).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    found.callbacks[level] = function.map(|function| Callback {
        function,
        user_data,
    });
    Ok(())
}

/// Tells tools of an event.
#[inline]
pub fn tell(event: usize, elements: [c_int; 3]) {
    if LISTENERS.load(Ordering::Relaxed) > 0 {
        tell_listeners(event, elements);
    }
}

#[cold]
fn tell_listeners(event: usize, elements: [c_int; 3]) {
    let instance = Instance {
        event,
        time: now(),
        elements,
    };
    // Callbacks may use the interface.
    let mut wanted: Vec<(usize, Callback)> = Vec::new();
    for (number, registration) in REGISTRATIONS.lock().iter() {
        if registration.event == event {
            // Nothing is asked of a callback here, so the one that promises least will do.
            let first = registration.callbacks.iter().flatten().next();
            wanted.extend(first.map(|callback| (*number, *callback)));
        }
    }
    let before = TOLD.replace(&raw const instance);
    for (number, callback) in wanted {
        // SAFETY: the tool gave this function as a callback for events; the instance is there until
        // it returns, and the number is the handle that it was given.
        unsafe {
            (callback.function)(
                (&raw const instance).cast_mut().cast(),
                ptr::without_provenance_mut(number),
                MPI_T_CB_REQUIRE_NONE,
                callback.user_data,
            );
        }
    }
    TOLD.set(before);
}

/// The event that this thread is telling, if this is its handle.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`: such handles are good within the callback only.
pub fn told<T>(handle: *const c_void, look: impl FnOnce(&Instance) -> T) -> Result<T> {
    let told = TOLD.get();
    if told.is_null() || told.cast() != handle {
        return Err(MPI_T_ERR_INVALID_HANDLE);
    }
    // SAFETY: set while the instance is there, which a callback of it is running in.
    Ok(look(unsafe { &*told }))
}
