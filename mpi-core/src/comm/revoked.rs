//! Revoked communicators (User-Level Failure Mitigation): only local operations still work.

#![deny(unsafe_code)]

use std::sync::atomic::Ordering;

use super::{Comm, REVOKED};
use crate::error::{Class, Error, Result};
use crate::process::Process;

/// Revokes a communicator in this process. Operations in flight end with an error, later ones fail
/// when they begin. Returns false if it was revoked already.
///
/// Messages whose data a peer is reading or writing at this moment complete normally.
#[cold]
pub fn revoke(process: &Process, comm: &Comm) -> bool {
    if comm.used.swap(REVOKED, Ordering::AcqRel) == REVOKED {
        return false;
    }
    comm.update_fast_paths();
    // Makes waiting threads check their communicator, so that they see the revocation.
    process.end_messages(comm.context(), &comm.revoked_error());
    process.force_recheck();
    true
}

impl Comm {
    /// Whether this process has learned that the communicator is revoked.
    pub fn is_revoked(&self) -> bool {
        self.used.load(Ordering::Acquire) == REVOKED
    }

    /// Fails if the communicator is revoked; for calls that move no data, such as a send to
    /// `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// [`Class::Revoked`] if the communicator has been revoked.
    #[cold]
    pub fn check_revoked(&self) -> Result<()> {
        match self.is_revoked() {
            true => Err(self.revoked_error()),
            false => Ok(()),
        }
    }

    /// Returns why collectives cannot continue: a revocation or a failed member.
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

    /// Makes the error of operations on a revoked communicator.
    #[cold]
    pub(super) fn revoked_error(&self) -> Error {
        let why = "the communicator has been revoked (MPIX_Comm_revoke); create one of the surviving \
                   processes with MPIX_Comm_shrink";
        Error::new(Class::Revoked, why).on(self.owner())
    }
}
