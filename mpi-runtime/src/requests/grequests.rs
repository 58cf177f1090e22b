//! Generalized requests (section 12.2): operations of the program that complete like those of MPI.
//!
//! [Progress](crate::mpix::polling) calls the poll functions of those made by
//! `MPIX_Grequest_start`, an extension of MPICH. While a thread runs such a function, the request
//! is not complete for other threads, and is not freed: the function may still use what `free_fn`
//! frees.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use mpi_core::{Class, Error, Result, Status};
use parking_lot::Mutex;

use crate::mpix::polling::inside;

/// The program's callbacks, which the library of the ABI calls.
pub trait UserRequest: Send + Sync {
    /// Makes the callbacks be called as Fortran subroutines from now on.
    fn set_fortran(&self);

    /// Calls the query function, for status and error of the operation.
    fn query(&self) -> (Status, Result<()>);

    /// Calls the free function. To be called once.
    fn free(&self) -> Result<()>;

    /// Calls the cancel function.
    fn cancel(&self, complete: bool) -> Result<()>;

    /// Returns whether there is a poll function.
    fn has_poll(&self) -> bool {
        false
    }

    /// Calls the poll function.
    fn poll(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the class of requests that one wait function waits for, if there is such a function.
    fn wait_class(&self) -> Option<u64> {
        None
    }

    /// Calls the wait function for requests of the class, given by their states.
    fn wait(&self, _states: &mut [*mut c_void]) -> Result<()> {
        Ok(())
    }

    /// Returns the program's state of the request.
    fn state(&self) -> *mut c_void;
}

/// A generalized request.
pub struct Generalized {
    calls: Box<dyn UserRequest>,
    state: AtomicU8,
    /// The thread that runs a function which completes the request.
    taken_by: AtomicUsize,
    /// The error of such a function.
    failed: Mutex<Option<Error>>,
}

/// The program has completed the request.
const COMPLETE: u8 = 1;
/// The program has freed the handle (`MPI_Request_free`).
const HANDLE_FREED: u8 = 2;
/// A thread runs a function which completes the request.
const TAKEN: u8 = 4;
/// The request is complete and its handle freed; its free function is called.
const FREEING: u8 = 8;

/// Returns a number that identifies this thread while it lives.
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| (&raw const *place).addr())
}

impl Generalized {
    /// Creates a pending request.
    pub fn new(calls: Box<dyn UserRequest>) -> Self {
        Generalized {
            calls,
            state: AtomicU8::new(0),
            taken_by: AtomicUsize::new(0),
            failed: Mutex::new(None),
        }
    }

    /// Returns its callbacks.
    pub fn calls(&self) -> &dyn UserRequest {
        &*self.calls
    }

    /// Returns whether the request is complete and no other thread runs the function that completed
    /// it.
    pub fn is_complete(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & COMPLETE != 0
            && (state & TAKEN == 0 || self.taken_by.load(Ordering::Relaxed) == this_thread())
    }

