//! The flags of one phase: raised and waited for.
//!
//! The checks that mostly succeed at once are inlined; the waits that follow are functions. They
//! take a copy of the phase, so that its address is never taken and it can stay in registers.

use std::ops::Range;

use mpi_sched::run::Flag;

use crate::agreement::mismatch_word::MismatchTimer;
use crate::agreement::signature::CallSignature;
use crate::exec::progress_note::ProgressNote;
use crate::slots::nearness;
use crate::slots::shared::{Flags, SharedSlots, SlotAddresses};
use crate::slots::slot_flag;
use mpi_core::comm::Comm;
use mpi_core::error::{Error, Result};
use mpi_core::process::Process;

/// A communicator whose members share a node's slots.
#[derive(Clone, Copy)]
pub struct NodeContext<'a> {
    pub(crate) process: &'a Process,
    pub(crate) comm: &'a Comm,
    pub(crate) shared: &'a SharedSlots,
}

impl NodeContext<'_> {
    /// Returns this rank.
    #[inline(always)]
    pub fn rank(&self) -> u32 {
        self.shared.slots.rank
    }

    /// Returns the root with this number; `None` if there is no such rank.
    #[inline(always)]
    pub fn root(&self, root: i32) -> Option<u32> {
        ((root as u32) < self.shared.slots.size).then_some(root as u32)
    }

    /// Fails if a member has failed or the communicator was revoked. The phase then counts as over.
    #[inline]
    pub(crate) fn check_members(&self) -> Result<()> {
        match self.comm.trouble(self.process) {
            None => Ok(()),
            Some(error) => {
                self.comm.next_collective();
                self.shared.take(1);
                Err(error)
            }
        }
    }
}

/// The one phase of a call.
pub(super) struct Phase<'a> {
    pub(super) view: PhaseView<'a>,
    /// The mismatch with ranks that have called something else, but go through as many phases.
    mismatch: Option<Error>,
}

/// The constants of a phase.
#[derive(Clone, Copy)]
pub(super) struct PhaseView<'a> {
    pub node: NodeContext<'a>,
    signature: CallSignature,
    /// The call's number among the communicator's collectives.
    tag: u32,
    pub number: u64,
    pub flags: Flags<'a>,
    /// The flag of each rank that has arrived by the same call.
    pub flag: u64,
}

impl<'a> Phase<'a> {
    /// Begins the next phase, with a call of this signature.
    #[inline(always)]
    pub fn begin(node: NodeContext<'a>, signature: CallSignature) -> Result<Phase<'a>> {
        let NodeContext { comm, shared, .. } = node;
        shared.check_known_mismatch()?;
        let tag = comm.next_collective();
        shared.publish(tag, signature);
        let number = shared.take(1);
        Ok(Phase {
            view: PhaseView {
                node,
                signature,
                tag,
                number,
                flags: shared.flags(number),
                flag: slot_flag::word(number, signature),
            },
            mismatch: None,
        })
    }

    /// Returns the addresses of byte `offset` in the slots of all ranks ([`PhaseView::addresses`]).
    #[inline(always)]
    pub fn addresses(&self, offset: isize) -> SlotAddresses {
        self.view.addresses(offset)
    }

    /// Returns the address in this rank's slot.
    #[inline(always)]
    pub fn own_of(&self, addresses: SlotAddresses) -> *mut u8 {
        self.view.flags.own_of(addresses)
    }

    /// Waits until this rank may write to its slot, since all ranks have read its earlier content.
    #[inline(always)]
    pub fn claim(&mut self) -> Result<()> {
        match self.view.node.shared.is_claimed(self.view.number) {
            true => Ok(()),
            false => self.note(self.view.claim_slowly()),
        }
    }

    /// Raises this rank's flag: it has arrived, and its slot may be read.
    #[inline(always)]
    pub fn raise(&self) {
        self.view
            .flags
            .own()
            .raise_to(self.view.flag, self.view.signature);
    }

    /// Waits until all ranks have arrived.
    #[inline(always)]
    pub fn wait(&mut self) -> Result<()> {
        let size = self.view.node.shared.slots.size;
        // Polling this rank's own flag, which is up, costs less than finding out which one it is.
        for of in 0..size {
            if !self.view.sees(of) {
                self.note(self.view.wait_slowly(self.view.number, of..size))?;
                break;
            }
        }
        self.view.node.shared.set_all_seen(self.view.number);
        Ok(())
    }

    /// Waits until rank `of` has arrived.
    #[inline(always)]
    pub fn wait_for(&mut self, of: u32) -> Result<()> {
        match self.view.sees(of) {
            true => Ok(()),
            false => self.note(self.view.wait_slowly(self.view.number, of..of + 1)),
        }
    }

    /// Notes the first mismatch.
    #[inline(always)]
    fn note(&mut self, found: Result<Option<Error>>) -> Result<()> {
        let found = found?;
        if self.mismatch.is_none() {
            self.mismatch = found;
        }
        Ok(())
    }

    /// Ends a call in which this rank has stored at most `stored` bytes in one piece.
    #[inline(always)]
    pub fn end(self, stored: usize) -> Result<()> {
        if stored >= nearness::MIN_BYTES {
            let PhaseView { tag, number, .. } = self.view;
            let shared = self.view.node.shared;
            shared.sample_nearness(tag, number, stored);
        }
        self.mismatch.map_or(Ok(()), Err)
    }
}

impl PhaseView<'_> {
    /// Returns the addresses of byte `offset` in the slots of all ranks.
    ///
    /// For data, this rank must have claimed its slot, or seen the flag of the data's writer
    /// ([`SharedSlots::addresses`]).
    #[inline(always)]
    pub fn addresses(self, offset: isize) -> SlotAddresses {
        self.flags.addresses(self.number, offset)
    }

