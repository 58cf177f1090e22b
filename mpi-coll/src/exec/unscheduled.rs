//! Executor of calls of few messages within a node, which are all started at once.
//!
//! These are the neighbourhood collectives (MPI-4.1 section 8.6), gatherv, scatterv, and short
//! alltoallv and alltoallw.
//! They need no schedule. Their messages are those of the schedules, so that ranks whose data is too
//! long for this executor, or has gaps, go together with ranks that use it.

use std::iter;

use crate::agreement::mismatch_word::MismatchTimer;
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::{Buffers, Message};
use crate::exec::phase::NodeContext;
use crate::exec::port::CommPort;
use crate::exec::progress_note::ProgressNote;
use crate::plan::call::Call;
use crate::plan::state::CommState;
use mpi_core::RequestId;
use mpi_core::comm::{Comm, Purpose, receive_polling};
use mpi_core::error::Result;
use mpi_core::process::loan;
use mpi_sched::{Layout, Neighbors, Part, Port, Root};
use smallvec::SmallVec;

/// Ranks that a call of this executor sends to, or receives from, at the most.
const MAX_PEERS: usize = 32;
/// Operations in progress that need no allocation.
const INLINE_PENDING: usize = 16;
/// Bytes to and from other ranks of an alltoall whose messages all start at once, at the most. A
/// schedule holds some messages of a longer one back.
const MAX_BYTES: usize = 8192;

/// Whether this executor runs a call on a communicator whose members share slots.
#[inline]
pub(crate) fn is_eligible(call: &Call<'_>, comm: &Comm) -> bool {
    match call {
        Call::NeighborAlltoall(neighbors, ..) => are_few(neighbors),
        Call::NeighborAllgather(neighbors, send, _) => {
            are_few(neighbors) && send.datatype.is_contiguous()
        }
        Call::Gather {
            root: Root::Rank(_),
            varying: true,
            ..
        }
        | Call::Scatter {
            root: Root::Rank(_),
            varying: true,
            ..
        } => comm.size() as usize <= MAX_PEERS,
        Call::Alltoall(Some(send), recv) => is_short(send, comm) && is_short(recv, comm),
        _ => false,
    }
}

/// Runs an [eligible](is_eligible) call.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
pub(crate) unsafe fn run(node: NodeContext<'_>, buffers: Buffers, call: &Call<'_>) -> Result<()> {
    let node_call = NodeCall {
        node,
        buffers,
        signature: CommState::signature(node.comm, call, 0),
    };
    let tag = node.comm.next_collective();
    // SAFETY: this function's contract.
    node_call.exchange(tag, |exchange| unsafe { exchange.run(call) })
}

/// A call on a communicator whose members share slots.
#[derive(Clone, Copy)]
struct NodeCall<'a> {
    pub node: NodeContext<'a>,
    pub buffers: Buffers,
    /// What all members must agree on.
    pub signature: CallSignature,
}