    /// Returns whether the program has freed the handle.
    pub fn is_handle_freed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & HANDLE_FREED != 0
    }

    /// Marks the operation as complete. Returns whether the caller must free it, because the handle
    /// has been freed.
    ///
    /// # Errors
    /// [`Class::Request`] if it is complete already.
    pub fn complete(&self) -> Result<bool> {
        let before = self.state.fetch_or(COMPLETE, Ordering::AcqRel);
        if before & COMPLETE != 0 {
            let why = "the generalized request is complete already";
            return Err(Error::new(Class::Request, why));
        }
        Ok(self.may_free())
    }

    /// Marks the handle as freed. Returns whether the caller must free the request, because it is
    /// complete.
    pub fn release(&self) -> bool {
        self.state.fetch_or(HANDLE_FREED, Ordering::AcqRel);
        self.may_free()
    }

    /// Decides whether the caller must free the request: it is complete, its handle is freed, and
    /// no function runs. Returns true once only.
    fn may_free(&self) -> bool {
        let over = COMPLETE | HANDLE_FREED;
        let freed = over | FREEING;
        let change = self
            .state
            .compare_exchange(over, freed, Ordering::AcqRel, Ordering::Relaxed);
        change.is_ok()
    }

    /// Reserves the request for a function which completes it. Returns false if another thread has,
    /// or it is complete.
    fn take(&self) -> bool {
        let may = |state| (state & !HANDLE_FREED == 0).then_some(state | TAKEN);
        let taken = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, may)
            .is_ok();
        if taken {
            self.taken_by.store(this_thread(), Ordering::Relaxed);
        }
        taken
    }

    /// Ends the reservation after the function returned `ended`. Returns whether the caller must
    /// free the request.
    fn give_back(&self, ended: Result<()>) -> bool {
        if let Err(error) = ended {
            // No later call would complete it.
            *self.failed.lock() = Some(error);
            self.state.fetch_or(COMPLETE, Ordering::AcqRel);
        }
        self.taken_by.store(0, Ordering::Relaxed);
        self.state.fetch_and(!TAKEN, Ordering::AcqRel);
        self.may_free()
    }

    /// Calls the poll function, unless a thread runs it or the request is complete. Returns whether
    /// the request is complete, and whether the caller must free it.
    pub(crate) fn poll(&self) -> (bool, bool) {
        if !self.calls.has_poll() || !self.take() {
            return (false, false);
        }
        let ended = inside(|| self.calls.poll());
        let freed = self.give_back(ended);
        (self.is_complete(), freed)
    }

    /// Returns whether progress calls a function for the request.
    pub fn has_poll(&self) -> bool {
        self.calls.has_poll()
    }

    /// Returns the class of requests that one wait function waits for.
    pub(crate) fn wait_class(&self) -> Option<u64> {
        self.calls.wait_class()
    }

    /// Calls the wait function for requests of one class, unless another thread runs a function of
    /// one of them.
    pub(crate) fn wait_for(all: &[&Generalized]) {
        let taken = all.iter().take_while(|request| request.take()).count();
        let (taken, rest) = all.split_at(taken);
        let mut ended = Ok(());
        if let (Some(first), true) = (taken.first(), rest.is_empty()) {
            let mut states: Vec<_> = all.iter().map(|request| request.calls.state()).collect();
            ended = inside(|| first.calls.wait(&mut states));
        }
        for request in taken {
            let ended = ended.clone();
            // The caller waits for the request, so its handle is not freed.
            request.give_back(ended);
        }
    }

    /// Calls the query function.
    pub fn query(&self) -> (Status, Result<()>) {
        self.calls.query()
    }

    /// Takes the error of a poll or wait function.
    pub fn take_failure(&self) -> Option<Error> {
        self.failed.lock().take()
    }

    /// Calls the free function. To be called once.
    pub fn free(&self) -> Result<()> {
        self.calls.free()
    }

    /// Calls the cancel function.
    pub fn cancel(&self) -> Result<()> {
        self.calls.cancel(self.is_complete())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// Fails in its third call.
    #[derive(Default)]
    struct Calls(Arc<AtomicU32>);

    impl UserRequest for Calls {
        fn set_fortran(&self) {}

        fn query(&self) -> (Status, Result<()>) {
            (Status::EMPTY, Ok(()))
        }

        fn free(&self) -> Result<()> {
            Ok(())
        }

        fn cancel(&self, _complete: bool) -> Result<()> {
            Ok(())
        }

        fn has_poll(&self) -> bool {
            true
        }

        fn poll(&self) -> Result<()> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                2 => Err(Error::new(Class::Io, "the third call")),
                _ => Ok(()),
            }
        }

        fn state(&self) -> *mut c_void {
            std::ptr::null_mut()
        }
    }

    #[test]
    fn a_function_that_fails_completes_its_request() {
        let calls = Calls::default();
        let count = calls.0.clone();
        let request = Generalized::new(Box::new(calls));
        assert_eq!(request.poll(), (false, false));
        assert_eq!(request.poll(), (false, false));
        assert!(!request.is_complete());
        assert_eq!(request.poll(), (true, false));
        assert_eq!(request.poll(), (false, false));
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert_eq!(request.take_failure().map(|e| e.class()), Some(Class::Io));
        assert!(request.take_failure().is_none());
    }

    #[test]
    fn a_request_is_incomplete_and_kept_while_its_function_runs() {
        let request = Generalized::new(Box::new(Calls::default()));
        assert!(request.take());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(request.poll(), (false, false));
                assert!(!request.complete().unwrap());
                assert!(!request.is_complete());
                assert!(!request.release());
            });
        });
        // The thread itself may complete it.
        assert!(request.is_complete());
        // It is freed once only.
        assert!(request.give_back(Ok(())));
        assert!(request.is_complete() && !request.release() && !request.take());
        assert!(request.complete().is_err());
    }
}
