//! Running a schedule to its end, by the port that it takes.

use std::sync::atomic::Ordering;

use super::Buffers;
use super::board::Board;
use super::cache::{CommRun, Shape};
use super::port::{CommPort, NetworkPort, NoSlots, SharedPort, no_slots};
use super::remote::RemoteBoard;
use super::state::CommState;
use super::terms::Terms;
use crate::comm::{Comm, Purpose};
use crate::error::Result;
use crate::process::Process;
use crate::process::loan;
use mpi_coll::{Progress, Schedule, rdma};

/// Runs a collective to its end.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    // SAFETY: as for this function.
    unsafe {
        collective_for(
            process,
            comm,
            Purpose::Collective,
            comm.next_collective(),
            buffers,
            build,
        )
    }
}

/// As [`collective`], with messages of another purpose and a tag of the caller's.
///
/// # Safety
/// As for [`collective`].
pub unsafe fn collective_for(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    let state = CommState::of(comm);
    let mut kept = state.take_run(None);
    kept.remember(None);
    kept.terms = Terms::default();
    build(kept.run.rebuild());
    // SAFETY: as for this function.
    unsafe { run(process, comm, state, purpose, tag, buffers, kept) }
}

/// Runs a schedule to its end, and keeps it.
///
/// # Safety
/// As for [`collective`].
#[inline]
pub(super) unsafe fn run(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    mut kept: Box<CommRun>,
) -> Result<()> {
    let terms = kept.terms;
    let board = state.board().filter(|_| !terms.is_none());
    if let Some(board) = board {
        board.check()?;
        board.say(tag, terms);
    }
    let call = Underway {
        process,
        comm,
        purpose,
        tag,
        terms,
    };
    // SAFETY: as for this function; the run is over when this returns: complete, or its messages ended one by
    // one. (Should ending them fail, which takes a VCI that is not open, the run keeps its scratch memory.)
    let start = |kept: &mut CommRun| unsafe { kept.run.start(buffers.send, buffers.recv, tag) };
    let phases = kept.run.schedule().phases();
    let result = if phases == 0 {
        start(&mut kept)?;
        call.by_messages(&mut kept, board)
    } else if let Some(board) = board {
        kept.run.set_number(board.take(phases));
        start(&mut kept)?;
        call.by_shared(&mut kept, board)
    } else if let Some(board) = state.remote_board() {
        let meets = kept.run.schedule().meets();
        if !board.allows(phases, meets) {
            meet(process, comm, state, board)?;
        }
        kept.run.set_number(board.take(phases, meets));
        start(&mut kept)?;
        call.by_network(&mut kept, board)
    } else {
        Err(no_slots())
    };
    if kept.run.is_running() {
        process.wait_despite_loss(
            comm.vci(),
            || Ok(give_up(process, &mut kept)?.then_some(())),
        )?;
    }
    state.give_run(kept);
    result
}

/// A blocking call whose schedule runs.
struct Underway<'a> {
    process: &'a Process,
    comm: &'a Comm,
    purpose: Purpose,
    tag: u32,
    terms: Terms,
}

impl<'a> Underway<'a> {
    fn port<S>(&self, slots: S) -> CommPort<'a, S> {
        CommPort {
            process: self.process,
            comm: self.comm,
            purpose: self.purpose,
            slots,
        }
    }

    /// Invariant: with a member lost the schedule goes no step on, lest others take what is missing for
    /// the result.
    #[inline]
    fn check_members(&self) -> Result<()> {
        match self.process.loss_among(|peer| self.comm.has_member(peer)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn by_messages(&self, kept: &mut CommRun, board: Option<&Board>) -> Result<()> {
        let Underway { tag, terms, .. } = *self;
        let mut port = self.port(NoSlots);
        let mut vain = 0;
        self.process.wait_despite_loss(self.comm.vci(), || {
            self.check_members()?;
            if kept.run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            if let Some(board) = board {
                board.doubt(tag, terms, &mut vain)?;
            }
            Ok(None)
        })?;
        match board {
            // Whose data came has said what it is, which messages don't.
            Some(board) => board.compare(tag, terms),
            None => Ok(()),
        }
    }

    #[inline]
    fn by_shared(&self, kept: &mut CommRun, board: &Board) -> Result<()> {
        let Underway { tag, terms, .. } = *self;
        let mut port = self.port(SharedPort {
            board,
            looks: self.process.looks(),
            terms,
        });
        let mut vain = 0;
        let crowded = self.process.is_crowded();
        self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            loop {
                if kept.run.advance(&mut port)? == Progress::Done {
                    return Ok(Some(()));
                }
                board.doubt(tag, terms, &mut vain)?;
                let lingers = |(ranks, number)| board.linger(ranks, number);
                if !crowded || !kept.run.awaited().is_some_and(lingers) {
                    return Ok(None);
                }
            }
        })
    }

    fn by_network(&self, kept: &mut CommRun, board: &RemoteBoard) -> Result<()> {
        let mut port = self.port(NetworkPort {
            process: self.process,
            comm: self.comm,
            board,
            looks: board.looks(self.process.looks()),
        });
        board.watch.waits.store(true, Ordering::Relaxed);
        let result = self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            let progress = kept.run.advance(&mut port)?;
            Ok((progress == Progress::Done).then_some(()))
        });
        board.watch.waits.store(false, Ordering::Relaxed);
        if result.is_err() {
            board.keep();
        }
        result
    }
}

/// Ends the messages of a collective that can't be carried on, so that its buffers are the caller's. Returns
/// whether all are ended; some others must take note of first.
#[cold]
pub(super) fn give_up(process: &Process, kept: &mut CommRun) -> Result<bool> {
    let mut result = Ok(());
    let over = kept.run.give_up(|message| {
        let Some(id) = message else { return true };
        loan::try_end(process, id).unwrap_or_else(|error| {
            result = Err(error);
            false
        })
    });
    result.map(|()| over)
}

/// A barrier between broadcasts, before slots are used again.
#[cold]
fn meet(process: &Process, comm: &Comm, state: &CommState, board: &RemoteBoard) -> Result<()> {
    let shape = Some(Shape::PACE);
    let mut kept = state.take_run(shape.as_ref());
    if !kept.fits(&Shape::PACE) {
        kept.remember(shape.as_ref());
        kept.terms = Terms::default();
        let schedule = kept.run.rebuild();
        rdma::barrier(schedule, board.reach, rdma::Signals::Dissemination);
    }
    // SAFETY: a barrier uses no buffers.
    unsafe {
        run(
            process,
            comm,
            state,
            Purpose::Collective,
            0,
            Buffers::NONE,
            kept,
        )
    }
}
