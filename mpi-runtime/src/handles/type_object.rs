//! Datatypes as the ABI sees them: with a name and attributes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mpi_core::datatype::Datatype;
use mpi_core::local::Local;

use crate::handles::attribute_value::Store;

/// A datatype that has a handle.
pub struct TypeObject {
    /// The datatype.
    pub datatype: Datatype,
    /// Its name, if the program gave it one.
    pub name: Local<Option<String>>,
    /// Its attributes.
    pub attributes: Store,
    /// Functions of the program that run and have got its handle. Changed with the table's lock.
    users: AtomicU32,
    /// The program has freed the handle. Changed with the table's lock.
    freed: AtomicBool,
}

impl TypeObject {
    /// Without a name.
    pub fn new(datatype: Datatype) -> Self {
        TypeObject {
            datatype,
            name: Local::new(None),
            attributes: Store::new(),
            users: AtomicU32::new(0),
            freed: AtomicBool::new(false),
        }
    }

    /// A function of the program begins to use the handle. Always true.
    pub fn begin_use(&self) -> bool {
        self.users.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// It has returned. Always true.
    pub fn end_use(&self) -> bool {
        self.users.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Notes that the program frees the handle. False if it has done so before.
    pub fn free(&self) -> bool {
        !self.freed.swap(true, Ordering::Relaxed)
    }

    /// Whether it has never had an attribute, and no function of the program's has its handle: it may go when it is freed.
    pub fn is_unused(&self) -> bool {
        self.attributes.are_none()
            && !self.freed.load(Ordering::Relaxed)
            && self.users.load(Ordering::Relaxed) == 0
    }

    /// Whether nobody may use the handle any more.
    pub fn is_over(&self) -> bool {
        self.freed.load(Ordering::Relaxed) && self.users.load(Ordering::Relaxed) == 0
    }
}
