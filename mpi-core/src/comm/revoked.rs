//! Communicators that were revoked (User-Level Failure Mitigation): nothing that needs others goes on on them.

#![deny(unsafe_code)]

use std::sync::atomic::Ordering;

use super::{Comm, REVOKED};
use crate::error::{Class, Error, Result};
use crate::process::Process;

/// Takes a communicator out of use in this process: what is under way on it ends with an error, what begins later
/// does so at once. Returns whether it was in use.
///
/// Messages whose data others are just reading or writing end as they would have.
#[cold]
pub fn revoke(process: &Process, comm: &Comm) -> bool {
    if comm.used.swap(REVOKED, Ordering::AcqRel) == REVOKED {
        return false;
    }
    comm.find_quick_ways();
    // Those who wait look closer from now on, and find it revoked.
    process.end_messages(comm.context(), &comm.revoked_error());
    process.count_check();
    true
}

impl Comm {
    /// Whether it has been revoked, as far as this process knows.
    pub fn is_revoked(&self) -> bool {
        self.used.load(Ordering::Acquire) == REVOKED
    }

    /// Refuses what moves nothing, such as a send to `MPI_PROC_NULL`, on a communicator that was revoked.
    ///
    /// # Errors
    /// [`Class::Revoked`].
    #[cold]
    pub fn check_revoked(&self) -> Result<()> {
        match self.is_revoked() {
            true => Err(self.revoked_error()),
            false => Ok(()),
        }
    }

    /// Why no collective can go on: it was revoked, or a member is lost.
    #[inline]
    pub fn trouble(&self, process: &Process) -> Option<Error> {
        match process.losses() {
            0 => None,
            _ => self.find_trouble(process),
        }
    }

    #[cold]
    fn find_trouble(&self, process: &Process) -> Option<Error> {
        match self.is_revoked() {
            true => Some(self.revoked_error()),
            false => process.loss_among(|peer| self.has_member(peer)),
        }
    }

    /// The error of what can't be done any more.
    #[cold]
    pub(super) fn revoked_error(&self) -> Error {
        let why = "the communicator has been revoked, by this process or another (MPIX_Comm_revoke); make one of \
                   those who are left by MPIX_Comm_shrink";
        Error::new(Class::Revoked, why).on(self.owner())
    }
}
