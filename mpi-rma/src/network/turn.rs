//! Turns: mutual exclusion of accumulates on a member's memory in passive-target windows.
//!
//! A word of the member's block names the rank whose turn it is, or none. A compare-and-swap takes
//! the turn. An add ends it, for whose completion the origin does not wait.
//!
//! Where the network keeps short accesses and atomics in order
//! (`netmod::Atomics::ordered_access`), a turn takes one round trip: the data is read right behind
//! the attempt to take the word, and dropped if that fails. The write needs no flush: the word is
//! released behind it, and the next holder reads behind its own compare-and-swap. Elsewhere a turn
//! takes three round trips: the word, the read, and the write with a flush.

use std::mem::ManuallyDrop;

use netmod::AtomicOp;

use crate::epochs::{EXCLUSIVE, UNCHECKED};
use crate::locks::control::full_fence;
use crate::messages::service::Service;
use crate::network::Word;
use crate::network::locks::Pauses;
use crate::network::transfer::{Issued, Remote};
use crate::window::buffers::Completion;
use crate::window::members::{Copied, Mapped, Route};
use crate::window::regions::BlocksInRange;
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_core::process::notes::AwaitedEvent;
use mpi_core::pt2pt::operations::{Access, Act};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

/// Bytes. Longest data that is read together with the attempt to take the turn.
const MAX_READ_AHEAD: usize = 4096;
/// Maximum number of blocks in that read.
const MAX_BLOCKS: usize = 64;

/// How an origin reaches a target's memory.
pub(crate) enum Memory {
    /// By loads and stores, at this address of this process.
    Here(*mut u8),
    /// By CMA copies, at this address of the target's process.
    There(u64),
    /// By the network.
    Far,
}

/// A pending read. The network may write to its memory until it is over.
struct Reading {
    id: Option<RequestId>,
    data: ManuallyDrop<Vec<u8>>,
}

impl Reading {
    /// Waits for the end. On an error of the wait the end is unknown, and the memory is leaked.
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
    /// Calls `act` during this member's turn at a target's memory. `act` gets the data of the blocks
    /// `ahead`, if it was read together with the word.
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
        // An exclusive lock excludes other members, but not other threads of this process.
        if epochs & (EXCLUSIVE | UNCHECKED) == EXCLUSIVE && !process.is_threaded() {
            let done = act(&memory, None)?;
            // No release of a word orders this write before later accesses, so it is flushed.
            return match memory {
                Memory::Far => self.flush_sent(process, target).map(|()| done),
                _ => Ok(done),
            };
        }
        let bytes: usize = ahead.iter().map(|run| run.1).sum();
        // Reads of dynamic windows look up the attached regions first.
        let reads_ahead = matches!(memory, Memory::Far)
            && self.flavor != Flavor::Dynamic
            && (1..=MAX_READ_AHEAD).contains(&bytes)
            && self.keep_order(ahead);
        let ahead = match reads_ahead {
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

    /// Returns how this process reaches a target's memory.
    pub(crate) fn memory_of(&self, target: u32) -> Memory {
        match self.members.get(target).route {
            Route::Mapped(Mapped(here)) => Memory::Here(here),
            Route::Copied(Copied(start)) => Memory::There(start),
            // Offsets in dynamic windows are addresses.
            _ if self.is_own_dynamic(target) => Memory::Here(std::ptr::null_mut()),
            Route::Network(_) | Route::Messages(_) => Memory::Far,
        }
    }

    /// Waits for the turn. Returns the data of `ahead`, if it was read behind the word.
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
            // The read must end before its memory is freed, even if the atomic has failed.
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
            // Under contention, reads of several blocks in vain would slow the holder down.
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
        service.add_without_waiting(process, (target, Word::TURN), less)
    }

    /// Whether the network keeps accesses to these blocks in order with atomics on the word.
    pub(crate) fn keep_order(&self, runs: &[(u64, usize)]) -> bool {
        let most = self.passive().map_or(0, |passive| passive.ordered_access);
        runs.len() <= MAX_BLOCKS && runs.iter().all(|run| run.1 <= most)
    }

    /// Begins to read blocks. Returns `None` if the network refuses.
    fn start_reading(
        &self,
        process: &Process,
        target: u32,
        within: &BlocksInRange,
    ) -> Result<Option<Reading>> {
        let len = within.runs.iter().map(|run| run.1).sum();
        let mut data = ManuallyDrop::new(vec![0; len]);
        let access = &mut self.access_of(target, within, data.as_mut_ptr(), false)?;
        let service = self.service()?;
        match service.issue(process, access, 0, Completion::Request)? {
            Issued::Begun(id) => Ok(Some(Reading { id, data })),
            Issued::Refused => {
                ManuallyDrop::into_inner(data);
                Ok(None)
            }
        }
    }

    /// Copies data between the library's memory and a target's, and waits for completion on this
    /// side. Returns the data, and whether the network carried out all of it without messages.
    pub(crate) fn move_far(
        &self,
        process: &Process,
        target: u32,
        within: &[BlocksInRange],
        data: Vec<u8>,
        write: bool,
    ) -> Result<(Vec<u8>, bool)> {
        // In use until all accesses are over. Leaked if their end is unknown.
        let mut data = ManuallyDrop::new(data);
        let (mut local, mut result, mut direct) = (data.as_mut_ptr(), Ok(()), true);
        for one in within {
            let service = self.service()?;
            let access = &mut self.access_of(target, one, local, write)?;
            let id = match service.issue(process, access, 0, Completion::Request)? {
                Issued::Begun(id) => id,
                Issued::Refused => {
                    // Messages carry out what the network refuses, during the same turn.
                    direct = false;
                    let vci = service.lanes.get(0).vci;
                    let id = process.start_external(vci, self.comm.owner())?;
                    if let Some(mut access) = access.take() {
                        access.outer = Some(id);
                        service.ask_for_access(process, 0, access)?;
                    }
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

    /// Describes a copy of the blocks in one exposed segment.
    fn access_of(
        &self,
        target: u32,
        within: &BlocksInRange,
        local: *mut u8,
        write: bool,
    ) -> Result<Option<Access>> {
        let service = self.service()?;
        let remote = Remote {
            target,
            lane: 0,
            transport: service.transport_index(),
            key: within.key,
            shift: within.start,
            blocks: within.runs.iter().copied().collect(),
        };
        let act = if write { Act::Put } else { Act::Get };
        let mut access = service.access(remote, act, local);
        access.internal = true;
        Ok(Some(access))
    }
}
