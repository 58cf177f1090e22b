//! Barriers and short allreduces between ranks of a node, when calls come again: the one phase of their
//! schedule (`mpi_coll::slots`), gone through without the schedule. Ranks that go through the schedule, because
//! theirs is the first such call, notice no difference.
//!
//! The program's calls come here first ([`barrier`], [`allreduce`]), with handles as they are, and go on to the long way,
//! which checks arguments, where that says that nothing was done.

use std::sync::atomic::{AtomicU64, Ordering};

use mpi_coll::run::Flag;
use mpi_coll::schedule::slot_offset;

use super::agreement::CallSignature;
use super::buffers::Buffers;
use super::call::Call;
use super::nearness;
use super::progress_note::ProgressNote;
use super::shared::SharedSlots;
use super::state::CommState;
use mpi_core::comm::Comm;
use mpi_core::datatype::Predefined;
use mpi_core::error::{Error, Result};
use mpi_core::lock::Guarded;
use mpi_core::op::PredefinedOp;
use mpi_core::process::Process;

/// The calls of a communicator that have had schedules of one phase.
#[derive(Default)]
pub(super) struct QuickCalls {
    /// The signature of a barrier, as a word; 0 until there was one.
    barrier: AtomicU64,
    allreduce: Guarded<Option<QuickReduce>>,
}

/// The latest allreduce of the kind.
#[derive(Clone, Copy)]
struct QuickReduce {
    datatype: Predefined,
    op: PredefinedOp,
    count: usize,
    bytes: usize,
    /// Where the data begins in a slot.
    offset: isize,
    kernel: unsafe fn(*const u8, *const u8, *mut u8, usize),
    signature: CallSignature,
    label: Label,
}

/// What a caller calls the datatype and the operation of an allreduce by: numbers that stay theirs, none of them 0.
pub type Label = [i32; 2];

/// Of an allreduce whose caller has not said it.
const NO_LABEL: Label = [0; 2];

impl QuickReduce {
    /// Of such a call, if it can be done here. (Longer elements lie elsewhere in slots, and how longer data is best
    /// stored depends on where the others are.)
    fn of(call: &Call<'_>, signature: CallSignature) -> Option<QuickReduce> {
        let Call::Allreduce { part, op, .. } = call else {
            return None;
        };
        let datatype = part.datatype.as_predefined()?;
        let short = part.datatype.size() <= 8 && (1..nearness::LEAST).contains(&part.bytes());
        short.then_some(QuickReduce {
            datatype,
            op: op.as_predefined()?,
            count: part.count,
            bytes: part.bytes(),
            offset: slot_offset(part.bytes()),
            kernel: op.kernel(datatype)?,
            signature,
            label: NO_LABEL,
        })
    }

    /// Whether it is such a call.
    #[inline(always)]
    fn fits(&self, call: &Call<'_>) -> bool {
        match call {
            Call::Allreduce { part, op, .. } => {
                self.count == part.count
                    && part.datatype.as_predefined() == Some(self.datatype)
                    && op.as_predefined() == Some(self.op)
            }
            _ => false,
        }
    }
}

impl QuickCalls {
    /// Takes note of a call whose schedule goes in one phase by shared slots.
    pub fn note(&self, call: &Call<'_>, signature: CallSignature) {
        match call {
            Call::Barrier => self.barrier.store(signature.word(), Ordering::Relaxed),
            _ => {
                if let Some(found) = QuickReduce::of(call, signature) {
                    *self.allreduce.lock() = Some(found);
                }
            }
        }
    }

    /// Forgets all.
    pub fn forget(&self) {
        self.barrier.store(0, Ordering::Relaxed);
        *self.allreduce.lock() = None;
    }

    /// As [`CommState::set_alone`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn set_alone(&self) {
        // SAFETY: as for this function.
        unsafe { self.allreduce.set_alone() };
    }
}

