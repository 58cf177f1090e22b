//! The one phase of a call that goes without a schedule: flags raised and waited for.
//!
//! What is looked at once, and found as it mostly is, is all that lies in line. So a phase goes to the rest as a copy: its
//! address is nowhere known, and it can stay in registers.

use std::ops::Range;

use mpi_sched::run::Flag;

use crate::agreement::mismatch_word::Doubt;
use crate::agreement::signature::CallSignature;
use crate::exec::progress_note::ProgressNote;
use crate::slots::nearness;
use crate::slots::shared::{Flags, SharedSlots, SlotAddresses};
use crate::slots::slot_flag;
use mpi_core::comm::Comm;
use mpi_core::error::{Error, Result};
use mpi_core::process::Process;

/// Where a call takes the short way.
#[derive(Clone, Copy)]
pub(super) struct ShortWay<'a> {
    pub process: &'a Process,
    comm: &'a Comm,
    pub shared: &'a SharedSlots,
}

impl<'a> ShortWay<'a> {
    /// By the slots that all members of a communicator share, unless a process has been lost: then a wait ends in other
    /// ways, too.
    #[inline(always)]
    pub fn over(
        process: &'a Process,
        comm: &'a Comm,
        shared: &'a SharedSlots,
    ) -> Option<ShortWay<'a>> {
        (process.losses() == 0).then(|| ShortWay::among(process, comm, shared))
    }

    /// The same whether a process has been lost or not: no member is, as far as this rank knows.
    #[inline(always)]
    pub fn among(process: &'a Process, comm: &'a Comm, shared: &'a SharedSlots) -> ShortWay<'a> {
        ShortWay {
            process,
            comm,
            shared,
        }
    }
}

/// The one phase of a call.
pub(super) struct Phase<'a> {
    pub(super) at: Place<'a>,
    /// What was found of ranks that have called something else, but keep step.
    disagreement: Option<Error>,
}

/// Which phase it is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub way: ShortWay<'a>,
    signature: CallSignature,
    tag: u32,
    pub number: u64,
    pub flags: Flags<'a>,
    /// The flag of each rank that has come here by the same call.
    pub flag: u64,
}

impl<'a> Phase<'a> {
    #[inline(always)]
    pub fn begin(way: ShortWay<'a>, signature: CallSignature) -> Result<Phase<'a>> {
        let ShortWay { comm, shared, .. } = way;
        shared.check_known_mismatch()?;
        let tag = comm.next_collective();
        shared.publish(tag, signature);
        let number = shared.take(1);
        Ok(Phase {
            at: Place {
                way,
                signature,
                tag,
                number,
                flags: shared.flags(number),
                flag: slot_flag::word(number, signature),
            },
            disagreement: None,
        })
    }

    /// The number of the call among the communicator's collectives.
    pub fn tag(&self) -> u32 {
        self.at.tag
    }

    /// Where the byte `offset` is of the slots of all ranks; for data, to be asked when this rank has claimed its slot, or has
    /// seen the flag of who wrote it: before, it may not know yet where data goes (`SharedSlots::places`).
    #[inline(always)]
    pub fn places(&self, offset: isize) -> SlotAddresses {
        self.at.flags.addresses(self.at.number, offset)
    }

    /// Where the byte at `places` is of this rank's slot.
    #[inline(always)]
    pub fn own_of(&self, places: SlotAddresses) -> *mut u8 {
        self.at.flags.own_of(places)
    }

    /// Waits until this rank may write to its slot: all have gone so far.
    #[inline(always)]
    pub fn claim(&mut self) -> Result<()> {
        match self.at.way.shared.is_claimed(self.at.number) {
            true => Ok(()),
            false => self.note(self.at.claim_long()),
        }
    }

    /// Stores this rank's data at `to` in its slot.
    ///
    /// # Safety
    /// This rank has claimed the slot, in which there is room for `len` bytes there; `from` is readable for as many.
    #[inline(always)]
    pub unsafe fn store(&self, from: *const u8, to: *mut u8, len: usize) {
        let far = len >= nearness::MIN_BYTES && self.at.way.shared.nearness.is_far();
        // SAFETY: the caller's contract; nobody else writes to this rank's slot.
        unsafe { nearness::store(far, from, to, len) };
    }

    /// Says that this rank has come here, and that its slot may be read.
    #[inline(always)]
    pub fn raise(&self) {
        self.at
            .flags
            .own()
            .raise_to(self.at.flag, self.at.signature);
    }

    /// Waits until all have come here.
    #[inline(always)]
    pub fn wait(&mut self) -> Result<()> {
        let size = self.at.way.shared.slots.size;
        // This rank's own flag, which is up, is no more to look at than to find out whose it is.
        for of in 0..size {
            if !self.at.sees(of) {
                self.note(self.at.wait_long(self.at.number, of..size))?;
                break;
            }
        }
        self.at.way.shared.set_all_seen(self.at.number);
        Ok(())
    }

    /// Waits until rank `of` has.
    #[inline(always)]
    pub fn wait_for(&mut self, of: u32) -> Result<()> {
        match self.at.sees(of) {
            true => Ok(()),
            false => self.note(self.at.wait_long(self.at.number, of..of + 1)),
        }
    }

    #[inline(always)]
    fn note(&mut self, found: Result<Option<Error>>) -> Result<()> {
        let found = found?;
        if self.disagreement.is_none() {
            self.disagreement = found;
        }
        Ok(())
    }

    /// The end of a call in which this rank has stored so many bytes at once, at the most.
    #[inline(always)]
    pub fn end(self, stored: usize) -> Result<()> {
        if stored >= nearness::MIN_BYTES {
            let Place { tag, number, .. } = self.at;
            self.at.way.shared.sample_nearness(tag, number, stored);
        }
        self.disagreement.map_or(Ok(()), Err)
    }
}

impl Place<'_> {
    /// Whether rank `of` has raised its flag of this phase, or does so soon. These looks are in line: what follows them is what
    /// all wait for.
    #[inline(always)]
    fn sees(&self, of: u32) -> bool {
        let flag = self.flags.of(of);
        if flag.is(self.flag) {
            return true;
        }
        for _ in 0..self.way.process.flag_polls() {
            std::hint::spin_loop();
            if flag.is(self.flag) {
                return true;
            }
        }
        false
    }

