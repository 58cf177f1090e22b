//! Data representations that the program has registered (section 13.5.3).

use std::ffi::c_int;
use std::sync::Arc;

use mpi_core::datatype::Datatype;
use mpi_core::{Class, Error, Result};
use mpi_init::text;
use mpi_io::{Conversions, Representation};
use mpi_objects::types;

use crate::abi::{MPI_Aint, MPI_DATATYPE_NULL, MPI_Datatype, MPI_SUCCESS};
use crate::datarep_object::{Functions, Registered};
use crate::library::LIBRARY;
use crate::outward::Outward;

/// Registers one.
///
/// # Errors
/// `MPI_ERR_DUP_DATAREP` if there is one of this name.
pub fn register(name: &[u8], functions: Functions) -> Result<()> {
    let text = text::of(name);
    let mut all = LIBRARY.datareps.lock();
    if Representation::predefined(name).is_some() || all.iter().any(|one| one.name == text) {
        let why = format!("there is a data representation \"{text}\" already; choose another name");
        return Err(Error::new(Class::DupDatarep, why));
    }
    all.push(Registered {
        name: text,
        functions: Arc::new(functions),
    });
    Ok(())
}

/// The representation of a name.
///
/// # Errors
/// `MPI_ERR_UNSUPPORTED_DATAREP` if there is none.
pub fn find(name: &[u8]) -> Result<Representation> {
    if let Some(predefined) = Representation::predefined(name) {
        return Ok(predefined);
    }
    let text = text::of(name);
    let all = LIBRARY.datareps.lock();
    match all.iter().find(|one| one.name == text) {
        Some(one) => Ok(Representation::User(
            one.name.clone(),
            one.functions.clone(),
        )),
        None => Err(Error::new(
            Class::UnsupportedDatarep,
            format!(
                "there is no data representation \"{text}\"; there are native, internal, external32 and \
                 those registered by MPI_Register_datarep"
            ),
        )),
    }
}

/// Calls the program's function with a handle of the datatype.
fn with_handle<T>(datatype: &Datatype, call: impl FnOnce(MPI_Datatype) -> Result<T>) -> Result<T> {
    types::with_handle(datatype, MPI_DATATYPE_NULL, call)?
}

fn returned(what: &str, code: c_int) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(Error::new(
            Class::User(code),
            format!("the {what} function of a data representation returned {code}"),
        )),
    }
}

impl Conversions for Functions {
    fn file_extent(&self, datatype: &Datatype) -> Result<i64> {
        with_handle(datatype, |handle| {
            let mut extent: MPI_Aint = 0;
            // SAFETY: the program gave it as such a function; the extent is a local variable.
            let code =
                unsafe { (self.extent)(Outward::datatype(handle), &raw mut extent, self.extra) };
            returned("extent", code).map(|()| extent as i64)
        })
    }

    unsafe fn convert_write(
        &self,
        memory: *const u8,
        datatype: &Datatype,
        count: usize,
        file: &mut [u8],
    ) -> Result<()> {
        let Some(write) = self.write else {
            return plain(datatype, count, file.len(), || {
                // SAFETY: the caller's contract; both are as long.
                unsafe { datatype.pack(memory, count, 0, file) };
            });
        };
        with_handle(datatype, |handle| {
            let (user, file) = (memory.cast_mut().cast(), file.as_mut_ptr().cast());
            // SAFETY: the program gave it as such a function; it reads the elements and writes as much as
            // its extent function has said.
            let code = unsafe { write.call(user, handle, count, file, self.extra)? };
            returned("write conversion", code)
        })
    }

    unsafe fn convert_read(
        &self,
        memory: *mut u8,
        datatype: &Datatype,
        count: usize,
        file: &[u8],
    ) -> Result<()> {
        let Some(read) = self.read else {
            return plain(datatype, count, file.len(), || {
                // SAFETY: the caller's contract; both are as long.
                unsafe { datatype.unpack(memory, count, 0, file) };
            });
        };
        with_handle(datatype, |handle| {
            let file = file.as_ptr().cast_mut().cast();
            // SAFETY: as for `convert_write`, the other way round.
            let code = unsafe { read.call(memory.cast(), handle, count, file, self.extra)? };
            returned("read conversion", code)
        })
    }

    fn is_none(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }
}

/// Copies data that one direction leaves as it is, if it has the same length in the file.
fn plain(datatype: &Datatype, count: usize, len: usize, copy: impl FnOnce()) -> Result<()> {
    if len != datatype.size() * count {
        let why = "the data representation has no conversion function for this direction, but other \
                   lengths in the file than in memory";
        return Err(Error::new(Class::Conversion, why));
    }
    copy();
    Ok(())
}
