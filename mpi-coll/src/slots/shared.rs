//! The slots of a communicator whose members share a node, in one shared segment.
//!
//! A flag is the number of its phase, cut to 32 bits, over the mark of the call's
//! [`CallSignature`], so that one comparison tells whether it is up and both ranks mean the same
//! call. The signature itself lies beside it. Before each rank's slots is its *head*: its published
//! calls, which other ranks read if they wait in vain because their call is another; and in rank
//! 0's head the mismatch word, set by a rank that has found such a mismatch.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use netmod::SharedSegment;

use crate::agreement::mismatch_word::{broken_by, found_by, is_before, read_found};
use crate::agreement::signature::CallSignature;
use crate::slots::nearness::Nearness;
use crate::slots::share::Share;
use crate::slots::slot_flag::{self, SlotFlag};
use mpi_core::error::{Error, Result};
use mpi_sched::Slots;
use mpi_sched::run::{Flag, has_come};
use mpi_sched::slots::Direct;

mod addresses;
mod ring;

pub(crate) use addresses::{Flags, SlotAddresses};
use ring::{AllDataSlots, FIRST, FRONT, HEAD, LINES, LONG_CALLS, LONG_STORE, PUBLISHED};
pub(crate) use ring::{DEPTHS, Ring};

/// Ranks beyond which polling all flags takes longer than rounds of messages.
pub(crate) const MAX_RANKS: u32 = 128;
/// Calls by which a rank that is behind this one mostly lags, at the most.
const MAX_LAG: u32 = 8;
/// Polls of flags that together cost less than giving up the core and getting it back.
const SPINS: u32 = 100;

/// A communicator's slots.
pub(crate) struct SharedSlots {
    pub slots: Slots,
    /// Address of the first slot.
    base: *mut u8,
    /// Offset from there of the first slot's data, less the length of its front.
    data: usize,
    /// Distance from a slot's data to the next one's.
    stride: usize,
    /// Distance from a rank's slots to the next rank's.
    own: usize,
    /// Offset of this rank's slots from rank 0's.
    mine: usize,
    /// Masks a phase's number to its slot, and to its data slot once all are used.
    mask: usize,
    data_mask: usize,
    /// Phases that a writer of data may be ahead of the slowest rank.
    ahead: u64,
    /// Address of this rank's published calls.
    published_at: *mut u8,
    /// Number of the next phase.
    next: AtomicU64,
    /// The latest phase of each rank whose flag was seen.
    seen: Box<[AtomicU64]>,
    /// The latest phase in which a fast path has seen the flags of all ranks.
    all_seen: AtomicU64,
    /// These ranks' numbers in the communicator, if they aren't all of its ranks.
    comm_ranks: Option<Box<[u32]>>,
    /// Whether the other ranks' caches are near.
    pub nearness: Nearness,
    /// Whether this rank has learned of a mismatch.
    knows_mismatch: AtomicBool,
    /// Long calls of this rank, up to [`LONG_CALLS`].
    long_calls: AtomicU32,
    _share: Option<Share>,
    /// The memory at `base`.
    piece: Box<dyn SharedSegment>,
}

// SAFETY: `piece` keeps the memory mapped, and ranks access it by the protocol of
// `mpi_sched::slots` (flags order data), whichever threads run them; the program calls collectives
// on a communicator one after the other (section 5.12).
unsafe impl Send for SharedSlots {}
// SAFETY: `piece` keeps the memory mapped, all fields are atomic or constant, and flags order the
// data.
unsafe impl Sync for SharedSlots {}