    /// As [`Phase::claim`], where it is not known that this rank may. With what was found of ranks that have called something
    /// else.
    #[cold]
    #[inline(never)]
    fn claim_long(self) -> Result<Option<Error>> {
        let shared = self.way.shared;
        let (depth, ranks) = (u64::from(shared.slots.depth), 0..shared.slots.size);
        let least = self.number.wrapping_add(2).wrapping_sub(depth);
        let found = self.wait_long(least, ranks.clone())?;
        // Who only writes, call after call, asks once for half of its slots.
        let half = self.number.wrapping_add(1).wrapping_sub(depth / 2);
        let mut flags = ranks.map(|of| shared.is_up(of, half, 1, None));
        shared.set_all_seen(match flags.all(|flag| matches!(flag, Flag::Up)) {
            true => half,
            false => least,
        });
        Ok(found)
    }

    /// Waits until these ranks have raised their flags of a phase, first by looks alone. With what was found of ranks that have
    /// called something else.
    #[inline(never)]
    fn wait_long(self, number: u64, mut ranks: Range<u32>) -> Result<Option<Error>> {
        let mut found = None;
        match self.look(
            number,
            self.way.process.flag_polls(),
            &mut ranks,
            &mut found,
        )? {
            true => Ok(found),
            false => self.wait_longer(number, ranks, found),
        }
    }

    #[inline(never)]
    fn wait_longer(
        self,
        number: u64,
        mut ranks: Range<u32>,
        mut found: Option<Error>,
    ) -> Result<Option<Error>> {
        let ShortWay {
            process,
            comm,
            shared,
        } = self.way;
        let (looks, crowded) = (
            process.flag_polls_between_rounds(),
            process.is_oversubscribed(),
        );
        let mut doubt = Doubt::new(process);
        let mut note = ProgressNote::new(process);
        process.wait_for_stores(comm.vci(), || {
            // With a member lost nothing goes on, lest what is missing be taken for the result.
            if let Some(error) = comm.trouble(process) {
                return Err(error);
            }
            loop {
                if self.look(number, looks, &mut ranks, &mut found)? {
                    return Ok(Some(()));
                }
                shared.check_agreement(self.tag, self.signature, doubt.is_due(process))?;
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

    /// Whether all ranks have raised their flags; otherwise they begin with the first that has not.
    #[inline(always)]
    fn look(
        self,
        number: u64,
        times: u32,
        ranks: &mut Range<u32>,
        found: &mut Option<Error>,
    ) -> Result<bool> {
        let shared = self.way.shared;
        // Earlier phases may have been those of other calls.
        let own = (number == self.number).then_some(self.signature);
        while ranks.start < ranks.end {
            match shared.is_up(ranks.start, number, times, own) {
                Flag::Up => {}
                Flag::Down => return Ok(false),
                Flag::Other => {
                    let error =
                        shared.disagree_in(ranks.start, self.tag, number, self.signature)?;
                    found.get_or_insert(error);
                }
            }
            ranks.start += 1;
        }
        Ok(true)
    }
}
