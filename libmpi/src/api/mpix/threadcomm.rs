//! Thread communicators, an extension of MPICH's (docs/vcis.md): the threads of parallel regions
//! are ranks, all of them by one handle.

use std::ffi::c_int;

use mpi_core::Result;
use mpi_runtime::lifecycle::init;
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::{MPI_COMM_NULL, MPI_Comm};
use crate::api::comm::comm_free;
use crate::api::mpix::endpoints::count_of;
use crate::args::{Late, LiveComm, Out};

/// `MPIX_Threadcomm_init`: makes a thread communicator, in which each process has as many ranks as
/// it names threads. One thread of each process of the intracommunicator calls it, outside of
/// parallel regions. Error handler and attributes are those of `comm`. From now on threads may call
/// MPI concurrently, whatever thread level was provided.
pub fn threadcomm_init(
    comm: LiveComm,
    num_threads: c_int,
    newthreadcomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = comm.runtime;
    newthreadcomm.set(MPI_COMM_NULL);
    let count = count_of("num_threads", num_threads)?;
    if count > 0 {
        // SAFETY: below MPI_THREAD_MULTIPLE the program sees to it that calls don't overlap (MPI-3.1 section 12.4.3), and where
        // the library calls a function of the program's with a lock taken, that one must not communicate (section 5.9.5).
        // Threads that call at the same time start what is made here, which comes after this.
        unsafe { init::admit_threads(runtime) };
    }
    // A copy callback of an attribute may free the parent.
    let parent = runtime.comm_arc(comm.object.handle())?;
    let made =
        mpi_comm::creation::endpoints::create_endpoints(&runtime.process, &parent.comm, count)?;
    let mut points = Vec::with_capacity(made.len());
    for comm in made {
        let point = runtime.add_comm(comm, Some(&parent))?;
        points.push(point);
        let copied = runtime.comm_arc(point)?.become_copy_of(&parent);
        if let Err(error) = copied {
            free_all(points)?;
            return Err(error);
        }
    }
    let handle = runtime.vacant_comm()?;
    runtime.threadcomms.insert(handle, points);
    newthreadcomm.set(handle);
    Ok(())
}

/// `MPIX_Threadcomm_free`: frees one that no thread has started any more; one thread of each
/// process calls it.
pub fn threadcomm_free(threadcomm: &mut MPI_Comm) -> Result<()> {
    let runtime = runtime()?;
    let points = runtime.threadcomms.take(*threadcomm)?;
    runtime.comms.give_back(*threadcomm);
    *threadcomm = MPI_COMM_NULL;
    free_all(points)
}

/// Frees endpoints, the others also if a callback of one's attributes fails.
fn free_all(points: Vec<MPI_Comm>) -> Result<()> {
    let mut freed = Ok(());
    for mut point in points {
        let this = comm_free(&mut point);
        freed = freed.and(this);
    }
    freed
}

/// `MPIX_Threadcomm_start`: makes the calling thread a rank of the thread communicator until it
/// finishes it. Each of the threads that it was made for calls it. They get their ranks in the
/// order in which they come.
pub fn threadcomm_start(threadcomm: MPI_Comm) -> Result<()> {
    runtime()?.threadcomms.start(threadcomm)
}

/// `MPIX_Threadcomm_finish`: the calling thread is no rank any more, and may start it again in
/// another region.
pub fn threadcomm_finish(threadcomm: MPI_Comm) -> Result<()> {
    runtime()?.threadcomms.finish(threadcomm)
}

/// `MPIX_Comm_test_threadcomm`: whether threads of a process have ranks of their own in it: thread
/// communicators, started or not, their duplicates, and communicators with endpoints.
pub fn comm_test_threadcomm(Late(comm, call): Late<MPI_Comm>, flag: Out<c_int>) -> Result<()> {
    let runtime = runtime()?;
    let is_one = runtime.threadcomms.has(comm) || runtime.comm(comm, call)?.comm.has_endpoints();
    flag.set(is_one.into());
    Ok(())
}
