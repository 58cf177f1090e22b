//! Barriers and short collectives between ranks of a node, when calls come again: the one phase of their
//! schedule (`mpi_sched::slots`), gone through without the schedule. Ranks that go through the schedule, because
//! theirs is the first such call, or because their data has gaps, notice no difference.
//!
//! The program's calls come here first ([`barrier`], [`allreduce`] and so on), with handles as they are, and go on to the
//! long way, which checks arguments, where that says that nothing was done.

mod flags;
mod movement;
mod parcels;
mod pieces;
mod reduction;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::plan::call::Call;
use crate::plan::state::CommState;
use flags::{Phase, ShortWay};
use movement::{Kind, QuickMovement, QuickMovements};
use mpi_core::comm::Comm;
use mpi_core::error::Result;
use mpi_core::lock::Guarded;
use mpi_core::process::Process;
use reduction::QuickReduction;

pub(crate) use parcels::{Parcel, Parcels};
pub use reduction::Label;

/// The calls of a communicator that have had schedules of one phase.
#[derive(Default)]
pub(crate) struct QuickCalls {
    /// The signature of a barrier, as a word; 0 until there was one.
    barrier: AtomicU64,
    /// The latest allreduce of the kind, and the latest reduce.
    allreduce: Guarded<Option<QuickReduction>>,
    reduce: Guarded<Option<QuickReduction>>,
    /// The latest scan, exscan and reduce-scatter.
    scan: Guarded<Option<QuickReduction>>,
    exscan: Guarded<Option<QuickReduction>>,
    reduce_scatter: Guarded<Option<QuickReduction>>,
    movements: Guarded<QuickMovements>,
}

impl QuickCalls {
    /// Takes note of a call whose schedule goes in one phase by shared slots.
    pub fn note(&self, call: &Call<'_>, signature: CallSignature, ranks: u32) {
        if let Call::Barrier = call {
            self.barrier.store(signature.word(), Ordering::Relaxed);
        } else if let Some(latest) = self.latest(call) {
            if let Some(found) = QuickReduction::of(call, signature, ranks) {
                *latest.lock() = Some(found);
            }
        } else {
            self.movements.lock().note(call, signature);
        }
    }

    /// Where the latest reduction of the kind of a call is.
    #[inline(always)]
    fn latest(&self, call: &Call<'_>) -> Option<&Guarded<Option<QuickReduction>>> {
        match call {
            Call::Allreduce { .. } => Some(&self.allreduce),
            Call::Reduce { .. } => Some(&self.reduce),
            Call::Scan { .. } => Some(&self.scan),
            Call::Exscan { .. } => Some(&self.exscan),
            Call::ReduceScatter { .. } => Some(&self.reduce_scatter),
            _ => None,
        }
    }

    fn reductions(&self) -> [&Guarded<Option<QuickReduction>>; 5] {
        [
            &self.allreduce,
            &self.reduce,
            &self.scan,
            &self.exscan,
            &self.reduce_scatter,
        ]
    }

    /// The movement of so many elements of the datatype with this label, if there is such.
    #[inline(always)]
    fn find(&self, kind: Kind, label: i32, count: i64) -> Option<QuickMovement> {
        // SAFETY: it is copied at once.
        match unsafe { self.movements.peek() } {
            Some(known) => known.find(kind, label, count),
            None => self.movements.lock_by_word().find(kind, label, count),
        }
    }

    /// Forgets all.
    pub fn forget(&self) {
        self.barrier.store(0, Ordering::Relaxed);
        for latest in self.reductions() {
            *latest.lock() = None;
        }
        *self.movements.lock() = QuickMovements::default();
    }
}

