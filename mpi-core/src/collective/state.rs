//! What collectives keep with a communicator: schedules, slots, algorithms of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mpi_coll::{Choices, Nodes};

use super::board::Board;
use super::cache::{CommRun, Shape};
use super::call::Call;
use super::remote::RemoteBoard;
use super::shelf::Shelf;
use super::terms::Terms;
use crate::comm::Comm;
use crate::lock::Guarded;

/// Schedules that a communicator keeps.
const KEPT_RUNS: usize = 4;

/// Blocking collective calls of a communicator before it gets slots: many live for less.
const CALLS_BEFORE_BOARD: u32 = 4;

/// Nonblocking ones, before it gets slots for these with the next blocking one.
const STARTS_BEFORE_SHELF: u32 = 5;

/// The collectives of one communicator.
#[derive(Default)]
pub(crate) struct CommState {
    /// Schedules kept for their memory.
    #[allow(
        clippy::vec_box,
        reason = "they are large, and taken out and put back by every call"
    )]
    runs: Guarded<Vec<Box<CommRun>>>,
    /// How often all of them were to be built anew.
    era: AtomicU32,
    /// Blocking collective calls, up to those that it takes for slots to be made.
    calls: AtomicU32,
    /// Nonblocking ones, in the same way.
    starts: AtomicU32,
    /// Algorithms of its own.
    choices: Mutex<Option<Arc<Choices>>>,
    /// Slots in shared memory, once that was tried.
    board: OnceLock<Option<Board>>,
    /// The same for nonblocking collectives.
    shelf: OnceLock<Option<Box<Shelf>>>,
    /// Slots that members write to over a network, once that was tried.
    remote_board: OnceLock<Option<Box<RemoteBoard>>>,
    /// Which ranks share nodes, once that was asked for; none where it is of no use.
    nodes: OnceLock<Option<Box<Nodes>>>,
}

impl CommState {
    /// That of a communicator.
    #[inline]
    pub(crate) fn of(comm: &Comm) -> &CommState {
        comm.collective_state.get()
    }

    /// Which ranks of an intracommunicator share nodes, where there are several; `node_of` is the
    /// node of each process.
    pub(crate) fn nodes(&self, comm: &Comm, node_of: &[u32]) -> Option<&Nodes> {
        let find = || {
            let of_rank = |rank| node_of.get(comm.local().peer(rank) as usize).copied();
            let ranks: Vec<u32> = (0..comm.size()).map(of_rank).collect::<Option<_>>()?;
            let several = ranks.windows(2).any(|pair| pair[0] != pair[1]);
            let useful = several && comm.remote().is_none();
            useful.then(|| Box::new(Nodes::new(comm.rank(), &ranks)))
        };
        self.nodes.get_or_init(find).as_deref()
    }

    /// A run to build a schedule on, or one whose schedule is that of such a call.
    pub(crate) fn take_run(&self, shape: Option<&Shape<'_>>) -> Box<CommRun> {
        let new = || {
            let mut run = Box::<CommRun>::default();
            run.era = self.era.load(Ordering::Relaxed);
            run
        };
        let mut runs = self.runs.lock();
        // The latest are last.
        let place = shape.and_then(|shape| runs.iter().rposition(|run| run.fits(shape)));
        match place {
            Some(place) => runs.remove(place),
            None if runs.len() < KEPT_RUNS => new(),
            None => runs.remove(0),
        }
    }

    /// Keeps a schedule for the next collective, unless it was built before all were forgotten.
    pub(crate) fn give_run(&self, run: Box<CommRun>) {
        let mut runs = self.runs.lock();
        if runs.len() < 4 * KEPT_RUNS && run.era == self.era.load(Ordering::Relaxed) {
            runs.push(run);
        }
    }

    /// Has all schedules built anew, also those that nonblocking collectives still use.
    pub(crate) fn forget_runs(&self) {
        let mut runs = self.runs.lock();
        self.era.fetch_add(1, Ordering::Relaxed);
        runs.clear();
    }

    /// The slots that its members share, if they do.
    #[inline(always)]
    pub(crate) fn board(&self) -> Option<&Board> {
        self.board.get().and_then(Option::as_ref)
    }

    /// The slots that its members write to over a network, if they do.
    #[inline]
    pub(crate) fn remote_board(&self) -> Option<&RemoteBoard> {
        self.remote_board.get().and_then(Option::as_deref)
    }

    /// Counts a blocking collective call; true for the one before which slots are made.
    #[inline(always)]
    pub(crate) fn is_time_for_board(&self, comm: &Comm) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls > CALLS_BEFORE_BOARD {
            return false;
        }
        self.calls.store(calls + 1, Ordering::Relaxed);
        calls == CALLS_BEFORE_BOARD && comm.remote().is_none() && comm.size() > 1
    }

    /// What members compare of a call that goes in so many phases: nothing where there are no slots.
    pub(crate) fn terms(&self, call: &Call<'_>, phases: u32) -> Terms {
        match self.board() {
            Some(board) => Terms::of(call, board.slots.size as usize, phases),
            None => Terms::default(),
        }
    }

    /// The slots that its members share for nonblocking collectives, if they do.
    #[inline]
    pub(crate) fn shelf(&self) -> Option<&Shelf> {
        self.shelf.get().and_then(Option::as_deref)
    }

    /// Counts a nonblocking collective call. After some, the next blocking call makes slots for these: it
    /// may wait for others, which a nonblocking one must not.
    #[inline]
    pub(crate) fn count_start(&self) {
        let starts = self.starts.load(Ordering::Relaxed);
        if starts < STARTS_BEFORE_SHELF {
            self.starts.store(starts + 1, Ordering::Relaxed);
            if starts + 1 == STARTS_BEFORE_SHELF {
                self.calls.store(CALLS_BEFORE_BOARD, Ordering::Relaxed);
            }
        }
    }

    /// Whether there were slots to be made for nonblocking collectives, and nobody has tried yet.
    pub(crate) fn is_time_for_shelf(&self) -> bool {
        let enough = self.starts.load(Ordering::Relaxed) >= STARTS_BEFORE_SHELF;
        enough && self.shelf.get().is_none()
    }

    /// Whether it was tried to make slots for blocking collectives.
    pub(crate) fn has_tried_board(&self) -> bool {
        self.board.get().is_some()
    }

    /// Keeps the slots for nonblocking collectives.
    pub(crate) fn set_shelf(&self, shelf: Option<Shelf>) {
        let _ = self.shelf.set(shelf.map(Box::new));
        self.forget_runs();
    }

    /// Sets which algorithms its collectives take; none for those of the process. All members must
    /// set the same.
    pub fn set_choices(&self, choices: Option<Choices>) {
        if let Ok(mut own) = self.choices.lock() {
            *own = choices.map(Arc::new);
        }
        self.forget_runs();
    }

    /// The algorithms that were set for it.
    pub(crate) fn choices(&self) -> Option<Arc<Choices>> {
        self.choices.lock().ok()?.clone()
    }

    /// Its schedules need no lock.
    ///
    /// # Safety
    /// Calls on it don't overlap.
    pub(crate) unsafe fn set_alone(&self) {
        // SAFETY: as for this function.
        unsafe { self.runs.set_alone() };
    }

    /// Keeps the slots.
    pub(crate) fn set_board(&self, board: Option<Board>) {
        let _ = self.board.set(board);
        self.forget_runs();
    }

    /// Keeps the slots that are written to over a network.
    pub(crate) fn set_remote_board(&self, board: Option<RemoteBoard>) {
        let _ = self.remote_board.set(board.map(Box::new));
        self.forget_runs();
    }
}
