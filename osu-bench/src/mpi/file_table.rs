//! The functions of files.

use std::ffi::{c_char, c_int, c_void};

use libloading::os::unix::Library;

use super::entry::{Entry, Request};

/// An `MPI_File`, which is a pointer in this ABI.
pub type Handle = *mut c_void;

/// `MPI_File_open`: communicator, name, access mode, hints, file.
type Open = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int, *mut Handle) -> c_int;
/// `MPI_File_close`.
pub type Close = unsafe extern "C" fn(*mut Handle) -> c_int;
/// `MPI_File_delete`: name, hints.
pub type Delete = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
/// `MPI_File_set_view`: file, displacement, etype, filetype, representation, hints.
pub type SetView = unsafe extern "C" fn(Handle, i64, c_int, c_int, *const c_char, c_int) -> c_int;
/// `MPI_File_write_at`, `MPI_File_read_at` and their `_all` forms: file, offset, buffer, count, datatype,
/// status.
pub type At = unsafe extern "C" fn(Handle, i64, *mut c_void, c_int, c_int, *mut c_void) -> c_int;
/// `MPI_File_write_shared`: file, buffer, count, datatype, status.
pub type Shared = unsafe extern "C" fn(Handle, *mut c_void, c_int, c_int, *mut c_void) -> c_int;
/// `MPI_File_iwrite_at_all`: as [`At`] with a request in the status's place.
pub type IAt = unsafe extern "C" fn(Handle, i64, *mut c_void, c_int, c_int, *mut Request) -> c_int;
/// `MPI_Type_vector`: count, block length, stride, datatype, new datatype.
pub type Vector = unsafe extern "C" fn(c_int, c_int, c_int, c_int, *mut c_int) -> c_int;
/// `MPI_Type_commit`, `MPI_Type_free`.
pub type TypeOne = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The functions; each field is the one of its name.
pub struct FileTable {
    pub open: Entry<Open>,
    pub close: Entry<Close>,
    pub delete: Entry<Delete>,
    pub set_view: Entry<SetView>,
    pub write_at: Entry<At>,
    pub read_at: Entry<At>,
    pub write_at_all: Entry<At>,
    pub read_at_all: Entry<At>,
    pub write_shared: Entry<Shared>,
    pub iwrite_at_all: Entry<IAt>,
    pub type_vector: Entry<Vector>,
    pub type_commit: Entry<TypeOne>,
    pub type_free: Entry<TypeOne>,
}

impl FileTable {
    /// Looks them up.
    pub(super) fn find(library: &'static Library) -> Self {
        // SAFETY: each field's type is the C prototype of the function named beside it.
        unsafe {
            Self {
                open: Entry::find(library, "MPI_File_open"),
                close: Entry::find(library, "MPI_File_close"),
                delete: Entry::find(library, "MPI_File_delete"),
                set_view: Entry::find(library, "MPI_File_set_view"),
                write_at: Entry::find(library, "MPI_File_write_at"),
                read_at: Entry::find(library, "MPI_File_read_at"),
                write_at_all: Entry::find(library, "MPI_File_write_at_all"),
                read_at_all: Entry::find(library, "MPI_File_read_at_all"),
                write_shared: Entry::find(library, "MPI_File_write_shared"),
                iwrite_at_all: Entry::find(library, "MPI_File_iwrite_at_all"),
                type_vector: Entry::find(library, "MPI_Type_vector"),
                type_commit: Entry::find(library, "MPI_Type_commit"),
                type_free: Entry::find(library, "MPI_Type_free"),
            }
        }
    }
}
