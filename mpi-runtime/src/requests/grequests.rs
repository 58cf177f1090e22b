//! Generalized requests (section 12.2): operations of the program that are waited for as those of
//! MPI are.
//!
//! Those with a poll function (`MPIX_Grequest_start`, an extension of MPICH) are looked after by
//! [progress](crate::mpix::polling). While a thread is in such a function the request is not complete for others, and is not
//! freed: the function may still use what `free_fn` frees.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use mpi_core::{Class, Error, Result, Status};
use parking_lot::Mutex;

use crate::mpix::polling::inside;

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

    /// Whether there is a function that is called to complete it.
    fn has_poll(&self) -> bool {
        false
    }

    /// Calls that function.
    fn poll(&self) -> Result<()> {
        Ok(())
    }

    /// The class of requests with which it can be waited for at once, if there is a function for that.
    fn wait_class(&self) -> Option<u64> {
        None
    }

    /// Waits for requests of its class, which have these states.
    fn wait(&self, _states: &mut [*mut c_void]) -> Result<()> {
        Ok(())
    }

    /// The state that the program has given for it.
    fn state(&self) -> *mut c_void;
}

/// A generalized request.
pub struct Generalized {
    calls: Box<dyn UserRequest>,
    state: AtomicU8,
    /// The thread that is in a function which completes it.
    taken_by: AtomicUsize,
    /// What such a function has failed with.
    failed: Mutex<Option<Error>>,
}

/// The program has completed it.
const COMPLETE: u8 = 1;
/// The program has let go of the handle (`MPI_Request_free`).
const GONE: u8 = 2;
/// A thread is in a function which completes it.
const TAKEN: u8 = 4;
/// It has been complete and let go of, and what belongs to it is being freed.
const FREED: u8 = 8;

/// A number of this thread; no other has it meanwhile.
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| (&raw const *place).addr())
}

impl Generalized {
    /// Begins one.
    pub fn new(calls: Box<dyn UserRequest>) -> Self {
        Generalized {
            calls,
            state: AtomicU8::new(0),
            taken_by: AtomicUsize::new(0),
            failed: Mutex::new(None),
        }
    }

    /// Its callbacks.
    pub fn calls(&self) -> &dyn UserRequest {
        &*self.calls
    }

    /// Whether the program has completed it, and no other thread is in the function which has.
    pub fn is_complete(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & COMPLETE != 0
            && (state & TAKEN == 0 || self.taken_by.load(Ordering::Relaxed) == this_thread())
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
        Ok(self.may_free())
    }

    /// Lets go of it. Returns whether it is complete, so that it is to be freed.
    pub fn let_go(&self) -> bool {
        self.state.fetch_or(GONE, Ordering::AcqRel);
        self.may_free()
    }

    /// Whether it is to be freed, since it is complete, let go of, and in no function; true once.
    fn may_free(&self) -> bool {
        let over = COMPLETE | GONE;
        let freed = over | FREED;
        let change = self
            .state
            .compare_exchange(over, freed, Ordering::AcqRel, Ordering::Relaxed);
        change.is_ok()
    }

    /// Takes it for a function which completes it; false if another thread has, or it is complete.
    fn take(&self) -> bool {
        let may = |state| (state & !GONE == 0).then_some(state | TAKEN);
        let taken = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, may)
            .is_ok();
        if taken {
            self.taken_by.store(this_thread(), Ordering::Relaxed);
        }
        taken
    }

    /// Gives it back, after a function that has ended so. Returns whether it is to be freed.
    fn give_back(&self, ended: Result<()>) -> bool {
        if let Err(error) = ended {
            // Nobody else would end it.
            *self.failed.lock() = Some(error);
            self.state.fetch_or(COMPLETE, Ordering::AcqRel);
        }
        self.taken_by.store(0, Ordering::Relaxed);
        self.state.fetch_and(!TAKEN, Ordering::AcqRel);
        self.may_free()
    }

    /// Calls its poll function, unless a thread is in it or it is complete. With whether it is complete now, and whether
    /// it is to be freed.
    pub(crate) fn poll(&self) -> (bool, bool) {
        if !self.calls.has_poll() || !self.take() {
            return (false, false);
        }
        let ended = inside(|| self.calls.poll());
        let freed = self.give_back(ended);
        (self.is_complete(), freed)
    }

    /// Whether progress calls a function for it.
    pub fn has_poll(&self) -> bool {
        self.calls.has_poll()
    }

    /// The class of requests with which it can be waited for at once.
    pub(crate) fn wait_class(&self) -> Option<u64> {
        self.calls.wait_class()
    }

    /// Calls the wait function of requests of one class. Nothing is done if another thread is in a function of one.
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
            // Who waits for it has not let go of it.
            request.give_back(ended);
        }
    }

    /// Asks the program how the operation ended.
    pub fn query(&self) -> (Status, Result<()>) {
        self.calls.query()
    }

    /// Takes the error of a function that was to complete it.
    pub fn take_failure(&self) -> Option<Error> {
        self.failed.lock().take()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// Fails with its third call.
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
    fn nobody_has_or_frees_a_request_that_a_thread_is_in_the_function_of() {
        let request = Generalized::new(Box::new(Calls::default()));
        assert!(request.take());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(request.poll(), (false, false));
                assert!(!request.complete().unwrap());
                assert!(!request.is_complete());
                assert!(!request.let_go());
            });
        });
        // The thread itself may have it.
        assert!(request.is_complete());
        // Once only.
        assert!(request.give_back(Ok(())));
        assert!(request.is_complete() && !request.let_go() && !request.take());
        assert!(request.complete().is_err());
    }
}
