//! Copies of array sections that operations use after the call that started them.
//!
//! A section that no datatype describes as its call needs it (see [`crate::sections`]) is copied.
//! The copy of a blocking call ends with the call. Others are kept here, by the handle of their
//! request, or of their file between the two halves of a split collective access. Received data is
//! copied to the program's array when a Fortran routine sees the operation complete; a persistent
//! operation's data is copied again at each start.
//!
//! Programs without such sections pay one load of a counter in each call that completes requests. A
//! request that only C completes (`MPI_Request_f2c`) leaves received data in the copy.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{MPI_REQUEST_NULL, MPI_Request, MPI_STATUS_IGNORE, MPI_SUCCESS};
use crate::imports as c;
use crate::sections::{Copied, Substitute};

/// The handle that an operation is found by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Request(MPI_Request),
    File(c_int),
}

/// The copies of an operation.
struct Operation {
    copies: Vec<Copied>,
    /// Whether the operation may still use them: received data is not in the array yet.
    active: bool,
}

impl Operation {
    /// Copies received data to the array.
    fn give_back(&mut self) {
        if std::mem::take(&mut self.active) {
            for copy in &self.copies {
                // SAFETY: the operation is complete, and the program keeps the array valid until it
                // has seen that.
                unsafe { copy.give_back() };
            }
        }
    }
}

// SAFETY: sections are memory that the program lends to an operation; any thread may complete it.
unsafe impl Send for Operation {}

/// Number of operations in the table or taken out of it for a call.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Operations by key. Operations that completed immediately may share one handle; their data has
/// been copied back, so that their order does not matter.
type Table = HashMap<Key, Vec<Operation>>;

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn insert(key: Key, operation: Operation) {
    let mut table = table();
    let all = table.get_or_insert_default().entry(key);
    all.or_default().push(operation);
}

fn take(key: Key) -> Option<Operation> {
    let mut table = table();
    let table = table.as_mut()?;
    let all = table.get_mut(&key)?;
    let operation = all.pop();
    if all.is_empty() {
        table.remove(&key);
    }
    operation
}

/// Returns whether an operation is complete, or a persistent one inactive.
fn is_complete(request: MPI_Request) -> bool {
    let mut flag = 0;
    // SAFETY: the request exists; `flag` is a local variable.
    let code = unsafe { c::MPI_Request_get_status(request, &raw mut flag, MPI_STATUS_IGNORE) };
    code == MPI_SUCCESS && flag != 0
}

fn copies(places: &mut [&mut Substitute]) -> Vec<Copied> {
    let taken = places.iter_mut().filter_map(|place| place.take_copy());
    taken.collect()
}