impl SharedSlots {
    /// Creates rank `rank`'s view of the slots in a segment for `size` ranks, with its own flags
    /// down.
    pub fn over(
        piece: Box<dyn SharedSegment>,
        rank: u32,
        size: u32,
        ring: Ring,
        share: impl Into<Option<Share>>,
    ) -> SharedSlots {
        let Ring {
            room,
            depth,
            data_slots,
        } = ring;
        debug_assert!(
            depth.is_power_of_two() && data_slots.is_power_of_two() && depth <= data_slots
        );
        let own = ring.bytes();
        let shared = SharedSlots {
            slots: Slots {
                rank,
                size,
                room,
                depth,
                direct: Direct::No,
                is_nonblocking: false,
                crowded: false,
            },
            base: piece.as_ptr().wrapping_add(HEAD),
            data: LINES * depth as usize - FRONT,
            // Not a whole number of pages: otherwise all slots would map to the same cache sets.
            stride: 64 + room,
            own,
            mine: rank as usize * own,
            mask: depth as usize - 1,
            data_mask: data_slots as usize - 1,
            ahead: u64::from(depth) - 2,
            published_at: piece.as_ptr().wrapping_add(rank as usize * own + 64),
            next: AtomicU64::new(FIRST),
            seen: (0..size).map(|_| AtomicU64::new(FIRST - 1)).collect(),
            all_seen: AtomicU64::new(FIRST - 1),
            comm_ranks: None,
            nearness: Nearness::default(),
            knows_mismatch: AtomicBool::new(false),
            long_calls: AtomicU32::new(0),
            _share: share.into(),
            piece,
        };
        if rank == 0 {
            shared.all_data_slots().never_begin();
        }
        for slot in 0..depth.into() {
            shared.flag(rank, slot).reset(FIRST - 1);
        }
        // No call is published yet: each entry holds a number that doesn't belong into it.
        for place in 0..PUBLISHED {
            let [which, _] = shared.published(rank, place);
            which.store(u64::from(place + 1) << 32, Ordering::Relaxed);
        }
        shared
    }

    /// Notes that all members have the memory. `direct`: whether they can copy from each other's
    /// memory; `crowded`: whether one of them may have to wait for its core.
    pub fn settle(&mut self, direct: Direct, crowded: bool) {
        self.seal();
        self.slots.direct = direct;
        self.slots.crowded = crowded;
    }

    /// Notes that all members have the memory.
    pub fn seal(&self) {
        self.piece.seal();
    }

    /// Sets these ranks' numbers in the communicator, if they aren't all of its ranks.
    pub fn set_comm_ranks(&mut self, names: Box<[u32]>) {
        self.comm_ranks = Some(names);
    }

    /// Returns a rank's number in the communicator.
    fn comm_rank(&self, of: u32) -> u32 {
        let names = self.comm_ranks.as_deref();
        names
            .and_then(|names| names.get(of as usize).copied())
            .unwrap_or(of)
    }

    /// Takes the numbers of the next phases.
    #[inline]
    pub fn take(&self, phases: u32) -> u64 {
        // No other thread does so: collectives on a communicator come one after the other.
        let first = self.next.load(Ordering::Relaxed);
        self.next
            .store(first.wrapping_add(phases.into()), Ordering::Relaxed);
        first
    }

    /// The phase from which on data uses all data slots.
    #[inline(always)]
    fn all_data_slots(&self) -> &AllDataSlots {
        // SAFETY: aligned, in the first line of rank 0's head, in memory that lives as long as
        // `self`.
        unsafe { &*self.base.sub(HEAD).add(16).cast() }
    }

    /// Returns the address of byte `offset` of a rank's slot.
    #[inline(always)]
    pub fn place(&self, of: u32, number: u64, offset: isize) -> *mut u8 {
        debug_assert!(of < self.slots.size);
        self.addresses(number, offset).of(of)
    }

    /// Returns the address of byte `offset` in the slots of all ranks.
    ///
    /// For data, this rank must have claimed its slot, or seen the flag of the data's writer.
    #[inline(always)]
    pub fn addresses(&self, number: u64, offset: isize) -> SlotAddresses {
        debug_assert!(offset >= 0);
        match offset < FRONT as isize {
            true => {
                let at = (number as usize & self.mask) * LINES;
                self.addresses_at(at, offset)
            }
            false => self.data_addresses(number, offset),
        }
    }

