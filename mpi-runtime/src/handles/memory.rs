//! `MPI_Alloc_mem` (section 8.2).
//!
//! Large allocations come from memory that processes of this node can map, so that windows created
//! on them are as fast as windows that MPI allocates.

use std::alloc::{Layout, alloc, dealloc};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};

use crate::lifecycle::runtime::Runtime;

/// Minimum alignment in bytes: a cache line. A hint may ask for more.
const ALIGN: usize = 64;
const MAX_ALIGN: usize = 1 << 30;

/// Smallest shared allocation, in bytes; below, whole pages would be a waste.
const SHARED: usize = 1 << 16;
/// Alignment of shared memory in bytes.
const PAGE: usize = 4096;

/// Allocates `size` bytes with the alignment of the hint `mpi_minimum_memory_alignment`.
///
/// # Errors
/// `MPI_ERR_NO_MEM` if the memory is not available.
pub fn allocate(runtime: &Runtime, size: usize, info: Option<&Info>) -> Result<*mut u8> {
    let hint = info.and_then(|info| info.hint("mpi_minimum_memory_alignment"));
    let hint = hint.and_then(|text| text.parse().ok());
    let align = hint.filter(|hint: &usize| hint.is_power_of_two() && *hint <= MAX_ALIGN);
    if size >= SHARED
        && runtime.shared_alloc
        && align.is_none_or(|align| align <= PAGE)
        && let Ok(piece) = mpi_rma::alloc_shared(&runtime.process, size)
    {
        return Ok(piece);
    }
    let layout = Layout::from_size_align(size.max(1), align.unwrap_or(1).max(ALIGN));
    // SAFETY: the layout's size is at least 1.
    let piece = layout.ok().map(|layout| (layout, unsafe { alloc(layout) }));
    match piece {
        Some((layout, piece)) if !piece.is_null() => {
            runtime.pieces.lock().insert(piece.addr(), layout);
            Ok(piece)
        }
        _ => Err(Error::new(
            Class::NoMem,
            format!("cannot allocate {size} bytes; ask for less, or free memory"),
        )),
    }
}

/// Frees memory that [`allocate`] returned.
///
/// # Errors
/// `MPI_ERR_BASE` for any other address.
///
/// # Safety
/// The memory is not used any more.
pub unsafe fn free(runtime: &Runtime, piece: *mut u8) -> Result<()> {
    // SAFETY: the caller of this function guarantees that the memory is not used any more.
    if unsafe { mpi_rma::free_shared(&runtime.process, piece) } {
        return Ok(());
    }
    let Some(layout) = runtime.pieces.lock().remove(&piece.addr()) else {
        return Err(Error::new(
            Class::Base,
            format!("{piece:p} is not an address returned by MPI_Alloc_mem, or has been freed"),
        ));
    };
    // SAFETY: the map has the layout with which this address was allocated; removing the entry
    // makes this the only call for it.
    unsafe { dealloc(piece, layout) };
    Ok(())
}
