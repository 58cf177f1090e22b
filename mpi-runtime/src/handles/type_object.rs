//! Datatypes with their MPI state: name and attributes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mpi_core::datatype::Datatype;
use mpi_core::local::Local;

use crate::handles::attribute_value::Store;

/// A datatype with a handle.
pub struct TypeObject {
    /// The datatype.
    pub datatype: Datatype,
    /// Its name, if the program gave it one.
    pub name: Local<Option<String>>,
    /// Its attributes.
    pub attributes: Store,
    /// Number of running functions of the program that were passed the handle. Changed with the
    /// table's lock.
    users: AtomicU32,
    /// Whether the program has freed the handle. Changed with the table's lock.
    freed: AtomicBool,
}

impl TypeObject {
    /// Creates an object without a name.
    pub fn new(datatype: Datatype) -> Self {
        TypeObject {
            datatype,
            name: Local::new(None),
            attributes: Store::new(),
            users: AtomicU32::new(0),
            freed: AtomicBool::new(false),
        }
    }

    /// Counts a function of the program that starts to use the handle. Always returns true.
    pub fn begin_use(&self) -> bool {
        self.users.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Counts a function that has returned. Always returns true.
    pub fn end_use(&self) -> bool {
        self.users.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Marks the handle as freed. Returns false if it was freed before.
    pub fn free(&self) -> bool {
        !self.freed.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the object has no attributes, is not freed, and no function of the program
    /// has its handle: then freeing it removes it at once.
    pub fn is_unused(&self) -> bool {
        self.attributes.is_empty_unlocked()
            && !self.freed.load(Ordering::Relaxed)
            && self.users.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the handle is freed and no function of the program uses it.
    pub fn is_over(&self) -> bool {
        self.freed.load(Ordering::Relaxed) && self.users.load(Ordering::Relaxed) == 0
    }
}
