//! How members of a window agree on doing without each other's processors, and change words of each other's
//! blocks ([`crate::network`]).

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use netmod::{AtomicOp, LaneError, RemoteKey};
use parking_lot::{Mutex, RwLock};

use crate::messages::message::{Kind, Layout};
use crate::messages::service::Service;
use crate::network::batch_queue::Queues;
use crate::network::lock_protocol;
use crate::network::{FEW, Passive, PassiveTargets, Record, WireKey, Word};
use crate::window::buffers::Completion;
use crate::window::directory::Directory;
use crate::window::heap::{Heap, PAGE};
use crate::window::keys::{Exposed, transports, word};
use crate::window::registry::Windows;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::operations::{Access, Act, Atomic, Blocks, Operands};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};

/// The transport that a process would do it by, with its place among the process's, if its members and the
/// control variable allow it.
fn transport_for(process: &Process, comm: &Comm) -> Option<(usize, u64)> {
    let (way, transport) = transports(process).next()?;
    let limits = transport.limits();
    let atomics = limits.atomics?;
    let wanted = match process.source::<Windows>().passive() {
        PassiveTargets::Auto => limits.passive_target && atomics.passive_target,
        PassiveTargets::On => true,
        PassiveTargets::Off => false,
    };
    // Of endpoints, several have one process.
    let fits = !comm.has_endpoints() && lock_protocol::Layout::of(comm.size()).is_some();
    (wanted && limits.get && fits).then(|| (way, word(transport.name())))
}

/// Whether a process could take part, as far as it knows before it has asked others. `native`: windows may
/// use remote memory.
pub(crate) fn is_possible(process: &Process, comm: &Comm, native: bool) -> bool {
    native && transport_for(process, comm).is_some()
}

/// An atomic under way.
#[must_use = "its memory stays lent until it is finished"]
pub(crate) struct Underway {
    id: Option<RequestId>,
    /// Where what it found arrives; given up if it can't be said to have ended.
    found: &'static mut u64,
}

impl Underway {
    /// Waits for its end. Gives what was there.
    pub fn finish(self, process: &Process) -> Result<u64> {
        let ended = match self.id {
            None => Ok(None),
            Some(id) => process.wait(id).map(|(_, error)| error),
        };
        let error = ended?;
        // SAFETY: made by `Box::leak`; the operation is over, so nobody else has it.
        let found = unsafe { *Box::from_raw(std::ptr::from_mut(self.found)) };
        error.map_or(Ok(found), Err)
    }
}

impl Service {
    /// What the window has for doing without its targets' processors, if it does.
    #[inline]
    pub fn passive(&self) -> Option<&Passive> {
        self.passive.get().map(|passive| &**passive)
    }

    /// The transport that all of the window goes by, if it is not the one that leads to each member.
    #[inline]
    pub fn way(&self) -> Option<usize> {
        self.passive().map(|passive| passive.way)
    }

    /// All members could do without each other's processors, as far as each of them knows. Finds out whether
    /// they do, and has them know each other then. All members call it.
    pub fn agree_on_passive(&self, process: &Process) -> Result<()> {
        let own = self.prepare_passive(process);
        let name = own.as_ref().map_or(0, |own| own.name);
        let mut told = [u64::from(own.is_none()), name, !name];
        mpi_coll::greatest_u64(process, &self.comm, &mut told)?;
        let (Some(passive), 0, true) = (own, told[0], told[1] == !told[2]) else {
            return Ok(());
        };
        let (me, size, own) = (self.comm.rank(), self.comm.size(), passive.own);
        passive.records.write().insert(me, own);
        let passive = self.passive.get_or_init(|| Box::new(passive));
        if size > FEW {
            return Ok(());
        }
        let told = mpi_coll::gather_all_u64(process, &self.comm, own.told())?;
        let records = (0..).zip(told.into_iter().map(Record::of));
        passive.records.write().extend(records);
        // Where connections are made at first contact, that takes both processors: here and now, by all.
        for step in 1..size {
            let other = (me + step) % size;
            for lane in 0..self.lanes.len() {
                let place = (other, lane, Word::LOCK.0);
                self.start_atomic(process, place, AtomicOp::Load, 0, 0)?
                    .finish(process)?;
            }
        }
        Ok(())
    }