    /// Stores this rank's data at `to` in its slot.
    ///
    /// # Safety
    /// This rank has claimed the slot, which has `len` bytes at `to`; `from` is readable for `len`
    /// bytes.
    #[inline(always)]
    pub unsafe fn store(self, from: *const u8, to: *mut u8, len: usize) {
        let far = len >= nearness::MIN_BYTES && self.node.shared.nearness.is_far();
        // SAFETY: `from` is readable and `to` writable for `len` bytes, by this function's contract;
        // only this rank writes to its slot.
        unsafe { nearness::store(far, from, to, len) };
    }

    /// Whether rank `of` has raised its flag of this phase, or does so within a few polls.
    #[inline(always)]
    fn sees(&self, of: u32) -> bool {
        let flag = self.flags.of(of);
        if flag.is(self.flag) {
            return true;
        }
        for _ in 0..self.node.process.flag_polls() {
            std::hint::spin_loop();
            if flag.is(self.flag) {
                return true;
            }
        }
        false
    }

    /// Waits until the slot's earlier content has been read. Returns the mismatch found, if any.
    #[cold]
    #[inline(never)]
    fn claim_slowly(self) -> Result<Option<Error>> {
        let shared = self.node.shared;
        let (depth, ranks) = (u64::from(shared.slots.depth), 0..shared.slots.size);
        let least = self.number.wrapping_add(2).wrapping_sub(depth);
        let found = self.wait_slowly(least, ranks.clone())?;
        // A rank that only writes, call after call, polls once for half of its slots.
        let half = self.number.wrapping_add(1).wrapping_sub(depth / 2);
        let mut flags = ranks.map(|of| shared.is_up(of, half, 1, None));
        shared.set_all_seen(match flags.all(|flag| matches!(flag, Flag::Up)) {
            true => half,
            false => least,
        });
        Ok(found)
    }

    /// Waits until these ranks have raised their flags of a phase; at first it only polls. Returns
    /// the mismatch found, if any.
    #[inline(never)]
    fn wait_slowly(self, number: u64, mut ranks: Range<u32>) -> Result<Option<Error>> {
        let mut found = None;
        let polls = self.node.process.flag_polls();
        match self.poll(number, polls, &mut ranks, &mut found)? {
            true => Ok(found),
            false => self.wait_with_progress(number, ranks, found),
        }
    }

    #[inline(never)]
    fn wait_with_progress(
        self,
        number: u64,
        mut ranks: Range<u32>,
        mut found: Option<Error>,
    ) -> Result<Option<Error>> {
        let NodeContext {
            process,
            comm,
            shared,
        } = self.node;
        let (polls, crowded) = (
            process.flag_polls_between_rounds(),
            process.is_oversubscribed(),
        );
        let mut timer = MismatchTimer::new(process);
        let mut note = ProgressNote::new(process);
        process.wait_for_stores(comm.vci(), || {
            // Invariant: with a failed member the call makes no step, so that no rank takes partial
            // data for a result.
            if let Some(error) = comm.trouble(process) {
                return Err(error);
            }
            loop {
                if self.poll(number, polls, &mut ranks, &mut found)? {
                    return Ok(Some(()));
                }
                shared.check_agreement(self.tag, self.signature, timer.is_due(process))?;
                note.update(process, comm, || {
                    ((1, 1), shared.missing(ranks.clone(), number))
                });
                if !crowded || !shared.spin_unless_needed(ranks.clone(), number) {
                    return Ok(None);
                }
            }
        })?;
        Ok(found)
    }

    /// Polls the flags of `ranks`, which begin afterwards with the first whose flag is down. Returns
    /// whether all are up.
    #[inline(always)]
    fn poll(
        self,
        number: u64,
        times: u32,
        ranks: &mut Range<u32>,
        found: &mut Option<Error>,
    ) -> Result<bool> {
        let shared = self.node.shared;
        // Earlier phases may belong to other calls.
        let own = (number == self.number).then_some(self.signature);
        while ranks.start < ranks.end {
            match shared.is_up(ranks.start, number, times, own) {
                Flag::Up => {}
                Flag::Down => return Ok(false),
                Flag::Other => {
                    let (of, theirs) = (ranks.start, shared.signature_of(ranks.start, number));
                    let error = shared.disagree(of, self.tag, self.signature, theirs)?;
                    found.get_or_insert(error);
                }
            }
            ranks.start += 1;
        }
        Ok(true)
    }
}
