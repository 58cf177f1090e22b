//! Events (MPI-4.1 section 15.3.8).
//!
//! An event is delivered by the thread that causes it, while it happens, so that none is buffered
//! or dropped. Without listeners an event costs one load.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::tool::error::{Error, Result};
use crate::tool::sources;

/// An event type.
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its category.
    pub category: &'static str,
    /// Number of elements, all of type `int`.
    pub elements: usize,
}

/// An error is about to be passed to an error handler. Element: its class.
pub const ERROR: usize = 0;
/// A communicator was made. Elements: its handle, this process's rank, its size.
pub const COMM: usize = 1;

/// All event types, by number.
pub const EVENTS: [Event; 2] = [
    Event {
        name: "weft_error_raised",
        help: "An error is about to be passed to an error handler. Element 0: its class.",
        category: "general",
        elements: 1,
    },
    Event {
        name: "weft_comm_created",
        help: "A communicator was made; one from MPI_Comm_idup can be used once its request is \
               complete. Elements: its handle, this process's rank, its size.",
        category: "general",
        elements: 3,
    },
];

/// An event that is being delivered.
pub struct Instance {
    /// Its event type.
    pub event: usize,
    /// Its time, in nanoseconds.
    pub time: i64,
    /// Its elements.
    pub elements: [c_int; 3],
}

impl Instance {
    /// Returns its handle, which is valid within the callback only.
    pub fn handle(&self) -> *const c_void {
        ptr::from_ref(self).cast()
    }
}

/// The restrictions that a callback respects, from the least.
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
    /// Calls the callback of a registration. No restriction is imposed on it
    /// (`MPI_T_CB_REQUIRE_NONE`).
    fn on_event(&self, instance: &Instance, registration: usize);
}

/// A tool's callback for the end of a registration.
pub type FreeCallback = Box<dyn FnOnce() + Send>;

/// A registration: the event type, and a callback per level of safety.
///
/// A thread that calls one holds a reference, so the last reference dropped calls the free callback.
pub struct Registration {
    event: usize,
    callbacks: Mutex<[Option<Arc<dyn Listener>>; 4]>,
    free_callback: Mutex<Option<FreeCallback>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(free_callback) = self.free_callback.get_mut().take() {
            free_callback();
        }
    }
}

static REGISTRATIONS: Mutex<BTreeMap<usize, Arc<Registration>>> = Mutex::new(BTreeMap::new());
/// Number of registrations, read without the lock.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The event that this thread is delivering.
    static CURRENT: Cell<*const Instance> = const { Cell::new(ptr::null()) };
}

/// Adds a registration under a number.
pub fn register(number: usize, event: usize) {
    let mut all = REGISTRATIONS.lock();
    let registration = Registration {
        event,
        callbacks: Mutex::new([const { None }; 4]),
        free_callback: Mutex::new(None),
    };
    all.insert(number, Arc::new(registration));
    LISTENERS.store(all.len(), Ordering::Release);
}

/// Removes a registration. No callback of it begins from now on.
///
/// `free_callback` is called when no callback runs and the result has been dropped, for which the caller
/// should hold no lock.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn unregister(number: usize, free_callback: Option<FreeCallback>) -> Result<Arc<Registration>> {
    let mut all = REGISTRATIONS.lock();
    let removed = all.remove(&number).ok_or(Error::InvalidHandle)?;
    LISTENERS.store(all.len(), Ordering::Release);
    *removed.free_callback.lock() = free_callback;
    Ok(removed)
}

/// Removes all registrations.
pub fn forget() {
    REGISTRATIONS.lock().clear();
    LISTENERS.store(0, Ordering::Release);
}

/// Checks that a registration exists.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn check(number: usize) -> Result {
    let known = REGISTRATIONS.lock().contains_key(&number);
    known.then_some(()).ok_or(Error::InvalidHandle)
}

/// Sets or removes the callback of a registration for a level of safety.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn set_callback(number: usize, safety: Safety, listener: Option<Arc<dyn Listener>>) -> Result {
    let all = REGISTRATIONS.lock();
    let found = all.get(&number).ok_or(Error::InvalidHandle)?;
    found.callbacks.lock()[safety as usize] = listener;
    Ok(())
}

