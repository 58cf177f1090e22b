//! The program's functions of a data representation (section 13.5.3).

use std::ffi::{c_int, c_void};

use mpi_core::datatype::Datatype;
use mpi_core::{Class, Error, Result};
use mpi_io::Conversions;
use mpi_runtime::handles::types;

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_DATATYPE_NULL, MPI_Datarep_conversion_function,
    MPI_Datarep_conversion_function_c, MPI_Datarep_extent_function, MPI_Datatype, MPI_SUCCESS,
};
use crate::outward::Outward;

/// A conversion function.
#[derive(Clone, Copy)]
pub enum Conversion {
    /// A function that takes the number of elements as `int`.
    Int(MPI_Datarep_conversion_function),
    /// A function that takes the number of elements as `MPI_Count` (MPI-4.0 section 14.5.3).
    Large(MPI_Datarep_conversion_function_c),
}

impl Conversion {
    /// Converts all of `count` elements between a buffer of the program and the file's
    /// representation.
    ///
    /// # Safety
    /// Both buffers are valid for these elements, as the standard requires.
    pub unsafe fn call(
        self,
        user: *mut c_void,
        datatype: MPI_Datatype,
        count: usize,
        file: *mut c_void,
        extra: *mut c_void,
    ) -> Result<c_int> {
        let datatype = Outward::datatype(datatype);
        // SAFETY: the caller of this function guarantees valid buffers for the program's function.
        Ok(unsafe {
            match self {
                Conversion::Int(function) => {
                    function(user, datatype, as_count(count)?, file, 0, extra)
                }
                Conversion::Large(function) => {
                    function(user, datatype, count as MPI_Count, file, 0, extra)
                }
            }
        })
    }
}

/// The functions of a representation with their extra state.
#[derive(Clone, Copy)]
pub struct Functions {
    /// Converts data that was read; `None` without conversion (`MPI_CONVERSION_FN_NULL`).
    pub read: Option<Conversion>,
    /// Converts data to be written; `None` without conversion.
    pub write: Option<Conversion>,
    /// Returns the bytes of a value in the file.
    pub extent: MPI_Datarep_extent_function,
    /// The last argument of all functions.
    pub extra: *mut c_void,
}

// SAFETY: the library passes the pointer only to the program's functions, in threads that call MPI,
// as the program agreed by registering them.
unsafe impl Send for Functions {}
// SAFETY: shared references only copy the pointers, and nothing is modified.
unsafe impl Sync for Functions {}

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
            // SAFETY: the program registered the function as an extent function; `extent` is a
            // local variable.
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
                // SAFETY: the caller guarantees the elements in `memory`; `file` is as long as
                // their packed form (`plain`).
                unsafe { datatype.pack(memory, count, 0, file) };
            });
        };
        with_handle(datatype, |handle| {
            let (user, file) = (memory.cast_mut().cast(), file.as_mut_ptr().cast());
            // SAFETY: the program registered the function as a conversion function; it reads the
            // elements, which the caller guarantees, and writes as many bytes as its extent
            // function returned, the length of `file`.
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
                // SAFETY: the caller guarantees space for the elements in `memory`; `file` is as
                // long as their packed form (`plain`).
                unsafe { datatype.unpack(memory, count, 0, file) };
            });
        };
        with_handle(datatype, |handle| {
            let file = file.as_ptr().cast_mut().cast();
            // SAFETY: the program registered the function as a conversion function; it reads
            // `file`, and writes the elements, for which the caller guarantees space.
            let code = unsafe { read.call(memory.cast(), handle, count, file, self.extra)? };
            returned("read conversion", code)
        })
    }

    fn is_none(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }
}

/// Copies data without conversion, if it has the same length in the file.
fn plain(datatype: &Datatype, count: usize, len: usize, copy: impl FnOnce()) -> Result<()> {
    if len != datatype.size() * count {
        let why = "the data representation has no conversion function for this direction, but its \
                   lengths in the file differ from those in memory";
        return Err(Error::new(Class::Conversion, why));
    }
    copy();
    Ok(())
}

fn as_count(count: usize) -> Result<c_int> {
    c_int::try_from(count).map_err(|_| {
        let why = format!(
            "{count} elements do not fit in the int of a conversion function; register the data \
             representation with MPI_Register_datarep_c, or access fewer at a time"
        );
        Error::new(Class::Count, why)
    })
}
