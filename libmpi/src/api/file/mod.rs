//! Files (chapter 13).
//!
//! In collective calls a process with wrong arguments takes part by reporting them, because the
//! others would wait for it: the checks make a `Result` that is passed on. Errors that cannot be
//! reported without a file (an invalid handle) are returned at once.

mod access;
mod collective;
mod errhandler;
mod manage;
mod nonblocking;
mod pointers;
mod shared;
mod split;
mod view;

pub use access::*;
pub use collective::*;
pub use errhandler::*;
pub use manage::*;
use mpi_runtime::handles::types;
use mpi_runtime::requests;
pub use nonblocking::*;
pub use pointers::*;
pub use shared::*;
pub use split::*;
pub use view::*;

use std::ffi::c_void;

use mpi_core::{Class, Error, RequestId, Result, Status};
use mpi_io::Memory;

use crate::abi::{MPI_Count, MPI_Datatype, MPI_Request};
use crate::args::{Out, StatusOut};

/// Returns the data that a program describes as `buf, count, datatype`.
///
/// # Errors
/// Of class `Count`, `Type` or `Buffer`.
///
/// # Safety
/// The memory satisfies the contract of [`Memory::new`].
unsafe fn data(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Result<Memory> {
    let Ok(number) = usize::try_from(count) else {
        let why = format!("count is {count}; it must be 0 or more");
        return Err(Error::new(Class::Count, why));
    };
    let (_, datatype) = types::checked(0, datatype)?;
    datatype.total(number, 1)?;
    types::check_address(buf, number, datatype)?;
    // SAFETY: the caller's contract.
    Ok(unsafe { Memory::new(buf.cast_mut().cast(), number, datatype) })
}

/// Writes the status of an access.
fn tell(out: StatusOut, told: Result<Status>) -> Result<()> {
    out.set(&told?);
    Ok(())
}

/// Gives the program the request of an access that `start` starts.
fn give(request: Out<MPI_Request>, start: impl FnOnce() -> Result<RequestId>) -> Result<()> {
    request.set(requests::handle(Some(start()?)));
    Ok(())
}
