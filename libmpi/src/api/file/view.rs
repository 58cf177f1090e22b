//! Views and data representations (sections 13.3 and 13.5).

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use mpi_core::datatype::Datatype;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::datareps;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::settings::text;

use super::super::null;
use super::manage::datarep_name;
use crate::abi::{
    MPI_Aint, MPI_DISPLACEMENT_CURRENT, MPI_Datarep_conversion_function,
    MPI_Datarep_conversion_function_c, MPI_Datarep_extent_function, MPI_Datatype, MPI_Info,
    MPI_Offset,
};
use crate::api::datatype::handle_of;
use crate::args::{Late, LiveFile, Out};
use crate::datareps::{Conversion, Functions};

/// `MPI_File_set_view` (section 13.3).
pub unsafe fn file_set_view(
    fh: LiveFile,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: *const c_char,
    Late(info, call): Late<MPI_Info>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let hints = infos::hints(info, call);
    let arguments = || {
        let disp = match disp == MPI_Offset::from(MPI_DISPLACEMENT_CURRENT) {
            true => None,
            false => Some(disp),
        };
        let etype = types::object(etype, call)?.datatype.clone();
        let filetype = types::object(filetype, call)?.datatype.clone();
        // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
        let representation =
            datareps::find(unsafe { datarep_name(datarep, Class::UnsupportedDatarep)? })?;
        Ok((disp, etype, filetype, representation))
    };
    let (arguments, hints) = match hints {
        Ok(hints) => (arguments(), hints),
        Err(error) => (Err(error), None),
    };
    file.set_view(process, arguments, hints)
}

/// `MPI_File_get_view` (section 13.3). Handles of derived datatypes are new ones, to be freed.
pub unsafe fn file_get_view(
    fh: LiveFile,
    disp: Out<MPI_Offset>,
    etype: Out<MPI_Datatype>,
    filetype: Out<MPI_Datatype>,
    datarep: *mut c_char,
) -> Result<()> {
    let object = fh.object;
    if datarep.is_null() {
        return Err(null("datarep"));
    }
    let (displacement, unit, pattern, name) = object.file.view_arguments();
    let name = text::bytes(&name);
    disp.set(displacement);
    etype.set(handle_of(&unit)?);
    filetype.set(handle_of(&pattern)?);
    // SAFETY: by the contract of this function; the name was shorter than MPI_MAX_DATAREP_STRING
    // when it was given.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), datarep, name.len());
        datarep.add(name.len()).write(0);
    }
    Ok(())
}

/// `MPI_File_get_type_extent` (section 13.5).
pub fn file_get_type_extent(
    fh: LiveFile,
    datatype: &Datatype,
    extent: Out<MPI_Aint>,
) -> Result<()> {
    let object = fh.object;
    let bytes = object.file.type_extent(datatype)?;
    extent.set(bytes as MPI_Aint);
    Ok(())
}

/// `MPI_Register_datarep` (section 13.5.3).
pub unsafe fn register_datarep(
    datarep: *const c_char,
    read_conversion_fn: Option<MPI_Datarep_conversion_function>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let read = read_conversion_fn.map(Conversion::Int);
    let write = write_conversion_fn.map(Conversion::Int);
    // SAFETY: the functions are of their types and take this state (callbacks, chapter of the
    // module `api`); `datarep` is NULL or a string.
    unsafe { register(datarep, read, write, dtype_file_extent_fn, extra_state) }
}

/// `MPI_Register_datarep_c` (MPI-4.0 section 14.5.3).
pub unsafe fn register_datarep_c(
    datarep: *const c_char,
    read_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let read = read_conversion_fn.map(Conversion::Large);
    let write = write_conversion_fn.map(Conversion::Large);
    // SAFETY: the functions are of their types and take this state (callbacks, chapter of the
    // module `api`); `datarep` is NULL or a string.
    unsafe { register(datarep, read, write, dtype_file_extent_fn, extra_state) }
}

/// # Safety
/// `datarep` is a string or NULL.
unsafe fn register(
    datarep: *const c_char,
    read: Option<Conversion>,
    write: Option<Conversion>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe { datarep_name(datarep, Class::Arg)? };
    let Some(extent) = dtype_file_extent_fn else {
        let why = "dtype_file_extent_fn is NULL; a data representation needs it";
        return Err(Error::new(Class::Arg, why));
    };
    let functions = Functions {
        read,
        write,
        extent,
        extra: extra_state,
    };
    datareps::register(name, Arc::new(functions))
}