/// Carries out a call if it is one of those noted; `None`: nothing was done.
///
/// # Safety
/// As for [`call`](super::call).
#[inline]
pub(super) unsafe fn call(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
) -> Option<Result<()>> {
    match call {
        Call::Barrier => barrier_at(ShortWay::of(process, comm, state)?),
        Call::Allreduce { in_place, .. } => {
            let way = ShortWay::of(process, comm, state)?;
            let known = (*state.quick.allreduce.lock()).filter(|known| known.fits(call))?;
            let send = if *in_place {
                buffers.recv
            } else {
                buffers.send
            };
            // SAFETY: the caller's contract.
            Some(unsafe { allreduce_at(way, send, buffers.recv, &known) })
        }
        _ => None,
    }
}

/// Where a call takes the short way.
struct ShortWay<'a> {
    process: &'a Process,
    comm: &'a Comm,
    state: &'a CommState,
    shared: &'a SharedSlots,
    /// How often to look at a flag before anything else is looked at.
    looks: u32,
}

impl<'a> ShortWay<'a> {
    /// On a communicator whose members share slots, unless a process has been lost.
    #[inline(always)]
    fn of(process: &'a Process, comm: &'a Comm, state: &'a CommState) -> Option<ShortWay<'a>> {
        Some(ShortWay {
            shared: state.shared_slots()?,
            looks: process.looks_without_loss()?,
            process,
            comm,
            state,
        })
    }

    /// The same for a call of the program's, whose number among the communicator's may be the one before which
    /// slots are made.
    #[inline(always)]
    fn of_call(process: &'a Process, comm: &'a Comm) -> Option<ShortWay<'a>> {
        let state = CommState::of(comm);
        match state.has_counted() {
            true => ShortWay::of(process, comm, state),
            false => None,
        }
    }
}

/// A barrier, if the latest went in one phase of shared slots; `None`: nothing was done.
#[inline(always)]
pub fn barrier(process: &Process, comm: &Comm) -> Option<Result<()>> {
    barrier_at(ShortWay::of_call(process, comm)?)
}

