//! Attribute values, and the attributes of an object (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};

use mpi_core::attr::{AttributeValue, Attributes};
use mpi_core::{Class, Error, Result};

/// The attributes of an object, identified by its handle in callbacks.
pub type Store = Attributes<c_int, Value>;

/// The value of an attribute, with the language that set it.
///
/// The language matters when another one reads the value (section 17.2.7): C reads an integer set
/// by Fortran as its address.
#[derive(Clone, Debug)]
pub enum Value {
    /// A pointer, set by C.
    Pointer(usize),
    /// An `INTEGER`, set by `MPI_ATTR_PUT`.
    Integer(Arc<AtomicI32>),
    /// An `INTEGER(KIND=MPI_ADDRESS_KIND)`, set by `MPI_COMM_SET_ATTR` and its like.
    Address(Arc<AtomicIsize>),
}

impl AttributeValue for Value {
    fn word(&self) -> Option<usize> {
        match self {
            Value::Pointer(bits) => Some(*bits),
            Value::Integer(_) | Value::Address(_) => None,
        }
    }
}

/// The representation of an attribute's value, as companion libraries pass it by number.
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
    /// Returns the representation with this number.
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

    /// Returns its number.
    pub fn number(self) -> c_int {
        match self {
            Form::Pointer => 0,
            Form::Address => 1,
            Form::Integer => 3,
        }
    }
}

impl Value {
    /// Creates a value from its bits.
    pub fn new(form: Form, bits: *mut c_void) -> Value {
        let bits = bits.expose_provenance();
        match form {
            Form::Pointer => Value::Pointer(bits),
            Form::Address => Value::Address(Arc::new(AtomicIsize::new(bits as isize))),
            Form::Integer => Value::Integer(Arc::new(AtomicI32::new(bits as c_int))),
        }
    }

    /// Returns how the value was set.
    pub fn form(&self) -> Form {
        match self {
            Value::Pointer(_) => Form::Pointer,
            Value::Address(_) => Form::Address,
            Value::Integer(_) => Form::Integer,
        }
    }

    /// Returns the value as Fortran reads it: the integer, or the address that C set.
    pub fn bits(&self) -> isize {
        match self {
            Value::Pointer(bits) => *bits as isize,
            Value::Address(value) => value.load(Ordering::Relaxed),
            Value::Integer(value) => value.load(Ordering::Relaxed) as isize,
        }
    }

    /// Returns the value as C reads it: the pointer, or the address of Fortran's integer, valid as
    /// long as the attribute exists.
    pub fn pointer(&self) -> *mut c_void {
        match self {
            Value::Pointer(bits) => std::ptr::with_exposed_provenance_mut(*bits),
            Value::Address(value) => value.as_ptr().cast(),
            Value::Integer(value) => value.as_ptr().cast(),
        }
    }
}
