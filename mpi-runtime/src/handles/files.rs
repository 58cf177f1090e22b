//! Files by handle.
//!
//! The ABI's `MPI_File` is a pointer that programs never dereference. Its bits are an integer
//! handle like those of the other objects, so that invalid ones are detected in the same way.

use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::handles::handler::Attached;
use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_FILE_NULL, MPI_File};
use crate::handles::{HandleTable, Type, made_index};

#[cfg(feature = "io")]
pub use mpi_io::File;

/// A file of a library without files: there is none.
#[cfg(not(feature = "io"))]
pub enum File {}

/// A file with a handle.
pub struct FileObject {
    /// The file.
    pub file: Arc<File>,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
}

static MADE: HandleTable<FileObject> = HandleTable::new(Type::File);

/// Returns the integer handle in a pointer; 0, which is no handle, if it has more than 32 bits.
fn number(handle: MPI_File) -> i32 {
    u32::try_from(handle.addr()).unwrap_or(0) as i32
}

/// Returns the pointer for an integer handle.
fn pointer(number: i32) -> MPI_File {
    std::ptr::without_provenance_mut(number as u32 as usize)
}

/// Returns the file behind a handle.
pub fn get<'c>(handle: MPI_File, call: InCall<'c>) -> Result<&'c FileObject> {
    MADE.get(number(handle), call)
        .ok_or_else(|| invalid(handle))
}

/// Returns a reference that keeps the file alive over callbacks, which may close it.
pub fn hold(handle: MPI_File) -> Result<Arc<FileObject>> {
    MADE.get_arc(number(handle)).ok_or_else(|| invalid(handle))
}

/// Inserts a file. Returns its handle.
pub fn insert(object: FileObject) -> Result<MPI_File> {
    let number = MADE.insert(Arc::new(object)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 file handles are in use; close some",
        )
    })?;
    Ok(pointer(number))
}

/// Removes a file from the table.
pub fn remove(handle: MPI_File) -> Result<Arc<FileObject>> {
    MADE.remove(number(handle)).ok_or_else(|| invalid(handle))
}

/// Returns the number that requests on a file have as their owner.
pub fn owner(handle: MPI_File) -> u32 {
    number(handle) as u32
}

/// Returns the file that is the owner of a request, if a file is.
pub fn of_owner(owner: u32) -> Option<MPI_File> {
    let number = owner as i32;
    made_index(number, Type::File).map(|_| pointer(number))
}

#[cold]
fn invalid(handle: MPI_File) -> Error {
    let what = if handle == MPI_FILE_NULL {
        "fh is MPI_FILE_NULL".to_string()
    } else {
        format!("{handle:p} is not an open file; it was never opened, or has been closed")
    };
    Error::new(Class::File, what)
}
