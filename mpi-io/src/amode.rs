//! Access modes (MPI-3.1 section 13.2.1).

use mpi_types::{Class, Error, Result};

/// The access mode: the constants of the standard as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, MPI_MODE_*")]
pub struct Amode {
    pub rdonly: bool,
    pub wronly: bool,
    pub rdwr: bool,
    pub create: bool,
    pub excl: bool,
    pub delete_on_close: bool,
    pub unique_open: bool,
    pub sequential: bool,
    pub append: bool,
}

impl Amode {
    /// Returns whether the program may write.
    pub fn can_write(self) -> bool {
        !self.rdonly
    }

    /// Returns whether the program may read.
    pub fn can_read(self) -> bool {
        !self.wronly
    }

    /// Checks the combination.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE`.
    pub fn check(self) -> Result<()> {
        let wrong = |why: &str| Err(Error::new(Class::Amode, why));
        let ways = [self.rdonly, self.wronly, self.rdwr];
        if ways.iter().filter(|way| **way).count() != 1 {
            return wrong(
                "amode must have exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR",
            );
        }
        if self.rdonly && (self.create || self.excl) {
            return wrong(
                "amode has MPI_MODE_CREATE or MPI_MODE_EXCL with MPI_MODE_RDONLY; open for writing to \
                 create a file",
            );
        }
        if self.rdwr && self.sequential {
            return wrong(
                "amode has MPI_MODE_SEQUENTIAL with MPI_MODE_RDWR; a sequential file is either read \
                 or written",
            );
        }
        Ok(())
    }

    /// Returns a number that identifies the mode.
    pub(crate) fn bits(self) -> u64 {
        let all = [
            self.rdonly,
            self.wronly,
            self.rdwr,
            self.create,
            self.excl,
            self.delete_on_close,
            self.unique_open,
            self.sequential,
            self.append,
        ];
        all.iter().fold(0, |bits, one| bits << 1 | u64::from(*one))
    }
}
