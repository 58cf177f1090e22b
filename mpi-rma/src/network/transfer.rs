//! Puts and gets by the network's remote memory, and the completion of these and of atomics.
//!
//! Whatever synchronises goes by messages, or by words that the network changes ([`crate::network`]), and only
//! when the data is at its target: who ends an epoch so has flushed the lanes before.

use std::sync::atomic::Ordering;

use netmod::{LaneError, RemoteKey};

use crate::messages::message::{self, Kind, Layout};
use crate::messages::service::Service;
use crate::window::buffers::{Completion, Target};
use crate::window::keys::{Ends, Far};
use crate::window::members::{Messages, Network};
use crate::window::runs::RunList;
use crate::window::transfer::{TargetMemory, Transfer};
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::operations::{Access, Act, Blocks};
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_core::vci::Started;
use mpi_types::error::Result;

/// So many runs are worth an operation each, however short they are …
const FEW_RUNS: usize = 4;
/// … and more, if they are at least so long in the mean: below that a message with all of them costs
/// less.
const LONG_RUN: usize = 512;

/// Puts and gets up to this size travel together as messages, where messages do.
const SMALL: usize = 256;

/// The blocks of a target's memory that an operation each goes to, by a key and on a lane.
struct Remote {
    key: RemoteKey,
    lane: usize,
    blocks: Blocks,
}

/// What became of an access that the network was asked for.
pub(crate) enum Issued {
    /// It has begun; with a request if the call has one and is not complete.
    Begun(Option<RequestId>),
    /// The transport can't do it.
    Refused,
}

impl TargetMemory for Network {
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: these functions have the same contract.
        unsafe {
            match self.begin(transfer, true)? {
                Issued::Begun(request) => Ok(request),
                Issued::Refused => Messages.put(transfer),
            }
        }
    }

    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: these functions have the same contract.
        unsafe {
            match self.begin(transfer, false)? {
                Issued::Begun(request) => Ok(request),
                Issued::Refused => Messages.get(transfer),
            }
        }
    }
}

impl Network {
    /// # Safety
    /// That of [`TargetMemory::put`] (`write`) or [`TargetMemory::get`].
    unsafe fn begin(self, transfer: &Transfer<'_>, write: bool) -> Result<Issued> {
        let Transfer { window, target, .. } = transfer;
        if window.flavor == Flavor::Dynamic {
            // SAFETY: this function has the same contract.
            return unsafe { window.move_attached(transfer, write) };
        }
        let service = window.service()?;
        let Some(Remote { key, lane, blocks }) = self.select(transfer, service)? else {
            return Ok(Issued::Refused);
        };
        // SAFETY: this function has the same contract.
        if write && unsafe { put_inline(transfer, service, (key, lane), &blocks)? } {
            return Ok(Issued::Begun(None));
        }
        // SAFETY: this function has the same contract.
        let access = unsafe { window.access(service, transfer, (key, lane), blocks, write) };
        match service.issue(transfer.process, access, lane, transfer.completion)? {
            Ok(request) => Ok(Issued::Begun(request)),
            Err(_) => {
                service.keys.forget(target.rank);
                Ok(Issued::Refused)
            }
        }
    }

    /// Selects the operations of a transfer to memory that is not attached. `None` if messages are
    /// cheaper, or the network does not reach the target.
    fn select(self, transfer: &Transfer<'_>, service: &Service) -> Result<Option<Remote>> {
        let Transfer { target, .. } = transfer;
        let lane = service.lanes.any();
        let far = service.key(transfer.process, target.rank, lane)?;
        let Some(Far { key, few_small, .. }) = far else {
            return Ok(None);
        };
        let is_small =
            few_small && transfer.completion == Completion::Blocking && target.len() <= SMALL;
        if is_small && service.lanes.get(lane).flight.is_burst() {
            return Ok(None);
        }
        let blocks = transfer.window.native_runs(target, transfer.at);
        Ok(blocks.map(|blocks| Remote { key, lane, blocks }))
    }
}

/// Issues a put of one contiguous block at once, if the transport has space for it. Returns whether
/// it did.
///
/// # Safety
/// That of [`TargetMemory::put`].
unsafe fn put_inline(
    transfer: &Transfer<'_>,
    service: &Service,
    (key, lane): (RemoteKey, usize),
    blocks: &Blocks,
) -> Result<bool> {
    let (Completion::Blocking, Some(local), Blocks::One([block])) =
        (transfer.completion, transfer.origin.contiguous(), blocks)
    else {
        return Ok(false);
    };
    let flight = &service.lanes.get(lane).flight;
    let Ends { vci_here, there } = service.address(transfer.target.rank, lane);
    let to = (transfer.target.rank, there);
    let (process, way) = (transfer.process, service.way());
    // SAFETY: the program lends the buffer until the put is complete, by this function's contract.
    unsafe { process.put_at_once(vci_here, to, way, (key, *block), local, flight) }
}