/// Delivers an event to the registered callbacks.
#[inline]
pub fn raise(event: usize, elements: [c_int; 3]) {
    if LISTENERS.load(Ordering::Relaxed) > 0 {
        deliver(event, elements);
    }
}

#[cold]
fn deliver(event: usize, elements: [c_int; 3]) {
    let instance = Instance {
        event,
        time: sources::now(),
        elements,
    };
    let of_kind =
        |(number, one): (&usize, &Arc<Registration>)| (one.event == event).then_some(*number);
    let numbers: Vec<usize> = REGISTRATIONS.lock().iter().filter_map(of_kind).collect();
    let before = CURRENT.replace(&raw const instance);
    // Callbacks may use the interface, and also free registrations.
    for number in numbers {
        let Some(registration) = REGISTRATIONS.lock().get(&number).cloned() else {
            continue;
        };
        // Events impose no restriction, so the callback of the lowest level is called.
        let first = registration
            .callbacks
            .lock()
            .iter()
            .flatten()
            .next()
            .cloned();
        if let Some(listener) = first {
            listener.on_event(&instance, number);
        }
    }
    CURRENT.set(before);
}

/// Passes the event that this thread is delivering to `look`, if `handle` is its handle.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`: such handles are valid within the callback only.
pub fn current<T>(handle: *const c_void, look: impl FnOnce(&Instance) -> T) -> Result<T> {
    let current = CURRENT.get();
    if current.is_null() || current.cast() != handle {
        return Err(Error::InvalidHandle);
    }
    // SAFETY: `CURRENT` is set only while `deliver` runs, which owns the instance and has
    // called this callback.
    Ok(look(unsafe { &*current }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the events delivered to it, with the registrations.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<(usize, c_int)>>);

    impl Listener for Recorder {
        fn on_event(&self, instance: &Instance, registration: usize) {
            let element = current(instance.handle(), |event| event.elements[0]);
            self.0.lock().push((registration, element.unwrap()));
            let other = ptr::without_provenance(16);
            assert_eq!(current(other, |_| ()), Err(Error::InvalidHandle));
        }
    }

    #[test]
    fn the_callback_of_the_lowest_level_gets_events_of_its_type() {
        let (least, most) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let (number, unknown) = (16, 32);
        register(number, ERROR);
        assert_eq!(check(unknown), Err(Error::InvalidHandle));
        let refused = set_callback(unknown, Safety::None, Some(least.clone()));
        assert_eq!(refused, Err(Error::InvalidHandle));
        set_callback(number, Safety::AsyncSignalSafe, Some(most.clone())).unwrap();
        raise(ERROR, [1, 0, 0]);
        set_callback(number, Safety::MpiRestricted, Some(least.clone())).unwrap();
        raise(ERROR, [2, 0, 0]);
        raise(COMM, [3, 0, 1]);
        set_callback(number, Safety::MpiRestricted, None).unwrap();
        raise(ERROR, [4, 0, 0]);
        drop(unregister(number, None).unwrap());
        raise(ERROR, [5, 0, 0]);
        assert_eq!(*least.0.lock(), [(number, 2)]);
        assert_eq!(*most.0.lock(), [(number, 1), (number, 4)]);
        assert_eq!(unregister(number, None).err(), Some(Error::InvalidHandle));
    }

    #[test]
    fn the_last_reference_calls_the_free_callback() {
        let calls = Arc::new(AtomicUsize::new(0));
        let number = 48;
        register(number, COMM);
        let held = REGISTRATIONS.lock().get(&number).cloned();
        let counts = calls.clone();
        let free_callback: FreeCallback = Box::new(move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        drop(unregister(number, Some(free_callback)).unwrap());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_instance_is_valid_while_it_is_delivered() {
        let instance = Instance {
            event: ERROR,
            time: sources::now(),
            elements: [0; 3],
        };
        for handle in [instance.handle(), ptr::null()] {
            assert_eq!(current(handle, |_| ()), Err(Error::InvalidHandle));
        }
    }
}
