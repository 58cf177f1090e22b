//! CMA copies between this process and a window's memory in another process of the node, with a
//! count, and accumulates by such copies.

use mpi_core::comm::cma;
use mpi_core::process::Process;
use mpi_types::error::{Class, Result};
use mpi_types::op::PredefinedOp;

use crate::window::Window;
use crate::window::apply::{LONGEST_COMPARED, Reduction};
use crate::window::registry::Windows;

/// Number of CMA copies of this process.
pub fn kernel_copies(process: &Process) -> u64 {
    process.source::<Windows>().kernel_copies()
}

impl Window {
    /// Copies `len` bytes from `local` to `address` in a target's memory (`write`), or back.
    ///
    /// # Errors
    /// The target's process has ended, or has no such memory.
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
        // SAFETY: `local` is valid for `len` bytes, and `address` is memory of the window
        // (# Safety).
        let copied = unsafe { cma::copy(process, &self.comm, target, write, local, len, address) };
        if let Err(error) = &copied
            && error.class() == Class::ProcFailed
        {
            // Records the loss, so that synchronization raises it, too.
            process.poll(self.comm.vci())?;
        }
        copied
    }
    /// Reduces `count` elements at `address` in a target's memory, under the target's lock.
    ///
    /// # Errors
    /// Those of [`Window::copy_by_kernel`].
    ///
    /// # Safety
    /// `input` and `output` are NULL or hold the elements in packed form, and the target's memory is
    /// the window's.
    pub(crate) unsafe fn reduce_by_kernel(
        &self,
        process: &Process,
        (target, address): (u32, u64),
        reduction: &Reduction,
        count: usize,
        (input, output): (*const u8, *mut u8),
    ) -> Result<()> {
        let (control, member) = (self.control()?, target as usize);
        let len = count * reduction.extent();
        let copy = |write: bool, local: *mut u8| {
            // SAFETY: `local` holds the elements: it is `input`, if these have no gaps, or `elements`.
            unsafe { self.copy_by_kernel(process, target, write, (local, len), address) }
        };
        if reduction.overwrites(output) {
            return control.with_busy(member, || copy(true, input.cast_mut()));
        }
        let mut elements = vec![0u8; len];
        let local = elements.as_mut_ptr();
        control.with_busy(member, || {
            copy(false, local)?;
            // SAFETY: all hold `count` elements, by this function's contract.
            unsafe { reduction.apply_exclusive(local, count, input, output) };
            match reduction.op {
                PredefinedOp::NoOp => Ok(()),
                _ => copy(true, local),
            }
        })
    }

    /// Compares and swaps an element of `size` bytes, up to [`LONGEST_COMPARED`], at `address` in a
    /// target's memory, under the target's lock. Returns the old value.
    ///
    /// # Errors
    /// Those of [`Window::copy_by_kernel`].
    ///
    /// # Safety
    /// The target's memory is the window's.
    pub(crate) unsafe fn swap_by_kernel(
        &self,
        process: &Process,
        (target, address): (u32, u64),
        [compare, new]: [u128; 2],
        size: usize,
    ) -> Result<u128> {
        let copy = |write: bool, local: *mut u8| {
            // SAFETY: `local` is an array of `LONGEST_COMPARED` bytes below.
            unsafe { self.copy_by_kernel(process, target, write, (local, size), address) }
        };
        self.control()?.with_busy(target as usize, || {
            let mut bytes = [0u8; LONGEST_COMPARED];
            copy(false, bytes.as_mut_ptr())?;
            let found = u128::from_le_bytes(bytes);
            if found == compare {
                copy(true, new.to_le_bytes().as_mut_ptr())?;
            }
            Ok(found)
        })
    }
}
