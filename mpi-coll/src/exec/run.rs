//! Runs a schedule to its end, over the port that it needs.

use std::sync::atomic::Ordering;

use crate::agreement::inquiry::{Inquiry, Waiter, awaited};
use crate::agreement::mismatch_word::Doubt;
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::exec::port::{CommPort, NetworkPort, NoSlots, NodePort, SharedPort, no_slots};
use crate::exec::progress_note::ProgressNote;
use crate::plan::cache::{CommRun, Shape};
use crate::plan::registration::Collectives;
use crate::plan::state::CommState;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_core::process::loan;
use mpi_sched::{Progress, Schedule, rdma};

/// Runs a collective to its end.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    unsafe {
        collective_for(
            process,
            comm,
            Purpose::Collective,
            comm.next_collective(),
            buffers,
            build,
        )
    }
}

/// Runs a collective as [`collective`] does, with messages of another purpose and tag.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective_for(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    let state = CommState::of(comm);
    let mut kept = state.take_run(None);
    kept.remember(None);
    kept.signature = CallSignature::default();
    build(kept.run.rebuild());
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    unsafe { run(process, comm, state, purpose, tag, buffers, kept) }
}

/// Runs a schedule to its end, and keeps it.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes.
#[inline]
pub(crate) unsafe fn run(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    kept: Box<CommRun>,
) -> Result<()> {
    let signature = kept.signature;
    let shared = state.shared_slots().filter(|_| !signature.is_none());
    if let Some(shared) = shared {
        shared.check(tag)?;
        shared.publish(tag, signature);
    }
    let (purpose, message_tag) = match shared {
        Some(_) => signature.address(tag),
        None => (purpose, tag),
    };
    let mut call = RunningCall {
        process,
        comm,
        purpose,
        tag,
        message_tag,
        signature,
        waiter: None,
    };
    if shared.is_some() || signature.is_none() {
        // SAFETY: the buffers are valid for the schedule, by this function's contract.
        return unsafe { call.run(state, buffers, kept) };
    }
    let notes = state.notes(process, comm);
    notes.check()?;
    notes.say(process, tag, signature);
    call.waiter = Some(Waiter {
        process,
        comm,
        notes,
        tag,
        signature,
        is_end: state.network_slots().is_some() || state.node_slots().is_some(),
    });
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    let result = unsafe { call.run(state, buffers, kept) };
    notes.end(tag);
    result
}

/// A blocking call in execution.
struct RunningCall<'a> {
    process: &'a Process,
    comm: &'a Comm,
    purpose: Purpose,
    /// Its number among the communicator's collectives.
    tag: u32,
    message_tag: u32,
    signature: CallSignature,
    /// The call as inquiring members see it; `None` if they read its signature in shared slots.
    waiter: Option<Waiter<'a>>,
}

