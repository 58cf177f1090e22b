//! Opening, closing, sizes, hints and consistency (sections 13.2 and 13.6).

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_io::{Amode, File, Opening};
use mpi_runtime::handles::destructors;
use mpi_runtime::handles::files::{self, FileObject};
use mpi_runtime::handles::groups;
use mpi_runtime::handles::infos;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::settings::hints::MEMORY_KINDS;
use parking_lot::Mutex;

use super::super::null;
use crate::abi::{
    self, MPI_FILE_NULL, MPI_File, MPI_Group, MPI_Info, MPI_MAX_DATAREP_STRING, MPI_Offset,
};
use crate::args::{Late, LiveComm, LiveFile, Out};

/// The field of an access mode for one bit.
type Place = fn(&mut Amode) -> &mut bool;

/// The bits of an access mode.
const BITS: &[(c_int, Place)] = &[
    (abi::MPI_MODE_RDONLY, |mode| &mut mode.rdonly),
    (abi::MPI_MODE_WRONLY, |mode| &mut mode.wronly),
    (abi::MPI_MODE_RDWR, |mode| &mut mode.rdwr),
    (abi::MPI_MODE_CREATE, |mode| &mut mode.create),
    (abi::MPI_MODE_EXCL, |mode| &mut mode.excl),
    (abi::MPI_MODE_DELETE_ON_CLOSE, |mode| {
        &mut mode.delete_on_close
    }),
    (abi::MPI_MODE_UNIQUE_OPEN, |mode| &mut mode.unique_open),
    (abi::MPI_MODE_SEQUENTIAL, |mode| &mut mode.sequential),
    (abi::MPI_MODE_APPEND, |mode| &mut mode.append),
];

/// Converts the bits of an access mode.
fn mode_of(bits: c_int) -> Result<Amode> {
    let (mut mode, mut known) = (Amode::default(), 0);
    for (bit, place) in BITS {
        *place(&mut mode) = bits & bit != 0;
        known |= bit;
    }
    match bits & !known {
        0 => Ok(mode),
        unknown => Err(Error::new(
            Class::Amode,
            format!(
                "amode has bits {unknown:#x} that are no access mode; add up MPI_MODE_ constants"
            ),
        )),
    }
}

/// Returns a file name argument.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn name_of(name: *const c_char) -> Result<PathBuf> {
    if name.is_null() {
        return Err(Error::new(
            Class::Arg,
            "filename is NULL; it must be the path of a file",
        ));
    }
    // SAFETY: not NULL, and then a string by the contract of this function.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// `MPI_File_open` (section 13.2.1).
pub unsafe fn file_open(
    comm: LiveComm,
    filename: *const c_char,
    amode: c_int,
    Late(info, call): Late<MPI_Info>,
    fh: *mut MPI_File,
) -> Result<()> {
    let runtime = comm.runtime;
    let comm = &comm.comm;
    if !fh.is_null() {
        // If opening fails, the variable has the null handle.
        // SAFETY: `fh` is not null, and then valid for writes (output arguments, chapter of the module `api`).
        unsafe { fh.write(MPI_FILE_NULL) };
    }
    if comm.remote().is_some() {
        let why = "comm is an intercommunicator; files are opened by intracommunicators only";
        return Err(Error::new(Class::Comm, why));
    }
    let opening = || {
        if fh.is_null() {
            return Err(null("fh"));
        }
        Ok(Opening {
            // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
            name: unsafe { name_of(filename)? },
            amode: mode_of(amode)?,
            info: infos::hints(info, call)?.map(|info| info.dup()),
        })
    };
    let file = File::open(&runtime.process, comm, opening())?;
    let errhandler = runtime.file_errhandler.lock().clone();
    let handle = files::insert(FileObject {
        file: Arc::new(file),
        errhandler: Mutex::new(errhandler),
    })?;
    // SAFETY: not NULL, and then valid by the contract of this function.
    unsafe { fh.write(handle) };
    Ok(())
}

