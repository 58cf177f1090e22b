//! The slots of a communicator whose members share a node: one piece of shared memory.
//!
//! A flag is the number of its phase, cut to 32 bits, over the mark of the call's [`CallSignature`], so that one
//! comparison says whether it is up and whether both mean the same call. The signature itself lies beside
//! it. Before each rank's slots is its *head*: what it has said about its calls, for others that wait in
//! vain because theirs is another, and in rank 0's a word that says that somebody has found such.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use netmod::SharedSegment;

use crate::agreement::mismatch_word::{broken_by, found_by, is_before, read_found};
use crate::agreement::signature::CallSignature;
use crate::slots::nearness::Nearness;
use crate::slots::share::Share;
use crate::slots::slot_flag::{self, PieceFlag, SlotFlag};
use mpi_core::error::{Error, Result};
use mpi_sched::Slots;
use mpi_sched::run::{Flag, has_come};
use mpi_sched::slots::Direct;

mod places;
mod ring;

pub(crate) use places::{Flags, Places};
use ring::{AllPlaces, FIRST, FRONT, HEAD, LINES, LONG, MANY, PAGE, PIECE_FLAGS, SAID};
pub(crate) use ring::{DEPTHS, PIECE, Ring};

/// Ranks beyond which looking at everyone's flag takes longer than rounds of messages.
pub(crate) const RANKS: u32 = 128;
/// Calls by which a rank that has not come to this one is behind, at the most, mostly.
const BEHIND: u32 = 8;
/// Looks at flags that together take less time than giving up the processor and getting it back.
const SPINS: u32 = 100;

/// A communicator's slots.
pub(crate) struct SharedSlots {
    pub slots: Slots,
    /// The first slot.
    base: *mut u8,
    /// From there to where the data of the first slot would begin if it lay with its front.
    data: usize,
    /// From a slot's data to the next one's.
    stride: usize,
    /// From a rank's slots to the next rank's.
    own: usize,
    /// From rank 0's slots to this rank's.
    mine: usize,
    /// Of a phase's number, for its slot, and for its data once that goes round in all places.
    mask: usize,
    places_mask: usize,
    /// Phases by which who writes data may be ahead of all others.
    ahead: u64,
    /// Where this rank says something about its calls.
    says: *mut u8,
    /// The number of the next phase.
    next: AtomicU64,
    /// The latest phase whose flag was seen, of each rank.
    seen: Box<[AtomicU64]>,
    /// The latest phase in which the flags of all ranks were seen by a short way, which asks no further.
    together: AtomicU64,
    /// The communicator's numbers of these ranks, if they aren't all of its ranks.
    names: Option<Box<[u32]>>,
    /// Whether the other ranks are near.
    pub nearness: Nearness,
    /// Whether one copy from rank to rank is quicker than two through these slots, and whether that was asked.
    one_copy: AtomicBool,
    is_tried: AtomicBool,
    /// Whether this rank has been told that members disagree.
    told: AtomicBool,
    /// Calls in which this rank has stored very much, up to [`MANY`].
    long_calls: AtomicU32,
    _share: Share,
    /// What `base` points to.
    piece: Box<dyn SharedSegment>,
}

// SAFETY: the memory is mapped as long as the slots are there, and is written and read by the rules of
// `mpi_sched::slots`, whichever threads do it; the program sees to it that collectives on a communicator
// are called one after the other (section 5.12).
unsafe impl Send for SharedSlots {}
// SAFETY: as above.
unsafe impl Sync for SharedSlots {}

