//! The agreements of a process: how the state machine is driven, and what becomes of its result.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use super::acknowledge::CommFailures;
use super::agreement::{Agreement, Contribution, Decision, Message};
use super::set::Set;
use super::{Failures, Key, Todo, check, members};
use mpi_coll::Holder;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::pt2pt::Address;
use mpi_core::pt2pt::request::{RequestId, Status};

/// The result of an agreement.
pub struct Agreed {
    /// The combined flags; on an intercommunicator, those of the remote group.
    pub flag: u32,
    /// Set, on all survivors alike, if a failed member was not acknowledged by all of them.
    pub error: Option<Error>,
}

/// A communicator of the survivors.
pub type Shrunk = Comm;

type Ending = Box<dyn FnOnce(&Process, &Comm, Decision) -> Result<()> + Send>;

/// An agreement in progress in this process.
pub(super) struct Running {
    pub key: Key,
    comm: Holder,
    members: Vec<Peer>,
    machine: Agreement,
    end: Ending,
}

impl Running {
    pub fn vci(&self) -> VciId {
        (*self.comm).as_ref().vci()
    }

    fn number(&self, peer: Peer) -> Option<u32> {
        let place = self.members.iter().position(|one| *one == peer)?;
        Some(place as u32)
    }

    pub fn receive(&mut self, from: Peer, message: Message) {
        if let Some(from) = self.number(from) {
            self.machine.receive(from, message);
        }
    }

    pub fn lose(&mut self, lost: &[Peer]) {
        for peer in lost {
            if let Some(member) = self.number(*peer) {
                self.machine.lose(member);
            }
        }
    }

    pub fn awaited(&self) -> Vec<Peer> {
        let members = self.machine.awaited().into_iter();
        members
            .map(|member| self.members[member as usize])
            .collect()
    }

    /// Queues its outgoing messages.
    pub fn write(&mut self, todo: &mut Todo) {
        let vci = self.vci();
        for (to, message) in self.machine.take_outbox() {
            let peer = self.members[to as usize];
            todo.write(vci, Address { peer, vci }, self.key, &message);
        }
    }

    pub fn is_over(&self) -> bool {
        self.machine.outcome().is_some()
    }

    pub fn end(self, process: &Process) -> Result<()> {
        let decision = self.machine.outcome().cloned().unwrap_or_default();
        // All survivors learn of these failures.
        for (member, peer) in self.members.iter().enumerate() {
            if decision.failed.has(member as u32) && *peer != process.me() {
                process.learn_of_loss(*peer, "the other members have agreed that it has failed");
            }
        }
        (self.end)(process, (*self.comm).as_ref(), decision)
    }

    pub fn report(&self, text: &mut String) {
        let awaited = self.awaited();
        let _ = writeln!(
            text,
            "an agreement (MPIX_Comm_agree or shrink): waits for {} members, first process {}",
            awaited.len(),
            awaited.first().copied().unwrap_or_default()
        );
    }
}

/// Begins an agreement.
fn begin(process: &Process, comm: Holder, flag: u32, offer: u64, end: Ending) -> Result<()> {
    let failures = process.source::<Failures>();
    let of: &Comm = (*comm).as_ref();
    let state = CommFailures::of(of);
    let members = members(of);
    let numbers = |peers: Vec<Peer>| {
        let number = |peer: Peer| members.iter().position(|one| *one == peer);
        Set::of(
            peers
                .into_iter()
                .filter_map(|peer| Some(number(peer)? as u32)),
        )
    };
    let mine = Contribution {
        flag,
        failed: numbers(process.lost_among(|peer| of.has_member(peer))),
        acknowledged: numbers(state.acknowledged.lock().clone()),
        held: None,
    };
    let first = match (of.is_first(), of.remote()) {
        (true, _) | (false, None) => of.size(),
        (false, Some(remote)) => remote.size(),
    };
    let me = match of.is_first() {
        true => of.rank(),
        false => first + of.rank(),
    };
    let number = state.agreements.fetch_add(1, Ordering::Relaxed);
    let key = (of.context().to_bits(), number);
    let sizes = [members.len() as u32, first];
    let machine = Agreement::begin(me, sizes, mine, offer);
    let mut running = Running {
        key,
        comm,
        members,
        machine,
        end,
    };
    failures.change(process, |table, _| {
        table.early.retain_mut(|(of, from, message)| {
            if *of == key {
                running.receive(*from, message.clone());
            }
            *of != key
        });
        table.running.push(running);
    })?;
    failures.settle(process).map(drop)
}

/// Runs an agreement to its end.
fn wait(process: &Process, comm: Holder, flag: u32, offer: u64) -> Result<Decision> {
    let place: Arc<Mutex<Option<Decision>>> = Arc::default();
    let result = place.clone();
    let vci = (*comm).as_ref().vci();
    let end = move |process: &Process, _: &Comm, decision| {
        *result.lock() = Some(decision);
        process.notify();
        Ok(())
    };
    begin(process, comm, flag, offer, Box::new(end))?;
    process.wait_ignoring_loss(vci, || Ok(place.lock().take()))
}

