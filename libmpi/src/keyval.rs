//! What attribute keys and attributes are (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::attr::{Attributes, Keyval, WeakKeyval};
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::outward::Outward;

/// The attributes of an object, which callbacks know by its handle.
pub type Store = Attributes<c_int, Value>;

/// The value of an attribute. Which language set it matters when another reads it (section 17.2.7):
/// what C gets of an integer that Fortran has set is its address.
#[derive(Clone, Debug)]
pub enum Value {
    /// A pointer, set by C.
    Pointer(usize),
    /// An `INTEGER`, set by `MPI_ATTR_PUT`.
    Integer(Arc<AtomicI32>),
    /// An `INTEGER(KIND=MPI_ADDRESS_KIND)`, set by `MPI_COMM_SET_ATTR` and its like.
    Address(Arc<AtomicIsize>),
}

/// How an attribute's value is given or wanted: the ABI's numbers, as companion libraries pass them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// 0: a pointer, as in C.
    Pointer,
    /// 1: an address-sized integer.
    Address,
    /// 3: an integer.
    Integer,
}

impl Form {
    /// The form behind a number.
    pub fn named(number: c_int) -> Result<Form> {
        match number {
            0 => Ok(Form::Pointer),
            1 => Ok(Form::Address),
            3 => Ok(Form::Integer),
            _ => Err(Error::new(
                Class::Arg,
                format!("{number} is not a form of attribute values: 0, 1 and 3 are"),
            )),
        }
    }

    pub(crate) fn number(self) -> c_int {
        match self {
            Form::Pointer => 0,
            Form::Address => 1,
            Form::Integer => 3,
        }
    }
}

impl Value {
    /// The value with these bits.
    pub fn new(form: Form, bits: *mut c_void) -> Value {
        let bits = bits.expose_provenance();
        match form {
            Form::Pointer => Value::Pointer(bits),
            Form::Address => Value::Address(Arc::new(AtomicIsize::new(bits as isize))),
            Form::Integer => Value::Integer(Arc::new(AtomicI32::new(bits as c_int))),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Value::Pointer(_) => Form::Pointer,
            Value::Address(_) => Form::Address,
            Value::Integer(_) => Form::Integer,
        }
    }

    /// What Fortran gets: the integer, or the address that C has set.
    pub fn bits(&self) -> isize {
        match self {
            Value::Pointer(bits) => *bits as isize,
            Value::Address(value) => value.load(Ordering::Relaxed),
            Value::Integer(value) => value.load(Ordering::Relaxed) as isize,
        }
    }

    /// What C gets: the pointer, or the address of Fortran's integer, valid as long as the
    /// attribute is.
    pub fn pointer(&self) -> *mut c_void {
        match self {
            Value::Pointer(bits) => std::ptr::with_exposed_provenance_mut(*bits),
            Value::Address(value) => value.as_ptr().cast(),
            Value::Integer(value) => value.as_ptr().cast(),
        }
    }
}

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
