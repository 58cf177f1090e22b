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

use crate::tool::error::{Error, Result};
use crate::tool::sources;

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

/// What a tool wants to be called when a registration has ended.
pub type Farewell = Box<dyn FnOnce() + Send>;

/// A registration: the kind of event, and a callback by the safety that it keeps to. Whoever calls one of them has a
/// hold on it meanwhile, so that the last one to let go of it says farewell.
pub struct Registration {
    event: usize,
    callbacks: Mutex<[Option<Arc<dyn Listener>>; 4]>,
    farewell: Mutex<Option<Farewell>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(farewell) = self.farewell.get_mut().take() {
            farewell();
        }
    }
}

static REGISTRATIONS: Mutex<BTreeMap<usize, Arc<Registration>>> = Mutex::new(BTreeMap::new());
/// How many there are, for a quick look.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The event that this thread is telling.
    static TOLD: Cell<*const Instance> = const { Cell::new(ptr::null()) };
}

/// Adds a registration under a number.
pub fn register(number: usize, event: usize) {
    let mut all = REGISTRATIONS.lock();
    let registration = Registration {
        event,
        callbacks: Mutex::new([const { None }; 4]),
        farewell: Mutex::new(None),
    };
    all.insert(number, Arc::new(registration));
    LISTENERS.store(all.len(), Ordering::Release);
}

/// Takes one out. No callback of it begins from now on; `farewell` is called when none is running and the result has
/// been dropped, for which the caller should hold no lock.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn unregister(number: usize, farewell: Option<Farewell>) -> Result<Arc<Registration>> {
    let mut all = REGISTRATIONS.lock();
    let removed = all.remove(&number).ok_or(Error::InvalidHandle)?;
    LISTENERS.store(all.len(), Ordering::Release);
    *removed.farewell.lock() = farewell;
    Ok(removed)
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
    let all = REGISTRATIONS.lock();
    let found = all.get(&number).ok_or(Error::InvalidHandle)?;
    found.callbacks.lock()[safety as usize] = listener;
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
    let of_kind =
        |(number, one): (&usize, &Arc<Registration>)| (one.event == event).then_some(*number);
    let numbers: Vec<usize> = REGISTRATIONS.lock().iter().filter_map(of_kind).collect();
    let before = TOLD.replace(&raw const instance);
    // Callbacks may use the interface: free registrations, too.
    for number in numbers {
        let Some(registration) = REGISTRATIONS.lock().get(&number).cloned() else {
            continue;
        };
        // Nothing is asked of a callback here, so the one that promises least will do.
        let first = registration
            .callbacks
            .lock()
            .iter()
            .flatten()
            .next()
            .cloned();
        if let Some(listener) = first {
            listener.hear(&instance, number);
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
        drop(unregister(number, None).unwrap());
        tell(ERROR, [5, 0, 0]);
        assert_eq!(*least.0.lock(), [(number, 2)]);
        assert_eq!(*most.0.lock(), [(number, 1), (number, 4)]);
        assert_eq!(unregister(number, None).err(), Some(Error::InvalidHandle));
    }

    #[test]
    fn the_last_one_to_let_go_says_farewell() {
        let said = Arc::new(AtomicUsize::new(0));
        let number = 48;
        register(number, COMM);
        let held = REGISTRATIONS.lock().get(&number).cloned();
        let counts = said.clone();
        let farewell: Farewell = Box::new(move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        drop(unregister(number, Some(farewell)).unwrap());
        assert_eq!(said.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(said.load(Ordering::Relaxed), 1);
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
