//! Agreement of a window's members on passive-target operation, and atomics on the words of
//! members' blocks ([`crate::network`]).

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use netmod::{AtomicOp, LaneError, RemoteKey};
use parking_lot::{Mutex, RwLock};

use crate::messages::message::{Kind, Layout};
use crate::messages::service::Service;
use crate::network::batch_queue::Queues;
use crate::network::lock_protocol;
use crate::network::transfer::{Issued, Remote};
use crate::network::{FEW, Passive, PassiveTargets, Record, WireKey, Word};
use crate::window::buffers::Completion;
use crate::window::directory::Directory;
use crate::window::heap::{Heap, PAGE};
use crate::window::keys::{Exposed, transports, word};
use crate::window::registry::Windows;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::operations::{Act, Atomic, Blocks, refused};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};

/// Returns the number and the encoded name of the transport for passive-target operation, if the
/// communicator and the control variable allow it.
fn transport_for(process: &Process, comm: &Comm) -> Option<(usize, u64)> {
    let (index, transport) = transports(process).next()?;
    let limits = transport.limits();
    let atomics = limits.atomics?;
    let wanted = match process.source::<Windows>().passive() {
        PassiveTargets::Auto => limits.passive_target && atomics.passive_target,
        PassiveTargets::On => true,
        PassiveTargets::Off => false,
    };
    // Several endpoints may belong to one process, but words name members.
    let fits = !comm.has_endpoints() && lock_protocol::Layout::of(comm.size()).is_some();
    (wanted && fits).then(|| (index, word(transport.name())))
}

/// Whether this process supports passive-target operation of a window. `native`: the window may use
/// remote memory.
pub(crate) fn is_possible(process: &Process, comm: &Comm, native: bool) -> bool {
    native && transport_for(process, comm).is_some()
}

/// A pending atomic.
#[must_use = "its memory stays in use until it is finished"]
pub(crate) struct Underway {
    id: Option<RequestId>,
    /// Receives the previous value. Leaked if the end of the operation is unknown.
    found: &'static mut u64,
}

impl Underway {
    /// Waits for its end. Returns the previous value.
    pub fn finish(self, process: &Process) -> Result<u64> {
        let ended = match self.id {
            None => Ok(None),
            Some(id) => process.wait(id).map(|(_, error)| error),
        };
        let error = ended?;
        // SAFETY: `start_atomic` made it with `Box::leak`; the operation is over, so the network
        // does not write to it any more.
        let found = unsafe { *Box::from_raw(std::ptr::from_mut(self.found)) };
        error.map_or(Ok(found), Err)
    }
}

impl Service {
    /// Returns the state of passive-target operation, if the window has agreed on it.
    #[inline]
    pub fn passive(&self) -> Option<&Passive> {
        self.passive.get().map(|passive| &**passive)
    }

    /// Returns the number of the transport that a passive-target window uses for all members.
    #[inline]
    pub fn transport_index(&self) -> Option<usize> {
        self.passive().map(|passive| passive.transport_index)
    }

