//! Integers that are `int` in some functions and `MPI_Count` in others (MPI-4.0 section 2.5.8).
//!
//! One Rust function implements both forms. Its scalar arguments are widened; arrays and output
//! parameters keep their type in [`IntArray`] and [`IntOut`].

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
use mpi_sched::Ints;

/// A large count, as `MPI_Count`.
type Count = i64;

/// `MPI_UNDEFINED`.
const UNDEFINED: c_int = -32766;

/// An array of integers that is read.
#[derive(Clone, Copy, Debug)]
pub enum IntArray {
    /// An array of `int`.
    Int(*const c_int),
    /// An array of `MPI_Count`.
    Large(*const Count),
}

impl IntArray {
    /// Returns whether the pointer is NULL.
    pub fn is_null(self) -> bool {
        match self {
            IntArray::Int(start) => start.is_null(),
            IntArray::Large(start) => start.is_null(),
        }
    }

    /// Returns whether the elements are `MPI_Count`.
    pub fn is_large(self) -> bool {
        matches!(self, IntArray::Large(_))
    }

    /// Returns the elements. The pointer must not be NULL unless `len` is 0.
    ///
    /// # Safety
    /// The array has `len` elements, which don't change while the result exists.
    pub unsafe fn ints<'a>(self, len: usize) -> Ints<'a> {
        if len == 0 {
            return Ints::I32(&[]);
        }
        // SAFETY: the pointer is not NULL, and the caller of this function guarantees `len`
        // elements.
        unsafe {
            match self {
                IntArray::Int(start) => Ints::I32(std::slice::from_raw_parts(start, len)),
                IntArray::Large(start) => Ints::I64(std::slice::from_raw_parts(start, len)),
            }
        }
    }
}

/// An output parameter, or an array of them.
#[derive(Clone, Copy, Debug)]
pub enum IntOut {
    /// A pointer to `int`.
    Int(*mut c_int),
    /// A pointer to `MPI_Count`.
    Large(*mut Count),
}

impl IntOut {
    /// Returns whether the pointer is NULL.
    pub fn is_null(self) -> bool {
        match self {
            IntOut::Int(place) => place.is_null(),
            IntOut::Large(place) => place.is_null(),
        }
    }

    /// Returns the largest integer that fits.
    pub fn largest(self) -> Count {
        match self {
            IntOut::Int(_) => c_int::MAX.into(),
            IntOut::Large(_) => Count::MAX,
        }
    }

    /// Reads the integer; `name` is the parameter's.
    ///
    /// # Safety
    /// A pointer that is not NULL is valid.
    pub unsafe fn get(self, name: &str) -> Result<Count> {
        if self.is_null() {
            return Err(null(name));
        }
        // SAFETY: the pointer is not NULL, so the caller of this function guarantees that it is
        // valid.
        Ok(unsafe {
            match self {
                IntOut::Int(place) => place.read().into(),
                IntOut::Large(place) => place.read(),
            }
        })
    }

    /// Writes an integer, or `MPI_UNDEFINED` for `None` and for a value that does not fit, as the
    /// standard requires of counts (section 3.2.5).
    ///
    /// # Safety
    /// A pointer that is not NULL is valid.
    pub unsafe fn put_defined(self, name: &str, value: Option<usize>) -> Result<()> {
        // SAFETY: the caller of this function guarantees that a pointer other than NULL is valid.
        unsafe {
            match self {
                IntOut::Int(place) => {
                    let value = value.and_then(|value| value.try_into().ok());
                    put(place, name, value.unwrap_or(UNDEFINED))
                }
                IntOut::Large(place) => {
                    let value = value.and_then(|value| value.try_into().ok());
                    put(place, name, value.unwrap_or(UNDEFINED.into()))
                }
            }
        }
    }

    /// Writes an integer; a value that does not fit is an error that calls it `what`.
    ///
    /// # Safety
    /// A pointer that is not NULL is valid.
    pub unsafe fn put(self, name: &str, value: Count, what: &str) -> Result<()> {
        // SAFETY: the caller of this function guarantees that a pointer other than NULL is valid.
        unsafe {
            match self {
                IntOut::Int(place) => match c_int::try_from(value) {
                    Ok(value) => put(place, name, value),
                    Err(_) => Err(too_large(value, what)),
                },
                IntOut::Large(place) => put(place, name, value),
            }
        }
    }
}

/// Writes a result to an output parameter.
///
/// # Safety
/// A pointer that is not NULL is valid.
pub unsafe fn put<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: `out` is not NULL, so the caller of this function guarantees that it is valid.
    unsafe { out.write(value) };
    Ok(())
}

/// Returns the error for an output parameter that is NULL.
#[cold]
pub fn null(name: &str) -> Error {
    Error::new(
        Class::Arg,
        format!("{name} is NULL; it must be the address of a variable"),
    )
}

/// Returns the error for a result that an `int` cannot hold; `what` names it.
#[cold]
pub fn too_large(value: Count, what: &str) -> Error {
    Error::new(
        Class::Count,
        format!(
            "{what} is {value}, which does not fit into an int; call the function with large counts \
             (its name ends in _c), or ask for less"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_are_undefined_or_refused() {
        let (mut int, mut large) = (0, 0);
        let (narrow, wide) = (IntOut::Int(&raw mut int), IntOut::Large(&raw mut large));
        // SAFETY: local variables.
        unsafe {
            for value in [0, 7, c_int::MAX as usize, 1 << 31, 5_000_000_000] {
                narrow.put_defined("count", Some(value)).unwrap();
                wide.put_defined("count", Some(value)).unwrap();
                let fits = value <= c_int::MAX as usize;
                assert_eq!(int, if fits { value as c_int } else { UNDEFINED });
                assert_eq!(large, value as Count);
                let value = value as Count;
                assert_eq!(narrow.put("size", value, "the size").is_ok(), fits);
                assert!(wide.put("size", value, "the size").is_ok());
            }
            wide.put_defined("count", None).unwrap();
            assert_eq!(large, UNDEFINED.into());
            assert!(IntOut::Int(std::ptr::null_mut()).get("size").is_err());
        }
    }

    #[test]
    fn arrays_are_read_in_place() {
        let (ints, large) = ([1, -2], [1 << 40, -3]);
        // SAFETY: both have two elements.
        unsafe {
            let narrow = IntArray::Int(ints.as_ptr()).ints(2);
            let wide = IntArray::Large(large.as_ptr()).ints(2);
            assert_eq!((narrow.get(0), narrow.get(1)), (1, -2));
            assert_eq!((wide.get(0), wide.get(1)), (1 << 40, -3));
            assert!(matches!(
                IntArray::Int(std::ptr::null()).ints(0),
                Ints::I32([])
            ));
        }
    }
}
