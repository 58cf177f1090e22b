//! Values of attributes, and the attributes of an object (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};

use mpi_core::attr::{AttributeValue, Attributes};
use mpi_core::{Class, Error, Result};

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

impl AttributeValue for Value {
    fn word(&self) -> Option<usize> {
        match self {
            Value::Pointer(bits) => Some(*bits),
            Value::Integer(_) | Value::Address(_) => None,
        }
    }
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

    /// Its number.
    pub fn number(self) -> c_int {
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

    /// Who has set it, and how.
    pub fn form(&self) -> Form {
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
