//! Puts and gets by the network's remote memory, and the completion of these and of atomics.
//!
//! Synchronization uses messages, or words that the network's atomics change ([`crate::network`]). An
//! origin flushes its lanes before it ends an epoch, so that its data has reached the target.

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

/// Maximum number of blocks that get an operation each, however short they are.
const FEW_RUNS: usize = 4;
/// Bytes. Least mean length of more blocks that get an operation each; a message with all blocks
/// costs less for shorter ones.
const LONG_RUN: usize = 512;

/// Bytes. Puts and gets up to this size in a burst are sent as messages, which are coalesced.
const SMALL: usize = 256;

/// The target's side of a transfer: blocks with an operation each, their key and the lane.
struct Remote {
    key: RemoteKey,
    lane: usize,
    blocks: Blocks,
}

/// Result of issuing an access to the network.
pub(crate) enum Issued {
    /// It has begun. Contains the request if the call returns one and is not complete.
    Begun(Option<RequestId>),
    /// The transport does not support it.
    Refused,
}

impl TargetMemory for Network {
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: the origin's buffer stays as the transfer describes it until the access is
        // complete (`TargetMemory`).
        unsafe {
            match self.begin(transfer, true)? {
                Issued::Begun(request) => Ok(request),
                Issued::Refused => Messages.put(transfer),
            }
        }
    }

    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        // SAFETY: the origin's buffer stays as the transfer describes it until the access is
        // complete (`TargetMemory`).
        unsafe {
            match self.begin(transfer, false)? {
                Issued::Begun(request) => Ok(request),
                Issued::Refused => Messages.get(transfer),
            }
        }
    }
}

impl Network {
    /// Begins a put or a get.
    ///
    /// # Safety
    /// That of [`TargetMemory::put`] (`write`) or [`TargetMemory::get`].
    unsafe fn begin(self, transfer: &Transfer<'_>, write: bool) -> Result<Issued> {
        let Transfer { window, target, .. } = transfer;
        if window.flavor == Flavor::Dynamic {
            // SAFETY: the origin's buffer stays as the transfer describes it until the access is
            // complete (`TargetMemory`).
            return unsafe { window.move_attached(transfer, write) };
        }
        let service = window.service()?;
        let Some(Remote { key, lane, blocks }) = self.select(transfer, service)? else {
            return Ok(Issued::Refused);
        };
        // SAFETY: the origin's buffer stays as the transfer describes it until the access is
        // complete (`TargetMemory`).
        if write && unsafe { put_inline(transfer, service, (key, lane), &blocks)? } {
            return Ok(Issued::Begun(None));
        }
        // SAFETY: the origin's buffer stays as the transfer describes it until the access is
        // complete (`TargetMemory`).
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

/// Issues a put of one contiguous block if the transport has space for it. Returns whether it did.
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
    let (process, transport) = (transfer.process, service.transport_index());
    // SAFETY: the buffer is readable until the put is complete, by this function's contract.
    unsafe { process.put_at_once(vci_here, to, transport, (key, *block), local, flight) }
}

impl Window {
    /// Returns the blocks of a target's data, if an operation for each is cheaper than a message.
    pub(crate) fn native_runs(&self, target: &Target<'_>, at: i64) -> Option<Blocks> {
        if let Some((skip, len)) = target.datatype.as_block(target.count) {
            return Some(Blocks::One([((at + skip as i64) as u64, len)]));
        }
        // Passive-target windows avoid the target's processor at any cost.
        let all = self.passive().is_some();
        let total = target.count * target.datatype.size();
        let null = std::ptr::null_mut();
        let pieces = target.datatype.blocks(null, target.count, 0, usize::MAX);
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
        access.transport = service.transport_index();
        access.packed = packed;
        access.buffer = buffer;
        access
    }

    /// Completes the network operations on a target, or on all: on this side, and, with `there`, also
    /// at the target. Ignores operations that other threads begin meanwhile. Returns whether it
    /// waited, and so has made progress.
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
    /// Begins an access as soon as the lane has space. Returns its request if it has one and is not
    /// complete, or the access if the transport does not support it.
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
            // SAFETY: MPI programs leave the origin's buffer alone until the access is complete, and
            // the target's memory is valid until the window is freed.
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

    /// Implements [`Window::complete_native`]. Waits for the operations on living members even if
    /// others are lost, since the network may write to the program's memory until they have ended.
    pub(crate) fn complete_native(
        &self,
        process: &Process,
        target: Option<u32>,
        there: bool,
    ) -> Result<bool> {
        let (mut result, mut waited) = (Ok(()), false);
        // Begins the flushes of all lanes before it waits for the first.
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

    /// Begins the flush of a target on a lane.
    fn start_flush(&self, process: &Process, number: usize, target: u32, flush: u64) -> Result<()> {
        let lane = self.lanes.get(number);
        let to = self.address(target, number).there;
        let flushed = self.wait_for(process, lane.vci, Some(target), || {
            let room =
                process.start_flush(lane.vci, to, self.transport_index(), &lane.flight, flush)?;
            Ok(room.then_some(()))
        });
        if flushed.is_err() {
            // The flush has not begun, so no wait may include it.
            lane.flight.end(flush, None);
        }
        flushed
    }

    /// Repeats by messages the accesses that a lane accepted and could not carry out. Returns whether
    /// there were any.
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
            // From now on the flush counts it among messages.
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
