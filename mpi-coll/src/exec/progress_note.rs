//! For hang reports: the round of a blocking collective, and the ranks it waits for.

use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Process;
use mpi_core::process::notes::{AwaitedEvent, Round, WaitNote};

/// The note of a blocking collective. Updated only as often as the process checks its peers.
pub(crate) struct ProgressNote<'a> {
    /// Number of the process's checks when the note was last updated.
    checks: u32,
    note: Option<WaitNote<'a>>,
}

impl<'a> ProgressNote<'a> {
    /// Creates the note of a call that begins.
    #[inline]
    pub fn new(process: &Process) -> ProgressNote<'a> {
        ProgressNote {
            checks: process.peer_checks(),
            note: None,
        }
    }

    /// Updates the note if a check is due. `found` returns the round and the missing ranks.
    #[inline]
    pub fn update(
        &mut self,
        process: &'a Process,
        comm: &Comm,
        found: impl FnOnce() -> ((u32, u32), Vec<u32>),
    ) {
        if process.peer_checks() != self.checks {
            self.renew(process, comm, found());
        }
    }

    #[cold]
    fn renew(&mut self, process: &'a Process, comm: &Comm, found: ((u32, u32), Vec<u32>)) {
        self.checks = process.peer_checks();
        self.note = None;
        let (round, ranks) = found;
        let Some(&rank) = ranks.first() else { return };
        let to = comm.member_destination(rank, 0, Purpose::Collective);
        let what = AwaitedEvent::Collective(Round {
            context: comm.context().of(Purpose::Collective),
            round,
            rank: (rank, to.peer),
            others: ranks.len() as u32 - 1,
        });
        self.note = Some(process.note(what, comm.vci(), std::iter::empty()));
    }
}
