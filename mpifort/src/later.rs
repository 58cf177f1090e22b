//! Copies of array sections that operations go on using when the call that began them has returned.
//!
//! A section that no datatype describes as its call needs it (see [`crate::sections`]) is copied. The copy of a
//! blocking call ends with that. Others wait here, by the handle of their request, or of their file between the two
//! halves of a split collective access: what has arrived goes to the program's array when a routine of Fortran sees
//! the operation complete, and a persistent operation's data is taken anew whenever it is started.
//!
//! Programs without such sections pay a look at a counter in each call that completes requests. A request that only
//! C completes (`MPI_Request_f2c`) leaves what has arrived in the copy.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{MPI_REQUEST_NULL, MPI_Request, MPI_STATUS_IGNORE, MPI_SUCCESS};
use crate::imports as c;
use crate::sections::{Copied, Place};

/// What an operation belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Request(MPI_Request),
    File(c_int),
}

/// The copies of an operation.
struct Operation {
    copies: Vec<Copied>,
    /// Whether it may be using them: what arrives is not in the array yet.
    active: bool,
}

impl Operation {
    /// What has arrived goes to the array.
    fn give_back(&mut self) {
        if std::mem::take(&mut self.active) {
            for copy in &self.copies {
                // SAFETY: the operation is complete, so that the array's elements are valid still, or again.
                unsafe { copy.give_back() };
            }
        }
    }
}

// SAFETY: sections are memory that the program lends to an operation; who sees that complete makes no difference.
unsafe impl Send for Operation {}

/// How many operations there are in the table, or taken out of it for a call.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Several operations where those that were complete at once have one handle in common. They are given back, so that
/// it makes no difference which is taken first.
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

/// Whether an operation is complete, or a persistent one inactive.
fn is_complete(request: MPI_Request) -> bool {
    let mut flag = 0;
    // SAFETY: a request that exists, a local variable.
    let code = unsafe { c::MPI_Request_get_status(request, &raw mut flag, MPI_STATUS_IGNORE) };
    code == MPI_SUCCESS && flag != 0
}

fn copies(places: &mut [&mut Place]) -> Vec<Copied> {
    let taken = places.iter_mut().filter_map(|place| place.take_copy());
    taken.collect()
}

/// Keeps the copies of a call that began an operation, or made a persistent one. `request` was null before.
///
/// # Safety
/// `request` is valid, the copies' sections are the operation's.
pub unsafe fn keep(places: &mut [&mut Place], request: *const MPI_Request, persistent: bool) {
    let copies = copies(places);
    // SAFETY: the caller's contract.
    let request = unsafe { *request };
    // After an error nothing uses them.
    if copies.is_empty() || request == MPI_REQUEST_NULL {
        return;
    }
    let mut operation = Operation {
        copies,
        active: !persistent,
    };
    // Operations that were complete at once may have one handle in common. The copy stays until the program completes
    // the request: tools look at it then.
    if !persistent && is_complete(request) {
        operation.give_back();
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    insert(Key::Request(request), operation);
}

/// Keeps the copy of the first half of a split collective access.
///
/// # Safety
/// As for [`keep`].
pub unsafe fn keep_split(places: &mut [&mut Place], file: c_int, code: c_int) {
    let copies = copies(places);
    if copies.is_empty() || code != MPI_SUCCESS {
        return;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    let active = true;
    insert(Key::File(file), Operation { copies, active });
}

/// The copy that the first half of an access to a file has made.
pub struct Split(Option<Operation>);

impl Split {
    /// The address that the access knows, if not that of the section.
    pub fn address(&self, section: *mut c_void) -> *mut c_void {
        let copy = self
            .0
            .as_ref()
            .and_then(|operation| operation.copies.first());
        copy.map_or(section, Copied::address)
    }

    /// To be called after the second half.
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

/// To be called before the second half.
#[inline(always)]
pub fn split(file: c_int) -> Split {
    match COUNT.load(Ordering::Relaxed) {
        0 => Split(None),
        _ => Split(take(Key::File(file))),
    }
}

/// Requests with copies among those of a call, with their places.
pub struct Held(Vec<(usize, MPI_Request, Operation)>);

/// To be called before requests are completed, looked at or freed.
///
/// # Safety
/// There are so many.
#[inline(always)]
pub unsafe fn hold(requests: *const MPI_Request, count: c_int) -> Held {
    match COUNT.load(Ordering::Relaxed) {
        0 => Held(Vec::new()),
        // SAFETY: the caller's contract.
        _ => unsafe { hold_all(requests, count) },
    }
}

#[cold]
unsafe fn hold_all(requests: *const MPI_Request, count: c_int) -> Held {
    let mut held = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's contract.
        let request = unsafe { *requests.add(index) };
        if let Some(operation) = take(Key::Request(request)) {
            held.push((index, request, operation));
        }
    }
    Held(held)
}

impl Held {
    /// To be called after requests may have been completed.
    ///
    /// # Safety
    /// The requests are those of [`hold`].
    #[inline(always)]
    pub unsafe fn looked_at(self, requests: *const MPI_Request) {
        if !self.0.is_empty() {
            // SAFETY: the caller's contract.
            unsafe { self.sort(requests, false) };
        }
    }

    /// To be called after requests may have been freed.
    ///
    /// # Safety
    /// The requests are those of [`hold`].
    #[inline(always)]
    pub unsafe fn freed(self, requests: *const MPI_Request) {
        if !self.0.is_empty() {
            // SAFETY: the caller's contract.
            unsafe { self.sort(requests, true) };
        }
    }

    #[cold]
    unsafe fn sort(self, requests: *const MPI_Request, freed: bool) {
        for (index, request, mut operation) in self.0 {
            // SAFETY: the caller's contract.
            let gone = unsafe { *requests.add(index) } != request;
            if gone && freed && operation.active {
                // It goes on, and nobody will ever know how long.
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

/// To be called before persistent requests are started: takes what is in their arrays.
///
/// # Safety
/// There are so many.
#[inline(always)]
pub unsafe fn start(requests: *const MPI_Request, count: c_int) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        // SAFETY: the caller's contract.
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
        // SAFETY: the caller's contract.
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
