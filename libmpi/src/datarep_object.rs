//! What a data representation of the program's is (section 13.5.3).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_core::{Class, Error, Result};

use crate::abi::{
    MPI_Count, MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c,
    MPI_Datarep_extent_function, MPI_Datatype,
};
use crate::outward::Outward;

/// A conversion function of the program's.
#[derive(Clone, Copy)]
pub enum Conversion {
    /// One that is told the number of elements as an int.
    Int(MPI_Datarep_conversion_function),
    /// One that is told it as a large count (MPI-4.0 section 14.5.3).
    Large(MPI_Datarep_conversion_function_c),
}

impl Conversion {
    /// Converts `count` elements, all of them, between a buffer of the program's and the file's form.
    ///
    /// # Safety
    /// Both are as the standard asks for these elements.
    pub unsafe fn call(
        self,
        user: *mut c_void,
        datatype: MPI_Datatype,
        count: usize,
        file: *mut c_void,
        extra: *mut c_void,
    ) -> Result<c_int> {
        let datatype = Outward::datatype(datatype);
        // SAFETY: the caller's contract.
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

/// The functions of a representation, and what they are given.
#[derive(Clone, Copy)]
pub struct Functions {
    /// Converts what was read; none if nothing is to be converted (`MPI_CONVERSION_FN_NULL`).
    pub read: Option<Conversion>,
    /// Converts what is to be written; none as above.
    pub write: Option<Conversion>,
    /// Says how long a value is in the file.
    pub extent: MPI_Datarep_extent_function,
    /// Their last argument.
    pub extra: *mut c_void,
}

// SAFETY: the pointer is only handed to the functions, by threads that call MPI, for which the program
// gave them.
unsafe impl Send for Functions {}
// SAFETY: as above; nothing is changed.
unsafe impl Sync for Functions {}

/// A representation by its name.
pub struct Registered {
    pub name: String,
    pub functions: Arc<Functions>,
}

fn as_count(count: usize) -> Result<c_int> {
    c_int::try_from(count).map_err(|_| {
        let why = format!(
            "{count} elements are more than a conversion function can be told of; register the data \
             representation with MPI_Register_datarep_c, or access fewer at a time"
        );
        Error::new(Class::Count, why)
    })
}
