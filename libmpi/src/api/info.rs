//! Info objects (chapter 9).

use std::ffi::{CStr, c_char, c_int};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::infos;

use super::null;
use crate::abi::{MPI_INFO_NULL, MPI_Info, MPI_MAX_INFO_KEY};
use crate::args::{InfoKey, InfoValue, Late, LiveComm, Out, OutText};

/// Writes a string and a NUL.
///
/// # Safety
/// `out` has space for both.
pub(crate) unsafe fn write(out: *mut c_char, text: &[u8]) {
    // SAFETY: the caller's contract; memory of the program doesn't overlap with ours.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
}

/// Gives a new info object to the program.
pub(crate) fn give(info: Info, out: Out<MPI_Info>) -> Result<()> {
    out.set(infos::insert(info)?);
    Ok(())
}

/// `MPI_Info_create`.
pub fn info_create(info: Out<MPI_Info>) -> Result<()> {
    give(Info::new(), info)
}

/// `MPI_Info_set`.
pub fn info_set(Late(info, call): Late<MPI_Info>, key: InfoKey, value: InfoValue) -> Result<()> {
    let info = infos::get_mut(info, call)?;
    info.set(key.0, value.0)
}

/// `MPI_Info_delete`.
pub fn info_delete(Late(info, call): Late<MPI_Info>, key: InfoKey) -> Result<()> {
    let info = infos::get_mut(info, call)?;
    info.delete(key.0)
}

/// `MPI_Info_get`: at most `valuelen` characters of the value.
pub unsafe fn info_get(
    info: &Info,
    key: InfoKey,
    valuelen: c_int,
    value: *mut c_char,
    flag: Out<c_int>,
) -> Result<()> {
    // An error of the key comes first.
    let length = || info.valuelen(key.0);
    let Ok(room) = usize::try_from(valuelen) else {
        length()?;
        return Err(Error::new(
            Class::Arg,
            format!("valuelen is {valuelen}; it must be 0 or more"),
        ));
    };
    if value.is_null() {
        length()?;
        return Err(Error::new(
            Class::InfoValue,
            "value is NULL; it must be an array",
        ));
    }
    // SAFETY: `value` has room for `valuelen` characters and a NUL (strings, chapter of the module
    // `api`).
    let put = |found: &[u8]| unsafe { write(value, &found[..found.len().min(room)]) };
    let found = info.read(key.0, put)?;
    flag.set(c_int::from(found.is_some()));
    Ok(())
}

/// `MPI_Info_get_string` (MPI-4.1 section 10): as much of the value as fits in `buflen` characters,
/// with a NUL; `buflen` becomes the length of the whole. If it is 0, `value` is not used.
pub unsafe fn info_get_string(
    info: &Info,
    key: InfoKey,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: Out<c_int>,
) -> Result<()> {
    // SAFETY: `buflen` is NULL or a variable of the program's (output arguments, chapter of the
    // module `api`).
    let (found, buflen) = unsafe {
        let found = info.get(key.0)?;
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
    // SAFETY: `value` has room for `buflen` characters, which the program says (strings, chapter of
    // the module `api`).
    unsafe {
        flag.set(c_int::from(found.is_some()));
        if let Some(found) = found {
            if room > 0 {
                write(value, &found[..found.len().min(room - 1)]);
            }
            *buflen = found.len() as c_int + 1;
        }
    }
    Ok(())
}

/// `MPI_Info_create_env` (MPI-5.0 chapter 10): a new object with the content that `MPI_INFO_ENV`
/// has, or will have; may be called before `MPI_Init`.
pub unsafe fn info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: Out<MPI_Info>,
) -> Result<()> {
    let given = argc.max(0) as usize;
    let given = if argv.is_null() { 0 } else { given };
    let mut words = Vec::new();
    for index in 0..given {
        // SAFETY: `argv` has `argc` elements and NULL, as the `argv` of `main` has (MPI-4.1 section
        // 10).
        let word = unsafe { argv.add(index).read() };
        if word.is_null() {
            break;
        }
        // SAFETY: the caller's contract; not NULL.
        words.push(unsafe { CStr::from_ptr(word) }.to_bytes().to_vec());
    }
    give(infos::environment(words), info)
}

/// `MPI_Info_get_valuelen`.
pub fn info_get_valuelen(
    info: &Info,
    key: InfoKey,
    valuelen: Out<c_int>,
    flag: Out<c_int>,
) -> Result<()> {
    let found = info.valuelen(key.0)?;
    flag.set(c_int::from(found.is_some()));
    match found {
        Some(found) => {
            valuelen.set(found as c_int);
            Ok(())
        }
        None => Ok(()),
    }
}

/// `MPI_Info_get_nkeys`.
pub fn info_get_nkeys(info: &Info, nkeys: Out<c_int>) -> Result<()> {
    nkeys.set(info.nkeys() as c_int);
    Ok(())
}

/// `MPI_Info_get_nthkey`.
pub fn info_get_nthkey(info: &Info, n: c_int, key: OutText<MPI_MAX_INFO_KEY>) -> Result<()> {
    let found = info.nthkey(n)?;
    let absent = |_| Error::new(Class::InfoKey, "key is NULL; it must be an array");
    // MPI_Info_set accepts one character more than fits here, as other libraries of this ABI do.
    key.write(&found).map(drop).map_err(absent)
}

/// `MPI_Info_dup`.
pub fn info_dup(info: &Info, newinfo: Out<MPI_Info>) -> Result<()> {
    let copy = info.dup();
    give(copy, newinfo)
}

/// `MPI_Info_free`.
pub fn info_free(info: &mut MPI_Info) -> Result<()> {
    infos::remove(*info)?;
    *info = MPI_INFO_NULL;
    Ok(())
}

/// `MPI_Comm_set_info` (section 6.4.4): adds hints that are understood. Those about VCIs have an
/// effect only before the communicator is used for messages.
pub fn comm_set_info(comm: LiveComm, info: Option<&Info>) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    object.take_hints(&runtime.process, info)
}

/// `MPI_Comm_get_info` (section 6.4.4).
pub fn comm_get_info(comm: LiveComm, info_used: Out<MPI_Info>) -> Result<()> {
    let info = comm.hints.lock().to_info()?;
    give(info, info_used)
}
