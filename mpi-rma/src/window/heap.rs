//! Private memory that the library allocates for a window.

use mpi_types::error::{Class, Error, Result};

pub(crate) const PAGE: usize = 4096;

/// Zeroed private memory, committed at first touch, and its length in bytes.
pub(crate) struct Heap(pub(crate) *mut u8, usize);

impl Heap {
    pub(crate) fn new(len: usize) -> Result<Heap> {
        // (An allocator writes its bookkeeping next to the memory; a mapping is zeroed whole
        // pages.)
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let len = len.max(1);
        // SAFETY: a new anonymous mapping, placed by the kernel.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::new(
                Class::NoMem,
                format!("cannot allocate {len} bytes for a window; ask for less"),
            ));
        }
        Ok(Heap(base.cast(), len))
    }

    /// Commits all pages now.
    pub(crate) fn touch(&self) {
        for at in (0..self.1).step_by(PAGE) {
            // SAFETY: within the mapping, which is still zero and not shared with anything.
            unsafe { self.0.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; `Window` drops its memory after everything that uses it.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}