/// `MPI_File_close` (section 13.2.2).
pub unsafe fn file_close(fh: *mut MPI_File) -> Result<()> {
    let process = &runtime()?.process;
    if fh.is_null() {
        return Err(null("fh"));
    }
    // SAFETY: not NULL, and then valid by the contract of this function.
    let handle = unsafe { fh.read() };
    let object = files::hold(handle)?;
    let closed = object.file.close(process);
    if let Err(error) = &closed
        && error.class() == Class::Other
    {
        return closed;
    }
    files::remove(handle)?;
    drop(object);
    // SAFETY: `fh` is not NULL, and so valid for writes (output arguments, chapter of the module
    // `api`).
    unsafe { fh.write(MPI_FILE_NULL) };
    destructors::run();
    closed
}

/// `MPI_File_delete` (section 13.2.3).
pub unsafe fn file_delete(filename: *const c_char, _: Option<&Info>) -> Result<()> {
    runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe { name_of(filename)? };
    mpi_io::delete(&name)
}

/// `MPI_File_set_size` and `MPI_File_preallocate` (sections 13.2.4 and 13.2.5).
pub fn file_set_size(preallocates: bool, fh: LiveFile, size: MPI_Offset) -> Result<()> {
    let process = &fh.runtime.process;
    fh.file.set_size(process, size, preallocates)
}

/// `MPI_File_get_size` (section 13.2.6).
pub fn file_get_size(fh: LiveFile, size: Out<MPI_Offset>) -> Result<()> {
    let bytes = fh.file.size()?;
    size.set(bytes);
    Ok(())
}

/// `MPI_File_get_group` (section 13.2.7).
pub fn file_get_group(fh: LiveFile, group: Out<MPI_Group>) -> Result<()> {
    let object = fh.object;
    group.set(groups::insert(object.file.group().clone())?);
    Ok(())
}

/// `MPI_File_get_amode` (section 13.2.7).
pub fn file_get_amode(fh: LiveFile, amode: Out<c_int>) -> Result<()> {
    let mut mode = fh.file.amode();
    let bits = BITS.iter().filter(|(_, place)| *place(&mut mode));
    amode.set(bits.fold(0, |all, (bit, _)| all | bit));
    Ok(())
}

/// `MPI_File_set_info` (section 13.2.8).
pub fn file_set_info(fh: LiveFile, Late(info, call): Late<MPI_Info>) -> Result<()> {
    let process = &fh.runtime.process;
    fh.file.set_info(process, infos::hints(info, call))
}

/// `MPI_File_get_info` (section 13.2.8).
pub fn file_get_info(fh: LiveFile, info_used: Out<MPI_Info>) -> Result<()> {
    let info = fh.object.file.info()?;
    info.set("mpi_memory_alloc_kinds", MEMORY_KINDS)?;
    info_used.set(infos::insert(info)?);
    Ok(())
}

/// `MPI_File_set_atomicity` (section 13.6.1).
pub fn file_set_atomicity(fh: LiveFile, flag: c_int) -> Result<()> {
    let process = &fh.runtime.process;
    fh.file.set_atomicity(process, flag != 0)
}

/// `MPI_File_get_atomicity` (section 13.6.1).
pub fn file_get_atomicity(fh: LiveFile, flag: Out<c_int>) -> Result<()> {
    let atomic = fh.file.atomicity();
    flag.set(c_int::from(atomic));
    Ok(())
}

/// `MPI_File_sync` (section 13.6.1).
pub fn file_sync(fh: LiveFile) -> Result<()> {
    let process = &fh.runtime.process;
    fh.file.sync(process)
}

/// Returns the name of a data representation; an impossible one is an error of class `wrong`.
///
/// # Safety
/// `name` is NULL or a string.
pub(super) unsafe fn datarep_name<'a>(name: *const c_char, wrong: Class) -> Result<&'a [u8]> {
    if name.is_null() {
        return Err(Error::new(
            Class::Arg,
            "datarep is NULL; it must be the name of a data representation",
        ));
    }
    // SAFETY: not NULL, and then a string by the contract of this function.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    match bytes.len() < MPI_MAX_DATAREP_STRING as usize && !bytes.is_empty() {
        true => Ok(bytes),
        false => Err(Error::new(
            wrong,
            format!(
                "datarep has {} characters; it must have 1 to {}",
                bytes.len(),
                MPI_MAX_DATAREP_STRING - 1
            ),
        )),
    }
}
