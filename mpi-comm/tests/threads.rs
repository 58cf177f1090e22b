//! `MPI_THREAD_MULTIPLE`: threads that make collectives concurrently, over the real shared-memory
//! transport.

#[path = "../../mpi-core/tests/common/threads.rs"]
mod common;

use std::sync::Arc;
use std::thread;

use common::{Book, Watchdog, process};
use mpi_coll::Buffers;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_sched::{Barrier, Team};

const THREADS: u32 = 4;

/// Each thread has its own communicator (MPI-3.1 section 12.4.3 allows all to be busy) and makes
/// blocking and nonblocking collectives on it; all share VCI 0.
#[test]
fn threads_do_collectives_on_communicators_of_their_own() {
    const RANKS: u32 = 3;
    let _watchdog = Watchdog::new("threads_do_collectives_on_communicators_of_their_own");
    let book = Book::default();
    let processes = [0, 1, 2].map(|me| process(&book, me, 1, true));
    thread::scope(|scope| {
        for (rank, process) in processes.iter().enumerate() {
            for thread in 0..THREADS {
                let group = Group::identity(RANKS);
                let context = ContextId::new(0, 1 + thread);
                let comm = Arc::new(Comm::new(context, group, rank as u32));
                scope.spawn(move || collectives(process, &comm, thread));
            }
        }
    });
    for process in &processes {
        process.drain().unwrap();
    }
}

fn collectives(process: &Process, comm: &Arc<Comm>, thread: u32) {
    let rank = u64::from(comm.rank());
    for round in 0..60 {
        let value = |rank: u64| [rank * 1000 + round, u64::from(thread)];
        // SAFETY: a barrier has no data.
        let barrier = unsafe {
            mpi_coll::started::start_collective(
                process,
                comm.clone(),
                Buffers::NONE,
                |schedule| {
                    let team = Team::all(comm.rank(), comm.size());
                    mpi_sched::barrier(schedule, team, Barrier::Dissemination);
                },
                None,
            )
        };
        let all = mpi_coll::gather_all_u64(process, comm, value(rank)).unwrap();
        assert!((0..).zip(&all).all(|(rank, got)| *got == value(rank)));
        let mut data = if rank == 0 {
            [round; 200]
        } else {
            [u64::MAX; 200]
        };
        mpi_coll::broadcast_u64(process, comm, &mut data).unwrap();
        assert_eq!(data, [round; 200]);
        assert_eq!(process.wait(barrier.unwrap()).unwrap().1, None);
        mpi_coll::barrier(process, comm).unwrap();
    }
}