    fn prepare_passive(&self, process: &Process) -> Option<Passive> {
        let (way, name) = transport_for(process, &self.comm)?;
        let (_, transport) = transports(process).find(|(number, _)| *number == way)?;
        let block = Heap::new(PAGE).ok()?;
        // SAFETY: the block is given back after the exposure has ended.
        let key = unsafe { transport.expose(block.0, PAGE) }.ok()?;
        let exposed = Exposed {
            transport: transport.clone(),
            key: Some(key),
        };
        let mut memory = RemoteKey::default();
        if self.memory().is_some_and(|memory| memory.1 > 0) {
            let told = self.expose(process, name);
            if told[0] != name {
                return None;
            }
            memory = crate::window::keys::key_of(&told);
        }
        Some(Passive {
            way,
            name,
            layout: lock_protocol::Layout::of(self.comm.size())?,
            records: RwLock::default(),
            own: Record { block: key, memory },
            exclusive: Mutex::default(),
            completions_taken: AtomicU64::new(0),
            queues: Queues::default(),
            directory: Directory::new(),
            transport: transport.clone(),
            ordered_access: transport
                .limits()
                .atomics
                .map_or(0, |atomics| atomics.ordered_access),
            exposed: Mutex::new(vec![exposed]),
            block,
        })
    }

    /// As if all members had agreed on it.
    #[cfg(test)]
    pub fn pretend_passive(&self) {
        use netmod_sim::{SimConfig, Simulation};
        let transport = Simulation::new(1, SimConfig::default()).transport(0);
        let own = Record {
            block: RemoteKey::default(),
            memory: RemoteKey::default(),
        };
        let _ = self.passive.set(Box::new(Passive {
            way: 1,
            name: 1,
            layout: lock_protocol::Layout::of(self.comm.size()).unwrap(),
            records: RwLock::default(),
            own,
            exclusive: Mutex::default(),
            completions_taken: AtomicU64::new(0),
            queues: Queues::default(),
            directory: Directory::new(),
            transport,
            ordered_access: 0,
            exposed: Mutex::default(),
            block: Heap::new(PAGE).unwrap(),
        }));
    }

    /// The answer to a member that asks for the keys.
    pub fn own_record(&self) -> WireKey {
        self.passive()
            .map_or(WireKey::default(), |passive| passive.own.told())
    }

    /// How a member is reached. In large windows it is asked at the first contact, and waited for.
    pub fn record(&self, process: &Process, rank: u32) -> Result<Record> {
        let passive = self.passive().ok_or_else(not_passive)?;
        if let Some(record) = passive.records.read().get(&rank) {
            return Ok(*record);
        }
        self.ask_record(process, passive, rank)
    }

    #[cold]
    fn ask_record(&self, process: &Process, passive: &Passive, rank: u32) -> Result<Record> {
        let tag = self.lanes.get(0).tag();
        let post = |buffer| self.expect(process, (rank, 0), tag, buffer);
        let told = Loan::new(Box::new(WireKey::default()), post)?;
        let message = self.message(Kind::Record, tag, [0; 2], Layout::NONE);
        if let Err(error) = self.ask(process, (rank, 0), message) {
            told.abort(process)?;
            return Err(error);
        }
        let record = Record::of(*told.wait(process)?);
        passive.records.write().insert(rank, record);
        Ok(record)
    }

