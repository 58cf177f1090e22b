//! Error codes, classes and their texts (sections 8.4 and 8.5).

use std::ffi::{CStr, c_int};

use mpi_core::{Class, Error, Result};
use mpi_runtime::settings::text;

use crate::abi::MPI_MAX_ERROR_STRING;
use crate::args::{Out, OutText};
use crate::codes;
use crate::codes::Removal;

/// `MPI_Error_class`.
pub fn error_class(errorcode: c_int, errorclass: Out<c_int>) -> Result<()> {
    let class = codes::class_of(errorcode).ok_or_else(|| unknown(errorcode))?;
    errorclass.set(class);
    Ok(())
}

/// `MPI_Error_string`.
pub fn error_string(
    errorcode: c_int,
    string: OutText<MPI_MAX_ERROR_STRING>,
    resultlen: Out<c_int>,
) -> Result<()> {
    let text = codes::text_of(errorcode).ok_or_else(|| unknown(errorcode))?;
    string.set(&text, &resultlen)
}

fn unknown(errorcode: c_int) -> Error {
    Error::new(
        Class::Arg,
        format!("{errorcode} is not an error code; pass what an MPI function returned"),
    )
}

/// `MPI_Add_error_class` (section 8.5).
pub fn add_error_class(errorclass: Out<c_int>) -> Result<()> {
    errorclass.set(codes::add_class());
    Ok(())
}

/// `MPI_Add_error_code` (section 8.5).
pub fn add_error_code(errorclass: c_int, errorcode: Out<c_int>) -> Result<()> {
    let code = codes::add_code(errorclass).ok_or_else(|| {
        Error::new(
            Class::Arg,
            format!("errorclass is {errorclass}, which is neither a predefined nor an added class"),
        )
    })?;
    errorcode.set(code);
    Ok(())
}

/// `MPI_Add_error_string` (section 8.5). An earlier text is replaced.
pub fn add_error_string(errorcode: c_int, string: &CStr) -> Result<()> {
    let (text, length) = (text::of(string.to_bytes()), string.count_bytes());
    if length >= MPI_MAX_ERROR_STRING as usize {
        return Err(Error::new(
            Class::Arg,
            format!(
                "string has {length} characters; it must be shorter than MPI_MAX_ERROR_STRING, {}",
                MPI_MAX_ERROR_STRING
            ),
        ));
    }
    if !codes::set_text(errorcode, text) {
        return Err(Error::new(
            Class::Arg,
            format!(
                "errorcode is {errorcode}; only classes and codes made by MPI_Add_error_class and \
                 MPI_Add_error_code can be given a string"
            ),
        ));
    }
    Ok(())
}

/// `MPI_Remove_error_class` (MPI-4.1 section 9.5). Codes of the class must have been removed
/// before.
pub fn remove_error_class(errorclass: c_int) -> Result<()> {
    let why = match codes::remove_class(errorclass) {
        Removal::Done => return Ok(()),
        Removal::Unknown => "which is not a class made by MPI_Add_error_class, or has been removed",
        Removal::InUse => "to which error codes belong; remove them by MPI_Remove_error_code first",
    };
    Err(Error::new(
        Class::Arg,
        format!("errorclass is {errorclass}, {why}"),
    ))
}

/// `MPI_Remove_error_code` (MPI-5.0 section 9.5). The string of the code must have been removed
/// before.
pub fn remove_error_code(errorcode: c_int) -> Result<()> {
    let why = match codes::remove_code(errorcode) {
        Removal::Done => return Ok(()),
        Removal::Unknown => "which is not a code made by MPI_Add_error_code, or has been removed",
        Removal::InUse => "which has a string; remove that by MPI_Remove_error_string first",
    };
    Err(Error::new(
        Class::Arg,
        format!("errorcode is {errorcode}, {why}"),
    ))
}

/// `MPI_Remove_error_string` (MPI-4.1 section 9.5).
pub fn remove_error_string(errorcode: c_int) -> Result<()> {
    match codes::remove_text(errorcode) {
        Removal::Done => Ok(()),
        _ => Err(Error::new(
            Class::Arg,
            format!(
                "errorcode is {errorcode}, which has no string that was added by \
                 MPI_Add_error_string"
            ),
        )),
    }
}
