//! Notified one-sided communication, an extension of Intel MPI: a window's processes have counters,
//! which puts and gets increment at their targets (`mpi_rma::window::notify`).
//!
//! The prototypes are those of the `mpi.h` of Intel MPI 2021.19, in which `notification_idx` stands
//! before `win`; the example in its developer guide ("Notified One-Sided Communications") has the
//! two the other way round.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_core::{Class, Error, Result};
use mpi_rma::Awaited;
use mpi_runtime::lifecycle::runtime::running;
use mpi_runtime::mpix::polling::{Polled, Polling};
use mpi_runtime::requests;

use crate::abi::{MPI_Count, MPI_Request};
use crate::api::rma::data::TargetArgs;
use crate::args::{LiveWin, Out, UserBuffer};

/// `MPIX_Win_create_notify`.
pub fn win_create_notify(win: LiveWin, notification_num: c_int) -> Result<()> {
    let count = usize::try_from(notification_num).map_err(|_| {
        let why = format!("notification_num is {notification_num}; it must be 0 or more");
        Error::new(Class::Arg, why)
    })?;
    win.window.create_counters(&win.runtime.process, count)
}

/// `MPIX_Win_free_notify`.
pub fn win_free_notify(win: LiveWin) -> Result<()> {
    win.window.free_counters(&win.runtime.process)
}

/// `MPIX_Win_get_notify`.
pub fn win_get_notify(
    win: LiveWin,
    notification_idx: c_int,
    notification: Out<MPI_Count>,
) -> Result<()> {
    let (window, process) = (&win.window, &win.runtime.process);
    notification.set(window.notifications(process, notification_idx.into())?);
    Ok(())
}

/// `MPIX_Win_set_notify`.
pub fn win_set_notify(
    win: LiveWin,
    notification_idx: c_int,
    notification: MPI_Count,
) -> Result<()> {
    win.window
        .set_notifications(notification_idx.into(), notification)
}

/// `MPIX_Win_get_notify_request`: complete when the counter is `expected_value` or more.
pub fn win_get_notify_request(
    win: LiveWin,
    notification_idx: c_int,
    expected_value: MPI_Count,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &win.runtime.process;
    let awaited =
        win.window
            .await_notifications(process, notification_idx.into(), expected_value)?;
    request.set(requests::handle(Some(awaited.request)));
    let polled = CounterRequest {
        awaited,
        is_taken: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    process.source::<Polling>().add(process, Arc::new(polled));
    Ok(())
}

/// A request for a counter, which progress polls.
struct CounterRequest {
    awaited: Awaited,
    /// Set while a thread polls it, and when it is complete.
    is_taken: AtomicBool,
    is_over: AtomicBool,
}

impl Polled for CounterRequest {
    fn poll(&self) -> bool {
        let Some(runtime) = running() else {
            return false;
        };
        if self.is_taken.swap(true, Ordering::Acquire) {
            return false;
        }
        let is_complete = self.awaited.advance(&runtime.process).unwrap_or(true);
        self.is_over.store(is_complete, Ordering::Release);
        self.is_taken.store(is_complete, Ordering::Release);
        is_complete
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn holds_up(&self) -> bool {
        false
    }
}

/// `MPIX_Put_notify` (`write`) and `MPIX_Get_notify`.
///
/// # Safety
/// The origin's buffer is readable (`write`) or writable until the epoch ends.
pub(crate) unsafe fn access(
    write: bool,
    origin: UserBuffer,
    target: TargetArgs,
    notification_idx: c_int,
    win: LiveWin,
) -> Result<()> {
    let (window, process) = (&win.window, &win.runtime.process);
    let (origin, target) = (origin.origin(target.rank)?, target.check(window, win.call)?);
    let Some(target) = target else {
        return Ok(());
    };
    let index = notification_idx.into();
    // SAFETY: the origin's buffer is that of a put or a get (# Safety).
    unsafe { window.access_and_notify(process, write, (origin, target), index) }
}
