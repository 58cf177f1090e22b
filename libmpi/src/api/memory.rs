//! Memory allocation (section 8.2).

use std::ffi::c_void;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::memory;
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::MPI_Aint;
use crate::args::LateOut;

/// `MPI_Alloc_mem`.
pub fn alloc_mem(size: MPI_Aint, info: Option<&Info>, baseptr: LateOut<*mut c_void>) -> Result<()> {
    let runtime = runtime()?;
    let Ok(bytes) = usize::try_from(size) else {
        return Err(Error::new(
            Class::Arg,
            format!("size is {size}; it must be 0 or more"),
        ));
    };
    let baseptr = baseptr.demand()?;
    baseptr.set(memory::allocate(runtime, bytes, info)?.cast());
    Ok(())
}

/// `MPI_Free_mem`. NULL is ignored.
///
/// # Safety
/// The memory is not used any more.
pub unsafe fn free_mem(base: *mut c_void) -> Result<()> {
    let runtime = runtime()?;
    if base.is_null() {
        return Ok(());
    }
    // SAFETY: `base` comes from `MPI_Alloc_mem`, and the program uses it no more (section 8.2).
    unsafe { memory::free(runtime, base.cast()) }
}