impl<'a> RunningCall<'a> {
    fn port<S>(&self, slots: S) -> CommPort<'a, S> {
        CommPort {
            process: self.process,
            comm: self.comm,
            purpose: self.purpose,
            slots,
        }
    }

    /// Runs the schedule to its end.
    ///
    /// # Safety
    /// The buffers are valid for what the schedule reads and writes.
    #[inline]
    unsafe fn run(
        &self,
        state: &'a CommState,
        buffers: Buffers,
        mut kept: Box<CommRun>,
    ) -> Result<()> {
        let RunningCall { process, comm, .. } = *self;
        let shared = state.shared_slots().filter(|_| !kept.signature.is_none());
        // SAFETY: the buffers are valid for the schedule, by this function's contract, and the run
        // has ended when this function returns: it is complete, or each of its messages was
        // cancelled. (If cancelling fails, because a VCI is not open, the run keeps its scratch
        // memory.)
        let start = |kept: &mut CommRun| unsafe {
            let tag = self.message_tag;
            kept.run.start(buffers.send, buffers.recv, tag)
        };
        let phases = kept.run.schedule().phases();
        let node_phases = kept.run.schedule().node_phases();
        let pieces = kept.run.schedule().pieces();
        let result = if !kept.run.schedule().uses_slots() {
            start(&mut kept)?;
            self.by_messages(&mut kept, shared)
        } else if let Some(shared) = shared {
            let number = shared.take(phases);
            kept.run.set_number(number);
            start(&mut kept)?;
            self.by_shared(&mut kept, shared, number)
        } else {
            let writes = phases > 0 || pieces != [0; 2];
            let network = state.network_slots().filter(|_| writes);
            if let Some(network) = network {
                let course = kept.run.schedule().course();
                if !network.allows(phases, course) {
                    synchronize_ranks(process, comm, state, network, self.waiter)?;
                }
                kept.run.set_number(network.take(phases, course));
                if pieces != [0; 2] {
                    kept.run.set_pieces(network.take_pieces(pieces));
                }
            }
            match (state.node_slots(), network) {
                (Some(node), _) if node_phases > 0 => {
                    let number = node.take(node_phases);
                    kept.run.set_node_number(number);
                    start(&mut kept)?;
                    self.by_node(&mut kept, (node, number), network)
                }
                (_, Some(network)) => {
                    start(&mut kept)?;
                    self.by_network(&mut kept, network)
                }
                (_, None) => Err(no_slots()),
            }
        };
        if kept.run.is_running() {
            process.wait_ignoring_loss(comm.vci(), || {
                Ok(give_up(process, &mut kept)?.then_some(()))
            })?;
        }
        state.give_run(kept);
        result
    }

    /// Invariant: with a failed member the schedule makes no step, so that no rank takes partial
    /// data for a result.
    #[inline]
    fn check_members(&self) -> Result<()> {
        match self.comm.trouble(self.process) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Checks now and then whether ranks disagree.
    #[inline]
    fn look(&self, inquiry: &mut Inquiry, kept: &CommRun) -> Result<()> {
        match &self.waiter {
            None => Ok(()),
            Some(waiter) => inquiry.look(waiter, &kept.run),
        }
    }

    /// Notes now and then the call's progress, for hang reports.
    #[inline]
    fn note(&self, note: &mut ProgressNote<'a>, kept: &CommRun) {
        note.update(self.process, self.comm, || {
            (kept.run.round(), awaited(self.process, &kept.run))
        });
    }

    fn by_messages(&self, kept: &mut CommRun, shared: Option<&SharedSlots>) -> Result<()> {
        let RunningCall { tag, signature, .. } = *self;
        let mut port = self.port(NoSlots);
        let mut doubt = Doubt::new(self.process);
        let mut inquiry = Inquiry::new(self.process);
        let mut note = ProgressNote::new(self.process);
        self.process.wait_ignoring_loss(self.comm.vci(), || {
            self.check_members()?;
            if kept.run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            if let Some(shared) = shared {
                shared.check_agreement(tag, signature, doubt.is_due(self.process))?;
            }
            self.look(&mut inquiry, kept)?;
            self.note(&mut note, kept);
            Ok(None)
        })?;
        match shared {
            // Slots carry signatures, which ranks that sent data by them have checked; not all
            // messages do.
            Some(shared) if self.purpose != Purpose::SignedCollective => {
                shared.compare(tag, signature)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn by_shared(&self, kept: &mut CommRun, shared: &SharedSlots, number: u64) -> Result<()> {
        let RunningCall { tag, signature, .. } = *self;
        let slots = SharedPort::new(
            shared,
            self.process.flag_polls_between_rounds(),
            tag,
            signature,
        );
        let mut port = self.port(slots);
        let mut doubt = Doubt::new(self.process);
        let crowded = self.process.is_oversubscribed();
        let mut note = ProgressNote::new(self.process);
        self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            loop {
                if kept.run.advance(&mut port)? == Progress::Done {
                    port.slots.end(tag, number);
                    return Ok(Some(()));
                }
                shared.check_agreement(tag, signature, doubt.is_due(self.process))?;
                note.update(self.process, self.comm, || {
                    let awaited = match kept.run.awaited() {
                        Some((ranks, number)) => shared.missing(ranks, number),
                        None => awaited(self.process, &kept.run),
                    };
                    (kept.run.round(), awaited)
                });
                let spins = |(ranks, number)| shared.spin_unless_needed(ranks, number);
                if !crowded || !kept.run.awaited().is_some_and(spins) {
                    return Ok(None);
                }
            }
        })
    }

    fn network_port(&self, network: &'a NetworkSlots) -> NetworkPort<'a> {
        NetworkPort {
            process: self.process,
            comm: self.comm,
            network,
            looks: network.looks(self.process.flag_polls_between_rounds()),
        }
    }

    /// Runs over this node's slots and, on its leader, over messages or writes to other leaders.
    fn by_node(
        &self,
        kept: &mut CommRun,
        (node, number): (&'a SharedSlots, u64),
        network: Option<&'a NetworkSlots>,
    ) -> Result<()> {
        let process = self.process;
        node.check(self.tag)?;
        node.publish(self.tag, self.signature);
        process.source::<Collectives>().count_by_node();
        let mut port = self.port(NodePort {
            node: SharedPort::new(
                node,
                process.flag_polls_between_rounds(),
                self.tag,
                self.signature.in_phases(kept.run.schedule().node_phases()),
            ),
            network: network.map(|network| self.network_port(network)),
        });
        let crowded = process.is_oversubscribed();
        let mut inquiry = Inquiry::new(process);
        let mut note = ProgressNote::new(process);
        let waits = |waits| {
            if let Some(network) = network {
                network.awaited.is_waiting.store(waits, Ordering::Relaxed);
            }
        };
        waits(true);
        let result = process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            loop {
                if kept.run.advance(&mut port)? == Progress::Done {
                    port.slots.node.end(self.tag, number);
                    return Ok(Some(()));
                }
                node.check(self.tag)?;
                self.look(&mut inquiry, kept)?;
                self.note(&mut note, kept);
                let spins = |(ranks, number)| node.spin_unless_needed(ranks, number);
                if !crowded || !kept.run.awaited_on_node().is_some_and(spins) {
                    return Ok(None);
                }
            }
        });
        waits(false);
        if let (Err(_), Some(network)) = (&result, network) {
            network.keep_memory();
        }
        result
    }

    fn by_network(&self, kept: &mut CommRun, network: &'a NetworkSlots) -> Result<()> {
        let mut port = self.port(self.network_port(network));
        let mut inquiry = Inquiry::new(self.process);
        let mut note = ProgressNote::new(self.process);
        network.awaited.is_waiting.store(true, Ordering::Relaxed);
        let result = self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            if kept.run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            self.look(&mut inquiry, kept)?;
            self.note(&mut note, kept);
            Ok(None)
        });
        network.awaited.is_waiting.store(false, Ordering::Relaxed);
        if result.is_err() {
            network.keep_memory();
        }
        result
    }
}

