//! Puts and gets in another process of this node: small ones by request to the target, others by CMA copies.

use crate::copied::deferred::{Deferred, SmallAccess};
use crate::window::members::Copied;
use crate::window::transfer::{TargetMemory, Transfer};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

impl TargetMemory for Copied {
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: the origin's buffer is readable by this function's contract.
        let data = unsafe { transfer.origin.packed() };
        let access = Deferred {
            what: SmallAccess::Put,
            at: transfer.at,
            input: &data,
            output: (std::ptr::null_mut(), 0),
        };
        // SAFETY: a put has no output; `data` is as long as the target's data (`Window::check`).
        unsafe {
            if !offer(transfer, access)? {
                self.copy_blocks(transfer, true, data.as_ptr().cast_mut())?;
            }
        }
        Ok(None)
    }

    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        let Transfer { origin, at, .. } = transfer;
        let len = origin.len();
        let Some(data) = origin.contiguous() else {
            let mut data = vec![0; len];
            // SAFETY: `data` is as long as the target's data (`Window::check`); the origin's buffer
            // is writable by this function's contract.
            unsafe {
                self.copy_blocks(transfer, false, data.as_mut_ptr())?;
                origin.unpack(&data);
            }
            return Ok(None);
        };
        let access = Deferred {
            what: SmallAccess::Get,
            at: *at,
            input: &[],
            output: (data, len),
        };
        // SAFETY: the origin's buffer, of `len` bytes, is writable by this function's contract.
        unsafe {
            if !offer(transfer, access)? {
                self.copy_blocks(transfer, false, data)?;
            }
        }
        Ok(None)
    }
}

/// Offers a transfer to its target.
///
/// # Safety
/// That of [`Window::offer`](crate::window::Window::offer).
unsafe fn offer(transfer: &Transfer<'_>, access: Deferred<'_>) -> Result<bool> {
    let Transfer { window, target, .. } = transfer;
    // SAFETY: the output is writable, and not used before the access is complete (`Window::offer`).
    unsafe { window.offer(transfer.process, target, access, transfer.completion) }
}

impl Copied {
    /// Copies packed data between `data` and the target's memory.
    ///
    /// # Safety
    /// `data` is as long as the target's data, which lies within its memory.
    unsafe fn copy_blocks(self, transfer: &Transfer<'_>, write: bool, data: *mut u8) -> Result<()> {
        let Transfer { window, target, .. } = transfer;
        let (process, rank) = (transfer.process, target.rank);
        let mut done = 0;
        for (at, len) in window.runs(target, transfer.at) {
            let address = self.0.wrapping_add(at as u64);
            let local = data.wrapping_add(done);
            // SAFETY: `done + len` is at most the length of the target's data, which is that of
            // `data` by this function's contract.
            unsafe { window.copy_by_kernel(process, rank, write, (local, len), address)? };
            done += len;
        }
        Ok(())
    }
}
