//! Inquiry about the ABI, and handles as integers (MPI-5.0 sections 21.2 and 21.4).

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};

use super::info::give;
use super::{convert, null, put};
use crate::abi::{MPI_File, MPI_Info};
use crate::args::Out;
use crate::library::LIBRARY;
pub(crate) use crate::outward::Outward;
use crate::outward::OutwardFile;

/// The standard ABI's version; -1 in the other ABIs.
const VERSION: [c_int; 2] = if cfg!(standard_abi) { [1, 0] } else { [-1, -1] };

/// `MPI_Abi_get_version` (MPI-5.0 section 21.2).
pub fn abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) -> Result<()> {
    abi_major.set(VERSION[0]);
    abi_minor.set(VERSION[1]);
    Ok(())
}

/// `MPI_Abi_get_info` (MPI-5.0 section 21.2).
pub fn abi_get_info(info: Out<MPI_Info>) -> Result<()> {
    let told = Info::new();
    for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
        told.set(key, "8")?;
    }
    give(told, info)
}

/// The properties of Fortran that the library assumes: those of gfortran and other compilers
/// without options that change sizes.
const FORTRAN: [(&str, &str); 4] = [
    ("mpi_logical_size", "4"),
    ("mpi_integer_size", "4"),
    ("mpi_real_size", "4"),
    ("mpi_double_precision_size", "8"),
];

/// The optional types, by their names in keys: the library has all of them.
const OPTIONAL: [&str; 19] = [
    "logical1",
    "logical2",
    "logical4",
    "logical8",
    "logical16",
    "integer1",
    "integer2",
    "integer4",
    "integer8",
    "integer16",
    "real2",
    "real4",
    "real8",
    "real16",
    "complex4",
    "complex8",
    "complex16",
    "complex32",
    "double_complex",
];

fn fortran() -> impl Iterator<Item = (String, &'static str)> {
    let sizes = FORTRAN
        .into_iter()
        .map(|(key, size)| (key.to_owned(), size));
    let optional = OPTIONAL.into_iter();
    sizes.chain(optional.map(|name| (format!("mpi_{name}_supported"), "true")))
}

/// `MPI_Abi_get_fortran_info` (MPI-5.0 section 21.4.1).
pub fn abi_get_fortran_info(info: Out<MPI_Info>) -> Result<()> {
    let told = Info::new();
    for (key, value) in fortran() {
        told.set(key, value)?;
    }
    give(told, info)
}

/// Fails unless it is the first call of its type.
fn first(kind: usize, function: &str) -> Result<()> {
    if LIBRARY.fortran_set[kind].swap(true, Ordering::Relaxed) {
        let why = format!("{function} has been called before; only the first call counts");
        return Err(Error::new(Class::Abi, why));
    }
    Ok(())
}

/// `MPI_Abi_set_fortran_info` (MPI-5.0 section 21.4.1). The library's types are fixed, so the
/// values that are given must be the library's.
pub fn abi_set_fortran_info(given: &Info) -> Result<()> {
    for (key, value) in fortran() {
        // `false`: the compiler lacks the type, so the program does not use it.
        let found = given.get(key.as_bytes())?;
        let fits = |found: &Vec<u8>| *found == value.as_bytes() || found == b"false";
        if let Some(found) = found.filter(|found| !fits(found)) {
            let found = String::from_utf8_lossy(&found).into_owned();
            let why = format!(
                "{key} is {found}, but {value} in this library, which can't be changed; compile \
                 Fortran without options that change the sizes of types"
            );
            return Err(Error::new(Class::Abi, why));
        }
    }
    first(0, "MPI_Abi_set_fortran_info")
}

/// Returns the size of a Fortran `LOGICAL`, which has the bytes of an integer.
fn logical(size: c_int) -> Result<usize> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Error::new(
            Class::Arg,
            format!("logical_size is {size}; logicals have 1, 2, 4, 8 or 16 bytes"),
        )),
    }
}

/// `MPI_Abi_get_fortran_booleans` (MPI-5.0 section 21.4.1).
pub unsafe fn abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<()> {
    let size = logical(logical_size)?;
    let places = [
        (logical_true, "logical_true", 1_u128),
        (logical_false, "logical_false", 0),
    ];
    for (place, name, value) in places {
        if place.is_null() {
            return Err(null(name));
        }
        // SAFETY: not NULL, and then the caller's contract.
        unsafe {
            let bytes = value.to_ne_bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), size);
        }
    }
    // SAFETY: `is_set` is NULL or valid for writes (output arguments, chapter of the module `api`).
    unsafe { put(is_set, "is_set", 1) }
}

/// `MPI_Abi_set_fortran_booleans` (MPI-5.0 section 21.4.1). The library's are 1 and 0, as in most
/// compilers; others are errors.
pub unsafe fn abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<()> {
    let size = logical(logical_size)?;
    let told = [
        (logical_true, "logical_true", 1_u128),
        (logical_false, "logical_false", 0),
    ];
    for (place, name, value) in told {
        if place.is_null() {
            return Err(null(name));
        }
        let mut bytes = [0; 16];
        // SAFETY: not NULL, and then the caller's contract.
        unsafe { std::ptr::copy_nonoverlapping(place.cast::<u8>(), bytes.as_mut_ptr(), size) };
        if u128::from_ne_bytes(bytes) != value {
            let why = format!("{name} is {value} in this library, which can't be changed");
            return Err(Error::new(Class::Abi, why));
        }
    }
    first(1, "MPI_Abi_set_fortran_booleans")
}

/// `MPI_File_toint` (MPI-5.0 section 21.4.4).
pub fn file_toint(file: MPI_File) -> c_int {
    OutwardFile::to_int(file, convert::file_c2f)
}

/// `MPI_File_fromint` (MPI-5.0 section 21.4.4).
pub fn file_fromint(file: c_int) -> MPI_File {
    OutwardFile::from_int(file, convert::file_f2c)
}
