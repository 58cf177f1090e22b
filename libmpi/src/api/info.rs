//! Info objects (chapter 9).

use std::ffi::{CStr, c_char, c_int};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};

use super::{null, put};
use crate::abi::{MPI_Comm, MPI_INFO_NULL, MPI_Info, MPI_MAX_INFO_KEY};
use crate::infos;
use crate::runtime::runtime;

/// A string of the program's.
///
/// # Safety
/// `text` is a string or NULL.
pub(super) unsafe fn text<'a>(text: *const c_char, name: &str, class: Class) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Error::new(
            class,
            format!("{name} is NULL; it must be a string"),
        ));
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes a string and a NUL behind it.
///
/// # Safety
/// `out` has room for both.
pub(super) unsafe fn write(out: *mut c_char, text: &[u8]) {
    // SAFETY: the caller's contract; memory of the program doesn't overlap with ours.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
}

/// Gives a new info object to the program.
///
/// # Safety
/// `out` is valid or NULL.
pub(super) unsafe fn give(info: Info, out: *mut MPI_Info, name: &str) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's contract.
    unsafe { put(out, name, infos::insert(info)?) }
}

/// `MPI_Info_create`.
pub unsafe fn info_create(info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { give(Info::new(), info, "info") }
}

/// `MPI_Info_set`.
///
/// # Safety
/// `key` and `value` are strings or NULL.
pub unsafe fn info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> Result<()> {
    let info = infos::get_mut(info)?;
    // SAFETY: the caller's contract.
    let (key, value) = unsafe {
        (
            text(key, "key", Class::InfoKey)?,
            text(value, "value", Class::InfoValue)?,
        )
    };
    info.set(key, value)
}

/// `MPI_Info_delete`.
///
/// # Safety
/// `key` is a string or NULL.
pub unsafe fn info_delete(info: MPI_Info, key: *const c_char) -> Result<()> {
    let info = infos::get_mut(info)?;
    // SAFETY: the caller's contract.
    info.delete(unsafe { text(key, "key", Class::InfoKey)? })
}

/// `MPI_Info_get`: at most `valuelen` characters of the value.
///
/// # Safety
/// `key` is a string, `value` has room for one more character than `valuelen`, and `flag` is valid,
/// or they are NULL.
pub unsafe fn info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let info = infos::get(info)?;
    // SAFETY: the caller's contract.
    let found = info.get(unsafe { text(key, "key", Class::InfoKey)? })?;
    let room = usize::try_from(valuelen).map_err(|_| {
        Error::new(
            Class::Arg,
            format!("valuelen is {valuelen}; it must be 0 or more"),
        )
    })?;
    if value.is_null() {
        return Err(Error::new(
            Class::InfoValue,
            "value is NULL; it must be an array",
        ));
    }
    // SAFETY: the caller's contract.
    unsafe {
        put(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            write(value, &found[..found.len().min(room)]);
        }
    }
    Ok(())
}

/// `MPI_Info_get_string` (MPI-4.1 section 10): as much of the value as fits in `buflen` characters, with
/// the NUL behind it; `buflen` becomes what the whole would take. If it is 0, `value` is not looked at.
///
/// # Safety
/// `key` is a string, `value` has room for `buflen` characters, `buflen` and `flag` are valid, or they
/// are NULL.
pub unsafe fn info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let info = infos::get(info)?;
    // SAFETY: the caller's contract.
    let (found, buflen) = unsafe {
        let found = info.get(text(key, "key", Class::InfoKey)?)?;
        (found, buflen.as_mut().ok_or_else(|| null("buflen"))?)
    };
    let room = usize::try_from(*buflen).map_err(|_| {
        let why = format!("*buflen is {buflen}; it must be 0 or more");
        Error::new(Class::Arg, why)
    })?;
    if room > 0 && value.is_null() {
        let why = format!("value is NULL, but *buflen is {room}; it must be an array");
        return Err(Error::new(Class::InfoValue, why));
    }
    // SAFETY: the caller's contract.
    unsafe {
        put(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            if room > 0 {
                write(value, &found[..found.len().min(room - 1)]);
            }
            *buflen = found.len() as c_int + 1;
        }
    }
    Ok(())
}

