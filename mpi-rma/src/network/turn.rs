//! Turns at a member's memory, in windows whose members do without each other's processors.
//!
//! A word of the member's block says who accumulates there: nobody, or a rank. It is taken by a compare and
//! swap, and given back by an add that nobody waits for.
//!
//! Where the network keeps short accesses and atomics in order (`netmod::Atomics::ordered_access`), a turn is one
//! trip: what is there is read right behind the attempt to take the word, in vain if that fails; what is
//! written needs no flush, as the word is given back behind it, and whoever takes it then reads behind that.
//! Elsewhere it is three: the word, the data, the data with a flush.

use std::mem::ManuallyDrop;

use netmod::AtomicOp;

use crate::epochs::{EXCLUSIVE, UNCHECKED};
use crate::locks::control::full_fence;
use crate::messages::service::Service;
use crate::network::Word;
use crate::network::locks::Pauses;
use crate::window::buffers::Completion;
use crate::window::members::{Copied, Mapped, Route};
use crate::window::regions::BlocksInRange;
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_core::process::notes::AwaitedEvent;
use mpi_core::pt2pt::operations::{Access, Act, Blocks};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

/// The most bytes that are read before it is known whose turn it is, and the most pieces.
const AHEAD: usize = 4096;
const FEW_RUNS: usize = 64;

/// Where a target's memory is.
pub(crate) enum Memory {
    /// At this address of this process.
    Here(*mut u8),
    /// At this address of that process, reached by the kernel.
    There(u64),
    /// By the network.
    Far,
}

/// A read that has begun; its memory stays lent until it is over.
struct Reading {
    id: Option<RequestId>,
    data: ManuallyDrop<Vec<u8>>,
}

impl Reading {
    /// Waits for the end. If that can't be said to have come, the memory stays lent for ever.
    fn finish(self, process: &Process) -> Result<Vec<u8>> {
        let error = match self.id {
            Some(id) => process.wait(id)?.1,
            None => None,
        };
        let data = ManuallyDrop::into_inner(self.data);
        error.map_or(Ok(data), Err)
    }
}

impl Window {
    /// Does something to a target's memory while nobody else accumulates there. It is given what is at `ahead`, if
    /// that could be read at once.
    pub(crate) fn in_turn<T>(
        &self,
        process: &Process,
        target: u32,
        ahead: &[(u64, usize)],
        act: impl FnOnce(&Memory, Option<Vec<u8>>) -> Result<T>,
    ) -> Result<T> {
        let service = self.service()?;
        let memory = self.memory_of(target);
        let epochs = self.epochs.one(target as usize);
        // (Threads of a process have its lock together.)
        if epochs & (EXCLUSIVE | UNCHECKED) == EXCLUSIVE && !process.is_threaded() {
            let done = act(&memory, None)?;
            // No word comes behind what was written, and what is too long to keep its order could overtake it.
            return match memory {
                Memory::Far => self.flush_sent(process, target).map(|()| done),
                _ => Ok(done),
            };
        }
        let bytes: usize = ahead.iter().map(|run| run.1).sum();
        // (What a dynamic window has attached is looked up by other reads.)
        let at_once = matches!(memory, Memory::Far)
            && self.flavor != Flavor::Dynamic
            && (1..=AHEAD).contains(&bytes)
            && self.keep_order(ahead);
        let ahead = match at_once {
            true => self.within(process, target, ahead)?.into_iter().next(),
            false => None,
        };
        let read = self.take_turn(process, service, target, ahead.as_ref())?;
        full_fence();
        let done = act(&memory, read);
        full_fence();
        let ended = self.end_turn(process, service, target);
        done.and_then(|done| ended.map(|()| done))
    }

    /// Where a target's memory is.
    pub(crate) fn memory_of(&self, target: u32) -> Memory {
        match self.members.get(target).route {
            Route::Mapped(Mapped(here)) => Memory::Here(here),
            Route::Copied(Copied(start)) => Memory::There(start),
            // (Offsets in dynamic windows are addresses.)
            _ if self.is_own_dynamic(target) => Memory::Here(std::ptr::null_mut()),
            Route::Network(_) | Route::Messages(_) => Memory::Far,
        }
    }

