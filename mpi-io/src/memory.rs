//! The program's data in memory.

use mpi_core::Buffer;
use mpi_types::datatype::Datatype;

/// Elements in memory that are read or written.
pub struct Memory {
    pub(crate) buffer: Buffer,
    pub(crate) start: *mut u8,
    pub(crate) count: usize,
    pub(crate) datatype: Datatype,
}

// SAFETY: the program lends the memory to the library until the operation completes (MPI-3.1
// section 13.4.2), and no access depends on the thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Creates a description of `count` elements of a committed datatype at `start`, which may be
    /// NULL for none.
    ///
    /// # Safety
    /// The memory stays valid, for reading if it is written from and for writing if it is read to,
    /// and is not used otherwise, until the operation has completed.
    pub unsafe fn new(start: *mut u8, count: usize, datatype: &Datatype) -> Memory {
        Memory {
            // SAFETY: the caller of this function guarantees that the memory stays valid until the
            // operation completes.
            buffer: unsafe { Buffer::typed(start, count, datatype) },
            start,
            count,
            datatype: datatype.clone(),
        }
    }
}
