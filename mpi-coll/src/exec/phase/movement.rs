//! Short data that goes as it is: broadcast, gather, scatter, allgather, alltoall.

use mpi_sched::schedule::slot_offset;
use mpi_sched::{Layout, Part, slots};

use super::flags::{Phase, ShortWay};
use super::pieces;
use crate::agreement::signature::CallSignature;
use crate::plan::call::{Call, Root};
use mpi_core::datatype::Predefined;
use mpi_core::error::Result;

/// Which collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
}

impl Kind {
    /// Whether data goes to one rank, or comes from it.
    fn is_rooted(self) -> bool {
        matches!(self, Kind::Bcast | Kind::Gather | Kind::Scatter)
    }
}

/// A movement of equal blocks whose schedule goes in one phase: of a gather or allgather each rank's, of a scatter that
/// for each other, of an alltoall each rank's for each other.
#[derive(Clone, Copy)]
pub(super) struct QuickMovement {
    kind: Kind,
    datatype: Predefined,
    count: usize,
    bytes: usize,
    /// Where the data of a rank begins in its slot, if it is the same for all.
    offset: isize,
    /// Without the root, if there is one.
    signature: CallSignature,
}

/// By what callers ask for one, all of it in one comparison: the kind, and what they call the datatype by.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Key(u64);

impl Key {
    #[inline(always)]
    fn new(kind: Kind, label: i32) -> Key {
        // None is that of none.
        Key((kind as u64 + 1) << 32 | u64::from(label as u32))
    }
}

/// How many are remembered; a power of two.
const PLACES: usize = 16;

/// The latest ones, each where its kind and count say, with the key and the number of elements that callers ask for.
#[derive(Default)]
pub(super) struct QuickMovements([(Key, i64, Option<QuickMovement>); PLACES]);

impl QuickMovements {
    #[inline(always)]
    fn place(kind: Kind, count: usize) -> usize {
        (count ^ (count >> 3) ^ (kind as usize) << 1) % PLACES
    }

    /// Takes note of a call that went in one phase.
    pub fn note(&mut self, call: &Call<'_>, signature: CallSignature) {
        if let Some(found) = QuickMovement::of(call, signature) {
            let place = QuickMovements::place(found.kind, found.count);
            // Its label is not known yet.
            self.0[place] = (Key::default(), 0, Some(found));
        }
    }

    /// Says what a caller calls the datatype of a call.
    pub fn set_label(&mut self, call: &Call<'_>, label: i32) {
        let Some((kind, part)) = kind_and_block(call) else {
            return;
        };
        let place = &mut self.0[QuickMovements::place(kind, part.count)];
        if let Some(known) = place.2
            && known.fits(kind, &part)
        {
            (place.0, place.1) = (Key::new(kind, label), part.count as i64);
        }
    }

    /// The one of so many elements of the datatype with this label.
    #[inline(always)]
    pub fn find(&self, kind: Kind, label: i32, count: i64) -> Option<QuickMovement> {
        let (key, counted, known) = &self.0[QuickMovements::place(kind, count as usize)];
        match *key == Key::new(kind, label) && *counted == count {
            true => *known,
            false => None,
        }
    }
}