impl SharedSlots {
    /// Those of rank `rank` of `size`, in a piece of memory with room for all. No flag of this rank says that
    /// something has come.
    pub fn over(
        piece: Box<dyn SharedSegment>,
        rank: u32,
        size: u32,
        ring: Ring,
        share: Share,
    ) -> SharedSlots {
        let Ring {
            room,
            depth,
            places,
        } = ring;
        debug_assert!(depth.is_power_of_two() && places.is_power_of_two() && depth <= places);
        let own = ring.bytes();
        let shared = SharedSlots {
            slots: Slots {
                rank,
                size,
                room,
                depth,
                direct: Direct::No,
                several: false,
                crowded: false,
            },
            base: piece.as_ptr().wrapping_add(HEAD),
            data: (LINES + PIECE_FLAGS) * depth as usize - FRONT,
            // No whole number of pages, or all slots would have the same places in caches.
            stride: 64 + room,
            own,
            mine: rank as usize * own,
            mask: depth as usize - 1,
            places_mask: places as usize - 1,
            ahead: u64::from(depth) - 2,
            says: piece.as_ptr().wrapping_add(rank as usize * own + 64),
            next: AtomicU64::new(FIRST),
            seen: (0..size).map(|_| AtomicU64::new(FIRST - 1)).collect(),
            together: AtomicU64::new(FIRST - 1),
            names: None,
            nearness: Nearness::default(),
            one_copy: AtomicBool::new(false),
            is_tried: AtomicBool::new(false),
            told: AtomicBool::new(false),
            long_calls: AtomicU32::new(0),
            _share: share,
            piece,
        };
        if rank == 0 {
            shared.all_places().never_begin();
        }
        for slot in 0..depth.into() {
            shared.flag(rank, slot).reset(FIRST - 1);
        }
        // Nothing is said about any call yet, call 0 included: what is said in a place is about another one
        // than those that go there.
        for place in 0..SAID {
            let [which, _] = shared.said(rank, place);
            which.store(u64::from(place + 1) << 32, Ordering::Relaxed);
        }
        shared
    }

    /// Takes note that all members have the memory, whether they can copy directly from and to each
    /// other's, and whether one of them may have to wait for its core.
    pub fn settle(&mut self, direct: Direct, crowded: bool) {
        self.piece.settle();
        self.slots.direct = direct;
        self.slots.crowded = crowded;
    }

    /// Whether it has been asked which is quicker, one copy or two. It has been from now on.
    pub fn try_one_copy(&self) -> bool {
        // Relaxed, and not in one step: collectives on a communicator come one after the other.
        let is_tried = self.is_tried.load(Ordering::Relaxed);
        self.is_tried.store(true, Ordering::Relaxed);
        is_tried
    }

    /// Takes note that one copy from rank to rank is quicker than two through these slots.
    pub fn set_one_copy(&self) {
        self.one_copy.store(true, Ordering::Relaxed);
    }

    /// What builders of schedules are to know of them.
    pub fn view(&self) -> Slots {
        let direct = match self.one_copy.load(Ordering::Relaxed) {
            true => Direct::Quicker,
            false => self.slots.direct,
        };
        Slots {
            direct,
            ..self.slots
        }
    }

    /// Says which of a communicator's ranks these are, if not all.
    pub fn set_names(&mut self, names: Box<[u32]>) {
        self.names = Some(names);
    }

    /// What a rank is called in the communicator.
    fn name(&self, of: u32) -> u32 {
        let names = self.names.as_deref();
        names
            .and_then(|names| names.get(of as usize).copied())
            .unwrap_or(of)
    }

    /// Numbers for so many phases.
    #[inline]
    pub fn take(&self, phases: u32) -> u64 {
        // No other thread does: collectives on a communicator come one after the other.
        let first = self.next.load(Ordering::Relaxed);
        self.next
            .store(first.wrapping_add(phases.into()), Ordering::Relaxed);
        first
    }

    /// From when on data goes round in all places.
    #[inline(always)]
    fn all_places(&self) -> &AllPlaces {
        // SAFETY: in the first line of rank 0's head, as in `broken`.
        unsafe { &*self.base.sub(HEAD).add(16).cast() }
    }

    /// Meets the pages of all ranks' slots of the next phases, which may be for the first time.
    pub fn meet(&self, phases: u32) {
        let first = self.next.load(Ordering::Relaxed);
        for phase in 0..phases.min(self.slots.depth) {
            let number = first.wrapping_add(phase.into());
            for of in 0..self.slots.size {
                for byte in (FRONT..self.slots.room).step_by(PAGE) {
                    // SAFETY: within the memory of the slots; who writes there meanwhile is of no matter.
                    unsafe { self.place(of, number, byte as isize).read_volatile() };
                }
            }
        }
    }

    /// Where the byte `offset` of a slot is.
    #[inline(always)]
    pub fn place(&self, of: u32, number: u64, offset: isize) -> *mut u8 {
        debug_assert!(of < self.slots.size);
        self.places(number, offset).of(of)
    }

