//! Datatypes as the ABI sees them: with a name and attributes.

use mpi_core::datatype::Datatype;
use parking_lot::Mutex;

use crate::attribute_value::Store;

/// A datatype that has a handle.
pub struct TypeObject {
    /// The datatype.
    pub datatype: Datatype,
    /// Its name, if the program gave it one.
    pub name: Mutex<Option<String>>,
    /// Its attributes.
    pub attributes: Store,
}

impl TypeObject {
    /// Without a name.
    pub fn new(datatype: Datatype) -> Self {
        TypeObject {
            datatype,
            name: Mutex::new(None),
            attributes: Store::new(),
        }
    }
}
