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
    /// Whether a thread has the endpoint, by index in `points`.
    taken: Vec<bool>,
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
        let taken = vec![false; points.len()];
        self.0.lock().insert(handle, Threadcomm { points, taken });
    }

    /// Returns whether a handle is a thread communicator.
    pub fn has(&self, handle: MPI_Comm) -> bool {
        self.0.lock().contains_key(&handle)
    }

    /// Gives the calling thread the first free endpoint.
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
        let index = found.taken.iter().position(|taken| !taken);
        let index = index.ok_or_else(|| {
            let why = format!(
                "threadcomm was started by {} threads, all that it has endpoints for; pass a greater \
                 num_threads to MPIX_Threadcomm_init",
                found.points.len()
            );
            Error::new(Class::Other, why)
        })?;
        found.taken[index] = true;
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
        found.taken[own.index] = false;
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
        let still = found.taken.iter().filter(|taken| **taken).count();
        if still > 0 {
            let why = format!(
                "threadcomm is in use by {still} threads; each of them must call MPIX_Threadcomm_finish first"
            );
            return Err(Error::new(Class::Other, why));
        }
        Ok(all.remove(&handle).map_or(Vec::new(), |gone| gone.points))
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