    /// Where that byte is of the slots of all ranks; for data, to be asked when this rank has claimed its slot, or has seen the
    /// flag of who wrote it.
    #[inline(always)]
    pub fn places(&self, number: u64, offset: isize) -> Places {
        debug_assert!(offset >= 0);
        match offset < FRONT as isize {
            true => {
                let at = (number as usize & self.mask) * LINES;
                self.places_at(at, offset)
            }
            false => self.places_of_data(number, offset),
        }
    }

    /// As [`SharedSlots::places`], behind the fronts of slots.
    #[inline(always)]
    fn places_of_data(&self, number: u64, offset: isize) -> Places {
        let mask = match self.all_places().has_begun(number) {
            true => self.places_mask,
            false => self.mask,
        };
        let at = self.data + (number as usize & mask) * self.stride;
        self.places_at(at, offset)
    }

    #[inline(always)]
    fn places_at(&self, at: usize, offset: isize) -> Places {
        Places {
            first: self.base.wrapping_add(at).wrapping_offset(offset),
            own: self.own,
        }
    }

    /// The flag of a piece of the data of a phase, but not of the last one: that is the slot's.
    #[inline(always)]
    pub fn piece_flag(&self, of: u32, number: u64, piece: usize) -> &PieceFlag {
        debug_assert!(of < self.slots.size && PIECE * (piece + 1) < self.slots.room);
        let slot = number as usize & self.mask;
        let fronts = LINES * (self.mask + 1);
        let at = fronts + slot * PIECE_FLAGS + piece * size_of::<PieceFlag>();
        // SAFETY: between the fronts and the data, aligned, in memory that lives as long as `self`.
        unsafe { &*self.places_at(at, 0).of(of).cast() }
    }

