//! Communicators that the program has freed, perhaps while operations on them were under way (MPI-4.1 section 7.4.3).
//!
//! Requests know their communicator by its handle. No other communicator gets that before the last of them is
//! gone: their errors would go to its error handler, and `MPI_Comm_disconnect` of it would wait for them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::handles::comms::CommObject;
use crate::handles::handler::{Attached, Handler};
use crate::handles::predefined::MPI_Comm;
use crate::lifecycle::runtime::Runtime;

/// So many are kept before it is looked whether they must be.
const ROOM: usize = 16;

/// All of them, of a process.
#[derive(Default)]
pub struct Departed(Mutex<List>);

#[derive(Default)]
struct List {
    comms: Vec<Gone>,
    /// How many are kept before it is looked whether they still must be.
    room: usize,
}

struct Gone {
    handle: MPI_Comm,
    handler: Attached,
    /// Persistent requests keep the communicator itself.
    object: Weak<CommObject>,
}

impl Gone {
    /// Whether a request tells of its errors on it. `owners` are those of all requests.
    fn is_named(&self, owners: &[u32]) -> bool {
        owners.binary_search(&(self.handle as u32)).is_ok()
    }
}

impl Runtime {
    /// Takes its handle from a communicator that the program frees.
    pub fn retire_comm(&self, object: Arc<CommObject>) {
        let gone = Gone {
            handle: object.handle(),
            handler: object.errhandler.lock().clone(),
            object: Arc::downgrade(&object),
        };
        // With the lock, so that threads which wait for operations on it find it in one of the two.
        let mut list = self.departed.0.lock();
        self.comms.take(gone.handle);
        list.comms.push(gone);
        drop(list);
        drop(object);
        let mut list = self.departed.0.lock();
        let told = list
            .comms
            .last()
            .is_some_and(|gone| gone.handler.handler().has_state());
        // Now and then only: it takes a look at all requests. At once where the program waits for the handler's end.
        if told || list.comms.len() > list.room {
            // First: a persistent request that another thread starts and frees is among the second then.
            let kept = |gone: &Gone| gone.object.strong_count() > 0;
            let kept: Vec<bool> = list.comms.iter().map(kept).collect();
            let owners = self.process.owners();
            let mut kept = kept.into_iter();
            list.comms.retain(|gone| {
                let named = kept.next() == Some(true) || gone.is_named(&owners);
                if !named {
                    self.comms.give_back(gone.handle);
                }
                named
            });
            list.room = ROOM.max(2 * list.comms.len());
        }
    }

    /// The error handler of the communicator that an operation was started on, also if it was freed meanwhile.
    pub fn handler_of_owner(&self, handle: MPI_Comm) -> Option<Handler> {
        // Who waits for the operation does not use the communicator: another thread may be freeing it.
        let list = self.departed.0.lock();
        if let Some(object) = self.find_comm(handle) {
            return Some(object.errhandler.lock().handler());
        }
        let gone = list.comms.iter().find(|gone| gone.handle == handle)?;
        Some(gone.handler.handler())
    }
}
