//! Copies by the kernel between this process and a window's memory in another of the node, counted.

use mpi_core::comm::cma;
use mpi_core::process::Process;
use mpi_types::error::{Class, Result};

use crate::window::Window;
use crate::window::registry::Windows;

/// How many the process has made.
pub fn kernel_copies(process: &Process) -> u64 {
    process.source::<Windows>().kernel_copies()
}

impl Window {
    /// Copies `len` bytes from `local` to `address` in a target's memory, or the other way round.
    ///
    /// # Errors
    /// The process is gone, or has no such memory.
    ///
    /// # Safety
    /// `local` is valid for as many bytes, and the target's memory is the window's.
    pub(crate) unsafe fn copy_by_kernel(
        &self,
        process: &Process,
        target: u32,
        write: bool,
        (local, len): (*mut u8, usize),
        address: u64,
    ) -> Result<()> {
        process.source::<Windows>().count_kernel_copy();
        // SAFETY: the caller's promise.
        let copied = unsafe { cma::copy(process, &self.comm, target, write, local, len, address) };
        if let Err(error) = &copied
            && error.class() == Class::ProcFailed
        {
            // Takes note of the loss, so that synchronization raises it, too.
            process.poll(self.comm.vci())?;
        }
        copied
    }
}
