//! Puts and gets by the network's remote memory, and the completion of these and of atomics.
//!
//! Synchronization uses messages, or words that the network's atomics change ([`crate::network`]). An
//! origin flushes its lanes before it ends an epoch, so that its data has reached the target.

use std::sync::atomic::Ordering;

use netmod::{LaneError, RemoteKey};

use crate::messages::message::{self, Kind, Layout};
use crate::messages::service::Service;
use crate::window::buffers::{Completion, Origin, Target};
use crate::window::keys::Far;
use crate::window::lanes::Lane;
use crate::window::members::{Messages, Network};
use crate::window::promise::WORD;
use crate::window::runs::RunList;
use crate::window::transfer::{TargetMemory, Transfer};
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::operations::{Access, Act, Blocks, Bounce, refused};
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

/// The target's side of an access.
pub(crate) struct Remote {
    pub target: u32,
    /// Number of the lane.
    pub lane: usize,
    /// Number of the transport within the process, if it may differ from the route to the target.
    pub transport: Option<usize>,
    pub key: RemoteKey,
    /// Offset in the window of the segment with this key.
    pub shift: u64,
    /// Blocks with an operation each.
    pub blocks: Blocks,
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
        let Some(remote) = self.select(transfer, service)? else {
            return Ok(Issued::Refused);
        };
        // SAFETY: the origin's buffer stays as the transfer describes it until the access is
        // complete (`TargetMemory`).
        let issued = unsafe { service.transfer(transfer, remote, write)? };
        if matches!(issued, Issued::Refused) {
            service.keys.forget(target.rank);
        }
        Ok(issued)
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
        Ok(blocks.map(|blocks| Remote {
            target: target.rank,
            lane,
            transport: service.transport_index(),
            key,
            shift: 0,
            blocks,
        }))
    }
}

