//! Put and get (sections 11.3.1 and 11.3.2), with and without requests.
//!
//! A call is checked here, and carried out by the target's [`Route`] (`transfer.rs` in its folder).

use crate::window::Window;
use crate::window::buffers::{Completion, Origin, Target, same_length};
use crate::window::members::Route;
use mpi_core::breakdown::{Part, enter};
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

/// A put or get that moves data, with arguments that [`Window::begin`] has checked.
pub(crate) struct Transfer<'a> {
    pub window: &'a Window,
    pub process: &'a Process,
    pub origin: Origin<'a>,
    pub target: Target<'a>,
    /// Offset in the target's memory, in bytes.
    pub at: i64,
    pub completion: Completion,
    /// 1 plus the index of the counter that the target increments, or 0. Only messages have it.
    pub notify: u64,
}

/// A target's memory as one route accesses it.
pub(crate) trait TargetMemory {
    /// Writes the origin's data. Returns the request, if the call has one and is not complete.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it; the
    /// target's data lies within its memory.
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>>;

    /// Reads into the origin's buffer. Returns the request, if the call has one and is not complete.
    ///
    /// # Safety
    /// The origin's buffer is writable, and not used before the call is complete; the target's data
    /// lies within its memory.
    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>>;
}

impl TargetMemory for Route {
    #[inline]
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: each route has the contract of this function.
        unsafe {
            match self {
                Route::Mapped(memory) => memory.put(transfer),
                Route::Copied(memory) => memory.put(transfer),
                Route::Network(memory) => memory.put(transfer),
                Route::Messages(memory) => memory.put(transfer),
            }
        }
    }

    #[inline]
    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: each route has the contract of this function.
        unsafe {
            match self {
                Route::Mapped(memory) => memory.get(transfer),
                Route::Copied(memory) => memory.get(transfer),
                Route::Network(memory) => memory.get(transfer),
                Route::Messages(memory) => memory.get(transfer),
            }
        }
    }
}

impl Window {
    /// Writes to a target's memory (`MPI_Put`, `MPI_Rput`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside an epoch, `MPI_ERR_RMA_RANGE` beyond the target's memory,
    /// `MPI_ERR_TRUNCATE` if the two sides' data differ in length.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it.
    #[inline]
    pub unsafe fn put(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let _part = enter(Part::Core);
        match self.check(process, origin, target, completion)? {
            // SAFETY: the buffer is readable by this function's contract; `check` has found the
            // target's data within its memory.
            Some((route, transfer)) => unsafe { route.put(&transfer) },
            None => Ok(None),
        }
    }

    /// Reads from a target's memory (`MPI_Get`, `MPI_Rget`).
    ///
    /// # Errors
    /// The errors of [`Window::put`].
    ///
    /// # Safety
    /// The origin's buffer is writable, and not used before the call is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        match self.check(process, origin, target, completion)? {
            // SAFETY: the buffer is writable by this function's contract; `check` has found the
            // target's data within its memory.
            Some((route, transfer)) => unsafe { route.get(&transfer) },
            None => Ok(None),
        }
    }

    /// Checks a put or get, and finds its route. `None` if it moves no data.
    #[inline]
    pub(crate) fn check<'a>(
        &'a self,
        process: &'a Process,
        origin: Origin<'a>,
        target: Target<'a>,
        completion: Completion,
    ) -> Result<Option<(Route, Transfer<'a>)>> {
        let begun = self.begin(process, &target, completion)?;
        same_length(&origin, &target)?;
        let Some(at) = begun else {
            return Ok(None);
        };
        let transfer = Transfer {
            window: self,
            process,
            origin,
            target,
            at,
            completion,
            notify: 0,
        };
        Ok(Some((self.members.get(target.rank).route, transfer)))
    }
}