impl Window {
    /// The runs of a target's data, if it is worth an operation for each.
    pub(crate) fn native_runs(&self, target: &Target<'_>, at: i64) -> Option<Blocks> {
        if let Some((skip, len)) = target.datatype.as_run(target.count) {
            return Some(Blocks::One([((at + skip as i64) as u64, len)]));
        }
        // The target's processor is not to be needed, whatever that costs.
        let all = self.passive().is_some();
        let total = target.count * target.datatype.size();
        let null = std::ptr::null_mut();
        let pieces = target.datatype.pieces(null, target.count, 0, usize::MAX);
        let most = FEW_RUNS.max(total / LONG_RUN);
        let mut runs = Vec::new();
        for (piece, len) in pieces {
            if runs.len() == most && !all {
                return None;
            }
            runs.push((at.wrapping_add(piece.addr() as i64) as u64, len));
        }
        Some(Blocks::Many(runs.into()))
    }

    /// Describes a transfer to the transport.
    ///
    /// # Safety
    /// That of [`TargetMemory::put`] (`write`) or [`TargetMemory::get`].
    pub(crate) unsafe fn access(
        &self,
        service: &Service,
        transfer: &Transfer<'_>,
        (key, lane): (RemoteKey, usize),
        runs: Blocks,
        write: bool,
    ) -> Access {
        let Transfer { origin, target, .. } = transfer;
        let mut packed = None;
        let mut buffer = None;
        let local = match origin.contiguous() {
            Some(local) => local,
            None => {
                let mut data = vec![0; origin.len()];
                match write {
                    // SAFETY: the origin's buffer is readable, by this function's contract.
                    true => unsafe { origin.pack(&mut data) },
                    // SAFETY: the origin's buffer is writable until the access is complete, by this
                    // function's contract.
                    false => buffer = Some(unsafe { origin.buffer() }),
                }
                packed.insert(data).as_mut_ptr()
            }
        };
        let mut access = Access::new(
            (target.rank, service.address(target.rank, lane).there),
            (key, runs),
            if write { Act::Put } else { Act::Get },
            local,
            service.lanes.get(lane).flight.clone(),
        );
        access.transport = service.way();
        access.packed = packed;
        access.buffer = buffer;
        access
    }

    /// Completes what has gone to a target by the network, or to all: on this side, and, with
    /// `there`, also on the other. What other threads go on issuing is none of its business. Returns
    /// whether it had to wait, and so has made progress.
    #[inline]
    pub(crate) fn complete_native(
        &self,
        process: &Process,
        target: Option<u32>,
        there: bool,
    ) -> Result<bool> {
        match &self.service {
            Some(service) if service.keys.on => service.complete_native(process, target, there),
            _ => Ok(false),
        }
    }
}

impl Service {
    /// Begins an access, as soon as there is room. Gives the request, if one was asked for and it is not
    /// complete, or the access, if the transport can't do it.
    pub(crate) fn issue(
        &self,
        process: &Process,
        access: Access,
        lane: usize,
        completion: Completion,
    ) -> Result<std::result::Result<Option<RequestId>, Access>> {
        let vci = self.lanes.get(lane).vci;
        let owner = (completion == Completion::Request).then(|| self.comm.owner());
        let target = Some(access.target);
        let mut access = Some(access);
        let started = self.wait_for(process, vci, target, || {
            let Some(now) = access.take() else {
                return Ok(None);
            };
            // SAFETY: the program has lent the origin's buffer until the access is complete, and
            // the target its memory until the window is freed.
            match unsafe { process.start_access(vci, now, owner)? } {
                Started::Full(back) => {
                    access = Some(back);
                    Ok(None)
                }
                started => Ok(Some(started)),
            }
        })?;
        match started {
            Started::Done => Ok(Ok(None)),
            Started::Pending(outer) => Ok(Ok(outer)),
            Started::Partly(index, outer) => {
                let all = self.wait_for(process, vci, target, || {
                    Ok(process.continue_access(vci, index)?.then_some(()))
                });
                if let Err(error) = all {
                    let why = LaneError::lost(0, error.to_string());
                    process.abort_access(vci, index, why)?;
                    return Err(error);
                }
                Ok(Ok(outer))
            }
            Started::Refused(access) | Started::Full(access) => Ok(Err(access)),
        }
    }

