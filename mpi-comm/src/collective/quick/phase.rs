//! The one phase of a call that goes without a schedule: flags raised and waited for.

use std::ops::Range;

use mpi_coll::run::Flag;

use super::super::agreement::CallSignature;
use super::super::nearness;
use super::super::progress_note::ProgressNote;
use super::super::shared::SharedSlots;
use mpi_core::comm::Comm;
use mpi_core::error::{Error, Result};
use mpi_core::process::Process;

/// Where a call takes the short way.
pub(super) struct ShortWay<'a> {
    process: &'a Process,
    comm: &'a Comm,
    shared: &'a SharedSlots,
    /// How often to look at a flag before anything else is looked at.
    looks: u32,
}

impl<'a> ShortWay<'a> {
    /// By the slots that all members of a communicator share, unless a process has been lost.
    #[inline(always)]
    pub fn over(
        process: &'a Process,
        comm: &'a Comm,
        shared: &'a SharedSlots,
    ) -> Option<ShortWay<'a>> {
        Some(ShortWay {
            looks: process.looks_without_loss()?,
            process,
            comm,
            shared,
        })
    }
}

/// The one phase of a call.
pub(super) struct Phase<'a> {
    process: &'a Process,
    comm: &'a Comm,
    pub shared: &'a SharedSlots,
    signature: CallSignature,
    looks: u32,
    tag: u32,
    pub number: u64,
    /// What was found of ranks that have called something else, but keep step.
    disagreement: Option<Error>,
}

impl<'a> Phase<'a> {
    #[inline(always)]
    pub fn begin(way: ShortWay<'a>, signature: CallSignature) -> Result<Phase<'a>> {
        let ShortWay {
            process,
            comm,
            shared,
            looks,
            ..
        } = way;
        shared.check_told()?;
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

    /// Waits until this rank may write to its slot: all have gone so far.
    #[inline(always)]
    pub fn claim(&mut self) -> Result<()> {
        let depth = u64::from(self.shared.slots.depth);
        self.wait_until(
            0..self.shared.slots.size,
            self.number.wrapping_add(2).wrapping_sub(depth),
        )
    }

    /// Stores this rank's data at `to` in its slot.
    ///
    /// # Safety
    /// This rank has claimed the slot, in which there is room for `len` bytes there; `from` is readable for as many.
    #[inline(always)]
    pub unsafe fn store(&self, from: *const u8, to: *mut u8, len: usize) {
        let far = len >= nearness::LEAST && self.shared.nearness.is_far();
        // SAFETY: the caller's contract; nobody else writes to this rank's slot.
        unsafe { nearness::store(far, from, to, len) };
    }

    /// Says that this rank has come here, and that its slot may be read.
    #[inline(always)]
    pub fn raise(&self) {
        self.shared.raise(self.number, self.signature);
    }

    /// Waits until all have come here.
    #[inline(always)]
    pub fn wait(&mut self) -> Result<()> {
        self.wait_until(0..self.shared.slots.size, self.number)
    }

    /// Waits until rank `of` has.
    #[inline(always)]
    pub fn wait_for(&mut self, of: u32) -> Result<()> {
        self.wait_until(of..of + 1, self.number)
    }

    /// Waits until these ranks have raised their flags of a phase.
    #[inline(always)]
    fn wait_until(&mut self, mut ranks: Range<u32>, number: u64) -> Result<()> {
        match self.look(number, self.looks, &mut ranks)? {
            true => Ok(()),
            false => self.wait_long(number, ranks),
        }
    }

    /// Whether all ranks have; otherwise they begin with the first that has not.
    #[inline(always)]
    fn look(&mut self, number: u64, times: u32, ranks: &mut Range<u32>) -> Result<bool> {
        // Earlier phases may have been those of other calls.
        let own = (number == self.number).then_some(self.signature);
        while ranks.start < ranks.end {
            match self.shared.is_up(ranks.start, number, times, own) {
                Flag::Up => {}
                Flag::Down => return Ok(false),
                Flag::Other => self.note_disagreement(ranks.start, number)?,
            }
            ranks.start += 1;
        }
        Ok(true)
    }

    #[cold]
    fn note_disagreement(&mut self, of: u32, number: u64) -> Result<()> {
        let error = self
            .shared
            .disagree_in(of, self.tag, number, self.signature)?;
        self.disagreement.get_or_insert(error);
        Ok(())
    }

    #[inline(never)]
    fn wait_long(&mut self, number: u64, mut ranks: Range<u32>) -> Result<()> {
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
            if let Some(error) = comm.trouble(process) {
                return Err(error);
            }
            loop {
                if self.look(number, looks, &mut ranks)? {
                    return Ok(Some(()));
                }
                shared.check_agreement(self.tag, self.signature, &mut polls)?;
                note.look(process, comm, || {
                    ((1, 1), shared.missing(ranks.clone(), number))
                });
                if !crowded || !shared.spin_unless_needed(ranks.clone(), number) {
                    return Ok(None);
                }
            }
        })
    }

    /// The end of a call in which this rank has stored so many bytes at once, at the most.
    #[inline(always)]
    pub fn end(self, stored: usize) -> Result<()> {
        if stored >= nearness::LEAST {
            self.shared.look_around(self.tag, self.number);
        }
        self.disagreement.map_or(Ok(()), Err)
    }
}
