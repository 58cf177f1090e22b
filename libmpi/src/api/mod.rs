//! What the exported functions do: one Rust function for each, named in
//! `libmpi/table/functions.mpi`.
//!
//! The functions take the arguments of the C prototype. The safety contract of an `unsafe` one is
//! the standard's: pointers are valid for what the standard says is read or written there.

pub mod attr;
pub mod coll;
pub mod coll_data;
pub mod coll_neighbor;
pub mod coll_reduce;
pub mod comm;
pub mod companion;
pub mod convert;
pub mod datatype;
pub mod datatype_info;
pub mod endpoints;
pub mod env;
pub mod errhandler;
pub mod error;
pub mod file;
pub mod grequest;
pub mod group;
pub mod info;
pub mod memory;
pub mod op;
pub mod pack;
pub mod persistent;
pub mod pt2pt;
pub mod request;
pub mod tool;
pub mod topo;
pub mod win;
pub mod win_data;
mod win_quick;
pub mod win_sync;
pub mod world;

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};

/// Writes a result to where the program wants it; `name` is the parameter's.
///
/// # Errors
/// [`Class::Arg`] when the program gave NULL.
///
/// # Safety
/// Another pointer than NULL is valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL, and then valid by the contract of this function.
    unsafe { out.write(value) };
    Ok(())
}

/// The error for an address that must not be NULL.
#[cold]
pub(crate) fn null(name: &str) -> Error {
    Error::new(
        Class::Arg,
        format!("{name} is NULL; it must be the address of a variable"),
    )
}

/// The length of an array argument.
///
/// # Errors
/// [`Class::Arg`] for a negative one.
fn length(count: c_int, count_name: &str) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        Error::new(
            Class::Arg,
            format!("{count_name} is {count}; it must be 0 or more"),
        )
    })
}

/// An array argument; NULL is as good as any address for none.
///
/// # Errors
/// [`Class::Arg`] for a negative length, and for NULL where there are to be elements.
///
/// # Safety
/// Another pointer than NULL is valid for `count` elements while the slice is in use.
pub(crate) unsafe fn list<'a, T>(
    count: c_int,
    count_name: &str,
    list: *const T,
    name: &str,
) -> Result<&'a [T]> {
    match length(count, count_name)? {
        0 => Ok(&[]),
        _ if list.is_null() => Err(null(name)),
        // SAFETY: not NULL, and then valid by the contract of this function.
        count => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
    }
}

/// As [`list`], to be written.
///
/// # Errors
/// As for [`list`].
///
/// # Safety
/// As for [`list`]; nothing else uses the array meanwhile.
pub(crate) unsafe fn list_mut<'a, T>(
    count: c_int,
    count_name: &str,
    list: *mut T,
    name: &str,
) -> Result<&'a mut [T]> {
    match length(count, count_name)? {
        0 => Ok(&mut []),
        _ if list.is_null() => Err(null(name)),
        // SAFETY: not NULL, and then valid by the contract of this function.
        count => Ok(unsafe { std::slice::from_raw_parts_mut(list, count) }),
    }
}