fn agreed(comm: &Comm, decision: &Decision) -> Agreed {
    let theirs = comm.remote().is_some() && comm.is_first();
    let raised = || {
        let failed = decision.failed.words();
        let failed: u32 = failed.map(|(_, word)| word.count_ones()).sum();
        let why = format!(
            "{failed} members have failed, and not every survivor had acknowledged that before \
             (MPIX_Comm_ack_failed); all survivors get this error, and the flag is agreed on"
        );
        Error::new(Class::ProcFailed, why).on(comm.owner())
    };
    Agreed {
        flag: decision.flags[usize::from(theirs)],
        error: decision.raises.then(raised),
    }
}

/// Combines the members' flags by bitwise and (`MPIX_Comm_agree`), with the same result on all
/// survivors, also on a revoked communicator.
///
/// Members that fail before they contribute don't count.
///
/// # Errors
/// Errors of sending messages.
pub fn agree(process: &Process, comm: Holder, flag: u32) -> Result<Agreed> {
    check((*comm).as_ref(), "MPIX_Comm_agree")?;
    let decision = wait(process, comm.clone(), flag, 0)?;
    Ok(agreed((*comm).as_ref(), &decision))
}

/// Starts [`agree`] (`MPIX_Comm_iagree`). `done` gets the flag before the request is complete.
///
/// # Errors
/// Errors of sending messages.
pub fn start_agree(
    process: &Process,
    comm: Holder,
    flag: u32,
    done: impl FnOnce(u32) + Send + 'static,
) -> Result<RequestId> {
    let of: &Comm = (*comm).as_ref();
    check(of, "MPIX_Comm_iagree")?;
    let request = process.start_external(of.vci(), of.owner())?;
    let end = move |process: &Process, comm: &Comm, decision: Decision| {
        let Agreed { flag, error } = agreed(comm, &decision);
        done(flag);
        process.complete(request, Status::EMPTY, error)
    };
    begin(process, comm, flag, 0, Box::new(end))?;
    Ok(request)
}

/// Makes the communicator of the survivors.
fn shrunk(comm: &Comm, decision: &Decision) -> Result<Shrunk> {
    if decision.context == 0 {
        let why = "other members have called MPIX_Comm_agree instead; call the same functions on all members in the \
                   same order";
        return Err(Error::new(Class::Other, why));
    }
    let left = |group: &Group, before: u32| -> Result<Group> {
        let is_left = |(number, _): &(u32, Peer)| !decision.failed.has(*number);
        let peers = (before..).zip(group.peers()).filter(is_left);
        Group::from_peers(&peers.map(|(_, peer)| peer).collect::<Vec<_>>())
    };
    let context = ContextId::from_bits(decision.context);
    let before = |first: bool| match (first, comm.is_first(), comm.remote()) {
        (true, ..) | (_, _, None) => 0,
        (false, true, _) => comm.size(),
        (false, false, Some(remote)) => remote.size(),
    };
    let local = left(comm.local(), before(comm.is_first()))?;
    let Some(rank) = local.rank_of(comm.local().peer(comm.rank())) else {
        let why = "the other members have agreed that this process has failed";
        return Err(Error::new(Class::ProcFailed, why));
    };
    Ok(match comm.remote() {
        None => Comm::new(context, local, rank),
        Some(remote) => {
            let remote = left(remote, before(!comm.is_first()))?;
            Comm::inter(context, local, remote, rank, comm.is_first())
        }
    })
}

/// Makes a communicator of the members that have not failed, in their order (`MPIX_Comm_shrink`),
/// the same on all survivors, also of a revoked communicator.
///
/// # Errors
/// Errors of sending messages.
pub fn shrink(process: &Process, comm: Holder) -> Result<Shrunk> {
    check((*comm).as_ref(), "MPIX_Comm_shrink")?;
    let offer = process.new_context().to_bits();
    let decision = wait(process, comm.clone(), u32::MAX, offer)?;
    shrunk((*comm).as_ref(), &decision)
}

/// Starts [`shrink`] (`MPIX_Comm_ishrink`). `done` gets the communicator before the request is
/// complete.
///
/// # Errors
/// Errors of sending messages.
pub fn start_shrink(
    process: &Process,
    comm: Holder,
    done: impl FnOnce(Shrunk) -> Result<()> + Send + 'static,
) -> Result<RequestId> {
    let of: &Comm = (*comm).as_ref();
    check(of, "MPIX_Comm_ishrink")?;
    let request = process.start_external(of.vci(), of.owner())?;
    let end = move |process: &Process, comm: &Comm, decision: Decision| {
        let made = shrunk(comm, &decision).and_then(done);
        process.complete(request, Status::EMPTY, made.err())
    };
    let offer = process.new_context().to_bits();
    begin(process, comm, u32::MAX, offer, Box::new(end))?;
    Ok(request)
}
