//! The functions behind the exported ones, named in `mpi-table/functions.mpi`: one Rust function for
//! each, or for a family whose members differ in the arguments that the table gives it.
//!
//! They take the arguments of the C prototype, unchanged or as the objects, outputs, buffers and
//! arrays that the shims made of them ([`args`](crate::args)). A function that takes no address as it
//! is, is safe.
//!
//! # Safety at the boundary to C
//!
//! An `unsafe` function of this module relies on what the standard demands of the program, and on
//! nothing else. This chapter is its contract, unless a function says more:
//!
//! - *Handles* are integers and may have any value. They are looked up, never followed: one that is
//!   null, freed, made up or of another kind is an error. What a program may not do is to free an
//!   object while another of its threads passes the handle (MPI-5.0 section 11.6.2): objects are
//!   borrowed for a call, in which an [`InCall`](mpi_runtime::handles::in_call::InCall) finds them.
//! - *Output arguments* are NULL, which is an error that names the argument
//!   ([`Out`](crate::args::Out), [`put`]), or valid for writes of their type until the call
//!   returns. Where the standard has a constant for "not wanted" (`MPI_STATUS_IGNORE`,
//!   `MPI_UNWEIGHTED`) that is no address and is looked for first.
//! - *Arrays* have as many elements as the argument says that goes with them, or as the standard
//!   says (the size of the group, `maxdims`); NULL is good for none ([`list`], [`list_mut`]). They
//!   don't overlap what is written in the same call.
//! - *Buffers* hold what count and datatype describe, from the call to the completion of the
//!   operation (sections 3.7.2 and 5.12); until then the program reads a send buffer only, and
//!   leaves a receive buffer alone. NULL is an error where there is data, unless addresses are
//!   absolute (`MPI_BOTTOM`).
//! - *Strings* end in NUL, and room for strings that are returned is as large as the `MPI_MAX_…`
//!   constant or length argument says.
//! - *Callbacks* are functions of the type in `mpi.h`, which don't unwind into the library and
//!   may call MPI where the standard lets them. Their extra state is handed back, and never looked
//!   at.
//! - *Threads* keep to the level that `MPI_Init_thread` provided, and no call overlaps with
//!   `MPI_Init` or `MPI_Finalize` (sections 8.7 and 12.4.3).
//!
//! All other mistakes in arguments are detected, and raised as errors of the class that the
//! standard names.

#![allow(
    clippy::missing_safety_doc,
    reason = "the chapter above holds for all of them"
)]

pub mod attr;
pub mod coll;
pub mod comm;
pub mod companion;
pub mod convert;
pub mod datatype;
pub mod dynamic;
pub mod env;
pub mod errhandler;
pub mod error;
#[cfg(feature = "io")]
pub mod file;
pub mod group;
pub mod hardware;
pub mod info;
pub mod memory;
pub mod mpix;
pub mod op;
pub mod pt2pt;
pub mod rma;
pub mod session;
pub mod standard_abi;
#[cfg(feature = "tool")]
pub mod tool;
pub mod topo;

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
pub(crate) use mpi_runtime::handles::counts::{null, put};

/// Returns the length of an array argument.
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

/// Returns an array argument. An empty array may have any address.
///
/// # Errors
/// [`Class::Arg`] for a negative length, and for NULL with elements.
///
/// # Safety
/// A pointer other than NULL is valid for `count` elements while the slice is in use.
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

/// Returns an array argument that is written.
///
/// # Errors
/// [`Class::Arg`] for a negative length, and for NULL with elements.
///
/// # Safety
/// A pointer other than NULL is valid for `count` elements, which nothing else uses while the slice
/// is in use.
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
