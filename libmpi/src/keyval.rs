//! Attribute keys (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use mpi_core::attr::{Keyval, WeakKeyval};
use mpi_runtime::handles::attribute_value::Value;
use parking_lot::Mutex;

use crate::abi::{MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::outward::Outward;

/// Calls a copy callback of another language, the first argument. The others are the object, the
/// key, the extra state, form and bits of the value, and the addresses of the new value and the
/// flag.
pub type CopyProxy = unsafe extern "C" fn(
    MPI_Comm_copy_attr_function,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;

/// Calls a delete callback of another language, the first argument. The others are the object, the
/// key, form and bits of the value, and the extra state.
pub type DeleteProxy = unsafe extern "C" fn(
    MPI_Comm_delete_attr_function,
    c_int,
    c_int,
    c_int,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// The types of objects that have attributes. Their callbacks have the same C types, because all
/// handles are integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of MPI's object types")]
pub enum ObjectKind {
    Comm,
    Type,
    Win,
}

impl ObjectKind {
    /// Returns an object's handle as C callbacks get it.
    pub(crate) fn outward(self, object: c_int) -> Outward {
        match self {
            ObjectKind::Comm => Outward::comm(object),
            ObjectKind::Type => Outward::datatype(object),
            ObjectKind::Win => Outward::win(object),
        }
    }

    /// Returns an object's handle as Fortran callbacks get it.
    pub(crate) fn number(self, object: c_int) -> c_int {
        match self {
            ObjectKind::Comm => Outward::comm_to_int(object),
            ObjectKind::Type => Outward::datatype_to_int(object),
            ObjectKind::Win => Outward::win_to_int(object),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ObjectKind::Comm => "communicators",
            ObjectKind::Type => "datatypes",
            ObjectKind::Win => "windows",
        }
    }
}

/// A key with a handle. The handle stays valid until the program has freed it and no attribute uses
/// the key any more (section 6.7.2); until then no other key has it.
pub(crate) struct Key {
    pub kind: ObjectKind,
    pub keyval: WeakKeyval<c_int, Value>,
    /// The program's reference to the key, until it frees the handle.
    pub own: Mutex<Option<Keyval<c_int, Value>>>,
    pub proxies: Arc<OnceLock<(CopyProxy, DeleteProxy)>>,
}