impl Window {
    /// Returns the blocks of a target's data, if an operation for each is cheaper than a message.
    pub(crate) fn native_runs(&self, target: &Target<'_>, at: i64) -> Option<Blocks> {
        if let Some((skip, len)) = target.datatype.as_block(target.count) {
            return Some(Blocks::from_buf([((at + skip as i64) as u64, len)]));
        }
        // Passive-target windows avoid the target's processor at any cost.
        let all = self.passive().is_some();
        let total = target.count * target.datatype.size();
        let null = std::ptr::null_mut();
        let pieces = target.datatype.blocks(null, target.count, 0, usize::MAX);
        let most = FEW_RUNS.max(total / LONG_RUN);
        let mut runs = Blocks::new();
        for (piece, len) in pieces {
            if runs.len() == most && !all {
                return None;
            }
            runs.push((at.wrapping_add(piece.addr() as i64) as u64, len));
        }
        Some(runs)
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
    /// Begins a transfer.
    ///
    /// # Safety
    /// That of [`TargetMemory::put`] (`write`) or [`TargetMemory::get`].
    pub(crate) unsafe fn transfer(
        &self,
        transfer: &Transfer<'_>,
        remote: Remote,
        write: bool,
    ) -> Result<Issued> {
        let lane = remote.lane;
        let act = if write { Act::Put } else { Act::Get };
        // SAFETY: the origin's buffer is readable (`write`), or writable until the access is
        // complete, by this function's contract.
        let access = &mut Some(unsafe { self.access_with(remote, act, Some(transfer.origin)) });
        self.issue(transfer.process, access, lane, transfer.completion)
    }

    /// Begins atomics, which only the network can carry out.
    ///
    /// # Safety
    /// The words are within the target's memory; the result's buffer is writable, and not used
    /// before the call is complete.
    pub(crate) unsafe fn change(
        &self,
        process: &Process,
        remote: Remote,
        atomics: Act,
        result: Option<Origin<'_>>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let (target, lane) = (remote.target, remote.lane);
        // SAFETY: the buffer is writable until the access is complete, by this function's contract.
        let access = &mut Some(unsafe { self.access_with(remote, atomics, result) });
        match self.issue(process, access, lane, completion)? {
            Issued::Begun(request) => Ok(request),
            Issued::Refused => Err(refused(target, LaneError::Unsupported)),
        }
    }

    /// Describes an access whose data is at `local`.
    #[inline]
    pub(crate) fn access(&self, remote: Remote, act: Act, local: *mut u8) -> Access {
        let there = self.address(remote.target, remote.lane).there;
        let (to, place) = ((remote.target, there), (remote.key, remote.blocks));
        let mut access = Access::new(to, place, act, local);
        access.transport = remote.transport;
        access.shift = remote.shift;
        access
    }

    /// Describes an access whose data is in a buffer of the program. Atomics without one drop their
    /// results.
    ///
    /// # Safety
    /// The buffer is readable in a put, otherwise writable until the access is complete.
    #[inline]
    pub(crate) unsafe fn access_with(
        &self,
        remote: Remote,
        act: Act,
        origin: Option<Origin<'_>>,
    ) -> Access {
        let Some(origin) = origin else {
            return self.access(remote, act, std::ptr::null_mut());
        };
        match origin.contiguous() {
            Some(plain) if !matches!(act, Act::Atomic(_)) || plain.addr() % WORD == 0 => {
                self.access(remote, act, plain)
            }
            // SAFETY: the contract is the same.
            _ => unsafe { self.access_by_bounce(remote, act, origin) },
        }
    }

    /// Describes an access whose data is copied from or to a buffer of the program.
    ///
    /// # Safety
    /// That of [`Service::access_with`].
    #[cold]
    unsafe fn access_by_bounce(&self, remote: Remote, act: Act, origin: Origin<'_>) -> Access {
        let len = origin.len();
        let mut memory = vec![0u64; len.div_ceil(WORD)];
        let local = memory.as_mut_ptr().cast::<u8>();
        let buffer = match act {
            Act::Put => {
                // SAFETY: `memory` has `len` bytes; the buffer is readable by this function's
                // contract.
                unsafe { origin.pack(std::slice::from_raw_parts_mut(local, len)) };
                None
            }
            // SAFETY: the buffer is writable until the access is complete, by this function's
            // contract.
            _ => Some(unsafe { origin.buffer() }),
        };
        let mut access = self.access(remote, act, local);
        access.bounce = Some(Box::new(Bounce { memory, buffer }));
        access
    }

    /// Begins an access as soon as the lane has space. Takes it from its place unless it is complete
    /// or refused.
    #[inline]
    pub(crate) fn issue(
        &self,
        process: &Process,
        access: &mut Option<Access>,
        number: usize,
        completion: Completion,
    ) -> Result<Issued> {
        let Lane { vci, flight, .. } = self.lanes.get(number);
        let owner = (completion == Completion::Request).then(|| self.comm.owner());
        let target = access.as_ref().map(|access| access.target);
        // SAFETY: MPI programs leave the origin's buffer alone until the access is complete, and
        // the target's memory is valid until the window is freed.
        let mut start = || unsafe { process.start_access(*vci, access, flight, owner) };
        let started = match start()? {
            Some(started) => started,
            None => self.wait_for(process, *vci, target, start)?,
        };
        match started {
            Started::Done => Ok(Issued::Begun(None)),
            Started::Pending(outer) => Ok(Issued::Begun(outer)),
            Started::Partly(index, outer) => {
                let all = self.wait_for(process, *vci, target, || {
                    Ok(process.continue_access(*vci, index)?.then_some(()))
                });
                if let Err(error) = all {
                    let why = LaneError::lost(0, error.to_string());
                    process.abort_access(*vci, index, why)?;
                    return Err(error);
                }
                Ok(Issued::Begun(outer))
            }
            Started::Refused => Ok(Issued::Refused),
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
    fn start_flush(&self, process: &Process, lane: usize, target: u32, flush: u64) -> Result<()> {
        let remote = Remote {
            target,
            lane,
            transport: self.transport_index(),
            key: RemoteKey::default(),
            shift: 0,
            blocks: Blocks::from_buf([(0, 0)]),
        };
        let mut access = self.access(remote, Act::Flush, std::ptr::null_mut());
        access.number = Some(flush);
        let flushed = self.issue(process, &mut Some(access), lane, Completion::Blocking);
        if flushed.is_err() {
            // The flush has not begun, so no wait may include it.
            self.lanes.get(lane).flight.end(flush, None);
        }
        flushed.map(drop)
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
            flight.end(ended.unwrap_or_default(), None);
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
        let runs: RunList = access.blocks.iter().map(run).collect();
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
        let buffer = match access.bounce.and_then(|bounce| bounce.buffer) {
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