    /// What is under way to members that live is over, whatever has become of others: until then the
    /// network may write what it has fetched to the program's memory.
    pub(crate) fn complete_native(
        &self,
        process: &Process,
        target: Option<u32>,
        there: bool,
    ) -> Result<bool> {
        let (mut result, mut waited) = (Ok(()), false);
        // All lanes are asked before the first is waited for.
        for (number, lane) in self.lanes.iter().enumerate() {
            lane.flight.end_burst();
            if !there || lane.flight.is_quiet() {
                continue;
            }
            if let Some(target) = target {
                if let Some(flush) = lane.flight.begin_flush(target) {
                    result = result.and(self.start_flush(process, number, target, flush));
                }
                continue;
            }
            for (target, flush) in lane.flight.begin_flushes() {
                result = result.and(self.start_flush(process, number, target, flush));
            }
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            if lane.flight.is_quiet() {
                continue;
            }
            let until = lane.flight.next_number();
            let is_target = |member| target.is_none_or(|target| member == target);
            let mut seen = None;
            process.wait_ignoring_loss(lane.vci, || {
                if lane.flight.has_refused() {
                    self.do_by_messages(process, number)?;
                }
                let now = (lane.flight.ended(), process.losses());
                if seen.replace(now) == Some(now) {
                    return Ok(None);
                }
                let awaited = |member| is_target(member) && !self.is_lost(process, member);
                let over = !lane.flight.is_pending_before(until, awaited);
                waited |= !over;
                Ok(over.then_some(()))
            })?;
            let left = lane.flight.is_pending_before(until, is_target);
            let lost = || self.loss(process, target);
            let failed = lane
                .flight
                .take_error(target)
                .or_else(|| left.then(lost).flatten());
            result = result.and(failed.map_or(Ok(()), Err));
        }
        result.map(|()| waited)
    }

    /// Asks a target to tell when all that went there by a lane is done.
    fn start_flush(&self, process: &Process, number: usize, target: u32, flush: u64) -> Result<()> {
        let lane = self.lanes.get(number);
        let to = self.address(target, number).there;
        let flushed = self.wait_for(process, lane.vci, Some(target), || {
            let room = process.start_flush(lane.vci, to, self.way(), &lane.flight, flush)?;
            Ok(room.then_some(()))
        });
        if flushed.is_err() {
            // Nobody is to wait for what was not begun.
            lane.flight.end(flush, None);
        }
        flushed
    }

    /// Does by messages what a lane accepted and then could not do. Returns whether there was
    /// something.
    #[cold]
    pub fn do_by_messages(&self, process: &Process, number: usize) -> Result<bool> {
        let flight = &self.lanes.get(number).flight;
        let back = flight.take_refused();
        let any = !back.is_empty();
        for (access, why) in back {
            if why == LaneError::Unsupported {
                self.keys.forget(access.target);
            }
            let (ended, target) = (access.number, access.target);
            let asked = self.ask_for_access(process, number, access);
            // From here on the flush finds it among messages.
            flight.end(ended, None);
            self.lanes
                .get(number)
                .origin
                .lock()
                .keep_loss(target, asked)?;
        }
        Ok(any)
    }

    pub(crate) fn ask_for_access(
        &self,
        process: &Process,
        number: usize,
        access: Access,
    ) -> Result<()> {
        let lane = self.lanes.get(number);
        let to = (access.target, number);
        let shift = access.shift;
        let run = |run: &(u64, usize)| (run.0.wrapping_add(shift) as i64, run.1);
        let runs = match access.runs.list() {
            [one] => RunList::One([run(one)]),
            many => RunList::Many(many.iter().map(run).collect()),
        };
        let layout = Layout::Runs(&runs);
        let len = access.bytes();
        if matches!(access.act, Act::Put) {
            // SAFETY: the data is valid until the access is complete, which it is not yet.
            let data = unsafe { std::slice::from_raw_parts(access.local, len) };
            let fill = |out: &mut [u8]| out.copy_from_slice(data);
            let room = self.memory_for(layout.message_len(len));
            let message = message::encode(room, Kind::Put, 0, [0; 2], layout, len, fill);
            let asked = self.ask(process, to, message);
            if asked.is_ok() {
                lane.mark_dirty(access.target);
            }
            return match access.outer {
                Some(outer) => process.complete(outer, Status::EMPTY, asked.err()),
                None => asked,
            };
        }
        let tag = lane.tag();
        let buffer = match access.buffer {
            Some(buffer) => buffer,
            // SAFETY: the program's buffer, lent until the access is complete.
            None => unsafe { Buffer::bytes(access.local, len) },
        };
        let id = self.expect(process, to, tag, buffer)?;
        self.fetch(to, id, access.outer);
        let message = self.message(Kind::Get, tag, [0; 2], layout);
        self.ask(process, to, message)?;
        lane.active.store(true, Ordering::Release);
        Ok(())
    }
}
