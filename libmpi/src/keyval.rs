//! What attribute keys are (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use mpi_core::attr::{Keyval, WeakKeyval};
use mpi_runtime::handles::attribute_value::Value;
use parking_lot::Mutex;

use crate::abi::{MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::outward::Outward;

/// Calls a copy callback of another language. Gets that, the object, the key, the extra state, the
/// form and bits of the value, and the places for the new value and the flag.
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

/// Calls a delete callback of another language. Gets that, the object, the key, form and bits of
/// the value, and the extra state.
pub type DeleteProxy = unsafe extern "C" fn(
    MPI_Comm_delete_attr_function,
    c_int,
    c_int,
    c_int,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// The kinds of objects that have attributes. Their callbacks have the same C types, because all
/// handles are integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Comm,
    Type,
    Win,
}

impl Kind {
    /// An object as callbacks get it.
    pub(crate) fn outward(self, object: c_int) -> Outward {
        match self {
            Kind::Comm => Outward::comm(object),
            Kind::Type => Outward::datatype(object),
            Kind::Win => Outward::win(object),
        }
    }

    /// An object as callbacks of Fortran get it.
    pub(crate) fn number(self, object: c_int) -> c_int {
        match self {
            Kind::Comm => Outward::comm_to_int(object),
            Kind::Type => Outward::datatype_to_int(object),
            Kind::Win => Outward::win_to_int(object),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Comm => "communicators",
            Kind::Type => "datatypes",
            Kind::Win => "windows",
        }
    }
}

/// A key that has a handle. The handle is good until the program has freed it and no attribute uses
/// the key any more (section 6.7.2): till then no other key is given the same number.
pub(crate) struct Key {
    pub kind: Kind,
    pub keyval: WeakKeyval<c_int, Value>,
    /// The program's hold on the key, until it frees it.
    pub own: Mutex<Option<Keyval<c_int, Value>>>,
    pub proxies: Arc<OnceLock<(CopyProxy, DeleteProxy)>>,
}
