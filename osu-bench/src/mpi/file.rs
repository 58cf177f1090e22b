//! Files: the calls that benchmarks of them make.

use std::ffi::{CString, c_int};
use std::path::Path;

use super::constants::{BYTE, INFO_NULL, STATUS_IGNORE};
use super::table::{File, Request, Table, call};
use super::world::{World, count};
use crate::error::{Error, Result};

/// `MPI_MODE_CREATE | MPI_MODE_RDWR`.
const CREATE_AND_USE: c_int = 1 | 8;

/// An access by one rank alone, or by all ranks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub writes: bool,
    pub together: bool,
}

/// An open file.
pub struct SharedFile {
    table: &'static Table,
    handle: File,
}

/// A pending write.
pub struct Writing<'a> {
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
    /// `MPI_File_open` for reading and writing; creates the file if it is missing.
    pub fn open(world: &World, path: &Path) -> Result<Self> {
        let (table, path, comm) = (world.table(), c_path(path)?, world.handle());
        let (name, mode, mut handle) = (path.as_ptr(), CREATE_AND_USE, std::ptr::null_mut());
        // SAFETY: a string and a place for a handle, both local.
        unsafe { call!(table, file_open(comm, name, mode, INFO_NULL, &mut handle)) }?;
        Ok(Self { table, handle })
    }

    /// `MPI_File_delete`.
    pub fn delete(world: &World, path: &Path) -> Result<()> {
        let path = c_path(path)?;
        // SAFETY: a string.
        unsafe { call!(world.table(), file_delete(path.as_ptr(), INFO_NULL)) }
    }

    /// Sets a view of every `of`th block of `block` bytes, from number `first` on.
    pub fn view_blocks(&self, block: usize, first: usize, of: usize, blocks: usize) -> Result<()> {
        let (table, file, info) = (self.table, self.handle, INFO_NULL);
        let (n, length, stride) = (count(blocks)?, count(block)?, count(block * of)?);
        let (start, native, mut datatype) = ((block * first) as i64, c"native".as_ptr(), 0);
        // SAFETY: a place for a datatype, which is committed, used and freed; a string.
        unsafe {
            call!(table, type_vector(n, length, stride, BYTE, &mut datatype))?;
            call!(table, type_commit(&mut datatype))?;
            call!(
                table,
                file_set_view(file, start, BYTE, datatype, native, info)
            )?;
            call!(table, type_free(&mut datatype))
        }
    }

    /// Reads or writes at an offset of the view.
    pub fn access(&self, access: Access, offset: u64, data: &mut [u8]) -> Result<()> {
        let (table, file, at, status) = (self.table, self.handle, offset as i64, STATUS_IGNORE);
        let (start, n) = (data.as_mut_ptr().cast(), count(data.len())?);
        // SAFETY: the memory has n bytes, lent exclusively to this call.
        unsafe {
            match (access.writes, access.together) {
                (true, false) => call!(table, file_write_at(file, at, start, n, BYTE, status)),
                (true, true) => call!(table, file_write_at_all(file, at, start, n, BYTE, status)),
                (false, false) => call!(table, file_read_at(file, at, start, n, BYTE, status)),
                (false, true) => call!(table, file_read_at_all(file, at, start, n, BYTE, status)),
            }
        }
    }

    /// `MPI_File_write_shared`.
    pub fn append(&self, data: &mut [u8]) -> Result<()> {
        let (start, n) = (data.as_mut_ptr().cast(), count(data.len())?);
        // SAFETY: the memory has n bytes, lent exclusively to this call.
        unsafe {
            call!(
                self.table,
                file_write_shared(self.handle, start, n, BYTE, STATUS_IGNORE)
            )
        }
    }

    /// `MPI_File_iwrite_at_all`.
    pub fn start_write<'a>(&self, offset: u64, data: &'a mut [u8]) -> Result<Writing<'a>> {
        let (table, file, at) = (self.table, self.handle, offset as i64);
        let (start, n, mut request) = (data.as_mut_ptr().cast(), count(data.len())?, 0);
        // SAFETY: the memory is lent to the write until it is waited for.
        unsafe {
            call!(
                table,
                file_iwrite_at_all(file, at, start, n, BYTE, &mut request)
            )
        }?;
        Ok(Writing {
            table,
            request,
            _data: data,
        })
    }

    /// `MPI_File_close`.
    pub fn close(mut self) -> Result<()> {
        // SAFETY: an open file, not used again.
        unsafe { call!(self.table, file_close(&mut self.handle)) }
    }
}

impl Writing<'_> {
    /// `MPI_Wait`.
    pub fn wait(mut self) -> Result<()> {
        // SAFETY: a pending request; its memory is still lent.
        unsafe { call!(self.table, wait(&mut self.request, STATUS_IGNORE)) }
    }
}
