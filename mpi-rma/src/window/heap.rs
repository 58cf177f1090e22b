//! Memory that the library takes for a window in this process alone.

use mpi_types::error::{Class, Error, Result};

pub(crate) const PAGE: usize = 4096;

/// Zeroed memory of this process alone, had when it is touched, and its length.
pub(crate) struct Heap(pub(crate) *mut u8, usize);

impl Heap {
    pub(crate) fn new(len: usize) -> Result<Heap> {
        // (What allocators give zeroed at the beginning of a page they have written to.)
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let len = len.max(1);
        // SAFETY: a new mapping, placed by the kernel.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::new(
                Class::NoMem,
                format!("{len} bytes of memory for a window are not to be had; ask for less"),
            ));
        }
        Ok(Heap(base.cast(), len))
    }

    /// Has the system find the memory now, and not when it is touched.
    pub(crate) fn touch(&self) {
        for at in (0..self.1).step_by(PAGE) {
            // SAFETY: within the memory, which is zero and nobody else's yet.
            unsafe { self.0.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and the window that used it is gone.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}