    /// Agrees whether the window is passive-target, and exchanges keys if so. Collective over the
    /// members, all of which support it locally.
    pub fn agree_on_passive(&self, process: &Process) -> Result<()> {
        let own = self.prepare_passive(process);
        let name = own.as_ref().map_or(0, |own| own.name);
        let mut agreed = [u64::from(own.is_none()), name, !name];
        mpi_coll::greatest_u64(process, &self.comm, &mut agreed)?;
        let (Some(passive), 0, true) = (own, agreed[0], agreed[1] == !agreed[2]) else {
            return Ok(());
        };
        let (me, size, own) = (self.comm.rank(), self.comm.size(), passive.own);
        passive.records.write().insert(me, own);
        let passive = self.passive.get_or_init(|| Box::new(passive));
        if size > FEW {
            return Ok(());
        }
        let records_of_all = mpi_coll::gather_all_u64(process, &self.comm, own.to_wire())?;
        let records = (0..).zip(records_of_all.into_iter().map(Record::from_wire));
        passive.records.write().extend(records);
        // A connection that is made at first contact needs both processors, so all connect now.
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
        let (transport_index, name) = transport_for(process, &self.comm)?;
        let (_, transport) = transports(process).find(|(number, _)| *number == transport_index)?;
        let block = Heap::new(PAGE).ok()?;
        // SAFETY: `Passive` frees the block after the exposure has ended (order of its fields).
        let key = unsafe { transport.expose(block.0, PAGE) }.ok()?;
        let exposed = Exposed {
            transport: transport.clone(),
            key: Some(key),
        };
        let mut memory = RemoteKey::default();
        if self.memory().is_some_and(|memory| memory.1 > 0) {
            let answer = self.expose(process, name);
            if answer[0] != name {
                return None;
            }
            memory = crate::window::keys::key_of(&answer);
        }
        Some(Passive {
            transport_index,
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

    /// Makes the window passive-target without an agreement.
    #[cfg(test)]
    pub fn pretend_passive(&self) {
        use netmod_sim::{SimConfig, Simulation};
        let transport = Simulation::new(1, SimConfig::default()).transport(0);
        let own = Record {
            block: RemoteKey::default(),
            memory: RemoteKey::default(),
        };
        let _ = self.passive.set(Box::new(Passive {
            transport_index: 1,
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

    /// Returns this member's keys, for a member that requests them.
    pub fn own_record(&self) -> WireKey {
        self.passive()
            .map_or(WireKey::default(), |passive| passive.own.to_wire())
    }

    /// Returns a member's keys. In large windows the first contact requests them and waits.
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
        let answer = Loan::new(Box::new(WireKey::default()), post)?;
        let message = self.message(Kind::Record, tag, [0; 2], Layout::NONE);
        if let Err(error) = self.ask(process, (rank, 0), message) {
            answer.abort(process)?;
            return Err(error);
        }
        let record = Record::from_wire(*answer.wait(process)?);
        passive.records.write().insert(rank, record);
        Ok(record)
    }

    /// Begins an atomic on a word of a member's block, on the given lane.
    pub fn start_atomic(
        &self,
        process: &Process,
        place: (u32, usize, u64),
        op: AtomicOp,
        operand: u64,
        compare: u64,
    ) -> Result<Underway> {
        let found = Box::leak(Box::new(0u64));
        let to = std::ptr::from_mut(found);
        match self.change_word(process, place, op, [operand, compare], to) {
            Ok(id) => Ok(Underway { id, found }),
            Err(error) => {
                // SAFETY: made by `Box::leak` above, and no operation that uses it has begun.
                drop(unsafe { Box::from_raw(std::ptr::from_mut(found)) });
                Err(error)
            }
        }
    }

    /// Begins to change a word of a member's block. Makes a request if the previous value goes to
    /// `found`.
    fn change_word(
        &self,
        process: &Process,
        (target, lane, offset): (u32, usize, u64),
        op: AtomicOp,
        [operand, compare]: [u64; 2],
        found: *mut u64,
    ) -> Result<Option<RequestId>> {
        let key = self.record(process, target)?.block;
        let remote = Remote {
            target,
            lane,
            transport: self.transport_index(),
            key,
            shift: 0,
            blocks: Blocks::from_buf([(offset, 8)]),
        };
        let act = Act::Atomic(Atomic {
            op,
            operands: [operand].into(),
            compare,
        });
        let mut access = self.access(remote, act, found.cast());
        access.internal = true;
        let completion = match found.is_null() {
            true => Completion::Blocking,
            false => Completion::Request,
        };
        match self.issue(process, &mut Some(access), lane, completion)? {
            Issued::Begun(id) => Ok(id),
            Issued::Refused => Err(refused(target, LaneError::Unsupported)),
        }
    }

    /// Carries out an atomic on a word of a member's block. Returns the previous value.
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

    /// Adds to several words concurrently and waits for all. Returns the first error.
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

    /// Begins to add to a word of a member's block. The next flush waits for it.
    pub fn add_without_waiting(
        &self,
        process: &Process,
        (rank, word): (u32, Word),
        what: u64,
    ) -> Result<()> {
        let nowhere = std::ptr::null_mut();
        let place = (rank, 0, word.0);
        self.change_word(process, place, AtomicOp::Add, [what, 0], nowhere)
            .map(drop)
    }
}

fn not_passive() -> Error {
    Error::new(
        Class::Intern,
        "internal error: the window is not passive-target",
    )
}
