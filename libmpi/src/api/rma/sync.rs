//! Synchronization of windows (section 11.5).

use std::ffi::c_int;

use mpi_core::{Class, Error, Process, Result};
use mpi_rma::{FenceAssert, Window};

use crate::abi::{
    MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, MPI_MODE_NOCHECK, MPI_MODE_NOPRECEDE, MPI_MODE_NOPUT,
    MPI_MODE_NOSTORE, MPI_MODE_NOSUCCEED, MPI_PROC_NULL,
};
use crate::api::rma::check_rank;
use crate::args::{LiveGroup, LiveWin, Out};

/// Checks assertions against those that a function accepts.
fn check_assert(assert: c_int, allowed: c_int) -> Result<()> {
    if assert & !allowed == 0 {
        return Ok(());
    }
    Err(Error::new(
        Class::Assert,
        format!(
            "assert is {assert}; its bits {:#x} are not assertions of this function; 0 is always valid",
            assert & !allowed
        ),
    ))
}

/// `MPI_Win_fence` (section 11.5.1).
pub fn win_fence(assert: c_int, win: LiveWin) -> Result<()> {
    let (runtime, object) = (win.runtime, win.object);
    let allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    check_assert(assert, allowed)?;
    let assert = FenceAssert {
        no_succeed: assert & MPI_MODE_NOSUCCEED != 0,
        no_precede: assert & MPI_MODE_NOPRECEDE != 0,
    };
    object.window.fence(&runtime.process, assert)
}

/// `MPI_Win_start` (section 11.5.2).
pub fn win_start(group: LiveGroup, assert: c_int, win: LiveWin) -> Result<()> {
    let (runtime, object) = (win.runtime, win.object);
    let group = group.object;
    check_assert(assert, MPI_MODE_NOCHECK)?;
    object.window.start(&runtime.process, group)
}

/// `MPI_Win_post` (section 11.5.2).
pub fn win_post(group: LiveGroup, assert: c_int, win: LiveWin) -> Result<()> {
    let (runtime, object) = (win.runtime, win.object);
    let group = group.object;
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    object.window.post(&runtime.process, group)
}

/// `MPI_Win_test` (section 11.5.2).
pub fn win_test(win: LiveWin, flag: Out<c_int>) -> Result<()> {
    let (runtime, object) = (win.runtime, win.object);
    // If the test fails, the flag is 0.
    flag.set(0);
    flag.set(object.window.test(&runtime.process)?.into());
    Ok(())
}

/// `MPI_Win_lock` (section 11.5.3).
pub fn win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: LiveWin) -> Result<()> {
    let runtime = win.runtime;
    let window = &win.window;
    let exclusive = match lock_type {
        MPI_LOCK_EXCLUSIVE => true,
        MPI_LOCK_SHARED => false,
        _ => {
            return Err(Error::new(
                Class::Locktype,
                format!(
                    "lock_type is {lock_type}; it can be MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE"
                ),
            ));
        }
    };
    check_assert(assert, MPI_MODE_NOCHECK)?;
    if rank == MPI_PROC_NULL {
        return Ok(());
    }
    let rank = check_rank(window, rank)?;
    window.lock(&runtime.process, rank, exclusive, assert != 0)
}

/// `MPI_Win_lock_all` (section 11.5.3).
pub fn win_lock_all(assert: c_int, win: LiveWin) -> Result<()> {
    let (runtime, object) = (win.runtime, win.object);
    check_assert(assert, MPI_MODE_NOCHECK)?;
    object.window.lock_all(&runtime.process, assert != 0)
}

/// Synchronizes with one target: `MPI_Win_unlock`, `MPI_Win_flush` and `MPI_Win_flush_local`.
pub(crate) fn with_target(
    synchronize: fn(&Window, &Process, u32) -> Result<()>,
    rank: c_int,
    win: LiveWin,
) -> Result<()> {
    if rank == MPI_PROC_NULL {
        return Ok(());
    }
    let target = check_rank(&win.window, rank)?;
    synchronize(&win.window, &win.runtime.process, target)
}

/// Synchronizes a window: `MPI_Win_complete`, `MPI_Win_wait`, `MPI_Win_unlock_all`,
/// `MPI_Win_flush_all`, `MPI_Win_flush_local_all` and `MPI_Win_sync`.
pub(crate) fn with_all(
    synchronize: fn(&Window, &Process) -> Result<()>,
    win: LiveWin,
) -> Result<()> {
    synchronize(&win.window, &win.runtime.process)
}