/// Keeps the copies of a call that started an operation or created a persistent one. `request` was
/// null before.
///
/// # Safety
/// `request` is valid, the copies' sections are the operation's.
pub unsafe fn keep(places: &mut [&mut Substitute], request: *const MPI_Request, persistent: bool) {
    let copies = copies(places);
    // SAFETY: `request` is valid (# Safety).
    let request = unsafe { *request };
    // After an error no operation uses them.
    if copies.is_empty() || request == MPI_REQUEST_NULL {
        return;
    }
    let mut operation = Operation {
        copies,
        active: !persistent,
    };
    // Operations that completed immediately may share one handle. The copy stays until the program
    // completes the request: tools may inspect it then.
    if !persistent && is_complete(request) {
        operation.give_back();
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    insert(Key::Request(request), operation);
}

/// Keeps the copy of the first half of a split collective access.
///
/// # Safety
/// The copies' sections are the operation's.
pub unsafe fn keep_split(places: &mut [&mut Substitute], file: c_int, code: c_int) {
    let copies = copies(places);
    if copies.is_empty() || code != MPI_SUCCESS {
        return;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    let active = true;
    insert(Key::File(file), Operation { copies, active });
}

/// The copy made by the first half of a split access.
pub struct Split(Option<Operation>);

impl Split {
    /// Returns the address that the access uses: the copy's, if there is one, else the section's.
    pub fn address(&self, section: *mut c_void) -> *mut c_void {
        let copy = self
            .0
            .as_ref()
            .and_then(|operation| operation.copies.first());
        copy.map_or(section, Copied::address)
    }

    /// Must be called after the second half.
    pub fn ended(self, file: c_int, code: c_int) {
        if let Some(mut operation) = self.0 {
            if code != MPI_SUCCESS {
                return insert(Key::File(file), operation);
            }
            operation.give_back();
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Must be called before the second half.
#[inline(always)]
pub fn split(file: c_int) -> Split {
    match COUNT.load(Ordering::Relaxed) {
        0 => Split(None),
        _ => Split(take(Key::File(file))),
    }
}

/// The requests of a call that have copies, with their indices.
pub struct HeldRequests(Vec<(usize, MPI_Request, Operation)>);

/// Must be called before requests are completed, tested or freed.
///
/// # Safety
/// `requests` is valid for `count` requests.
#[inline(always)]
pub unsafe fn hold(requests: *const MPI_Request, count: c_int) -> HeldRequests {
    match COUNT.load(Ordering::Relaxed) {
        0 => HeldRequests(Vec::new()),
        // SAFETY: `requests` is valid for `count` requests (# Safety).
        _ => unsafe { hold_all(requests, count) },
    }
}

#[cold]
unsafe fn hold_all(requests: *const MPI_Request, count: c_int) -> HeldRequests {
    let mut held = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: `requests` is valid for `count` requests (# Safety).
        let request = unsafe { *requests.add(index) };
        if let Some(operation) = take(Key::Request(request)) {
            held.push((index, request, operation));
        }
    }
    HeldRequests(held)
}

impl HeldRequests {
    /// Must be called after requests may have been completed.
    ///
    /// # Safety
    /// The requests are those of [`hold`].
    #[inline(always)]
    pub unsafe fn looked_at(self, requests: *const MPI_Request) {
        if !self.0.is_empty() {
            // SAFETY: `requests` are those of [`hold`], so that each index of `self` is among them
            // (# Safety).
            unsafe { self.sort(requests, false) };
        }
    }

    /// Must be called after requests may have been freed.
    ///
    /// # Safety
    /// The requests are those of [`hold`].
    #[inline(always)]
    pub unsafe fn freed(self, requests: *const MPI_Request) {
        if !self.0.is_empty() {
            // SAFETY: `requests` are those of [`hold`], so that each index of `self` is among them
            // (# Safety).
            unsafe { self.sort(requests, true) };
        }
    }

    #[cold]
    unsafe fn sort(self, requests: *const MPI_Request, freed: bool) {
        for (index, request, mut operation) in self.0 {
            // SAFETY: `requests` are those of [`hold`], so that each index of `self` is among them
            // (# Safety).
            let gone = unsafe { *requests.add(index) } != request;
            if gone && freed && operation.active {
                // The operation continues, and its end cannot be observed: leaks the copy.
                COUNT.fetch_sub(1, Ordering::Relaxed);
                std::mem::forget(operation);
            } else if gone {
                operation.give_back();
                COUNT.fetch_sub(1, Ordering::Relaxed);
            } else {
                if operation.active && is_complete(request) {
                    operation.give_back();
                }
                insert(Key::Request(request), operation);
            }
        }
    }
}

/// Copies the current data of the arrays. Must be called before persistent requests are started.
///
/// # Safety
/// `requests` is valid for `count` requests.
#[inline(always)]
pub unsafe fn start(requests: *const MPI_Request, count: c_int) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        // SAFETY: `requests` is valid for `count` requests (# Safety).
        unsafe { start_all(requests, count) };
    }
}

#[cold]
unsafe fn start_all(requests: *const MPI_Request, count: c_int) {
    let mut table = table();
    let Some(table) = table.as_mut() else {
        return;
    };
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: `requests` is valid for `count` requests (# Safety).
        let request = unsafe { *requests.add(index) };
        if let Some(operation) = table
            .get_mut(&Key::Request(request))
            .and_then(|all| all.last_mut())
            && !operation.active
        {
            operation.active = true;
            for copy in &mut operation.copies {
                // SAFETY: the program lends the array to the operation that it starts.
                unsafe { copy.refresh() };
            }
        }
    }
}
