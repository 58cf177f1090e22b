//! What all accesses have in common: whether they may be, where the memory is, and how a target is
//! asked.

use crate::copied::request_slot::{self, SmallAccess};
use crate::copied::target_requests;
use crate::window::buffers::{Form, Origin, Target};
use crate::window::members::{Member, Reach};
use crate::window::registry::Windows;
use crate::window::runs::{self, Group};
use crate::window::{Flavor, Way, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};

impl Window {
    /// Checks a call and finds the place that it is about, in bytes from the beginning of the
    /// target's memory. `None`: nothing is to be moved.
    #[inline]
    pub(crate) fn begin(
        &self,
        process: &Process,
        target: &Target<'_>,
        form: Form,
    ) -> Result<Option<i64>> {
        if form == Form::Request {
            self.epochs.check_passive(target.rank as usize)?;
            // What is done at once ends without a wait, and without a flush.
            self.let_others(process)?;
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
            // Others' memory is checked by those who reach it: the target, or the kernel.
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

    /// Where a target's memory is, if this process reaches it by plain stores and loads: its
    /// beginning, or the address 0 of a dynamic window's.
    #[inline(always)]
    pub(crate) fn here(&self, rank: u32) -> Option<*mut u8> {
        match self.members.get(rank).reach {
            Reach::Here(here) => Some(here),
            _ => None,
        }
    }

    /// Runs of bytes of the target's data.
    pub(crate) fn runs(&self, target: &Target<'_>, at: i64) -> Vec<(i64, usize)> {
        let pieces = target
            .datatype
            .pieces(std::ptr::null_mut(), target.count, 0, usize::MAX);
        pieces
            .map(|(piece, len)| (at.wrapping_add(piece.addr() as i64), len))
            .collect()
    }

    /// The same in groups.
    pub(crate) fn groups(&self, target: &Target<'_>, at: i64) -> Vec<Group> {
        let null = std::ptr::null_mut();
        let mut groups = Vec::new();
        for (piece, len) in target.datatype.pieces(null, target.count, 0, usize::MAX) {
            let at = at.wrapping_add(piece.addr() as i64);
            runs::push(&mut groups, (at, len));
        }
        groups
    }

    /// Moves packed data between `data` and the target's memory by the kernel.
    ///
    /// # Safety
    /// `data` is as long as the target's data.
    pub(crate) unsafe fn copy_runs(
        &self,
        process: &Process,
        target: &Target<'_>,
        (start, at): (u64, i64),
        write: bool,
        data: *mut u8,
    ) -> Result<()> {
        let mut done = 0;
        for (at, len) in self.runs(target, at) {
            let address = start.wrapping_add(at as u64);
            // SAFETY: the caller's promise; the member's memory is the window's.
            unsafe {
                let local = data.wrapping_add(done);
                self.copy_by_kernel(process, target.rank, write, (local, len), address)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Asks an attentive target of this node for a small access to one run of its memory.
    pub(crate) fn ask_by_slot(
        &self,
        process: &Process,
        target: &Target<'_>,
        what: SmallAccess,
        at: i64,
        input: &[u8],
        output: &mut [u8],
    ) -> bool {
        let (Way::Copied, Flavor::Created(_), Some(control)) =
            (self.way, self.flavor, &self.control)
        else {
            return false;
        };
        if self.outbox.is_some() {
            return false;
        }
        let Some((skip, len)) = target.datatype.as_run(target.count) else {
            return false;
        };
        if len > request_slot::ROOM {
            return false;
        }
        let count = match what {
            SmallAccess::Accumulate(..) => target.count,
            _ => len,
        };
        let place = ((at + skip as i64) as u64, count);
        let windows = process.source::<Windows>();
        target_requests::ask(
            control,
            &self.hit_rate,
            target.rank as usize,
            what,
            place,
            input,
            output,
            || windows.serve_slots(),
        )
    }

    /// Asks a target for something by a lane. Unless that is `answered`, the target must be flushed.
    pub(crate) fn ask(
        &self,
        process: &Process,
        (target, number): (u32, usize),
        message: Vec<u8>,
        answered: bool,
    ) -> Result<()> {
        /// So many messages may wait for room before their origin waits too.
        const MANY: usize = 256;
        let service = self.service()?;
        let lane = service.lanes.get(number);
        if lane.origin.lock().sends() > MANY {
            // Messages to lost processes end.
            process.wait_despite_loss(lane.vci, || {
                Ok((lane.origin.lock().sends() <= MANY / 2).then_some(()))
            })?;
        }
        service.ask(process, (target, number), message)?;
        // Noted when it has been sent: a flush by another thread that took the note before would not
        // be behind it. An answer tells that all before is done too. Only failures on dynamic
        // windows, whose memory the origin doesn't know, are told of by a flush.
        if !answered || self.flavor == Flavor::Dynamic {
            match number {
                0 => self.epochs.mark_dirty(target),
                _ => lane.mark_dirty(target),
            }
        }
        Ok(())
    }

    /// Asks a target for data that goes to `result`.
    ///
    /// # Safety
    /// `result` is writable until the next flush or, if there is one, the end of the request.
    pub(crate) unsafe fn ask_for(
        &self,
        process: &Process,
        to: (u32, usize),
        result: &Origin<'_>,
        form: Form,
        message: impl FnOnce(i32) -> Vec<u8>,
    ) -> Result<Option<RequestId>> {
        let service = self.service()?;
        let lane = service.lanes.get(to.1);
        let tag = lane.tag();
        let outer = match form {
            Form::Plain => None,
            Form::Request => Some(process.start_outside(lane.vci, self.comm.owner())?),
        };
        // SAFETY: the caller's promise.
        let buffer = unsafe { result.buffer() };
        let id = service.expect(process, to, tag, buffer)?;
        service.fetch(to, id, outer);
        self.ask(process, to, message(tag), true)?;
        Ok(outer)
    }
}