#[inline(always)]
fn barrier_at(way: ShortWay<'_>) -> Option<Result<()>> {
    let word = way.state.quick.barrier.load(Ordering::Relaxed);
    if word == 0 {
        return None;
    }
    let signature = CallSignature::from_word(word);
    Some(Phase::begin(way, signature).and_then(|mut phase| {
        phase.shared.raise(phase.number, signature);
        phase.wait(phase.number)?;
        phase.end()
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
    let way = ShortWay::of_call(process, comm)?;
    let known = match &*way.state.quick.allreduce.lock() {
        Some(known) if known.label == label && known.count as i64 == count => *known,
        _ => return None,
    };
    // SAFETY: the caller's contract; the label is the one that was given for this datatype.
    Some(unsafe { allreduce_at(way, send, recv, &known) })
}

/// Says that the datatype and the operation of an allreduce that has been carried out have this label.
pub fn label_allreduce(comm: &Comm, call: &Call<'_>, label: Label) {
    if let Some(known) = &mut *CommState::of(comm).quick.allreduce.lock()
        && known.fits(call)
    {
        known.label = label;
    }
}

/// # Safety
/// `known.count` elements at `send` are readable, and at `recv` writable.
#[inline(always)]
unsafe fn allreduce_at(
    way: ShortWay<'_>,
    send: *const u8,
    recv: *mut u8,
    known: &QuickReduce,
) -> Result<()> {
    let shared = way.shared;
    let mut phase = Phase::begin(way, known.signature)?;
    let (number, slots) = (phase.number, shared.slots);
    // The own slot may be written when all have gone so far.
    phase.wait(number.wrapping_add(2).wrapping_sub(slots.depth.into()))?;
    let of = |rank| shared.slot(rank, number).wrapping_offset(known.offset);
    // SAFETY: the slot has room, since the schedule for this puts as much there; nobody else writes to it.
    unsafe { netmod_kit::copy(send, of(slots.rank), known.bytes) };
    shared.raise(number, known.signature);
    phase.wait(number)?;
    // In the order of ranks from the last to the first, everywhere, so that all get the same bits.
    // SAFETY: flags say that slots have been written, and they are not written again before this rank raises
    // the flag of the next phase; the buffers are the caller's promise, and the kernel is that of the datatype.
    unsafe {
        let last = slots.size - 1;
        if last == 0 {
            netmod_kit::copy(of(0), recv, known.bytes);
        } else {
            (known.kernel)(of(last - 1), of(last), recv, known.count);
            for rank in (0..last - 1).rev() {
                (known.kernel)(of(rank), recv, recv, known.count);
            }
        }
    }
    phase.end()
}

/// The one phase of a call.
struct Phase<'a> {
    process: &'a Process,
    comm: &'a Comm,
    shared: &'a SharedSlots,
    signature: CallSignature,
    looks: u32,
    tag: u32,
    number: u64,
    /// What was found of ranks that have called something else, but keep step.
    disagreement: Option<Error>,
}

impl<'a> Phase<'a> {
    #[inline(always)]
    fn begin(way: ShortWay<'a>, signature: CallSignature) -> Result<Phase<'a>> {
        let ShortWay {
            process,
            comm,
            shared,
            looks,
            ..
        } = way;
        shared.check()?;
        let tag = comm.next_collective();
        shared.say(tag, signature);
        Ok(Phase {
            process,
            comm,
            shared,
            signature,
            looks,
            tag,
            number: shared.take(1),
            disagreement: None,
        })
    }

    /// Waits until all have raised their flags of a phase.
    #[inline(always)]
    fn wait(&mut self, number: u64) -> Result<()> {
        let mut missing = 0;
        match self.look(number, self.looks, &mut missing)? {
            true => Ok(()),
            false => self.wait_long(number, missing),
        }
    }

    /// Whether all from `missing` on have; otherwise `missing` is the first that has not.
    #[inline(always)]
    fn look(&mut self, number: u64, times: u32, missing: &mut u32) -> Result<bool> {
        // Earlier phases may have been those of other calls.
        let own = (number == self.number).then_some(self.signature);
        while *missing < self.shared.slots.size {
            match self.shared.is_up(*missing, number, times, own) {
                Flag::Up => {}
                Flag::Down => return Ok(false),
                Flag::Other => self.note_disagreement(*missing, number)?,
            }
            *missing += 1;
        }
        Ok(true)
    }

    #[cold]
    fn note_disagreement(&mut self, of: u32, number: u64) -> Result<()> {
        let error = self.shared.disagree_in(of, number, self.signature)?;
        self.disagreement.get_or_insert(error);
        Ok(())
    }

    #[inline(never)]
    fn wait_long(&mut self, number: u64, mut missing: u32) -> Result<()> {
        let Phase {
            process,
            comm,
            shared,
            ..
        } = *self;
        let (looks, crowded) = (self.looks, process.is_oversubscribed());
        let mut polls = 0;
        let mut note = ProgressNote::new(process);
        process.wait_for_stores(comm.vci(), || {
            // With a member lost nothing goes on, lest what is missing be taken for the result.
            if let Some(error) = process.loss_among(|peer| comm.has_member(peer)) {
                return Err(error);
            }
            loop {
                if self.look(number, looks, &mut missing)? {
                    return Ok(Some(()));
                }
                shared.check_agreement(self.tag, self.signature, &mut polls)?;
                let all = missing..shared.slots.size;
                note.look(process, comm, || {
                    ((1, 1), shared.missing(all.clone(), number))
                });
                if !crowded || !shared.spin_unless_needed(all, number) {
                    return Ok(None);
                }
            }
        })
    }

    #[inline(always)]
    fn end(self) -> Result<()> {
        self.disagreement.map_or(Ok(()), Err)
    }
}
