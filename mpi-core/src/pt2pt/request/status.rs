//! What a completed operation says of itself.

#![deny(unsafe_code)]

use super::Request;
use crate::sync::{Ordering, fence};
use crate::{ANY_SOURCE, ANY_TAG, PROC_NULL};

/// What a completed operation says of itself (MPI-3.1 section 3.2.5).
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
/// Of eight bytes, so that [`Status`] has no padding: with a `bool` in its place compilers move the
/// seven bytes behind it in overlapping pieces, for which the processor has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Cancelled {
    /// It was carried out.
    No,
    /// It was cancelled.
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

    /// The status, if the request is complete: for a thread that doesn't complete it, while another one may, so that the
    /// number may be another operation's at any time.
    pub fn peek(&self) -> Option<Status> {
        let status = self.is_done().then(|| self.read_status())?;
        // Acquire: what was read before is no later than this look.
        fence(Ordering::Acquire);
        self.is_done().then_some(status)
    }
}
