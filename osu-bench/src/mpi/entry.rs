//! One function of an MPI library, which it may lack.

use std::ffi::c_int;

use libloading::os::unix::Library;

use crate::error::{Error, Result};

/// An `MPI_Request`.
pub type Request = c_int;

/// A function that the library may lack.
pub struct Entry<F> {
    name: &'static str,
    function: Option<F>,
}

impl<F: Copy> Entry<F> {
    /// Looks `name` up in `library`.
    ///
    /// # Safety
    /// `F` must be the type of the function of that name in the MPICH ABI.
    pub(super) unsafe fn find(library: &Library, name: &'static str) -> Self {
        // SAFETY: the caller vouches for the type; the address stays valid because the table
        // keeps the library open for good.
        let function = unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol);
        Self { name, function }
    }

    /// The function, or an error that names it.
    #[inline]
    pub fn get(&self) -> Result<F> {
        match self.function {
            Some(function) => Ok(function),
            None => Err(self.missing()),
        }
    }

    #[cold]
    fn missing(&self) -> Error {
        Error::new(format!(
            "the MPI library lacks {}, which this benchmark needs; run another benchmark or \
             choose another library with LD_LIBRARY_PATH",
            self.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_named() {
        let entry: Entry<unsafe extern "C" fn() -> i32> = Entry {
            name: "MPI_Barrier",
            function: None,
        };
        let text = entry
            .get()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(text.contains("lacks MPI_Barrier"), "{text}");
    }
}
