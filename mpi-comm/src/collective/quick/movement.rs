//! Short data that goes as it is: broadcast, allgather, alltoall.

use mpi_coll::schedule::slot_offset;
use mpi_coll::{Layout, Part, slots};

use super::super::agreement::CallSignature;
use super::super::call::{Call, Root};
use super::phase::{Phase, ShortWay};
use mpi_core::datatype::Predefined;
use mpi_core::error::Result;

/// Which collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Bcast,
    Allgather,
    Alltoall,
}

/// A movement of equal blocks whose schedule goes in one phase: of an allgather each rank's, of an alltoall each rank's
/// for each other.
#[derive(Clone, Copy)]
pub(super) struct QuickMovement {
    kind: Kind,
    datatype: Predefined,
    count: usize,
    bytes: usize,
    /// Of a broadcast that from rank 0.
    signature: CallSignature,
    label: Option<i32>,
}

/// How many are remembered; a power of two.
const PLACES: usize = 8;

/// The latest ones, each where its kind and count say.
#[derive(Default)]
pub(super) struct QuickMovements([Option<QuickMovement>; PLACES]);

impl QuickMovements {
    #[inline(always)]
    fn place(kind: Kind, count: usize) -> usize {
        (count ^ (count >> 3) ^ (kind as usize) << 1) % PLACES
    }

    /// Takes note of a call that went in one phase.
    pub fn note(&mut self, call: &Call<'_>, signature: CallSignature) {
        if let Some(found) = QuickMovement::of(call, signature) {
            self.0[QuickMovements::place(found.kind, found.count)] = Some(found);
        }
    }

    /// Says what a caller calls the datatype of a call.
    pub fn set_label(&mut self, call: &Call<'_>, label: i32) {
        let Some((kind, part)) = kind_and_block(call) else {
            return;
        };
        if let Some(known) = &mut self.0[QuickMovements::place(kind, part.count)]
            && known.fits(kind, &part)
        {
            known.label = Some(label);
        }
    }

    /// The one of so many elements of the datatype with this label.
    #[inline(always)]
    pub fn find(&self, kind: Kind, label: i32, count: i64) -> Option<QuickMovement> {
        let known = self.0[QuickMovements::place(kind, count as usize)].as_ref()?;
        let fits = known.kind == kind && known.label == Some(label) && known.count as i64 == count;
        fits.then_some(*known)
    }
}

/// Which kind of movement a call is, and its block; `None` if it is another call, or blocks differ.
fn kind_and_block<'a>(call: &Call<'a>) -> Option<(Kind, Part<'a>)> {
    let (kind, send, part) = match *call {
        Call::Bcast {
            root: Root::Rank(_),
            part,
        } => (Kind::Bcast, None, part),
        Call::Allgather {
            send,
            recv: Layout::Uniform(recv),
        } => (Kind::Allgather, send, recv),
        Call::Alltoall {
            send: None,
            recv: Layout::Uniform(recv),
        } => (Kind::Alltoall, None, recv),
        Call::Alltoall {
            send: Some(Layout::Uniform(send)),
            recv: Layout::Uniform(recv),
        } => (Kind::Alltoall, Some(send), recv),
        _ => return None,
    };
    let same = |send: Part<'_>| {
        send.count == part.count && send.datatype.as_predefined() == part.datatype.as_predefined()
    };
    send.is_none_or(same).then_some((kind, part))
}

impl QuickMovement {
    fn of(call: &Call<'_>, signature: CallSignature) -> Option<QuickMovement> {
        let (kind, part) = kind_and_block(call)?;
        // The same as for reductions: elements follow each other without gaps.
        (part.count > 0 && slots::can_reduce(&part)).then_some(QuickMovement {
            kind,
            datatype: part.datatype.as_predefined()?,
            count: part.count,
            bytes: part.bytes(),
            signature,
            label: None,
        })
    }