    /// Waits for the turn. Gives what was read behind the word, if something was to be.
    fn take_turn(
        &self,
        process: &Process,
        service: &Service,
        target: u32,
        ahead: Option<&BlocksInRange>,
    ) -> Result<Option<Vec<u8>>> {
        let (at, own) = ((target, 0, Word::TURN.0), u64::from(self.rank() + 1));
        let mut pauses = Pauses::new(self, process, AwaitedEvent::Accumulate { target });
        let (mut expected, mut ahead) = (0, ahead);
        loop {
            let word = service.start_atomic(process, at, AtomicOp::CompareSwap, own, expected)?;
            let reading = ahead.map(|ahead| self.start_reading(process, target, ahead));
            let found = word.finish(process);
            // Waited for whatever has become of the word.
            let read = match reading.transpose() {
                Ok(Some(Some(reading))) => reading.finish(process).map(Some),
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            let found = found?;
            if found == expected {
                if read.is_err() {
                    self.end_turn(process, service, target)?;
                }
                return read;
            }
            expected = 0;
            // Where others are in the way, many reads in vain would be in theirs.
            ahead = ahead.filter(|ahead| ahead.runs.len() == 1);
            if let Some(holder) = found.checked_sub(1).map(|rank| rank as u32) {
                match holder != self.rank() && service.is_lost(process, holder) {
                    true => expected = found,
                    false => pauses.pause(Some(holder))?,
                }
            }
        }
    }

    fn end_turn(&self, process: &Process, service: &Service, target: u32) -> Result<()> {
        let less = u64::from(self.rank() + 1).wrapping_neg();
        service.add_soon(process, (target, Word::TURN), less)
    }

    /// Whether the network keeps accesses to these runs in order with the word.
    pub(crate) fn keep_order(&self, runs: &[(u64, usize)]) -> bool {
        let most = self.passive().map_or(0, |passive| passive.ordered_access);
        runs.len() <= FEW_RUNS && runs.iter().all(|run| run.1 <= most)
    }

    /// `None` if the network refuses.
    fn start_reading(
        &self,
        process: &Process,
        target: u32,
        within: &BlocksInRange,
    ) -> Result<Option<Reading>> {
        let len = within.runs.iter().map(|run| run.1).sum();
        let mut data = ManuallyDrop::new(vec![0; len]);
        let started = self.start_move(process, target, within, data.as_mut_ptr(), false)?;
        if started.is_err() {
            ManuallyDrop::into_inner(data);
            return Ok(None);
        }
        Ok(started.ok().map(|id| Reading { id, data }))
    }

    /// Moves data between memory of the library's and a target's, and waits until that is over here. Gives the
    /// data, and whether all went by the network itself.
    pub(crate) fn move_far(
        &self,
        process: &Process,
        target: u32,
        within: &[BlocksInRange],
        data: Vec<u8>,
        write: bool,
    ) -> Result<(Vec<u8>, bool)> {
        // Lent until all is over. If that can't be said, it stays lent for ever.
        let mut data = ManuallyDrop::new(data);
        let (mut local, mut result, mut direct) = (data.as_mut_ptr(), Ok(()), true);
        for one in within {
            let id = match self.start_move(process, target, one, local, write)? {
                Ok(id) => id,
                Err(mut access) => {
                    // What the network refuses is done by messages, in turn as well.
                    direct = false;
                    let service = self.service()?;
                    let vci = service.lanes.get(0).vci;
                    let id = process.start_external(vci, self.comm.owner())?;
                    access.outer = Some(id);
                    service.ask_for_access(process, 0, access)?;
                    Some(id)
                }
            };
            let error = match id {
                Some(id) => process.wait(id)?.1,
                None => None,
            };
            result = result.and(error.map_or(Ok(()), Err));
            let len: usize = one.runs.iter().map(|run| run.1).sum();
            local = local.wrapping_add(len);
        }
        let data = ManuallyDrop::into_inner(data);
        result.map(|()| (data, direct))
    }

    /// Begins that of what lies in one exposed piece. Gives the request, or the access if the network refuses.
    fn start_move(
        &self,
        process: &Process,
        target: u32,
        within: &BlocksInRange,
        local: *mut u8,
        write: bool,
    ) -> Result<std::result::Result<Option<RequestId>, Access>> {
        let service = self.service()?;
        let runs = match &within.runs[..] {
            [one] => Blocks::One([*one]),
            many => Blocks::Many(many.into()),
        };
        let mut access = Access::new(
            (target, service.address(target, 0).there),
            (within.key, runs),
            if write { Act::Put } else { Act::Get },
            local,
            service.lanes.get(0).flight.clone(),
        );
        access.transport = service.way();
        access.shift = within.start;
        access.internal = true;
        service.issue(process, access, 0, Completion::Request)
    }
}
