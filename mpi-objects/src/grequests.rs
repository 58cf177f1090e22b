//! Generalized requests (section 12.2): operations of the program that are waited for as those of
//! MPI are.

use std::sync::atomic::{AtomicU8, Ordering};

use mpi_core::{Class, Error, Result, Status};

/// What the program has to say of its operation: its callbacks, which the library of the ABI calls.
pub trait UserRequest: Send + Sync {
    /// From now on the callbacks are called as subroutines of Fortran.
    fn set_fortran(&self);

    /// Asks the program how the operation ended.
    fn query(&self) -> (Status, Result<()>);

    /// Has the program free what belongs to it. To be called once.
    fn free(&self) -> Result<()>;

    /// Asks the program to cancel it.
    fn cancel(&self, complete: bool) -> Result<()>;
}

/// A generalized request.
pub struct Generalized {
    calls: Box<dyn UserRequest>,
    state: AtomicU8,
}

/// The program has completed it.
const COMPLETE: u8 = 1;
/// The program has let go of the handle (`MPI_Request_free`).
const GONE: u8 = 2;

impl Generalized {
    /// Begins one.
    pub fn new(calls: Box<dyn UserRequest>) -> Self {
        Generalized {
            calls,
            state: AtomicU8::new(0),
        }
    }

    /// Its callbacks.
    pub fn calls(&self) -> &dyn UserRequest {
        &*self.calls
    }

    /// Whether the program has completed it.
    pub fn is_complete(&self) -> bool {
        self.state.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// Whether the program has freed the handle.
    pub fn is_gone(&self) -> bool {
        self.state.load(Ordering::Relaxed) & GONE != 0
    }

    /// Notes that the operation is complete. Returns whether nobody waits for it any more, so that
    /// it is to be freed.
    ///
    /// # Errors
    /// [`Class::Request`] the second time.
    pub fn complete(&self) -> Result<bool> {
        let before = self.state.fetch_or(COMPLETE, Ordering::AcqRel);
        if before & COMPLETE != 0 {
            let why = "the generalized request is complete already";
            return Err(Error::new(Class::Request, why));
        }
        Ok(before & GONE != 0)
    }

    /// Lets go of it. Returns whether it is complete, so that it is to be freed.
    pub fn let_go(&self) -> bool {
        self.state.fetch_or(GONE, Ordering::AcqRel) & COMPLETE != 0
    }

    /// Asks the program how the operation ended.
    pub fn query(&self) -> (Status, Result<()>) {
        self.calls.query()
    }

    /// Has the program free what belongs to it. To be called once.
    pub fn free(&self) -> Result<()> {
        self.calls.free()
    }

    /// Asks the program to cancel it.
    pub fn cancel(&self) -> Result<()> {
        self.calls.cancel(self.is_complete())
    }
}