    /// Begins an atomic on a word of a member's block, by a lane.
    pub fn start_atomic(
        &self,
        process: &Process,
        (rank, lane, offset): (u32, usize, u64),
        op: AtomicOp,
        operand: u64,
        compare: u64,
    ) -> Result<Underway> {
        let found = Box::leak(Box::new(0u64));
        let place = std::ptr::from_mut(found);
        let change = self.change_of(op, operand, compare)?;
        let key = self.record(process, rank)?.block;
        let access = self.access_by(rank, lane, (key, offset), change, place);
        let free = |found: &'static mut u64| {
            // SAFETY: made by `Box::leak`, and no operation has begun that uses it.
            drop(unsafe { Box::from_raw(std::ptr::from_mut(found)) });
        };
        match self.issue(process, access, lane, Completion::Request) {
            Ok(Ok(id)) => Ok(Underway { id, found }),
            Ok(Err(_)) => {
                free(found);
                Err(refused(rank))
            }
            Err(error) => {
                free(found);
                Err(error)
            }
        }
    }

    fn change_of(&self, op: AtomicOp, operand: u64, compare: u64) -> Result<Act> {
        let way = self.way().ok_or_else(not_passive)?;
        Ok(Act::Atomic(Atomic {
            transport: way,
            op,
            operands: Operands::One(operand),
            compare,
            previous: None,
        }))
    }

    fn access_by(
        &self,
        rank: u32,
        lane: usize,
        (key, offset): (RemoteKey, u64),
        act: Act,
        found: *mut u64,
    ) -> Access {
        let mut access = Access::new(
            (rank, self.address(rank, lane).there),
            (key, Blocks::One([(offset, 8)])),
            act,
            found.cast(),
            self.lanes.get(lane).flight.clone(),
        );
        access.internal = true;
        access
    }

    /// Carries out an atomic on a word of a member's block. Gives what was there.
    ///
    /// # Errors
    /// The member is lost.
    pub fn atomic(
        &self,
        process: &Process,
        (rank, word): (u32, Word),
        op: AtomicOp,
        operand: u64,
        compare: u64,
    ) -> Result<u64> {
        let place = (rank, 0, word.0);
        self.start_atomic(process, place, op, operand, compare)?
            .finish(process)
    }

    /// Adds to words of members' blocks, at once, and waits for all of it. The first error.
    pub fn add_all(&self, process: &Process, changes: &[(u32, Word, u64)]) -> Result<()> {
        let mut result = Ok(());
        let mut underway = VecDeque::new();
        for &(rank, word, what) in changes.iter().filter(|change| change.2 != 0) {
            let place = (rank, 0, word.0);
            match self.start_atomic(process, place, AtomicOp::Add, what, 0) {
                Ok(begun) => underway.push_back(begun),
                Err(error) => result = result.and(Err(error)),
            }
        }
        for begun in underway {
            result = result.and(begun.finish(process).map(drop));
        }
        result
    }

    /// Adds to a word of a member's block, and waits for nothing; a flush waits for it.
    pub fn add_soon(&self, process: &Process, (rank, word): (u32, Word), what: u64) -> Result<()> {
        let key = self.record(process, rank)?.block;
        let change = self.change_of(AtomicOp::Add, what, 0)?;
        let nowhere = std::ptr::null_mut();
        let access = self.access_by(rank, 0, (key, word.0), change, nowhere);
        match self.issue(process, access, 0, Completion::Blocking)? {
            Ok(_) => Ok(()),
            Err(_) => Err(refused(rank)),
        }
    }
}

fn not_passive() -> Error {
    Error::new(
        Class::Intern,
        "the window does not do without its targets' processors",
    )
}

/// The error of atomics that a transport refuses though it said that it can.
#[cold]
fn refused(rank: u32) -> Error {
    let why = LaneError::Unsupported;
    Error::new(
        Class::Other,
        format!(
            "the network can't carry out atomics on words of rank {rank} ({why}), by which the window \
             is synchronised; set WEFT_RMA_PASSIVE=off"
        ),
    )
}
