//! Events (MPI-4.1 section 15.3.8): what tools are told of when it happens.
//!
//! An event is told in the middle of what brings it about, by the thread that does, so that nothing is
//! kept and nothing dropped. Where no tool listens, a look at one number is all that it costs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::sources;

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
        help: "A communicator has been made; one of MPI_Comm_idup can be used once its request is \
               complete. Elements: its handle, this process's rank, its size.",
        category: "general",
        elements: 3,
    },
];

/// An event that is being told.
pub struct Instance {
    /// Which kind.
    pub event: usize,
    /// When it happened, in nanoseconds.
    pub time: i64,
    /// Its elements.
    pub elements: [c_int; 3],
}

impl Instance {
    /// Its handle, which is good within the callback only.
    pub fn handle(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }
}

/// What a tool agrees to when it registers a callback: what that keeps to, from the least on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Safety {
    /// `MPI_T_CB_REQUIRE_NONE`.
    None,
    /// `MPI_T_CB_REQUIRE_MPI_RESTRICTED`.
    MpiRestricted,
    /// `MPI_T_CB_REQUIRE_THREAD_SAFE`.
    ThreadSafe,
    /// `MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE`.
    AsyncSignalSafe,
}

/// A tool's callback, which the library of the ABI calls.
pub trait Listener: Send + Sync {
    /// Tells the tool of an event, for the registration with this number. Nothing is asked of the callback
    /// (`MPI_T_CB_REQUIRE_NONE`).
    fn hear(&self, instance: &Instance, registration: usize);
}

/// A registration: the kind of event, and a callback by the safety that it keeps to.
struct Registration {
    event: usize,
    callbacks: [Option<Arc<dyn Listener>>; 4],
}

static REGISTRATIONS: Mutex<BTreeMap<usize, Registration>> = Mutex::new(BTreeMap::new());
/// How many there are, for a quick look.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The event that this thread is telling.
    static TOLD: Cell<*const Instance> = const { Cell::new(ptr::null()) };
}

/// Adds a registration under a number.
pub fn register(number: usize, event: usize) {
    let mut all = REGISTRATIONS.lock();
    all.insert(
        number,
        Registration {
            event,
            callbacks: [const { None }; 4],
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
    removed.map(drop).ok_or(Error::InvalidHandle)
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
    known.then_some(()).ok_or(Error::InvalidHandle)
}

/// Sets the callback of a registration for a level of safety; none takes it away.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn set_callback(number: usize, safety: Safety, listener: Option<Arc<dyn Listener>>) -> Result {
    let mut all = REGISTRATIONS.lock();
    let found = all.get_mut(&number).ok_or(Error::InvalidHandle)?;
    found.callbacks[safety as usize] = listener;
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
        time: sources::now(),
        elements,
    };
    // Callbacks may use the interface.
    let mut wanted: Vec<(usize, Arc<dyn Listener>)> = Vec::new();
    for (number, registration) in REGISTRATIONS.lock().iter() {
        if registration.event == event {
            // Nothing is asked of a callback here, so the one that promises least will do.
            let first = registration.callbacks.iter().flatten().next();
            wanted.extend(first.map(|listener| (*number, listener.clone())));
        }
    }
    let before = TOLD.replace(&raw const instance);
    for (number, listener) in wanted {
        listener.hear(&instance, number);
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
        return Err(Error::InvalidHandle);
    }
    // SAFETY: set while the instance is there, which a callback of it is running in.
    Ok(look(unsafe { &*told }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what it hears, and the registrations.
    #[derive(Default)]
    struct Keeper(Mutex<Vec<(usize, c_int)>>);

    impl Listener for Keeper {
        fn hear(&self, instance: &Instance, registration: usize) {
            let element = told(instance.handle(), |told| told.elements[0]);
            self.0.lock().push((registration, element.unwrap()));
            let other = ptr::without_provenance(16);
            assert_eq!(told(other, |_| ()), Err(Error::InvalidHandle));
        }
    }

    #[test]
    fn the_callback_that_promises_least_hears_of_events_of_its_kind() {
        let (least, most) = (Arc::new(Keeper::default()), Arc::new(Keeper::default()));
        let (number, unknown) = (16, 32);
        register(number, ERROR);
        assert_eq!(check(unknown), Err(Error::InvalidHandle));
        let refused = set_callback(unknown, Safety::None, Some(least.clone()));
        assert_eq!(refused, Err(Error::InvalidHandle));
        set_callback(number, Safety::AsyncSignalSafe, Some(most.clone())).unwrap();
        tell(ERROR, [1, 0, 0]);
        set_callback(number, Safety::MpiRestricted, Some(least.clone())).unwrap();
        tell(ERROR, [2, 0, 0]);
        tell(COMM, [3, 0, 1]);
        set_callback(number, Safety::MpiRestricted, None).unwrap();
        tell(ERROR, [4, 0, 0]);
        unregister(number).unwrap();
        tell(ERROR, [5, 0, 0]);
        assert_eq!(*least.0.lock(), [(number, 2)]);
        assert_eq!(*most.0.lock(), [(number, 1), (number, 4)]);
        assert_eq!(unregister(number), Err(Error::InvalidHandle));
    }

    #[test]
    fn an_instance_is_good_while_it_is_told() {
        let instance = Instance {
            event: ERROR,
            time: sources::now(),
            elements: [0; 3],
        };
        for handle in [instance.handle(), ptr::null()] {
            assert_eq!(told(handle, |_| ()), Err(Error::InvalidHandle));
        }
    }
}