/// Cancels the messages of an abandoned collective, so that its buffers are the caller's again.
/// Returns whether all have ended; some end only after their peers have taken note.
#[cold]
pub(crate) fn give_up(process: &Process, kept: &mut CommRun) -> Result<bool> {
    let mut result = Ok(());
    let over = kept.run.give_up(|message| {
        let Some(id) = message else { return true };
        loan::try_abort(process, id).unwrap_or_else(|error| {
            result = Err(error);
            false
        })
    });
    result.map(|()| over)
}

/// Runs a barrier between broadcasts, before slots are reused.
#[cold]
fn synchronize_ranks(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    network: &NetworkSlots,
    waiter: Option<Waiter<'_>>,
) -> Result<()> {
    let shape = Some(Shape::PACE);
    let mut kept = state.take_run(shape.as_ref());
    if !kept.fits(&Shape::PACE) {
        kept.remember(shape.as_ref());
        kept.signature = CallSignature::default();
        let schedule = kept.run.rebuild();
        rdma::barrier(schedule, network.reach, rdma::Signals::Dissemination);
        if let Some(leaders) = &network.leaders {
            schedule.rename_slots(0, leaders);
        }
    }
    let call = RunningCall {
        process,
        comm,
        purpose: Purpose::Collective,
        tag: 0,
        message_tag: 0,
        signature: kept.signature,
        waiter,
    };
    // SAFETY: a barrier has no buffers.
    unsafe { call.run(state, Buffers::NONE, kept) }
}
