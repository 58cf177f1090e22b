//! Communicators that the program freed while operations may be pending on them (MPI-4.1 section
//! 7.4.3).
//!
//! A request names its communicator by handle. The handle is reused only after the last such
//! request: otherwise errors of old operations would go to the new communicator's error handler,
//! and its `MPI_Comm_disconnect` would wait for them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::handles::comms::CommObject;
use crate::handles::handler::{Attached, Handler};
use crate::handles::in_call::InCall;
use crate::handles::predefined::MPI_Comm;
use crate::lifecycle::runtime::Runtime;

/// Least length of the list between two scans for unused handles.
const MIN_SCAN: usize = 16;

/// The freed communicators of a process whose handles are still reserved.
#[derive(Default)]
pub struct FreedComms(Mutex<List>);

#[derive(Default)]
struct List {
    comms: Vec<FreedComm>,
    /// Length of `comms` at which the next scan is due.
    scan_at: usize,
}

struct FreedComm {
    handle: MPI_Comm,
    handler: Attached,
    /// Alive while a persistent request refers to the communicator.
    object: Weak<CommObject>,
}

impl FreedComm {
    /// Returns whether a request names the communicator. `owners` are the sorted owners of all
    /// requests.
    fn is_named(&self, owners: &[u32]) -> bool {
        owners.binary_search(&(self.handle as u32)).is_ok()
    }
}

impl Runtime {
    /// Frees the program's handle of a communicator.
    pub fn retire_comm(&self, object: Arc<CommObject>) {
        let freed = FreedComm {
            handle: object.handle(),
            handler: object.errhandler.lock().clone(),
            object: Arc::downgrade(&object),
        };
        // Both changes are made with the lock, so that a thread waiting for an operation on the
        // communicator finds it in either the table or the list.
        let mut list = self.freed_comms.0.lock();
        self.comms.take(freed.handle);
        list.comms.push(freed);
        drop(list);
        drop(object);
        let mut list = self.freed_comms.0.lock();
        let is_awaited = list
            .comms
            .last()
            .is_some_and(|freed| freed.handler.handler().has_state());
        // A scan examines all requests, so it is done rarely; at once only if the program waits for
        // the error handler's destructor.
        if is_awaited || list.comms.len() > list.scan_at {
            // References are counted first: a persistent request that another thread starts and
            // frees meanwhile is then among the owners.
            let kept = |freed: &FreedComm| freed.object.strong_count() > 0;
            let kept: Vec<bool> = list.comms.iter().map(kept).collect();
            let owners = self.process.owners();
            let mut kept = kept.into_iter();
            list.comms.retain(|freed| {
                let named = kept.next() == Some(true) || freed.is_named(&owners);
                if !named {
                    self.comms.give_back(freed.handle);
                }
                named
            });
            list.scan_at = MIN_SCAN.max(2 * list.comms.len());
        }
    }

    /// Returns the error handler of the communicator that an operation was started on, even if it
    /// was freed meanwhile.
    pub fn handler_of_owner(&self, handle: MPI_Comm) -> Option<Handler> {
        // A thread that waits for the operation does not use the communicator, so another thread
        // may be freeing it.
        let list = self.freed_comms.0.lock();
        // SAFETY: the lock keeps other threads from freeing communicators until this returns.
        let call = unsafe { InCall::begin() };
        if let Some(object) = self.find_comm(handle, call) {
            return Some(object.errhandler.lock().handler());
        }
        let freed = list.comms.iter().find(|freed| freed.handle == handle)?;
        Some(freed.handler.handler())
    }
}