    fn fits(&self, kind: Kind, part: &Part<'_>) -> bool {
        self.kind == kind
            && self.count == part.count
            && part.datatype.as_predefined() == Some(self.datatype)
    }

    /// Rank `of`'s block of a buffer with those of all.
    #[inline(always)]
    pub fn block(&self, buffer: *mut u8, of: u32) -> *mut u8 {
        buffer.wrapping_add(of as usize * self.bytes)
    }

    /// Carries out a broadcast.
    ///
    /// # Safety
    /// The elements at `buffer` are readable at the root, and writable elsewhere.
    #[inline(always)]
    pub unsafe fn bcast(&self, way: ShortWay<'_>, root: u32, buffer: *mut u8) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature.with_root(root))?;
        let shared = phase.shared;
        let offset = slot_offset(self.bytes);
        if shared.slots.rank == root {
            phase.claim()?;
            let data = shared.place(root, phase.number, offset);
            // SAFETY: the slot is claimed, and has room, since the schedule for this puts as much there; the
            // caller's contract.
            unsafe { phase.store(buffer, data, self.bytes) };
            phase.raise();
            return phase.end(self.bytes);
        }
        phase.raise();
        phase.wait_for(root)?;
        let data = shared.place(root, phase.number, offset);
        // SAFETY: its flag says that the root has written the slot, and it is not written again before this rank
        // raises the flag of the next phase; the caller's contract.
        unsafe { netmod_kit::copy(data, buffer, self.bytes) };
        phase.end(0)
    }

    /// Carries out an allgather; `send` is none in place.
    ///
    /// # Safety
    /// A block is readable at `send`, and blocks of all ranks writable at `recv`, which don't overlap.
    #[inline(always)]
    pub unsafe fn allgather(
        &self,
        way: ShortWay<'_>,
        send: Option<*const u8>,
        recv: *mut u8,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature)?;
        let (slots, bytes) = (phase.shared.slots, self.bytes);
        let own = self.block(recv, slots.rank);
        let places = phase.shared.places(phase.number, slot_offset(bytes));
        phase.claim()?;
        // SAFETY: as for `bcast`.
        unsafe { phase.store(send.unwrap_or(own), places.of(slots.rank), bytes) };
        phase.raise();
        if let Some(send) = send {
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(send, own, bytes) };
        }
        phase.wait()?;
        for rank in slots.others() {
            // SAFETY: as for `bcast`.
            unsafe { netmod_kit::copy(places.of(rank), self.block(recv, rank), bytes) };
        }
        phase.end(bytes)
    }

    /// Carries out an alltoall; `send` is none in place.
    ///
    /// # Safety
    /// Blocks of all ranks are readable at `send`, and writable at `recv`, which don't overlap.
    #[inline(always)]
    pub unsafe fn alltoall(
        &self,
        way: ShortWay<'_>,
        send: Option<*const u8>,
        recv: *mut u8,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature)?;
        let (slots, bytes) = (phase.shared.slots, self.bytes);
        let source = send.unwrap_or(recv);
        let at = |rank: u32| rank as usize * bytes;
        phase.claim()?;
        for rank in slots.others() {
            let offset = slots.offset_for(slots.rank, rank, bytes);
            let to = phase.shared.place(slots.rank, phase.number, offset);
            // SAFETY: as for `bcast`; no two parts of the slot overlap.
            unsafe { phase.store(source.wrapping_add(at(rank)), to, bytes) };
        }
        phase.raise();
        if let Some(send) = send {
            let own = at(slots.rank);
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(send.wrapping_add(own), recv.wrapping_add(own), bytes) };
        }
        phase.wait()?;
        for rank in slots.others() {
            let offset = slots.offset_for(rank, slots.rank, bytes);
            let from = phase.shared.place(rank, phase.number, offset);
            // SAFETY: as for `bcast`.
            unsafe { netmod_kit::copy(from, recv.wrapping_add(at(rank)), bytes) };
        }
        phase.end(bytes)
    }
}
