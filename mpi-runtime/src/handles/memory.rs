//! Memory for the program (section 8.2): large pieces in memory that processes of this node can map,
//! so that windows created of it are as quick as those that MPI allocates.

use std::alloc::{Layout, alloc, dealloc};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};

use crate::lifecycle::runtime::Runtime;

/// A cache line; what is asked for by hint may be more.
const ALIGN: usize = 64;
const MAX_ALIGN: usize = 1 << 30;

/// From so many bytes on memory is shared: below, whole pages would be a waste.
const SHARED: usize = 1 << 16;
/// So shared memory begins.
const PAGE: usize = 4096;

/// Allocates `size` bytes, aligned as the hint `mpi_minimum_memory_alignment` wants it.
///
/// # Errors
/// `MPI_ERR_NO_MEM` if there is not so much.
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
    // SAFETY: the layout's size is not zero.
    let piece = layout.ok().map(|layout| (layout, unsafe { alloc(layout) }));
    match piece {
        Some((layout, piece)) if !piece.is_null() => {
            runtime.pieces.lock().insert(piece.addr(), layout);
            Ok(piece)
        }
        _ => Err(Error::new(
            Class::NoMem,
            format!("{size} bytes of memory are not to be had; ask for less or free some"),
        )),
    }
}

/// Frees what [`allocate`] gave.
///
/// # Errors
/// `MPI_ERR_BASE` for any other address.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn free(runtime: &Runtime, piece: *mut u8) -> Result<()> {
    // SAFETY: as for this function.
    if unsafe { mpi_rma::free_shared(&runtime.process, piece) } {
        return Ok(());
    }
    let Some(layout) = runtime.pieces.lock().remove(&piece.addr()) else {
        return Err(Error::new(
            Class::Base,
            format!("{piece:p} is no address that MPI_Alloc_mem gave, or it has been freed"),
        ));
    };
    // SAFETY: this address was allocated with this layout, and is freed once only because it was
    // in the map.
    unsafe { dealloc(piece, layout) };
    Ok(())
}
