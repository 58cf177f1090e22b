//! Files: the calls that benchmarks of them make.

use std::ffi::{CString, c_int};
use std::path::Path;

use super::constants::{BYTE, INFO_NULL, STATUS_IGNORE};
use super::entry::Request;
use super::file_table::Handle;
use super::table::Table;
use super::world::{World, check, count};
use crate::error::{Error, Result};

/// `MPI_MODE_CREATE | MPI_MODE_RDWR`.
const CREATE_AND_USE: c_int = 1 | 8;

/// Which access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `MPI_File_write_at`, or `MPI_File_write_at_all` where `together`.
    Write {
        /// By all ranks.
        together: bool,
    },
    /// `MPI_File_read_at`, or `MPI_File_read_at_all` where `together`.
    Read {
        /// By all ranks.
        together: bool,
    },
}

/// An open file.
pub struct SharedFile {
    table: &'static Table,
    handle: Handle,
}

/// An access that is under way.
pub struct Access<'a> {
    table: &'static Table,
    request: Request,
    _data: &'a mut [u8],
}

fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(format!("{} holds a NUL", path.display())))
}

impl SharedFile {
    /// `MPI_File_open`, for reading and writing; the file is made if it is not there.
    pub fn open(world: &World, path: &Path) -> Result<Self> {
        let table = world.table();
        let (open, path) = (table.files.open.get()?, c_path(path)?);
        let mut handle = std::ptr::null_mut();
        // SAFETY: a string and room for a handle, both local.
        let code = unsafe {
            open(
                world.handle(),
                path.as_ptr(),
                CREATE_AND_USE,
                INFO_NULL,
                &mut handle,
            )
        };
        check("MPI_File_open", code)?;
        Ok(Self { table, handle })
    }

    /// `MPI_File_delete`.
    pub fn delete(world: &World, path: &Path) -> Result<()> {
        let (delete, path) = (world.table().files.delete.get()?, c_path(path)?);
        // SAFETY: a string.
        check("MPI_File_delete", unsafe {
            delete(path.as_ptr(), INFO_NULL)
        })
    }

    /// Shows every `of`th block of `block` bytes, from number `first` on.
    pub fn view_blocks(&self, block: usize, first: usize, of: usize, blocks: usize) -> Result<()> {
        let files = &self.table.files;
        let (vector, commit) = (files.type_vector.get()?, files.type_commit.get()?);
        let (free, set_view) = (files.type_free.get()?, files.set_view.get()?);
        let (length, stride) = (count(block)?, count(block * of)?);
        let mut datatype = 0;
        // SAFETY: room for a datatype, which is committed, used and freed; a string.
        unsafe {
            let code = vector(count(blocks)?, length, stride, BYTE, &mut datatype);
            check("MPI_Type_vector", code)?;
            check("MPI_Type_commit", commit(&mut datatype))?;
            let code = set_view(
                self.handle,
                (block * first) as i64,
                BYTE,
                datatype,
                c"native".as_ptr(),
                INFO_NULL,
            );
            check("MPI_File_set_view", code)?;
            check("MPI_Type_free", free(&mut datatype))
        }
    }

    /// Reads or writes at an offset of the view.
    pub fn access(&self, way: Way, offset: u64, data: &mut [u8]) -> Result<()> {
        let files = &self.table.files;
        let (name, entry) = match way {
            Way::Write { together: false } => ("MPI_File_write_at", &files.write_at),
            Way::Write { together: true } => ("MPI_File_write_at_all", &files.write_at_all),
            Way::Read { together: false } => ("MPI_File_read_at", &files.read_at),
            Way::Read { together: true } => ("MPI_File_read_at_all", &files.read_at_all),
        };
        let (access, length) = (entry.get()?, count(data.len())?);
        let start = data.as_mut_ptr().cast();
        // SAFETY: memory of that length that nobody else uses.
        let code = unsafe {
            access(
                self.handle,
                offset as i64,
                start,
                length,
                BYTE,
                STATUS_IGNORE,
            )
        };
        check(name, code)
    }

    /// `MPI_File_write_shared`.
    pub fn append(&self, data: &mut [u8]) -> Result<()> {
        let write = self.table.files.write_shared.get()?;
        let (start, length) = (data.as_mut_ptr().cast(), count(data.len())?);
        // SAFETY: as in `access`.
        let code = unsafe { write(self.handle, start, length, BYTE, STATUS_IGNORE) };
        check("MPI_File_write_shared", code)
    }

    /// `MPI_File_iwrite_at_all`.
    pub fn start_write<'a>(&self, offset: u64, data: &'a mut [u8]) -> Result<Access<'a>> {
        let write = self.table.files.iwrite_at_all.get()?;
        let (start, length) = (data.as_mut_ptr().cast(), count(data.len())?);
        let mut request = 0;
        // SAFETY: the memory is lent to the access until it is waited for.
        let code = unsafe {
            write(
                self.handle,
                offset as i64,
                start,
                length,
                BYTE,
                &mut request,
            )
        };
        check("MPI_File_iwrite_at_all", code)?;
        Ok(Access {
            table: self.table,
            request,
            _data: data,
        })
    }

    /// `MPI_File_close`.
    pub fn close(mut self) -> Result<()> {
        let close = self.table.files.close.get()?;
        // SAFETY: a handle of ours, not used again.
        check("MPI_File_close", unsafe { close(&mut self.handle) })
    }
}

impl Access<'_> {
    /// `MPI_Wait`.
    pub fn wait(mut self) -> Result<()> {
        let wait = self.table.wait.get()?;
        // SAFETY: a request of ours; its memory is still lent.
        check("MPI_Wait", unsafe {
            wait(&mut self.request, STATUS_IGNORE)
        })
    }
}
