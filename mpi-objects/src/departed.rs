//! Communicators that the program has freed, perhaps while operations on them were under way (MPI-4.1 section 7.4.3).
//!
//! Requests know their communicator by its handle. No other communicator gets that before the last of them is
//! gone: their errors would go to its error handler, and `MPI_Comm_disconnect` of it would wait for them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::comms::CommObject;
use crate::handler::{Attached, Handler};
use crate::predefined::MPI_Comm;
use crate::runtime::Runtime;

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
    /// Whether a request may still tell of an error on it. `owners` are those of all requests.
    fn is_named(&self, owners: &[u32]) -> bool {
        self.object.strong_count() > 0 || owners.binary_search(&(self.handle as u32)).is_ok()
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
        self.comms.take(gone.handle);
        drop(object);
        let mut list = self.departed.0.lock();
        list.comms.push(gone);
        // Now and then only: it takes a look at all requests.
        if list.comms.len() > list.room {
            let owners = self.process.owners();
            list.comms.retain(|gone| {
                let named = gone.is_named(&owners);
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
        if let Some(object) = self.find_comm(handle) {
            return Some(object.errhandler.lock().handler());
        }
        let list = self.departed.0.lock();
        let gone = list.comms.iter().find(|gone| gone.handle == handle)?;
        Some(gone.handler.handler())
    }
}