impl<'a> NodeCall<'a> {
    /// Starts the messages of call number `tag`, and waits until they are complete.
    #[inline]
    pub fn exchange(
        self,
        tag: u32,
        start: impl FnOnce(&mut Exchange<'a>) -> Result<()>,
    ) -> Result<()> {
        let (purpose, message_tag) = self.signature.in_phases(0).address(tag);
        debug_assert!(
            purpose == Purpose::SignedCollective,
            "the messages carry the signature, so that no member inquires"
        );
        let mut exchange = Exchange {
            port: CommPort::of_messages(self.node.process, self.node.comm, purpose),
            call: self,
            tag,
            message_tag,
            pending: SmallVec::new(),
        };
        let result = start(&mut exchange).and_then(|()| exchange.wait());
        result.or_else(|error| exchange.give_up().and(Err(error)))
    }

    /// Returns the other ranks from the next one on, each with the number of its block.
    pub fn others_from_next(&self) -> impl Iterator<Item = (usize, u32)> + use<> {
        let (me, size) = (self.node.comm.rank(), self.node.comm.size());
        let next = (1..size).map(move |distance| (me + distance) % size);
        next.map(|rank| (rank as usize, rank))
    }

    /// Copies the block from this rank to itself, if both sides have no gaps and the same length.
    /// Returns whether it did.
    ///
    /// # Safety
    /// The blocks are this call's, in buffers that don't overlap.
    #[inline]
    pub unsafe fn copy_contiguous(
        &self,
        (send, out): (&Layout<'_>, usize),
        (recv, into): (&Layout<'_>, usize),
    ) -> bool {
        let (from, to) = (send.datatype(out), recv.datatype(into));
        let len = send.bytes(out);
        let is_copied = from.is_contiguous() && to.is_contiguous() && len == recv.bytes(into);
        if is_copied {
            let from = send.offset(out) + from.true_lb();
            let to = recv.offset(into) + to.true_lb();
            let from = self.buffers.send.wrapping_offset(from);
            // SAFETY: both are blocks of the call, in buffers that don't overlap.
            unsafe { netmod_kit::copy(from, self.buffers.recv.wrapping_offset(to), len) };
        }
        is_copied
    }
}

fn are_few(neighbors: &Neighbors<'_>) -> bool {
    neighbors.sources.len() <= MAX_PEERS && neighbors.destinations.len() <= MAX_PEERS
}

/// Whether a layout with a length for each block has few blocks, which are short.
fn is_short(layout: &Layout<'_>, comm: &Comm) -> bool {
    let (me, ranks) = (comm.rank() as usize, comm.size() as usize);
    let bytes = || {
        let others = (0..ranks).filter(|rank| *rank != me);
        others.fold(0, |sum: usize, rank| sum.saturating_add(layout.bytes(rank)))
    };
    !matches!(layout, Layout::Uniform(_)) && ranks <= MAX_PEERS && bytes() <= MAX_BYTES
}

/// The messages of a call.
struct Exchange<'a> {
    call: NodeCall<'a>,
    port: CommPort<'a>,
    /// The call's number among the communicator's collectives.
    tag: u32,
    message_tag: u32,
    /// Operations in progress, each with the rank of the other side.
    pending: SmallVec<[(u32, RequestId); INLINE_PENDING]>,
}

impl Exchange<'_> {
    /// # Safety
    /// That of [`run`].
    unsafe fn run(&mut self, call: &Call<'_>) -> Result<()> {
        let NodeCall {
            node, signature, ..
        } = self.call;
        let shared = node.shared;
        shared.check(self.tag)?;
        shared.publish(self.tag, signature);
        // SAFETY: the blocks are those of the call, whose buffers are valid by this function's contract.
        unsafe {
            match *call {
                Call::NeighborAlltoall(neighbors, send, recv) => {
                    let (to, from) = (neighbors.sends(), neighbors.receives());
                    self.swap_blocks((to, &send), (from, &recv))?;
                }
                Call::NeighborAllgather(neighbors, send, recv) => {
                    let to = neighbors.sends().map(|(_, rank)| (0, rank));
                    self.swap_blocks((to, &Layout::Uniform(send)), (neighbors.receives(), &recv))?;
                }
                Call::Gather {
                    root: Root::Rank(root),
                    send,
                    recv,
                    ..
                } => self.gather(root, send, recv)?,
                Call::Scatter {
                    root: Root::Rank(root),
                    send,
                    recv,
                    ..
                } => self.scatter(root, send, recv)?,
                Call::Alltoall(Some(send), recv) => self.with_all(&send, &recv)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Gathers a block of each rank at rank `root`.
    ///
    /// # Safety
    /// That of [`run`].
    unsafe fn gather(
        &mut self,
        root: u32,
        send: Option<Part<'_>>,
        recv: Option<Layout<'_>>,
    ) -> Result<()> {
        let me = self.call.node.comm.rank();
        let own = send.map(Layout::Uniform);
        // SAFETY: this function's contract.
        unsafe {
            match (recv, own) {
                (Some(recv), own) if me == root => {
                    let from = self.call.others_from_next();
                    self.swap_blocks((iter::empty(), &recv), (from, &recv))?;
                    own.map_or(Ok(()), |own| self.copy_own((&own, 0), (&recv, me as usize)))
                }
                (_, Some(own)) => self.send(root, &own, 0),
                _ => Ok(()),
            }
        }
    }

    /// Scatters a block of rank `root` to each rank.
    ///
    /// # Safety
    /// That of [`run`].
    unsafe fn scatter(
        &mut self,
        root: u32,
        send: Option<Layout<'_>>,
        recv: Option<Part<'_>>,
    ) -> Result<()> {
        let me = self.call.node.comm.rank();
        let own = recv.map(Layout::Uniform);
        // SAFETY: this function's contract.
        unsafe {
            match (send, own) {
                (Some(send), own) if me == root => {
                    let to = self.call.others_from_next();
                    self.swap_blocks((to, &send), (iter::empty(), &send))?;
                    own.map_or(Ok(()), |own| self.copy_own((&send, me as usize), (&own, 0)))
                }
                (_, Some(own)) => {
                    self.swap_blocks((iter::empty(), &own), (iter::once((0, root)), &own))
                }
                _ => Ok(()),
            }
        }
    }

    /// Exchanges blocks with all ranks, beginning with the next one.
    ///
    /// # Safety
    /// That of [`run`].
    unsafe fn with_all(&mut self, send: &Layout<'_>, recv: &Layout<'_>) -> Result<()> {
        let own = self.call.node.comm.rank() as usize;
        let others = || self.call.others_from_next();
        let (to, from) = (others(), others());
        // SAFETY: this function's contract.
        unsafe {
            self.swap_blocks((to, send), (from, recv))?;
            self.copy_own((send, own), (recv, own))
        }
    }

    /// Sends blocks to ranks and receives blocks from ranks, each by its number.
    ///
    /// Sends come first: others wait for them. If all have left, messages that arrive promptly are received without
    /// requests.
    ///
    /// # Safety
    /// That of [`run`].
    #[inline]
    pub unsafe fn swap_blocks(
        &mut self,
        (to, send): (impl Iterator<Item = (usize, u32)>, &Layout<'_>),
        (from, recv): (impl Iterator<Item = (usize, u32)>, &Layout<'_>),
    ) -> Result<()> {
        // SAFETY: this function's contract.
        unsafe {
            for (i, rank) in to {
                self.send(rank, send, i)?;
            }
            let mut is_prompt = self.pending.is_empty();
            for (i, rank) in from {
                is_prompt = is_prompt && self.take(rank, recv, i);
                if !is_prompt {
                    self.receive(rank, recv, i)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the block from this rank to itself.
    ///
    /// # Safety
    /// That of [`run`].
    pub unsafe fn copy_own(
        &mut self,
        send: (&Layout<'_>, usize),
        recv: (&Layout<'_>, usize),
    ) -> Result<()> {
        let me = self.call.node.comm.rank();
        // SAFETY: this function's contract.
        unsafe {
            if !self.call.copy_contiguous(send, recv) {
                self.receive(me, recv.0, recv.1)?;
                self.send(me, send.0, send.1)?;
            }
        }
        Ok(())
    }

    /// Receives a block if its message arrives within a few polls. Returns whether it did; an empty
    /// block has no message.
    ///
    /// # Safety
    /// Block `i` of the receive buffer is this call's.
    unsafe fn take(&self, from: u32, layout: &Layout<'_>, i: usize) -> bool {
        let (len, datatype) = (layout.bytes(i), layout.datatype(i));
        if len == 0 || !datatype.is_contiguous() {
            return len == 0;
        }
        let at = layout.offset(i) + datatype.true_lb();
        let place = (self.call.buffers.recv.wrapping_offset(at), len);
        let (purpose, tag) = (self.port.purpose, self.message_tag as i32);
        // SAFETY: the block is writable, by this function's contract, and has no gaps.
        let taken = unsafe {
            receive_polling(
                self.call.node.process,
                self.call.node.comm,
                purpose,
                place,
                from as i32,
                tag,
            )
        };
        taken.is_some()
    }

    /// # Safety
    /// Block `i` of the receive buffer is this call's.
    unsafe fn receive(&mut self, from: u32, layout: &Layout<'_>, i: usize) -> Result<()> {
        if layout.bytes(i) == 0 {
            return Ok(());
        }
        let start = self.call.buffers.recv.wrapping_offset(layout.offset(i));
        let (count, datatype) = (layout.count(i), layout.datatype(i));
        // SAFETY: the block is writable, by this function's contract; the operation ends before the call
        // does (`wait` or `give_up`).
        let message = unsafe {
            self.port
                .irecv(start, count, datatype, from, self.message_tag)?
        };
        self.note(from, message);
        Ok(())
    }

    /// # Safety
    /// Block `i` of the send buffer is this call's to read.
    unsafe fn send(&mut self, to: u32, layout: &Layout<'_>, i: usize) -> Result<()> {
        if layout.bytes(i) == 0 {
            return Ok(());
        }
        let start = self.call.buffers.send.wrapping_offset(layout.offset(i));
        let (count, datatype) = (layout.count(i), layout.datatype(i));
        // SAFETY: the block is readable, by this function's contract; the operation ends before the call
        // does (`wait` or `give_up`).
        let message = unsafe {
            self.port
                .isend(start, count, datatype, to, self.message_tag)?
        };
        self.note(to, message);
        Ok(())
    }

    fn note(&mut self, rank: u32, message: Message) {
        if let Some(id) = message {
            self.pending.push((rank, id));
        }
    }

    fn last(&self) -> Option<(u32, RequestId)> {
        self.pending.last().copied()
    }

    /// Waits until all operations are complete, and takes out those that are.
    fn wait(&mut self) -> Result<()> {
        let tag = self.tag;
        let NodeCall {
            node, signature, ..
        } = self.call;
        let NodeContext {
            process,
            comm,
            shared,
        } = node;
        let mut timer = MismatchTimer::new(process);
        let mut note = ProgressNote::new(process);
        process.wait_ignoring_loss(comm.vci(), || {
            // Invariant: with a failed member the call makes no step, so that no rank takes partial
            // data for a result.
            if let Some(error) = comm.trouble(process) {
                return Err(error);
            }
            while let Some((rank, id)) = self.last() {
                let is_done = self.port.test(Some(id));
                if let Ok(false) = is_done {
                    shared.check_agreement(tag, signature, timer.is_due(process))?;
                    note.update(process, comm, || ((0, 1), vec![rank]));
                    return Ok(None);
                }
                self.pending.pop();
                is_done?;
            }
            Ok(Some(()))
        })
    }

    /// Cancels the operations in progress, so that the buffers are the caller's again.
    #[cold]
    fn give_up(&mut self) -> Result<()> {
        let NodeContext { process, comm, .. } = self.call.node;
        process.wait_ignoring_loss(comm.vci(), || {
            while let Some((_, id)) = self.last() {
                if !loan::try_abort(process, id)? {
                    return Ok(None);
                }
                self.pending.pop();
            }
            Ok(Some(()))
        })
    }
}