    /// The flags of all ranks in a phase.
    #[inline(always)]
    pub fn flags(&self, number: u64) -> Flags<'_> {
        let slot = number as usize & self.mask;
        let first = self.base.wrapping_add(slot * LINES);
        Flags { of: self, first }
    }

    /// Whether a short way may write data to this rank's slot of a phase: it has seen all ranks so far.
    #[inline(always)]
    pub fn is_claimed(&self, number: u64) -> bool {
        let together = self.together.load(Ordering::Relaxed);
        has_come(together.wrapping_add(self.ahead), number)
    }

    /// Takes note that a short way has seen the flags of all ranks in a phase.
    #[inline(always)]
    pub fn set_together(&self, number: u64) {
        self.together.store(number, Ordering::Relaxed);
    }

    #[inline(always)]
    fn flag(&self, of: u32, number: u64) -> &SlotFlag {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as `self`.
        unsafe { &*self.place(of, number, 0).cast() }
    }

    /// Raises the own flag of a phase of a call with this signature.
    #[inline(always)]
    pub fn raise(&self, number: u64, signature: CallSignature) {
        let rank = self.slots.rank;
        self.flag(rank, number).raise(number, signature);
        // Who waits for all needn't look at its own.
        self.seen[rank as usize].store(number, Ordering::Relaxed);
    }

    /// Whether the flag of a phase is up; looks `times` times before it says no. With `signature`, the phase
    /// must be of a call with that signature.
    #[inline(always)]
    pub fn is_up(
        &self,
        of: u32,
        number: u64,
        times: u32,
        signature: Option<CallSignature>,
    ) -> Flag {
        let seen = &self.seen[of as usize];
        if seen.load(Ordering::Relaxed).wrapping_sub(number) as i64 >= 0 {
            return Flag::Up;
        }
        let flag = self.flag(of, number);
        for _ in 0..times {
            if let Some((phases, mark)) = flag.look(number) {
                if let Some(signature) = signature
                    && mark != u64::from(signature.mark())
                    && phases == 0
                {
                    return Flag::Other;
                }
                seen.store(number.wrapping_add(phases), Ordering::Relaxed);
                return Flag::Up;
            }
            std::hint::spin_loop();
        }
        Flag::Down
    }

    /// Waits for a moment, where there are more ranks than cores, if none of `ranks` that are not in this
    /// phase yet needs this core: whoever does gets it sooner if nobody waits. Returns whether all have
    /// come.
    pub fn spin_unless_needed(&self, ranks: Range<u32>, number: u64) -> bool {
        // SAFETY: asks for nothing but a number.
        let core = unsafe { libc::sched_getcpu() } as u32;
        let own = self.core_of(self.slots.rank);
        if own.load(Ordering::Relaxed) != core {
            own.store(core, Ordering::Relaxed);
        }
        let mut missing = ranks.start;
        let is_up = |of: u32| self.flag(of, number).has_come_to(number);
        let needs = |of: u32| !is_up(of) && self.core_of(of).load(Ordering::Relaxed) == core;
        if ranks.clone().any(needs) {
            return false;
        }
        for _ in 0..SPINS {
            while missing < ranks.end && is_up(missing) {
                missing += 1;
            }
            if missing == ranks.end {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// On which core a rank was when it last waited.
    fn core_of(&self, of: u32) -> &AtomicU32 {
        // SAFETY: in the first line of the rank's head, as in `broken`.
        unsafe { &*self.base.sub(HEAD).add(of as usize * self.own + 8).cast() }
    }

    /// The word in rank 0's head that says that members disagree, by [`found_by`]: 0 while nobody has found that.
    #[inline(always)]
    fn broken(&self) -> &AtomicU64 {
        // SAFETY: rank 0's head lies before its slots, in memory that lives as long as `self`.
        unsafe { &*self.base.sub(HEAD).cast() }
    }

    /// An error if members have been found to disagree about call number `tag` or one before it. Who is still in
    /// one before that has all that it needs, or gets it: all others have called the same there.
    #[inline(always)]
    pub fn check(&self, tag: u32) -> Result<()> {
        match self.broken().load(Ordering::Relaxed) {
            0 => Ok(()),
            found => self.check_found(found, tag),
        }
    }

    #[cold]
    fn check_found(&self, found: u64, tag: u32) -> Result<()> {
        let (call, one, other) = read_found(found);
        if is_before(tag, call) {
            return Ok(());
        }
        self.told.store(true, Ordering::Relaxed);
        Err(broken_by(self.name(one), self.name(other)))
    }

    /// An error if this rank has been told in a call before. For a short way, where it costs the least: to find there
    /// whether a call that is begun may still end is left to who waits in vain.
    #[inline(always)]
    pub fn check_told(&self) -> Result<()> {
        match self.told.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.told_again()),
        }
    }

    #[cold]
    fn told_again(&self) -> Error {
        let (_, one, other) = read_found(self.broken().load(Ordering::Relaxed));
        broken_by(self.name(one), self.name(other))
    }

    /// Where a rank says something about call number `tag`.
    fn said(&self, of: u32, tag: u32) -> [&AtomicU64; 2] {
        let from_slots = of as usize * self.own + 64 + 16 * (tag % SAID) as usize;
        // SAFETY: within the head, as for `broken`.
        unsafe {
            let at = self.base.sub(HEAD).add(from_slots);
            [&*at.cast(), &*at.add(8).cast()]
        }
    }

    /// Says what call number `tag` is here. Others look there only if they wait in vain.
    #[inline(always)]
    pub fn say(&self, tag: u32, signature: CallSignature) {
        // SAFETY: this rank's head, as in `said`.
        let [which, what] = unsafe {
            let at = self.says.add(16 * (tag % SAID) as usize);
            [&*at.cast::<AtomicU64>(), &*at.add(8).cast::<AtomicU64>()]
        };
        what.store(signature.word(), Ordering::Relaxed);
        which.store(slot_flag::word(tag.into(), signature), Ordering::Release);
    }

    /// To be called with the end of call number `tag`, whose first phase was `number`, by who has stored much: looks
    /// now and then how near another rank is, at what it has said about the call. `stored`: bytes at once, at the most.
    #[inline(never)]
    pub fn look_around(&self, tag: u32, number: u64, stored: usize) {
        if stored >= LONG {
            self.note_long(number);
        }
        if let Some(turn) = self.nearness.is_time() {
            self.look_at(turn, tag, number);
        }
    }

    #[cold]
    fn look_at(&self, turn: u32, tag: u32, number: u64) {
        let Slots { rank, size, .. } = self.slots;
        let of = (rank + 1 + turn % (size - 1)) % size;
        // Who has only given may be ahead of the others.
        let seen = self.seen[of as usize].load(Ordering::Relaxed);
        let together = self.together.load(Ordering::Relaxed);
        let call = match has_come(seen, number) || has_come(together, number) {
            true => tag,
            false => tag.wrapping_sub(BEHIND),
        };
        let [[which, _], [beside, _]] = [call, call ^ (SAID / 2)].map(|call| self.said(of, call));
        self.nearness.look(which, beside, call);
    }

    /// This rank has stored very much in a call with this phase.
    #[inline(never)]
    fn note_long(&self, number: u64) {
        let calls = self.long_calls.load(Ordering::Relaxed);
        if calls < MANY {
            self.long_calls.store(calls + 1, Ordering::Relaxed);
        }
        if calls + 1 == MANY {
            self.all_places().begin_soon_after(number);
        }
    }

    /// To be called by who waits in vain in call number `tag`: whether others have found that members disagree about it
    /// or one before it, and, if that is [due](crate::agreement::mismatch_word::Doubt), whether they do.
    pub fn check_agreement(&self, tag: u32, signature: CallSignature, is_due: bool) -> Result<()> {
        self.check(tag)?;
        if is_due && let Some((of, theirs)) = self.other_signature(tag, signature) {
            return Err(self.end(of, tag, signature, theirs));
        }
        Ok(())
    }

    /// The ranks among some that have not raised their flags of a phase. (Of which call those are that have is for who
    /// waits to find out.)
    #[cold]
    pub fn missing(&self, among: Range<u32>, number: u64) -> Vec<u32> {
        let is_missing = |rank: &u32| !self.flag(*rank, number).has_come_to(number);
        among.filter(is_missing).collect()
    }

    /// Whether all others call the same as call number `tag`, as far as they have come. For who has come
    /// to its end by messages, which don't say.
    #[cold]
    pub fn compare(&self, tag: u32, signature: CallSignature) -> Result<()> {
        match self.other_signature(tag, signature) {
            Some((of, theirs)) => Err(self.disagree(of, tag, signature, theirs)?),
            None => Ok(()),
        }
    }

    /// A rank that has said something else about call number `tag`.
    #[cold]
    fn other_signature(&self, tag: u32, signature: CallSignature) -> Option<(u32, CallSignature)> {
        (0..self.slots.size).find_map(|of| {
            let [which, what] = self.said(of, tag);
            let said = which.load(Ordering::Acquire);
            let other =
                said >> 32 == u64::from(tag) && said != slot_flag::word(tag.into(), signature);
            other.then(|| (of, CallSignature::from_word(what.load(Ordering::Relaxed))))
        })
    }

    /// Rank `of` has raised the flag of a phase of another call than number `tag`. `Ok`: of one with the same phases.
    #[cold]
    pub fn disagree_in(
        &self,
        of: u32,
        tag: u32,
        number: u64,
        signature: CallSignature,
    ) -> Result<Error> {
        self.disagree(of, tag, signature, self.flag(of, number).signature())
    }

    /// Tells all that rank `of` disagrees about call number `tag`, unless both keep step (`Ok`).
    #[cold]
    pub fn disagree(
        &self,
        of: u32,
        tag: u32,
        signature: CallSignature,
        theirs: CallSignature,
    ) -> Result<Error> {
        if signature.keeps_step_with(theirs) {
            return Ok(signature.disagreement(self.name(of), theirs, false));
        }
        Err(self.end(of, tag, signature, theirs))
    }

    /// Tells all that rank `of` disagrees about call number `tag`.
    fn end(&self, of: u32, tag: u32, signature: CallSignature, theirs: CallSignature) -> Error {
        let found = found_by(tag, self.slots.rank, of);
        // The first such call counts, whenever it is found: who waits there may wait for one who has given up.
        let earlier = |known| (known == 0 || is_before(tag, read_found(known).0)).then_some(found);
        let _ = self
            .broken()
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
        self.told.store(true, Ordering::Relaxed);
        signature.disagreement(self.name(of), theirs, true)
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use netmod::{OpenError, RemoteKey};

    use super::ring::SOON;
    use super::*;

    #[repr(C, align(4096))]
    struct Page([u8; PAGE]);

    /// Memory for as long as the test runs.
    struct Piece(*mut u8);

    // SAFETY: the memory is reached by the rules of slots.
    unsafe impl Send for Piece {}
    // SAFETY: as above.
    unsafe impl Sync for Piece {}

    impl SharedSegment for Piece {
        fn as_ptr(&self) -> *mut u8 {
            self.0
        }
        fn key(&self) -> RemoteKey {
            RemoteKey {
                address: 0,
                words: [0; 2],
            }
        }
        fn reserve(&self, _: usize, _: usize) -> std::result::Result<(), OpenError> {
            Ok(())
        }
        fn settle(&self) {}
    }

    const SMALL: Ring = Ring {
        room: 64,
        depth: DEPTHS.0,
        places: 4 * DEPTHS.0,
    };

    /// What two ranks see of their slots.
    pub fn two(ring: Ring) -> [SharedSlots; 2] {
        let pages = 2 * ring.bytes() / PAGE;
        let memory: Vec<Page> = (0..pages).map(|_| Page([0; PAGE])).collect();
        let memory = Box::leak(memory.into_boxed_slice()).as_mut_ptr().cast();
        let taken = Arc::new(AtomicUsize::new(0));
        [0, 1].map(|rank| {
            let share = Share::take(&taken).expect("there are shares");
            SharedSlots::over(Box::new(Piece(memory)), rank, 2, ring, share)
        })
    }

    /// Who writes the data of a phase has seen the flags of all but the last `depth` - 2 phases before it.
    #[test]
    fn data_of_phases_that_may_be_read_still_lies_elsewhere() {
        let [one, other] = two(SMALL);
        let depth = u64::from(one.slots.depth);
        let place = |number| [0, 64].map(|offset| one.place(0, number, offset));
        let mut data = std::collections::HashSet::new();
        let settled = 3000;
        for call in 0..settled + 2 * SOON {
            let number = one.take(1);
            for before in (1..depth.min(call + 1)).map(|by| number.wrapping_sub(by)) {
                let [own, before] = [number, before].map(place);
                assert!(own[0] != before[0] && own[1] != before[1], "{call}");
            }
            data.insert(place(number)[1]);
            if call >= settled {
                // Whoever says so first.
                [&one, &other][call as usize % 2]
                    .all_places()
                    .begin_soon_after(number);
            }
            let soon = call < settled + SOON - u64::from(DEPTHS.1);
            assert!(!soon || data.len() as u64 <= depth, "{call}");
            assert_eq!(place(number)[1], other.place(0, number, 64));
        }
        assert_eq!(data.len() as u64, 4 * depth);
        let ends = one.base.wrapping_add(one.own - HEAD).addr();
        assert!(data.iter().all(|at| at.addr() + one.slots.room <= ends));
    }

    /// Who waits long asks now and then whom he waits for; one who has come by then with another call is no less found
    /// to disagree.
    #[test]
    fn who_is_missing_is_not_taken_for_seen() {
        let [one, other] = two(SMALL);
        let [theirs, own] = [7, 8].map(CallSignature::from_word);
        let number = one.take(1);
        assert_eq!(other.missing(0..1, number), [0]);
        one.raise(number, theirs);
        assert_eq!(other.missing(0..1, number), []);
        assert!(matches!(other.is_up(0, number, 1, Some(own)), Flag::Other));
        assert!(matches!(other.is_up(0, number, 1, Some(theirs)), Flag::Up));
    }

    /// Who waits in a call that all agree about is not told of a later one; whoever is there, or comes there, is.
    #[test]
    fn a_disagreement_is_that_of_its_call() {
        const LAST: u32 = i32::MAX as u32;
        let [before, theirs, own] = [6, 7, 8].map(|kind| CallSignature::from_word(kind << 40));
        for tags in [[7, 8, 9], [LAST, 0, 1], [LAST - 1, LAST, 0]] {
            let [one, other] = two(SMALL);
            let [earlier, tag, later] = tags;
            one.say(earlier, before);
            other.say(earlier, before);
            one.say(tag, own);
            other.say(tag, theirs);
            assert!(one.check_agreement(tag, own, false).is_ok());
            let found = one.check_agreement(tag, own, true);
            assert!(found.is_err_and(|error| error.to_string().contains("rank 1 and this rank")));
            for is_due in [false, true] {
                assert!(other.check_agreement(earlier, before, is_due).is_ok());
            }
            assert!(other.check(earlier).is_ok() && other.check_told().is_ok());
            assert!(one.check_told().is_err());
            for tag in [tag, later] {
                let told = other.check_agreement(tag, theirs, false);
                let text = told.map_err(|error| error.to_string()).unwrap_err();
                assert!(text.contains("ranks 0 and 1 disagree"), "{text}");
                assert!(one.check(tag).is_err() && other.check_told().is_err());
            }
            // One before it that is found later counts from then on.
            assert!(other.disagree(0, later, theirs, own).is_err());
            assert!(other.check(earlier).is_ok());
            assert!(other.disagree(0, earlier, theirs, own).is_err());
            assert!(one.check(earlier).is_err());
        }
    }
}