/// Carries out a call whose arguments have been checked, if it is one of those noted; `None`: nothing was done.
///
/// # Safety
/// As for [`call`](crate::plan::call).
#[inline]
pub(crate) unsafe fn call(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
) -> Option<Result<()>> {
    let (Call::Allreduce { in_place, .. }
    | Call::Scan { in_place, .. }
    | Call::Exscan { in_place, .. }
    | Call::ReduceScatter { in_place, .. }) = call
    else {
        return match call {
            Call::Barrier => {
                barrier_at(state, ShortWay::over(process, comm, state.shared_slots()?)?)
            }
            _ => None,
        };
    };
    let way = ShortWay::over(process, comm, state.shared_slots()?)?;
    let ranks = way.shared.slots.size;
    let fits = |known: &QuickReduction| known.fits(call, ranks);
    let known = (*state.quick.latest(call)?.lock()).filter(fits)?;
    let recv = buffers.recv;
    let send = if *in_place { recv } else { buffers.send };
    // SAFETY (of all of these): the caller's contract.
    Some(match call {
        // SAFETY: see above.
        Call::Scan { .. } => unsafe { known.scan(way, send, recv, false) },
        // SAFETY: see above.
        Call::Exscan { .. } => unsafe { known.scan(way, send, recv, true) },
        Call::ReduceScatter { blocks, .. } => {
            let me = way.shared.slots.rank as usize;
            let before = (0..me).map(|rank| blocks.count(rank)).sum();
            let mine = before..before + blocks.count(me);
            // SAFETY: see above.
            unsafe { known.reduce_scatter(way, send, recv, mine) }
        }
        // SAFETY: see above.
        _ => unsafe { known.run(way, send, recv, true) },
    })
}

/// Where a call of the program's takes the short way; its number among the communicator's may be the one before which
/// slots are made.
#[inline(always)]
fn way_of_call<'a>(process: &'a Process, comm: &'a Comm) -> Option<(&'a CommState, ShortWay<'a>)> {
    let state = CommState::made(comm)?;
    let way = ShortWay::over(process, comm, state.fast_path_slots()?)?;
    Some((state, way))
}

/// A barrier, if the latest went in one phase of shared slots; `None`: nothing was done.
#[inline(always)]
pub fn barrier(process: &Process, comm: &Comm) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    barrier_at(state, way)
}

#[inline(always)]
fn barrier_at(state: &CommState, way: ShortWay<'_>) -> Option<Result<()>> {
    let word = state.quick.barrier.load(Ordering::Relaxed);
    if word == 0 {
        return None;
    }
    let signature = CallSignature::from_word(word);
    Some(Phase::begin(way, signature).and_then(|mut phase| {
        phase.raise();
        phase.wait()?;
        phase.end(0)
    }))
}

/// An allreduce, if the latest had this label and number of elements, and went in one phase of shared slots; `None`:
/// nothing was done.
///
/// # Safety
/// `count` elements of the datatype that `label` stands for are readable at `send`, and writable at `recv`, which is the
/// same address or does not overlap.
#[inline(always)]
pub unsafe fn allreduce(
    process: &Process,
    comm: &Comm,
    label: Label,
    count: i64,
    send: *const u8,
    recv: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let known = find_reduction(process, &state.quick.allreduce, label, count)?;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    Some(unsafe { known.run(way, send, recv, true) })
}

/// As [`allreduce`], to the rank `root`, if there is such a rank.
///
/// # Safety
/// As there; at other ranks than the root nothing is said of `recv`.
#[inline(always)]
pub unsafe fn reduce(
    process: &Process,
    comm: &Comm,
    label: Label,
    count: i64,
    root: i32,
    send: *const u8,
    recv: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let root = rank_of(&way, root)?;
    let known = find_reduction(process, &state.quick.reduce, label, count)?.to(root);
    let takes = root == way.shared.slots.rank;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    Some(unsafe { known.run(way, send, recv, takes) })
}

/// A broadcast from rank `root`, if there is such a rank, and if there was one of so many elements of the datatype with
/// this label that went in one phase of shared slots; `None`: nothing was done.
///
/// # Safety
/// So many elements are readable at `buffer` at the root, and writable elsewhere.
#[inline(always)]
pub unsafe fn bcast(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    root: i32,
    buffer: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let root = rank_of(&way, root)?;
    let known = state.quick.find(Kind::Bcast, label, count)?;
    // SAFETY (of both): the caller's contract; the label is the one that was given for this datatype.
    match known.is_long() {
        // SAFETY: see above.
        false => Some(unsafe { known.bcast::<false>(way, root, buffer) }),
        // SAFETY: see above.
        true => unsafe { bcast_long(process, comm, label, count, root, buffer) },
    }
}

