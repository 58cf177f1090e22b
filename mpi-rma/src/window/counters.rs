//! The counters of a window's notified accesses, and requests that wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::messages::counters::OwnCounters;
use crate::window::Window;
use mpi_core::process::Process;
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_types::error::{Class, Error, Result};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};

pub(crate) const COUNTER: usize = size_of::<i64>();

/// The counters of all members.
pub(crate) struct Counters {
    pub(crate) window: Window,
}

impl Counters {
    /// Returns the number of a member's counters.
    fn len(&self, rank: u32) -> usize {
        self.window.members.get(rank).size as usize / COUNTER
    }

    /// Returns the counters of a member whose memory this process has mapped.
    pub(crate) fn mapped(&self, rank: u32) -> Option<OwnCounters> {
        let first = self.window.here(rank)?.cast_const().cast();
        let len = self.len(rank);
        Some(OwnCounters { first, len })
    }

    pub(crate) fn check(&self, rank: u32, index: i64) -> Result<usize> {
        let len = self.len(rank);
        let found = usize::try_from(index).ok().filter(|index| *index < len);
        found.ok_or_else(|| {
            let why = format!(
                "notification_idx is {index}; rank {rank} has {len} notifications, numbered from 0"
            );
            Error::new(Class::Arg, why)
        })
    }

    /// Returns a counter of this process.
    pub(crate) fn own(&self, index: i64) -> Result<&AtomicI64> {
        let index = self.check(self.window.rank(), index)?;
        let first: *const AtomicI64 = self.window.base().cast_const().cast();
        // SAFETY: the memory is the window's, which has as many counters (`check`), zeroed when it was
        // made.
        Ok(unsafe { &*first.add(index) })
    }
}

/// A request that waits for a counter.
pub struct Awaited {
    pub(crate) counters: Arc<RwLock<Option<Counters>>>,
    pub(crate) index: i64,
    pub(crate) value: i64,
    /// The request.
    pub request: RequestId,
}

impl Awaited {
    /// Completes the request if the counter has its value, or there is no such counter any more.
    /// Returns whether it did; it must not be called again then.
    ///
    /// # Errors
    /// The process can't go on.
    pub fn advance(&self, process: &Process) -> Result<bool> {
        let found = find(&self.counters).and_then(|counters| {
            let now = counters.own(self.index)?.load(Ordering::Acquire);
            Ok(now >= self.value)
        });
        let error = match found {
            Ok(false) => return Ok(false),
            Ok(true) => None,
            Err(error) => Some(error),
        };
        process.complete(self.request, Status::EMPTY, error)?;
        Ok(true)
    }
}

/// Returns the counters of a window. Recursive, since progress within an access may look for them.
pub(crate) fn find(
    counters: &RwLock<Option<Counters>>,
) -> Result<MappedRwLockReadGuard<'_, Counters>> {
    let all = counters.read_recursive();
    RwLockReadGuard::try_map(all, Option::as_ref).map_err(|_| no_counters())
}

#[cold]
pub(crate) fn no_counters() -> Error {
    let why = "win has no notifications; call MPIX_Win_create_notify first";
    Error::new(Class::RmaFlavor, why)
}
