//! The status of completed operations.

#![deny(unsafe_code)]

use super::Request;
use crate::sync::{Ordering, fence};
use crate::{ANY_SOURCE, ANY_TAG, PROC_NULL};

/// The result of a completed operation (MPI-3.1 section 3.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender, [`ANY_SOURCE`] if there is none.
    pub source: i32,
    /// Tag of the message, [`ANY_TAG`] if there is none.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: Cancelled,
}

/// Whether an operation was cancelled (section 3.8.4).
///
/// Eight bytes, so that [`Status`] has no padding: with a `bool`, compilers copy the padding in
/// overlapping parts, and a load stalls on partial stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Cancelled {
    /// The operation was carried out.
    No,
    /// The operation was cancelled.
    Yes,
}

impl From<bool> for Cancelled {
    #[inline(always)]
    fn from(cancelled: bool) -> Self {
        if cancelled {
            Cancelled::Yes
        } else {
            Cancelled::No
        }
    }
}

impl Status {
    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled == Cancelled::Yes
    }

    /// The *empty* status of null and inactive requests and of sends.
    pub const EMPTY: Status = Status {
        source: ANY_SOURCE,
        tag: ANY_TAG,
        bytes: 0,
        cancelled: Cancelled::No,
    };

    /// The status of a receive from `MPI_PROC_NULL` (section 3.11).
    pub const PROC_NULL: Status = Status {
        source: PROC_NULL,
        tag: ANY_TAG,
        bytes: 0,
        cancelled: Cancelled::No,
    };
}

impl Request {
    #[inline(always)]
    pub(super) fn read_status(&self) -> Status {
        Status {
            source: self.source.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed).into(),
        }
    }

    /// Returns the status, if the request is complete, to a thread that does not own it. Another
    /// thread may free the request and reuse its number at any time.
    pub fn peek(&self) -> Option<Status> {
        let status = self.is_done().then(|| self.read_status())?;
        // Acquire: the loads above come before the second check.
        fence(Ordering::Acquire);
        self.is_done().then_some(status)
    }
}
