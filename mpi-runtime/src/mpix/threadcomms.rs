//! Thread communicators (`MPIX_Threadcomm_init`), an extension of MPICH: one handle by which each
//! thread of a parallel region is a rank of its own.
//!
//! The handle has no communicator. A thread that starts it gets one of the process's endpoints, and
//! from then on the handle denotes this endpoint in this thread. No other communicator can have the
//! handle meanwhile, so only a lookup that finds no communicator searches here.

use std::cell::RefCell;
use std::collections::HashMap;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::handles::predefined::{MPI_COMM_NULL, MPI_Comm};

/// The thread communicators of a process.
#[derive(Default)]
pub struct Threadcomms(Mutex<HashMap<MPI_Comm, Threadcomm>>);

struct Threadcomm {
    /// Handles of the endpoints.
    points: Vec<MPI_Comm>,
    /// By index in `points`.
    states: Vec<State>,
}

/// Who has an endpoint. A parallel region gives out all of them once, so that a thread that starts
/// after another has finished gets a rank of its own.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Taken,
    Finished,
}

/// A thread communicator that this thread has started, with its endpoint.
struct Started {
    threadcomm: MPI_Comm,
    point: MPI_Comm,
    index: usize,
}

thread_local! {
    static STARTED: RefCell<Vec<Started>> = const { RefCell::new(Vec::new()) };
}

/// Returns the endpoint that a handle denotes in this thread, if the thread has started it.
pub fn own_point(threadcomm: MPI_Comm) -> Option<MPI_Comm> {
    STARTED.with_borrow(|started| {
        let mut all = started.iter();
        let own = all.find(|one| one.threadcomm == threadcomm)?;
        Some(own.point)
    })
}

impl Threadcomms {
    /// Registers a handle as a thread communicator with these endpoints.
    pub fn insert(&self, handle: MPI_Comm, points: Vec<MPI_Comm>) {
        let states = vec![State::Free; points.len()];
        self.0.lock().insert(handle, Threadcomm { points, states });
    }

    /// Returns whether a handle is a thread communicator.
    pub fn has(&self, handle: MPI_Comm) -> bool {
        self.0.lock().contains_key(&handle)
    }

    /// Gives the calling thread the first endpoint that no thread of this parallel region has had. If
    /// there is none, the next region begins.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: the handle is not a thread communicator. `MPI_ERR_OTHER`: this thread has
    /// started it already, or no endpoint is free.
    pub fn start(&self, handle: MPI_Comm) -> Result<()> {
        if own_point(handle).is_some() {
            let why =
                "threadcomm was started by this thread already; call MPIX_Threadcomm_finish first";
            return Err(Error::new(Class::Other, why));
        }
        let mut all = self.0.lock();
        let found = all.get_mut(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let index = found.next().ok_or_else(|| {
            let why = format!(
                "threadcomm was started by {} threads, all that it has endpoints for; pass a greater \
                 num_threads to MPIX_Threadcomm_init",
                found.points.len()
            );
            Error::new(Class::Other, why)
        })?;
        found.states[index] = State::Taken;
        let point = found.points[index];
        let one = Started {
            threadcomm: handle,
            point,
            index,
        };
        STARTED.with_borrow_mut(|started| started.push(one));
        Ok(())
    }

    /// Frees the calling thread's endpoint for other threads.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: the handle is not a thread communicator. `MPI_ERR_OTHER`: this thread has
    /// not started it.
    pub fn finish(&self, handle: MPI_Comm) -> Result<()> {
        let mut all = self.0.lock();
        let found = all.get_mut(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let own = STARTED.with_borrow_mut(|started| {
            let place = started.iter().position(|one| one.threadcomm == handle)?;
            Some(started.swap_remove(place))
        });
        let own = own.ok_or_else(|| {
            let why = "threadcomm was not started by this thread; call MPIX_Threadcomm_start first";
            Error::new(Class::Other, why)
        })?;
        found.states[own.index] = State::Finished;
        Ok(())
    }

    /// Removes a thread communicator that all threads have finished. The caller frees the
    /// endpoints.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: the handle is not a thread communicator. `MPI_ERR_OTHER`: some threads have
    /// not finished it.
    pub fn take(&self, handle: MPI_Comm) -> Result<Vec<MPI_Comm>> {
        let mut all = self.0.lock();
        let found = all.get(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let taken = |state: &&State| **state == State::Taken;
        let still = found.states.iter().filter(taken).count();
        if still > 0 {
            let why = format!(
                "threadcomm is in use by {still} threads; each of them must call MPIX_Threadcomm_finish first"
            );
            return Err(Error::new(Class::Other, why));
        }
        Ok(all.remove(&handle).map_or(Vec::new(), |gone| gone.points))
    }
}

impl Threadcomm {
    /// Returns the index of the endpoint to give out next, if any is left.
    fn next(&mut self) -> Option<usize> {
        if !self.states.contains(&State::Free) {
            for state in &mut self.states {
                if *state == State::Finished {
                    *state = State::Free;
                }
            }
        }
        self.states.iter().position(|state| *state == State::Free)
    }
}

/// Returns the error for a handle that is not a thread communicator.
#[cold]
fn no_threadcomm(handle: MPI_Comm) -> Error {
    let why = match handle {
        MPI_COMM_NULL => "threadcomm is MPI_COMM_NULL".to_string(),
        _ => format!(
            "threadcomm {handle:#x} is not a thread communicator; create one with MPIX_Threadcomm_init"
        ),
    };
    Error::new(Class::Comm, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: MPI_Comm = 0x8400_0007_u32 as MPI_Comm;

    #[test]
    fn each_thread_has_an_endpoint_of_its_own() {
        let all = Threadcomms::default();
        all.insert(HANDLE, vec![11, 12]);
        all.start(HANDLE).unwrap();
        assert_eq!(own_point(HANDLE), Some(11));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(own_point(HANDLE), None);
                all.start(HANDLE).unwrap();
                assert_eq!(own_point(HANDLE), Some(12));
                assert_eq!(all.start(HANDLE).unwrap_err().class(), Class::Other);
            });
            other.join().unwrap();
            // The other thread has ended without finishing, so its endpoint stays in use.
            let third = scope.spawn(|| all.start(HANDLE).unwrap_err().class());
            assert_eq!(third.join().unwrap(), Class::Other);
        });
        assert_eq!(all.take(HANDLE).unwrap_err().class(), Class::Other);
    }

    #[test]
    fn a_late_thread_gets_a_rank_of_its_own() {
        let all = Threadcomms::default();
        all.insert(HANDLE, vec![11, 12]);
        for point in [11, 12, 11] {
            all.start(HANDLE).unwrap();
            assert_eq!(own_point(HANDLE), Some(point));
            all.finish(HANDLE).unwrap();
        }
    }

    #[test]
    fn an_endpoint_comes_back_for_the_next_region() {
        let all = Threadcomms::default();
        all.insert(HANDLE, vec![11]);
        for _ in 0..3 {
            all.start(HANDLE).unwrap();
            assert_eq!(own_point(HANDLE), Some(11));
            all.finish(HANDLE).unwrap();
            assert_eq!(own_point(HANDLE), None);
        }
        assert_eq!(all.finish(HANDLE).unwrap_err().class(), Class::Other);
        assert_eq!(all.take(HANDLE).unwrap(), vec![11]);
        assert_eq!(all.start(HANDLE).unwrap_err().class(), Class::Comm);
        assert!(!all.has(HANDLE));
    }
}
