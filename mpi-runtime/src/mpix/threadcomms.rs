//! Thread communicators, an extension of MPICH's (`MPIX_Threadcomm_init` and its like): one handle, under which each
//! thread of a parallel region is a rank of its own.
//!
//! Behind such a handle stands no communicator. A thread that starts it gets one of the process's endpoints, and
//! from then on the handle means that endpoint in this thread. The handle is one that other communicators
//! can't have meanwhile, so that only what finds nothing behind a handle looks here.

use std::cell::RefCell;
use std::collections::HashMap;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::handles::predefined::{MPI_COMM_NULL, MPI_Comm};

/// The thread communicators of a process.
#[derive(Default)]
pub struct Threadcomms(Mutex<HashMap<MPI_Comm, Threadcomm>>);

struct Threadcomm {
    /// The endpoints' handles.
    points: Vec<MPI_Comm>,
    /// Which of them threads have.
    taken: Vec<bool>,
}

/// What a thread has started.
struct Started {
    threadcomm: MPI_Comm,
    point: MPI_Comm,
    index: usize,
}

thread_local! {
    static STARTED: RefCell<Vec<Started>> = const { RefCell::new(Vec::new()) };
}

/// The endpoint that a handle means in this thread, if it is of a thread communicator that the thread has started.
pub fn own_point(threadcomm: MPI_Comm) -> Option<MPI_Comm> {
    STARTED.with_borrow(|started| {
        let mut all = started.iter();
        let own = all.find(|one| one.threadcomm == threadcomm)?;
        Some(own.point)
    })
}

impl Threadcomms {
    /// Makes a handle that of a thread communicator with these endpoints.
    pub fn insert(&self, handle: MPI_Comm, points: Vec<MPI_Comm>) {
        let taken = vec![false; points.len()];
        self.0.lock().insert(handle, Threadcomm { points, taken });
    }

    /// Whether a handle is of a thread communicator.
    pub fn has(&self, handle: MPI_Comm) -> bool {
        self.0.lock().contains_key(&handle)
    }

    /// Gives the calling thread the first endpoint that no other has.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: it is no thread communicator. `MPI_ERR_OTHER`: this thread has started it, or as many threads as
    /// it was made for.
    pub fn start(&self, handle: MPI_Comm) -> Result<()> {
        if own_point(handle).is_some() {
            let why = "this thread has started threadcomm already; call MPIX_Threadcomm_finish before it starts it again";
            return Err(Error::new(Class::Other, why));
        }
        let mut all = self.0.lock();
        let found = all.get_mut(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let index = found.taken.iter().position(|taken| !taken);
        let index = index.ok_or_else(|| {
            let why = format!(
                "{} threads of this process have started threadcomm, as many as it was made for; give \
                 MPIX_Threadcomm_init a greater num_threads",
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

    /// Takes the calling thread's endpoint back.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: it is no thread communicator. `MPI_ERR_OTHER`: this thread has not started it.
    pub fn finish(&self, handle: MPI_Comm) -> Result<()> {
        let mut all = self.0.lock();
        let found = all.get_mut(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let own = STARTED.with_borrow_mut(|started| {
            let place = started.iter().position(|one| one.threadcomm == handle)?;
            Some(started.swap_remove(place))
        });
        let own = own.ok_or_else(|| {
            let why = "this thread has not started threadcomm; call MPIX_Threadcomm_start first";
            Error::new(Class::Other, why)
        })?;
        found.taken[own.index] = false;
        Ok(())
    }

    /// Takes one out that no thread has started any more. Its endpoints are the caller's to free.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: it is no thread communicator. `MPI_ERR_OTHER`: threads have started it.
    pub fn take(&self, handle: MPI_Comm) -> Result<Vec<MPI_Comm>> {
        let mut all = self.0.lock();
        let found = all.get(&handle).ok_or_else(|| no_threadcomm(handle))?;
        let still = found.taken.iter().filter(|taken| **taken).count();
        if still > 0 {
            let why = format!(
                "{still} threads have started threadcomm; each of them must call MPIX_Threadcomm_finish first"
            );
            return Err(Error::new(Class::Other, why));
        }
        Ok(all.remove(&handle).map_or(Vec::new(), |gone| gone.points))
    }
}

/// The error where a thread communicator is wanted.
#[cold]
fn no_threadcomm(handle: MPI_Comm) -> Error {
    let why = match handle {
        MPI_COMM_NULL => "threadcomm is MPI_COMM_NULL".to_string(),
        _ => format!(
            "threadcomm {handle:#x} is no thread communicator; MPIX_Threadcomm_init makes such"
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
            // The other has ended without finishing: its endpoint is in use.
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
