//! Packing and unpacking (sections 4.2 and 4.3).

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{demand_memory, runtime};

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype};
use crate::api::{null, put};
use crate::args::Late;
use mpi_runtime::handles::counts::IntOut;

/// The length of a pack buffer.
fn length(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        let detail = format!("{name} is {value}; it must be 0 or more");
        Error::new(Class::Arg, detail)
    })
}

/// A pack buffer to be written to.
///
/// # Safety
/// `start` is NULL or valid for reads and writes of `size` bytes.
unsafe fn target<'a>(start: *mut c_void, size: i64) -> Result<&'a mut [u8]> {
    let length = length("outsize", size)?;
    match (length, start.is_null()) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(null("outbuf")),
        (_, false) => {
            demand_memory("outbuf", start, Class::Buffer)?;
            // SAFETY: not NULL, and then valid by the contract of this function.
            Ok(unsafe { slice::from_raw_parts_mut(start.cast(), length) })
        }
    }
}

/// A pack buffer to be read from.
///
/// # Safety
/// `start` is NULL or valid for reads of `size` bytes.
unsafe fn source<'a>(start: *const c_void, size: i64) -> Result<&'a [u8]> {
    let length = length("insize", size)?;
    match (length, start.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null("inbuf")),
        (_, false) => {
            demand_memory("inbuf", start, Class::Buffer)?;
            // SAFETY: not NULL, and then valid by the contract of this function.
            Ok(unsafe { slice::from_raw_parts(start.cast(), length) })
        }
    }
}

/// The number at `position`.
///
/// # Safety
/// `position` is NULL or valid.
unsafe fn at(position: *const MPI_Aint) -> Result<i64> {
    // SAFETY: the buffers have the sizes that their arguments say, and `position` is NULL or a
    // variable (chapter of the module `api`).
    let position = unsafe { position.as_ref() }.ok_or_else(|| null("position"))?;
    Ok(*position)
}

/// The only data representation of section 4.3.
///
/// # Safety
/// `datarep` is a string or NULL.
unsafe fn check_datarep(datarep: *const c_char) -> Result<()> {
    if datarep.is_null() {
        return Err(null("datarep"));
    }
    // SAFETY: a string by the contract of this function.
    let name = unsafe { CStr::from_ptr(datarep) };
    if name == c"external32" {
        return Ok(());
    }
    Err(Error::new(
        Class::Arg,
        format!("datarep is {name:?}; only \"external32\" can be packed to"),
    ))
}

/// `MPI_Pack`.
pub unsafe fn pack(
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: IntOut,
    Late(comm, call): Late<MPI_Comm>,
) -> Result<()> {
    runtime()?.comm(comm, call)?;
    let (count, datatype) = types::checked(incount, datatype, call)?;
    types::check_address(inbuf, count, datatype)?;
    // SAFETY: the buffers have the sizes that their arguments say, and `position` is NULL or a
    // variable (chapter of the module `api`).
    unsafe {
        let out = target(outbuf, outsize)?;
        let start = position.get("position")?;
        let end = datatype.pack_at(inbuf.cast(), count, out, start)?;
        position.put("position", end, "the end of the packed data")
    }
}

/// `MPI_Unpack`.
pub unsafe fn unpack(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: IntOut,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    Late(comm, call): Late<MPI_Comm>,
) -> Result<()> {
    runtime()?.comm(comm, call)?;
    let (count, datatype) = types::checked(outcount, datatype, call)?;
    types::check_address(outbuf, count, datatype)?;
    // SAFETY: the buffers have the sizes that their arguments say, and `position` is NULL or a
    // variable (chapter of the module `api`).
    unsafe {
        let data = source(inbuf, insize)?;
        let start = position.get("position")?;
        let end = datatype.unpack_at(outbuf.cast(), count, data, start)?;
        position.put("position", end, "the end of the packed data")
    }
}

/// `MPI_Pack_size`: `MPI_UNDEFINED` if the size doesn't fit (MPI-4.1 section 5.2).
pub unsafe fn pack_size(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    Late(comm, call): Late<MPI_Comm>,
    size: IntOut,
) -> Result<()> {
    runtime()?.comm(comm, call)?;
    let (count, datatype) = types::checked(incount, datatype, call)?;
    let bytes = datatype.pack_size(count)?;
    // SAFETY: `size` is NULL or valid for writes (output arguments, chapter of the module `api`).
    unsafe { size.put_defined("size", Some(bytes)) }
}

/// `MPI_Pack_external`.
pub unsafe fn pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: MPI_Count,
    Late(datatype, call): Late<MPI_Datatype>,
    outbuf: *mut c_void,
    outsize: MPI_Aint,
    position: *mut MPI_Aint,
) -> Result<()> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    unsafe { check_datarep(datarep) }?;
    let (count, datatype) = types::checked(incount, datatype, call)?;
    types::check_address(inbuf, count, datatype)?;
    // SAFETY: the buffers have the sizes that their arguments say, and `position` is NULL or a
    // variable (chapter of the module `api`).
    unsafe {
        let out = target(outbuf, outsize)?;
        let end = datatype.pack_external(inbuf.cast(), count, out, at(position)?)?;
        put(position, "position", end as MPI_Aint)
    }
}

/// `MPI_Unpack_external`.
pub unsafe fn unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Aint,
    position: *mut MPI_Aint,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    Late(datatype, call): Late<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    unsafe { check_datarep(datarep) }?;
    let (count, datatype) = types::checked(outcount, datatype, call)?;
    types::check_address(outbuf, count, datatype)?;
    // SAFETY: the buffers have the sizes that their arguments say, and `position` is NULL or a
    // variable (chapter of the module `api`).
    unsafe {
        let data = source(inbuf, insize)?;
        let start = at(position)?;
        let end = datatype.unpack_external(outbuf.cast(), count, data, start)?;
        put(position, "position", end as MPI_Aint)
    }
}

/// `MPI_Pack_external_size`.
pub unsafe fn pack_external_size(
    datarep: *const c_char,
    incount: MPI_Count,
    Late(datatype, call): Late<MPI_Datatype>,
    size: *mut MPI_Aint,
) -> Result<()> {
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    unsafe { check_datarep(datarep) }?;
    let (count, datatype) = types::checked(incount, datatype, call)?;
    let bytes = datatype.pack_external_size(count)?;
    // SAFETY: `size` is NULL or valid for writes (output arguments, chapter of the module `api`).
    unsafe { put(size, "size", bytes as MPI_Aint) }
}