/// Which kind of movement a call is, and its block; `None` if it is another call, or blocks differ.
fn kind_and_block<'a>(call: &Call<'a>) -> Option<(Kind, Part<'a>)> {
    let (kind, send, part) = match *call {
        Call::Bcast {
            root: Root::Rank(_),
            part,
        } => (Kind::Bcast, None, part),
        Call::Gather {
            root: Root::Rank(_),
            send: Some(send),
            recv: None,
            varying: false,
        } => (Kind::Gather, None, send),
        Call::Gather {
            root: Root::Rank(_),
            send,
            recv: Some(Layout::Uniform(recv)),
            varying: false,
        } => (Kind::Gather, send, recv),
        Call::Scatter {
            root: Root::Rank(_),
            send: None,
            recv: Some(recv),
            varying: false,
        } => (Kind::Scatter, None, recv),
        Call::Scatter {
            root: Root::Rank(_),
            send: Some(Layout::Uniform(send)),
            recv,
            varying: false,
        } => (Kind::Scatter, recv, send),
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
            offset: slot_offset(part.bytes()),
            signature: match kind.is_rooted() {
                true => signature.without_root(),
                false => signature,
            },
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

    /// Carries out a broadcast, of blocks that are [long](QuickMovement::is_long) or not.
    ///
    /// # Safety
    /// The elements at `buffer` are readable at the root, and writable elsewhere.
    #[inline(always)]
    pub unsafe fn bcast<const LONG: bool>(
        &self,
        way: ShortWay<'_>,
        root: u32,
        buffer: *mut u8,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature.at_root(root))?;
        if way.shared.slots.rank == root {
            phase.claim()?;
            let places = phase.places(self.offset);
            // SAFETY: the slot is claimed, and has room, since the schedule for this puts as much there; the
            // caller's contract.
            unsafe { self.store::<LONG>(&phase, buffer, phase.own_of(places)) };
            phase.raise();
            return phase.end(self.bytes);
        }
        phase.raise();
        // SAFETY: the caller's contract.
        unsafe { self.take::<LONG>(&mut phase, root, self.offset, buffer)? };
        phase.end(0)
    }

    /// Whether blocks may go by pieces.
    #[inline(always)]
    pub fn is_long(&self) -> bool {
        self.bytes >= pieces::LEAST
    }

    /// Stores a block, all that this rank stores in this phase, at `to` in its slot, by pieces if it may be `LONG`.
    ///
    /// # Safety
    /// As for [`Phase::store`].
    #[inline(always)]
    unsafe fn store<const LONG: bool>(&self, phase: &Phase<'_>, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's contract.
        unsafe {
            match LONG {
                true => phase.store_pieces(from, to, self.bytes),
                false => phase.store(from, to, self.bytes),
            }
        }
    }

    /// Copies a block, all that rank `of` stores in this phase, from `offset` of its slot when it is there.
    ///
    /// # Safety
    /// As many bytes are writable at `to`.
    #[inline(always)]
    unsafe fn take<const LONG: bool>(
        &self,
        phase: &mut Phase<'_>,
        of: u32,
        offset: isize,
        to: *mut u8,
    ) -> Result<()> {
        let done = match LONG {
            // SAFETY: the caller's contract.
            true => unsafe { phase.take_pieces(of, offset, to, self.bytes) },
            false => 0,
        };
        phase.wait_for(of)?;
        let from = phase.places(offset).of(of);
        // SAFETY: its flag says that rank `of` has written the slot, and it is not written again before this rank
        // raises the flag of the next phase; the caller's contract.
        unsafe { netmod_kit::copy(from.add(done), to.add(done), self.bytes - done) };
        Ok(())
    }

    /// Carries out a gather of blocks from `own` to `all` at the root; the former is none in place. `None`: nothing was done,
    /// since `own` is the root's block of `all`.
    ///
    /// # Safety
    /// A block is readable at `own`, and at the root blocks of all ranks are writable at `all`, which don't overlap, unless
    /// the former is the root's block of the latter.
    #[inline(always)]
    pub unsafe fn gather(
        &self,
        way: ShortWay<'_>,
        root: u32,
        own: Option<*const u8>,
        all: *mut u8,
    ) -> Option<Result<()>> {
        let place = self.block(all, root);
        if way.shared.slots.rank == root && own == Some(place.cast_const()) {
            return None;
        }
        // SAFETY: the caller's contract.
        Some(unsafe {
            match self.is_long() {
                false => self.gather_by::<false>(way, root, own, all),
                true => (*self).gather_long(way, root, own, all),
            }
        })
    }

    /// # Safety
    /// As for [`QuickMovement::gather`].
    #[cold]
    #[inline(never)]
    unsafe fn gather_long(
        self,
        way: ShortWay<'_>,
        root: u32,
        own: Option<*const u8>,
        all: *mut u8,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.gather_by::<true>(way, root, own, all) }
    }

    /// # Safety
    /// As for [`QuickMovement::gather`]; at the root nothing is in its place.
    #[inline(always)]
    unsafe fn gather_by<const LONG: bool>(
        &self,
        way: ShortWay<'_>,
        root: u32,
        own: Option<*const u8>,
        all: *mut u8,
    ) -> Result<()> {
        let (slots, bytes) = (&way.shared.slots, self.bytes);
        let place = self.block(all, root);
        let mut phase = Phase::begin(way, self.signature.at_root(root))?;
        if slots.rank != root {
            phase.claim()?;
            let places = phase.places(self.offset);
            // SAFETY: as for `bcast`; elsewhere than at the root nothing is in place.
            unsafe { self.store::<LONG>(&phase, own.unwrap_or(place), phase.own_of(places)) };
            phase.raise();
            return phase.end(bytes);
        }
        phase.raise();
        if let Some(own) = own {
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(own, place, bytes) };
        }
        if LONG {
            for rank in slots.others() {
                let to = self.block(all, rank);
                // SAFETY: the caller's contract.
                unsafe { self.take::<LONG>(&mut phase, rank, self.offset, to)? };
            }
        }
        phase.wait()?;
        if !LONG {
            let places = phase.places(self.offset);
            for rank in slots.others() {
                // SAFETY: as for `bcast`.
                unsafe { netmod_kit::copy(places.of(rank), self.block(all, rank), bytes) };
            }
        }
        phase.end(0)
    }

    /// Carries out a scatter of blocks from `all` at the root to `own`; the latter is none in place. `None`: as for
    /// [`QuickMovement::gather`].
    ///
    /// # Safety
    /// As there, the other way round.
    #[inline(always)]
    pub unsafe fn scatter(
        &self,
        way: ShortWay<'_>,
        root: u32,
        all: *const u8,
        own: Option<*mut u8>,
    ) -> Option<Result<()>> {
        let slots = &way.shared.slots;
        let place = self.block(all.cast_mut(), root);
        if slots.rank == root && own == Some(place) {
            return None;
        }
        // Of the slots of more ranks each has a part alone.
        // SAFETY: the caller's contract.
        Some(unsafe {
            match self.is_long() && slots.size == 2 {
                false => self.scatter_by::<false>(way, root, all, own),
                true => (*self).scatter_long(way, root, all, own),
            }
        })
    }

    /// # Safety
    /// As for [`QuickMovement::scatter`].
    #[cold]
    #[inline(never)]
    unsafe fn scatter_long(
        self,
        way: ShortWay<'_>,
        root: u32,
        all: *const u8,
        own: Option<*mut u8>,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.scatter_by::<true>(way, root, all, own) }
    }

    /// # Safety
    /// As for [`QuickMovement::scatter`]; at the root nothing is in its place.
    #[inline(always)]
    unsafe fn scatter_by<const LONG: bool>(
        &self,
        way: ShortWay<'_>,
        root: u32,
        all: *const u8,
        own: Option<*mut u8>,
    ) -> Result<()> {
        let (slots, bytes) = (&way.shared.slots, self.bytes);
        let block = |of: u32| all.wrapping_add(of as usize * bytes);
        let mut phase = Phase::begin(way, self.signature.at_root(root))?;
        if slots.rank != root {
            phase.raise();
            let offset = slots.offset_for(root, slots.rank, bytes);
            match own {
                // SAFETY: the caller's contract.
                Some(own) => unsafe { self.take::<LONG>(&mut phase, root, offset, own)? },
                None => phase.wait_for(root)?,
            }
            return phase.end(0);
        }
        phase.claim()?;
        for rank in slots.others() {
            let places = phase.places(slots.offset_for(root, rank, bytes));
            // SAFETY: as for `bcast`; no two parts of the slot overlap.
            unsafe { self.store::<LONG>(&phase, block(rank), phase.own_of(places)) };
        }
        phase.raise();
        if let Some(own) = own {
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(block(root), own, bytes) };
        }
        phase.end(bytes)
    }

    /// Carries out an allgather; `send` is none in place. `None`: nothing was done, since `send` is this rank's block.
    ///
    /// # Safety
    /// A block is readable at `send`, and blocks of all ranks writable at `recv`, which don't overlap, unless the former is
    /// this rank's block of the latter.
    #[inline(always)]
    pub unsafe fn allgather(
        &self,
        way: ShortWay<'_>,
        send: Option<*const u8>,
        recv: *mut u8,
    ) -> Option<Result<()>> {
        let own = self.block(recv, way.shared.slots.rank);
        let from = match send {
            None => own,
            Some(send) if send == own => return None,
            Some(send) => send,
        };
        // SAFETY: the caller's contract.
        Some(unsafe { self.allgather_from(way, from, own, recv) })
    }

    /// # Safety
    /// As for [`QuickMovement::allgather`]; `own` is this rank's block.
    #[inline(always)]
    unsafe fn allgather_from(
        &self,
        way: ShortWay<'_>,
        from: *const u8,
        own: *mut u8,
        recv: *mut u8,
    ) -> Result<()> {
        let mut phase = Phase::begin(way, self.signature)?;
        let (slots, bytes) = (&way.shared.slots, self.bytes);
        phase.claim()?;
        let places = phase.places(self.offset);
        // SAFETY: as for `bcast`.
        unsafe { phase.store(from, phase.own_of(places), bytes) };
        phase.raise();
        if from != own {
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(from, own, bytes) };
        }
        phase.wait()?;
        if slots.size == 2 {
            let other = 1 - slots.rank;
            // SAFETY: as for `bcast`.
            unsafe { netmod_kit::copy(places.of(other), self.block(recv, other), bytes) };
            return phase.end(bytes);
        }
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
        let (slots, bytes) = (&way.shared.slots, self.bytes);
        let source = send.unwrap_or(recv);
        let at = |rank: u32| rank as usize * bytes;
        let move_own = || {
            if source != recv {
                let own = at(slots.rank);
                // SAFETY: the caller's contract.
                unsafe {
                    netmod_kit::copy(source.wrapping_add(own), recv.wrapping_add(own), bytes)
                };
            }
        };
        phase.claim()?;
        if slots.size == 2 {
            let other = 1 - slots.rank;
            let places = phase.places(slot_offset(bytes));
            // SAFETY: as for `bcast`.
            unsafe { phase.store(source.wrapping_add(at(other)), phase.own_of(places), bytes) };
            phase.raise();
            move_own();
            phase.wait()?;
            // SAFETY: as for `bcast`.
            unsafe { netmod_kit::copy(places.of(other), recv.wrapping_add(at(other)), bytes) };
            return phase.end(bytes);
        }
        for rank in slots.others() {
            let places = phase.places(slots.offset_for(slots.rank, rank, bytes));
            // SAFETY: as for `bcast`; no two parts of the slot overlap.
            unsafe { phase.store(source.wrapping_add(at(rank)), phase.own_of(places), bytes) };
        }
        phase.raise();
        move_own();
        phase.wait()?;
        for rank in slots.others() {
            let from = phase
                .places(slots.offset_for(rank, slots.rank, bytes))
                .of(rank);
            // SAFETY: as for `bcast`.
            unsafe { netmod_kit::copy(from, recv.wrapping_add(at(rank)), bytes) };
        }
        phase.end(bytes)
    }
}