    /// Returns the address of a byte of data, behind the fronts of slots.
    #[inline(always)]
    fn data_addresses(&self, number: u64, offset: isize) -> SlotAddresses {
        let mask = match self.all_data_slots().has_begun(number) {
            true => self.data_mask,
            false => self.mask,
        };
        let at = self.data + (number as usize & mask) * self.stride;
        self.addresses_at(at, offset)
    }

    #[inline(always)]
    fn addresses_at(&self, at: usize, offset: isize) -> SlotAddresses {
        SlotAddresses {
            first: self.base.wrapping_add(at).wrapping_offset(offset),
            own: self.own,
        }
    }

    /// Returns the flags of all ranks in a phase.
    #[inline(always)]
    pub fn flags(&self, number: u64) -> Flags<'_> {
        let slot = number as usize & self.mask;
        let first = self.base.wrapping_add(slot * LINES);
        Flags { of: self, first }
    }

    /// Whether a fast path may write data to this rank's slot of a phase, by the flags that it has
    /// seen.
    #[inline(always)]
    pub fn is_claimed(&self, number: u64) -> bool {
        let together = self.all_seen.load(Ordering::Relaxed);
        has_come(together.wrapping_add(self.ahead), number)
    }

    /// Notes that a fast path has seen the flags of all ranks in a phase.
    #[inline(always)]
    pub fn set_all_seen(&self, number: u64) {
        self.all_seen.store(number, Ordering::Relaxed);
    }

    #[inline(always)]
    fn flag(&self, of: u32, number: u64) -> &SlotFlag {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as `self`.
        unsafe { &*self.place(of, number, 0).cast() }
    }

    /// Raises this rank's flag of a phase of a call with this signature.
    #[inline(always)]
    pub fn raise(&self, number: u64, signature: CallSignature) {
        let rank = self.slots.rank;
        self.flag(rank, number).raise(number, signature);
        // A wait for all ranks needn't read this rank's own flag.
        self.seen[rank as usize].store(number, Ordering::Relaxed);
    }

    /// Polls a rank's flag of a phase up to `times` times. With `signature`, the phase must belong
    /// to a call with that signature.
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
            if let Some((phases, mark)) = flag.poll(number) {
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

    /// Whether a rank's flag is up for a phase of a call with this signature, where several calls use
    /// the slots together.
    ///
    /// Later phases' flags don't imply it: several threads may raise a rank's flags.
    #[inline]
    pub fn is_up_alone(&self, of: u32, number: u64, signature: CallSignature) -> Flag {
        // A wait for all ranks comes after this rank's own flag.
        if of == self.slots.rank {
            return Flag::Up;
        }
        // No rank raises the slot's flag again before this rank has finished this phase.
        match self.flag(of, number).poll(number) {
            Some((0, mark)) if mark == u64::from(signature.mark()) => Flag::Up,
            Some((0, _)) => Flag::Other,
            _ => Flag::Down,
        }
    }

    /// Spins for a moment, on an oversubscribed node, unless a rank that is missing from this phase
    /// needs this core. Returns whether all of `ranks` have arrived.
    pub fn spin_unless_needed(&self, ranks: Range<u32>, number: u64) -> bool {
        // SAFETY: takes and returns nothing but a number.
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

    /// The core on which a rank was when it last waited.
    fn core_of(&self, of: u32) -> &AtomicU32 {
        // SAFETY: aligned, in the first line of the rank's head, in memory that lives as long as
        // `self`.
        unsafe { &*self.base.sub(HEAD).add(of as usize * self.own + 8).cast() }
    }

    /// The phase up to which a rank has finished all calls, where several calls use the slots
    /// together.
    #[inline(always)]
    pub fn through(&self, of: u32) -> &AtomicU64 {
        // SAFETY: aligned, in the first line of the rank's head, in memory that lives as long as
        // `self`.
        unsafe { &*self.base.sub(HEAD).add(of as usize * self.own + 24).cast() }
    }

    /// The mismatch word in rank 0's head, as [`found_by`] encodes it; 0 if there is no mismatch.
    #[inline(always)]
    fn mismatch(&self) -> &AtomicU64 {
        // SAFETY: rank 0's head lies before its slots, in memory that lives as long as `self`.
        unsafe { &*self.base.sub(HEAD).cast() }
    }

    /// Fails if members were found to disagree about call number `tag` or an earlier one.
    ///
    /// A rank in a call before the mismatch gets all that it needs: all others have made the same
    /// call there.
    #[inline(always)]
    pub fn check(&self, tag: u32) -> Result<()> {
        match self.mismatch().load(Ordering::Relaxed) {
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
        self.knows_mismatch.store(true, Ordering::Relaxed);
        Err(broken_by(self.comm_rank(one), self.comm_rank(other)))
    }

    /// Fails if this rank has learned of a mismatch in an earlier call.
    ///
    /// The cheapest check, for fast paths: whether a call in progress can still end is checked by
    /// waits that take long.
    #[inline(always)]
    pub fn check_known_mismatch(&self) -> Result<()> {
        match self.knows_mismatch.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.known_mismatch()),
        }
    }

    #[cold]
    fn known_mismatch(&self) -> Error {
        let (_, one, other) = read_found(self.mismatch().load(Ordering::Relaxed));
        broken_by(self.comm_rank(one), self.comm_rank(other))
    }

    /// Returns the entry of a rank's published calls for call number `tag`.
    fn published(&self, of: u32, tag: u32) -> [&AtomicU64; 2] {
        let from_slots = of as usize * self.own + 64 + 16 * (tag % PUBLISHED) as usize;
        // SAFETY: aligned, within the rank's head, in memory that lives as long as `self`.
        unsafe {
            let at = self.base.sub(HEAD).add(from_slots);
            [&*at.cast(), &*at.add(8).cast()]
        }
    }

    /// Publishes the signature of call number `tag`. Other ranks read it only if they wait in vain.
    #[inline(always)]
    pub fn publish(&self, tag: u32, signature: CallSignature) {
        // SAFETY: aligned, within this rank's head, in memory that lives as long as `self`.
        let [which, what] = unsafe {
            let at = self.published_at.add(16 * (tag % PUBLISHED) as usize);
            [&*at.cast::<AtomicU64>(), &*at.add(8).cast::<AtomicU64>()]
        };
        what.store(signature.word(), Ordering::Relaxed);
        which.store(slot_flag::word(tag.into(), signature), Ordering::Release);
    }

    /// Counts a call that has stored much, and samples now and then how near another rank's cache
    /// is.
    ///
    /// Called at the end of call number `tag`, whose first phase was `number`. The sample is a load
    /// of that rank's published entry. `stored`: the most bytes stored in one phase.
    #[inline(never)]
    pub fn sample_nearness(&self, tag: u32, number: u64, stored: usize) {
        if stored >= LONG_STORE {
            self.note_long(number);
        }
        if let Some(turn) = self.nearness.sample_due() {
            self.sample_rank(turn, tag, number);
        }
    }

    #[cold]
    fn sample_rank(&self, turn: u32, tag: u32, number: u64) {
        let Slots { rank, size, .. } = self.slots;
        let of = (rank + 1 + turn % (size - 1)) % size;
        // A rank that only gives may be ahead of the others.
        let seen = self.seen[of as usize].load(Ordering::Relaxed);
        let together = self.all_seen.load(Ordering::Relaxed);
        let call = match has_come(seen, number) || has_come(together, number) {
            true => tag,
            false => tag.wrapping_sub(MAX_LAG),
        };
        let [[which, _], [beside, _]] =
            [call, call ^ (PUBLISHED / 2)].map(|call| self.published(of, call));
        self.nearness
            .sample(which, beside, |word| (word >> 32) as u32 == call);
    }

    /// Counts a long call of this rank, with this phase.
    #[inline(never)]
    fn note_long(&self, number: u64) {
        let calls = self.long_calls.load(Ordering::Relaxed);
        if calls < LONG_CALLS {
            self.long_calls.store(calls + 1, Ordering::Relaxed);
        }
        if calls + 1 == LONG_CALLS {
            self.all_data_slots().begin_soon_after(number);
        }
    }

    /// Fails if members disagree about call number `tag` or an earlier one. Called by waits that
    /// take long.
    ///
    /// Other ranks' published calls are compared only if that [is
    /// due](crate::agreement::mismatch_word::MismatchTimer).
    pub fn check_agreement(&self, tag: u32, signature: CallSignature, is_due: bool) -> Result<()> {
        self.check(tag)?;
        if is_due && let Some((of, theirs)) = self.other_signature(tag, signature) {
            return Err(self.publish_mismatch(of, tag, signature, theirs));
        }
        Ok(())
    }

    /// Returns the ranks in `among` that have not raised their flags of a phase, whatever their
    /// calls.
    #[cold]
    pub fn missing(&self, among: Range<u32>, number: u64) -> Vec<u32> {
        let is_missing = |rank: &u32| !self.flag(*rank, number).has_come_to(number);
        among.filter(is_missing).collect()
    }

    /// Checks that all ranks that have come to call number `tag` make the same call.
    ///
    /// For a rank that has completed it by messages, which carry no signature.
    #[cold]
    pub fn compare(&self, tag: u32, signature: CallSignature) -> Result<()> {
        match self.other_signature(tag, signature) {
            Some((of, theirs)) => Err(self.disagree(of, tag, signature, theirs)?),
            None => Ok(()),
        }
    }

    /// Returns a rank that has published another call with number `tag`.
    #[cold]
    fn other_signature(&self, tag: u32, signature: CallSignature) -> Option<(u32, CallSignature)> {
        (0..self.slots.size).find_map(|of| {
            let [which, what] = self.published(of, tag);
            let said = which.load(Ordering::Acquire);
            let other =
                said >> 32 == u64::from(tag) && said != slot_flag::word(tag.into(), signature);
            other.then(|| (of, CallSignature::from_word(what.load(Ordering::Relaxed))))
        })
    }

    /// Returns the signature of the call that raised a rank's flag of a phase.
    #[cold]
    pub fn signature_of(&self, of: u32, number: u64) -> CallSignature {
        self.flag(of, number).signature()
    }

    /// Handles a mismatch with rank `of` about call number `tag`: publishes it unless both calls
    /// have the same phases (`Ok`).
    #[cold]
    pub fn disagree(
        &self,
        of: u32,
        tag: u32,
        signature: CallSignature,
        theirs: CallSignature,
    ) -> Result<Error> {
        if signature.keeps_step_with(theirs) {
            return Ok(signature.disagreement(self.comm_rank(of), theirs, false));
        }
        Err(self.publish_mismatch(of, tag, signature, theirs))
    }

    /// Publishes a mismatch with rank `of` about call number `tag`.
    fn publish_mismatch(
        &self,
        of: u32,
        tag: u32,
        signature: CallSignature,
        theirs: CallSignature,
    ) -> Error {
        let found = found_by(tag, self.slots.rank, of);
        // The earliest call counts, even if found later: a rank there may wait for one that has
        // given up.
        let earlier = |known| (known == 0 || is_before(tag, read_found(known).0)).then_some(found);
        let _ = self
            .mismatch()
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
        self.knows_mismatch.store(true, Ordering::Relaxed);
        signature.disagreement(self.comm_rank(of), theirs, true)
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use netmod::{OpenError, RemoteKey};

    use super::ring::{PAGE, SWITCH_DELAY};
    use super::*;

    #[repr(C, align(4096))]
    struct Page([u8; PAGE]);

    /// Memory that lives until the test ends.
    struct Piece(*mut u8);

    // SAFETY: the memory is accessed by the slots' protocol.
    unsafe impl Send for Piece {}
    // SAFETY: the memory is accessed by the slots' protocol.
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
        fn seal(&self) {}
    }

    const SMALL: Ring = Ring {
        room: 64,
        depth: DEPTHS.0,
        data_slots: 4 * DEPTHS.0,
    };

    /// Returns two ranks' views of their slots.
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

    /// A writer of a phase's data has seen the flags of all but the last `depth` - 2 phases before
    /// it.
    #[test]
    fn data_of_phases_that_may_be_read_still_lies_elsewhere() {
        let [one, other] = two(SMALL);
        let depth = u64::from(one.slots.depth);
        let place = |number| [0, 64].map(|offset| one.place(0, number, offset));
        let mut data = std::collections::HashSet::new();
        let settled = 3000;
        for call in 0..settled + 2 * SWITCH_DELAY {
            let number = one.take(1);
            for before in (1..depth.min(call + 1)).map(|by| number.wrapping_sub(by)) {
                let [own, before] = [number, before].map(place);
                assert!(own[0] != before[0] && own[1] != before[1], "{call}");
            }
            data.insert(place(number)[1]);
            if call >= settled {
                // Whichever rank decides first.
                [&one, &other][call as usize % 2]
                    .all_data_slots()
                    .begin_soon_after(number);
            }
            let soon = call < settled + SWITCH_DELAY - u64::from(DEPTHS.1);
            assert!(!soon || data.len() as u64 <= depth, "{call}");
            assert_eq!(place(number)[1], other.place(0, number, 64));
        }
        assert_eq!(data.len() as u64, 4 * depth);
        let ends = one.base.wrapping_add(one.own - HEAD).addr();
        assert!(data.iter().all(|at| at.addr() + one.slots.room <= ends));
    }

    /// A long wait asks for the missing ranks now and then; if one of them arrives with another
    /// call meanwhile, the mismatch is still found.
    #[test]
    fn a_missing_rank_is_not_taken_for_seen() {
        let [one, other] = two(SMALL);
        let [theirs, own] = [7, 8].map(CallSignature::from_word);
        let number = one.take(1);
        assert_eq!(other.missing(0..1, number), [0]);
        one.raise(number, theirs);
        assert_eq!(other.missing(0..1, number), []);
        assert!(matches!(other.is_up(0, number, 1, Some(own)), Flag::Other));
        assert!(matches!(other.is_up(0, number, 1, Some(theirs)), Flag::Up));
    }

    /// A wait in a call that all agree about doesn't fail for a later one; waits in that one or
    /// after it do.
    #[test]
    fn a_disagreement_is_that_of_its_call() {
        const LAST: u32 = i32::MAX as u32;
        let [before, theirs, own] = [6, 7, 8].map(|kind| CallSignature::from_word(kind << 40));
        for tags in [[7, 8, 9], [LAST, 0, 1], [LAST - 1, LAST, 0]] {
            let [one, other] = two(SMALL);
            let [earlier, tag, later] = tags;
            one.publish(earlier, before);
            other.publish(earlier, before);
            one.publish(tag, own);
            other.publish(tag, theirs);
            assert!(one.check_agreement(tag, own, false).is_ok());
            let found = one.check_agreement(tag, own, true);
            assert!(found.is_err_and(|error| error.to_string().contains("rank 1 and this rank")));
            for is_due in [false, true] {
                assert!(other.check_agreement(earlier, before, is_due).is_ok());
            }
            assert!(other.check(earlier).is_ok() && other.check_known_mismatch().is_ok());
            assert!(one.check_known_mismatch().is_err());
            for tag in [tag, later] {
                let told = other.check_agreement(tag, theirs, false);
                let text = told.map_err(|error| error.to_string()).unwrap_err();
                assert!(text.contains("ranks 0 and 1 disagree"), "{text}");
                assert!(one.check(tag).is_err() && other.check_known_mismatch().is_err());
            }
            // An earlier mismatch that is found later counts from then on.
            assert!(other.disagree(0, later, theirs, own).is_err());
            assert!(other.check(earlier).is_ok());
            assert!(other.disagree(0, earlier, theirs, own).is_err());
            assert!(one.check(earlier).is_err());
        }
    }
}
