//! File pointers (MPI-3.1 section 13.4).

use mpi_core::Process;
use mpi_types::{Class, Error, Result};

use crate::agree;
use crate::file::File;
use crate::files::Files;
use crate::view::View;

/// The base of a new position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, MPI_SEEK_*")]
pub enum Whence {
    Set,
    Current,
    End,
}

impl File {
    /// Returns the position of an offset from `whence`, in etypes.
    fn target(&self, view: &View, offset: i64, whence: Whence, current: i64) -> Result<i64> {
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => current,
            Whence::End => {
                let size = self.size()?;
                view.etypes_before(size as u64)
            }
        };
        match base.checked_add(offset) {
            Some(target) if target >= 0 => Ok(target),
            _ => Err(Error::new(
                Class::Arg,
                format!(
                    "offset {offset} from {base} is before the beginning of the view or beyond 2^63; the \
                     position must be 0 or more"
                ),
            )),
        }
    }

    /// `MPI_File_seek`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a position before the view, `MPI_ERR_UNSUPPORTED_OPERATION` on a
    /// sequential file.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.demand_random("MPI_File_seek")?;
        // Other threads may move the pointer concurrently.
        self.change_individual(|view, current| {
            let target = self.target(view, offset, whence, current)?;
            view.position(target)?;
            Ok(target)
        })
    }

    /// `MPI_File_get_position`.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION` on a sequential file.
    pub fn position(&self) -> Result<i64> {
        self.demand_random("MPI_File_get_position")?;
        Ok(self.individual())
    }

    /// `MPI_File_get_byte_offset`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for an offset before the view. Sequential files allow the call, too (section
    /// 13.4.3).
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        let view = self.view();
        if offset < 0 {
            let why = format!("offset is {offset}; it must be 0 or more");
            return Err(Error::new(Class::Arg, why));
        }
        Ok(view.place(view.position(offset)?) as i64)
    }

    /// `MPI_File_seek_shared`; all members call it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a position before the view, `MPI_ERR_UNSUPPORTED_OPERATION` on a
    /// sequential file, and `MPI_ERR_NOT_SAME` if members differ.
    pub fn seek_shared(
        &self,
        process: &Process,
        offset: i64,
        whence: Result<Whence>,
    ) -> Result<()> {
        Files::settle(process, self)?;
        // Accesses that members made with the pointer before this call must be complete.
        agree::agree(process, self.comm(), Ok(()))?;
        let own = whence.and_then(|whence| {
            self.demand_random("MPI_File_seek_shared")?;
            let view = self.view();
            let target = self.target(&view, offset, whence, self.pointer().get()?)?;
            view.position(target)?;
            Ok((target, vec![offset as u64, whence as u64]))
        });
        let what = "offset or whence";
        let target = agree::same(process, self.comm(), what, own, 2)?;
        let set = match self.comm().rank() {
            0 => self.pointer().set(target),
            _ => Ok(()),
        };
        agree::agree(process, self.comm(), set)
    }

    /// `MPI_File_get_position_shared`.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION` on a sequential file.
    pub fn position_shared(&self) -> Result<i64> {
        self.demand_random("MPI_File_get_position_shared")?;
        self.pointer().get()
    }
}
