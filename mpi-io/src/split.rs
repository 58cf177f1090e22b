//! Split collective access (MPI-3.1 section 13.4.5).

use std::sync::Arc;

use mpi_core::{Process, RequestId, Status};
use mpi_types::{Class, Error, Result};

use crate::direction::Direction;
use crate::file::{At, File};
use crate::memory::Memory;

/// A pair of split collective functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the names are the standard's, MPI_File_*_begin"
)]
pub enum SplitKind {
    ReadAtAll,
    WriteAtAll,
    ReadAll,
    WriteAll,
    ReadOrdered,
    WriteOrdered,
}

impl SplitKind {
    fn name(self) -> &'static str {
        match self {
            SplitKind::ReadAtAll => "MPI_File_read_at_all",
            SplitKind::WriteAtAll => "MPI_File_write_at_all",
            SplitKind::ReadAll => "MPI_File_read_all",
            SplitKind::WriteAll => "MPI_File_write_all",
            SplitKind::ReadOrdered => "MPI_File_read_ordered",
            SplitKind::WriteOrdered => "MPI_File_write_ordered",
        }
    }

    fn direction(self) -> Direction {
        match self {
            SplitKind::ReadAtAll | SplitKind::ReadAll | SplitKind::ReadOrdered => Direction::Read,
            _ => Direction::Write,
        }
    }
}

/// A split access that has begun.
pub(crate) struct Split {
    kind: SplitKind,
    buffer: usize,
    request: RequestId,
}

impl File {
    /// Refuses a collective access during a split one.
    pub(crate) fn demand_no_split(&self) -> Result<()> {
        match &*self.split.lock() {
            None => Ok(()),
            Some(split) => Err(Error::new(
                Class::Io,
                format!(
                    "{}_begin is under way on the file; call {0}_end first",
                    split.kind.name()
                ),
            )),
        }
    }

    /// Begins a split access; all members call it. [`File::end`] reports later errors.
    ///
    /// # Errors
    /// The access mode forbids it or the arguments are wrong. Nothing has begun then.
    pub fn begin(
        self: &Arc<File>,
        process: &Process,
        owner: u32,
        kind: SplitKind,
        offset: i64,
        memory: Result<Memory>,
    ) -> Result<()> {
        let buffer = memory.as_ref().map_or(0, |memory| memory.start.addr());
        let at = match kind {
            SplitKind::ReadAtAll | SplitKind::WriteAtAll => At::Explicit(offset),
            SplitKind::ReadAll | SplitKind::WriteAll => At::Individual,
            SplitKind::ReadOrdered | SplitKind::WriteOrdered => At::Shared,
        };
        let request = self.start_all(process, owner, at, memory, kind.direction(), true)?;
        *self.split.lock() = Some(Split {
            kind,
            buffer,
            request,
        });
        Ok(())
    }

    /// Ends a split access.
    ///
    /// # Errors
    /// `MPI_ERR_IO` if none or another one has begun; `MPI_ERR_BUFFER` for another buffer; those of
    /// the access, which has ended then.
    pub fn end(&self, process: &Process, kind: SplitKind, buffer: *const u8) -> Result<Status> {
        let mut split = self.split.lock();
        let request = match &*split {
            None => {
                let why = format!("there was no {}_begin on the file", kind.name());
                return Err(Error::new(Class::Io, why));
            }
            Some(begun) if begun.kind != kind => {
                let why = format!(
                    "{}_begin is under way on the file; it is ended by {0}_end",
                    begun.kind.name()
                );
                return Err(Error::new(Class::Io, why));
            }
            Some(begun) if begun.buffer != buffer.addr() => {
                let why = format!(
                    "buf is {buffer:p}, but {}_begin was given {:#x}; give the same buffer",
                    kind.name(),
                    begun.buffer
                );
                return Err(Error::new(Class::Buffer, why));
            }
            Some(begun) => begun.request,
        };
        *split = None;
        drop(split);
        process.wait_for(request)?;
        match process.finish(request)? {
            (_, Some(error)) => Err(error),
            (status, None) => Ok(status),
        }
    }
}