/// `MPI_Info_create_env` (MPI-4.1 section 10): a new object with what `MPI_INFO_ENV` has, as far as it is
/// known; it may be called before `MPI_Init`.
///
/// # Safety
/// `argv` holds `argc` strings, or is NULL.
pub unsafe fn info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    let given = argc.max(0) as usize;
    let given = if argv.is_null() { 0 } else { given };
    let mut words = Vec::with_capacity(given);
    for index in 0..given {
        // SAFETY: the caller's contract.
        let word = unsafe { argv.add(index).read() };
        if word.is_null() {
            break;
        }
        // SAFETY: the caller's contract; not NULL.
        words.push(unsafe { CStr::from_ptr(word) }.to_bytes().to_vec());
    }
    // SAFETY: the caller's contract.
    unsafe { give(infos::environment(words), info, "info") }
}

/// `MPI_Info_get_valuelen`.
///
/// # Safety
/// `key` is a string, `valuelen` and `flag` are valid, or they are NULL.
pub unsafe fn info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    let info = infos::get(info)?;
    // SAFETY: the caller's contract.
    let found = info.valuelen(unsafe { text(key, "key", Class::InfoKey)? })?;
    // SAFETY: the caller's contract.
    unsafe {
        put(flag, "flag", c_int::from(found.is_some()))?;
        match found {
            Some(found) => put(valuelen, "valuelen", found as c_int),
            None => Ok(()),
        }
    }
}

/// `MPI_Info_get_nkeys`.
pub unsafe fn info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> Result<()> {
    let number = infos::get(info)?.nkeys();
    // SAFETY: the caller's contract.
    unsafe { put(nkeys, "nkeys", number as c_int) }
}

/// `MPI_Info_get_nthkey`.
///
/// # Safety
/// `key` has room for `MPI_MAX_INFO_KEY` characters, or is NULL.
pub unsafe fn info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> Result<()> {
    let found = infos::get(info)?.nthkey(n)?;
    if key.is_null() {
        return Err(Error::new(
            Class::InfoKey,
            "key is NULL; it must be an array",
        ));
    }
    // MPI_Info_set takes one character more than there is room for here, as other libraries of this ABI do.
    let fits = found.len().min(MPI_MAX_INFO_KEY as usize - 1);
    // SAFETY: the caller's contract; with the NUL it is not longer.
    unsafe { write(key, &found[..fits]) };
    Ok(())
}

/// `MPI_Info_dup`.
pub unsafe fn info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> Result<()> {
    let copy = infos::get(info)?.dup();
    // SAFETY: the caller's contract.
    unsafe { give(copy, newinfo, "newinfo") }
}

/// `MPI_Info_free`.
pub unsafe fn info_free(info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's contract.
    let Some(handle) = (unsafe { info.as_mut() }) else {
        return Err(null("info"));
    };
    infos::remove(*handle)?;
    *handle = MPI_INFO_NULL;
    Ok(())
}

/// `MPI_Comm_set_info` (section 6.4.4): hints that are understood are added to those that there
/// are. Those about VCIs count before the communicator is used for messages.
pub fn comm_set_info(comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    let runtime = runtime()?;
    let object = runtime.comm(comm)?;
    object.take_hints(&runtime.process, infos::hints(info)?)
}

/// `MPI_Comm_get_info` (section 6.4.4).
pub unsafe fn comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> Result<()> {
    let info = runtime()?.comm(comm)?.hints.lock().to_info()?;
    // SAFETY: the caller's contract.
    unsafe { give(info, info_used, "info_used") }
}