/// A broadcast that may go by pieces: finds all once more, so that what is known of a short one stays in registers.
///
/// # Safety
/// As for [`bcast`].
#[cold]
#[inline(never)]
unsafe fn bcast_long(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    root: u32,
    buffer: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let known = state.quick.find(Kind::Bcast, label, count)?;
    // SAFETY: the caller's contract.
    Some(unsafe { known.bcast::<true>(way, root, buffer) })
}

/// A gather to rank `root` of blocks of `count` elements, as [`bcast`]; at the root `own` is none in place.
///
/// # Safety
/// A block is readable at `own`, and at the root blocks of all ranks are writable at `all`, which don't overlap; if the
/// former is this rank's block of the latter nothing is done.
#[inline(always)]
pub unsafe fn gather(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    root: i32,
    own: Option<*const u8>,
    all: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let root = rank_of(&way, root)?;
    let known = state.quick.find(Kind::Gather, label, count)?;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    unsafe { known.gather(way, root, own, all) }
}

/// A scatter from rank `root`, as [`gather`] the other way round.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn scatter(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    root: i32,
    all: *const u8,
    own: Option<*mut u8>,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let root = rank_of(&way, root)?;
    let known = state.quick.find(Kind::Scatter, label, count)?;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    unsafe { known.scatter(way, root, all, own) }
}

/// An allgather of blocks of `count` elements, as [`bcast`]; `send` is none in place.
///
/// # Safety
/// A block is readable at `send`, and blocks of all ranks writable at `recv`, which don't
/// overlap; if the former is this rank's block of the latter nothing is done.
#[inline(always)]
pub unsafe fn allgather(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    send: Option<*const u8>,
    recv: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let known = state.quick.find(Kind::Allgather, label, count)?;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    unsafe { known.allgather(way, send, recv) }
}

/// An alltoall of blocks of `count` elements, as [`bcast`]; `send` is none in place.
///
/// # Safety
/// Blocks of all ranks are readable at `send`, and writable at `recv`, which don't overlap.
#[inline(always)]
pub unsafe fn alltoall(
    process: &Process,
    comm: &Comm,
    label: i32,
    count: i64,
    send: Option<*const u8>,
    recv: *mut u8,
) -> Option<Result<()>> {
    let (state, way) = way_of_call(process, comm)?;
    let known = state.quick.find(Kind::Alltoall, label, count)?;
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    Some(unsafe { known.alltoall(way, send, recv) })
}

#[inline(always)]
fn rank_of(way: &ShortWay<'_>, root: i32) -> Option<u32> {
    ((root as u32) < way.shared.slots.size).then_some(root as u32)
}

#[inline(always)]
fn find_reduction(
    process: &Process,
    latest: &Guarded<Option<QuickReduction>>,
    label: Label,
    count: i64,
) -> Option<QuickReduction> {
    let find = |known: &Option<QuickReduction>| known.filter(|known| known.has(label, count));
    // SAFETY: it is copied at once, and calls on a process that is not threaded don't overlap.
    match unsafe { latest.peek_as(!process.is_threaded()) } {
        Some(known) => find(known),
        None => find(&latest.lock_by_word()),
    }
}

/// Says that the datatype and the operation of a reduction that has been carried out have this label.
pub fn label_reduction(comm: &Comm, call: &Call<'_>, label: Label) {
    if let Some(latest) = CommState::of(comm).quick.latest(call)
        && let Some(known) = &mut *latest.lock()
        && known.fits(call, comm.size())
    {
        known.set_label(label);
    }
}

/// Says that the datatype of a movement that has been carried out has this label.
pub fn label_movement(comm: &Comm, call: &Call<'_>, label: i32) {
    CommState::of(comm)
        .quick
        .movements
        .lock()
        .set_label(call, label);
}
