//! For reports of hangs: in which round a blocking collective is, and for whom it waits.

use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Process;
use mpi_core::process::notes::{Awaited, Note, Round};

/// What a blocking collective has had noted. It looks only as often as the process looks after its peers.
pub(crate) struct ProgressNote<'a> {
    /// How often the process had looked after others when it last thought of it.
    checks: u32,
    note: Option<Note<'a>>,
}

impl<'a> ProgressNote<'a> {
    /// For a call that begins.
    #[inline]
    pub fn new(process: &Process) -> ProgressNote<'a> {
        ProgressNote {
            checks: process.checks(),
            note: None,
        }
    }

    /// To be called by who waits, with the round that it is in and the ranks that it waits for.
    #[inline]
    pub fn look(
        &mut self,
        process: &'a Process,
        comm: &Comm,
        found: impl FnOnce() -> ((u32, u32), Vec<u32>),
    ) {
        if process.checks() != self.checks {
            self.take(process, comm, found());
        }
    }

    #[cold]
    fn take(&mut self, process: &'a Process, comm: &Comm, found: ((u32, u32), Vec<u32>)) {
        self.checks = process.checks();
        self.note = None;
        let (round, ranks) = found;
        let Some(&rank) = ranks.first() else { return };
        let to = comm.to_member(rank, 0, Purpose::Collective);
        let what = Awaited::Collective(Round {
            context: comm.context().of(Purpose::Collective),
            round,
            rank: (rank, to.peer),
            others: ranks.len() as u32 - 1,
        });
        self.note = Some(process.note(what, comm.vci(), std::iter::empty()));
    }
}
