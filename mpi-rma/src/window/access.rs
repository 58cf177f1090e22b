//! Steps that all accesses share: checks, address of the target's memory, messages to the target.

use crate::window::buffers::{Completion, Origin, Target};
use crate::window::members::{Mapped, Member, Route};
use crate::window::runs::{self, Group};
use crate::window::{Flavor, Window, not_on_node};
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};

impl Window {
    /// Checks a call and returns its offset in the target's memory, in bytes. `None` if it moves no
    /// data.
    #[inline]
    pub(crate) fn begin(
        &self,
        process: &Process,
        target: &Target<'_>,
        completion: Completion,
    ) -> Result<Option<i64>> {
        if completion == Completion::Request {
            self.epochs.check_passive(target.rank as usize)?;
            // A call that completes immediately ends without a wait or flush, so others make
            // progress here.
            self.make_progress(process)?;
        }
        self.enter(process, target.rank)?;
        if target.len() == 0 {
            return Ok(None);
        }
        let member = self.members.get(target.rank);
        let datatype = target.datatype;
        let at = (target.displacement as i64).checked_mul(member.unit);
        let at = at.ok_or_else(|| self.beyond(target))?;
        let more = (target.count as i64 - 1).saturating_mul(datatype.extent() as i64);
        let low = at.saturating_add(datatype.true_lb() as i64);
        let high = low.saturating_add(datatype.true_extent() as i64);
        let (low, high) = (
            low.saturating_add(more.min(0)),
            high.saturating_add(more.max(0)),
        );
        let within = match self.flavor {
            // Other members' memory is checked where it is accessed: by the target, or by the
            // kernel.
            Flavor::Dynamic => {
                let others = self.here(target.rank).is_none() && !self.is_own_dynamic(target.rank);
                others || self.has_attached(low, high)
            }
            _ => low >= 0 && high as u64 <= member.size,
        };
        if within {
            Ok(Some(at))
        } else {
            Err(self.beyond(target))
        }
    }

    #[cold]
    pub(crate) fn beyond(&self, target: &Target<'_>) -> Error {
        if self.flavor == Flavor::Dynamic {
            return Error::new(
                Class::RmaRange,
                format!(
                    "{} elements of {} bytes at address {:#x} of rank {} are not all attached \
                     there; call MPI_Win_attach, and get addresses by MPI_Get_address",
                    target.count,
                    target.datatype.size(),
                    target.displacement,
                    target.rank
                ),
            );
        }
        if target.displacement < 0 {
            let detail = format!(
                "target_disp is {}; it must be 0 or more",
                target.displacement
            );
            return Error::new(Class::Disp, detail);
        }
        let member: Member = self.members.get(target.rank);
        Error::new(
            Class::RmaRange,
            format!(
                "{} elements of {} bytes at displacement {} (in units of {} bytes) are not all \
                 within the window of rank {}, which has {} bytes",
                target.count,
                target.datatype.size(),
                target.displacement,
                member.unit,
                target.rank,
                member.size
            ),
        )
    }

    /// Returns the address of a target's memory if this process accesses it by loads and stores (0
    /// for a dynamic window).
    #[inline(always)]
    pub(crate) fn here(&self, rank: u32) -> Option<*mut u8> {
        match self.members.get(rank).route {
            Route::Mapped(Mapped(here)) => Some(here),
            _ => None,
        }
    }

    /// Returns the address of a target's memory in a window whose members are all mapped.
    #[inline]
    pub(crate) fn mapped_memory(&self, rank: u32) -> Result<*mut u8> {
        self.here(rank).ok_or_else(|| not_on_node(rank))
    }

    /// Returns the blocks of the target's data, in bytes.
    pub(crate) fn runs(&self, target: &Target<'_>, at: i64) -> Vec<(i64, usize)> {
        let pieces = target
            .datatype
            .blocks(std::ptr::null_mut(), target.count, 0, usize::MAX);
        pieces
            .map(|(piece, len)| (at.wrapping_add(piece.addr() as i64), len))
            .collect()
    }

    /// Returns the blocks of the target's data in groups.
    pub(crate) fn groups(&self, target: &Target<'_>, at: i64) -> Vec<Group> {
        let null = std::ptr::null_mut();
        let mut groups = Vec::new();
        for (piece, len) in target.datatype.blocks(null, target.count, 0, usize::MAX) {
            let at = at.wrapping_add(piece.addr() as i64);
            runs::push(&mut groups, (at, len));
        }
        groups
    }

    /// Sends a request to a target by a lane. Unless it is `answered`, the target must be flushed.
    pub(crate) fn ask(
        &self,
        process: &Process,
        (target, number): (u32, usize),
        message: Vec<u8>,
        answered: bool,
    ) -> Result<()> {
        /// Messages that may wait for space before their origin waits too.
        const MAX_QUEUED: usize = 256;
        let service = self.service()?;
        let lane = service.lanes.get(number);
        if lane.origin.lock().sends() > MAX_QUEUED {
            // Messages to failed processes end.
            process.wait_ignoring_loss(lane.vci, || {
                Ok((lane.origin.lock().sends() <= MAX_QUEUED / 2).then_some(()))
            })?;
        }
        service.ask(process, (target, number), message)?;
        // Noted after it was sent: otherwise a flush by another thread could take the note and not
        // be behind the message. An answer implies that everything before it is done too. Only a
        // dynamic window needs the flush as well, to report failed accesses: the origin doesn't
        // know the target's memory.
        if !answered || self.flavor == Flavor::Dynamic {
            match number {
                0 => self.epochs.mark_dirty(target),
                _ => lane.mark_dirty(target),
            }
        }
        Ok(())
    }

    /// Sends a request to a target whose answer goes to `result`.
    ///
    /// # Safety
    /// `result` is writable until the next flush or, if the call has a request, until its end.
    pub(crate) unsafe fn ask_for(
        &self,
        process: &Process,
        to: (u32, usize),
        result: &Origin<'_>,
        completion: Completion,
        message: impl FnOnce(i32) -> Vec<u8>,
    ) -> Result<Option<RequestId>> {
        let service = self.service()?;
        let lane = service.lanes.get(to.1);
        let tag = lane.tag();
        let outer = match completion {
            Completion::Blocking => None,
            Completion::Request => Some(process.start_external(lane.vci, self.comm.owner())?),
        };
        // SAFETY: `result` is writable until the answer is here, by this function's contract.
        let buffer = unsafe { result.buffer() };
        let id = service.expect(process, to, tag, buffer)?;
        service.fetch(to, id, outer);
        self.ask(process, to, message(tag), true)?;
        Ok(outer)
    }
}
