//! Blocking calls of few messages within a node, each from and to the program's own buffers and all at once: neighbourhood
//! collectives (MPI-4.1 section 8.6), and short alltoallv and alltoallw. They need no schedule. Their messages are those
//! that the schedules send, so ranks that take this way and ranks that don't go together.

use crate::agreement::mismatch_word::Doubt;
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::{Buffers, Message};
use crate::exec::port::{CommPort, NoSlots};
use crate::exec::progress_note::ProgressNote;
use crate::plan::call::Call;
use crate::plan::state::CommState;
use crate::slots::shared::SharedSlots;
use mpi_core::RequestId;
use mpi_core::comm::{Comm, Purpose, receive_polling};
use mpi_core::error::Result;
use mpi_core::process::{Process, loan};
use mpi_sched::{Layout, Neighbors, Port};
use smallvec::SmallVec;

/// Messages that a call receives or sends at most.
pub(crate) const MOST: usize = 32;
/// Operations that wait at once without memory of their own.
const FEW: usize = 16;
/// The most bytes to and from others of an alltoall whose messages start all together. With more, schedules hold some back.
const SHORT: usize = 8192;

/// Carries out such a call; `None`: it is none, and nothing was done.
///
/// # Safety
/// As for [`call`](crate::plan::call).
pub(crate) unsafe fn call(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
) -> Option<Result<()>> {
    if comm.remote().is_some() {
        return None;
    }
    let is_such = match call {
        Call::NeighborAlltoall { neighbors, .. } => are_few(neighbors),
        Call::NeighborAllgather {
            neighbors, send, ..
        } => are_few(neighbors) && send.datatype.is_contiguous(),
        Call::Alltoall {
            send: Some(send),
            recv,
        } => is_short(send, comm) && is_short(recv, comm),
        _ => false,
    };
    if !is_such {
        return None;
    }
    let here = NodeCall {
        process,
        comm,
        shared: state.shared_slots()?,
        buffers,
        signature: CommState::signature(comm, call, 0),
    };
    let tag = comm.next_collective();
    // SAFETY: the caller's contract.
    Some(here.by_messages(tag, |exchange| unsafe { exchange.run(call) }))
}

/// A call of ranks that share a node: where it takes place, its buffers, and what all must call alike.
#[derive(Clone, Copy)]
pub(crate) struct NodeCall<'a> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub shared: &'a SharedSlots,
    pub buffers: Buffers,
    pub signature: CallSignature,
}

impl<'a> NodeCall<'a> {
    /// Starts messages of call number `tag`, and waits until they are complete.
    #[inline]
    pub fn by_messages(
        self,
        tag: u32,
        start: impl FnOnce(&mut Exchange<'a>) -> Result<()>,
    ) -> Result<()> {
        let (purpose, message_tag) = self.signature.in_phases(0).address(tag);
        debug_assert!(purpose == Purpose::SignedCollective, "nobody is asked");
        let mut exchange = Exchange {
            port: CommPort {
                process: self.process,
                comm: self.comm,
                purpose,
                slots: NoSlots,
            },
            here: self,
            tag,
            message_tag,
            pending: SmallVec::new(),
        };
        let result = start(&mut exchange).and_then(|()| exchange.wait());
        result.or_else(|error| exchange.give_up().and(Err(error)))
    }

    /// The other ranks, the next one first, each with its block.
    pub fn next_ones(&self) -> impl Iterator<Item = (usize, u32)> + use<> {
        let (me, size) = (self.comm.rank(), self.comm.size());
        let next = (1..size).map(move |distance| (me + distance) % size);
        next.map(|rank| (rank as usize, rank))
    }

    /// Copies the block from this rank to itself, if it has no gaps on either side and is as long. Returns whether it is.
    ///
    /// # Safety
    /// The blocks are this call's, in buffers that don't overlap.
    #[inline]
    pub unsafe fn copy_plain(
        &self,
        (send, out): (&Layout<'_>, usize),
        (recv, into): (&Layout<'_>, usize),
    ) -> bool {
        let (from, to) = (send.datatype(out), recv.datatype(into));
        let len = send.bytes(out);
        let plain = from.is_contiguous() && to.is_contiguous() && len == recv.bytes(into);
        if plain {
            let from = send.offset(out) + from.true_lb();
            let to = recv.offset(into) + to.true_lb();
            let from = self.buffers.send.wrapping_offset(from);
            // SAFETY: the caller's contract.
            unsafe { netmod_kit::copy(from, self.buffers.recv.wrapping_offset(to), len) };
        }
        plain
    }
}

fn are_few(neighbors: &Neighbors<'_>) -> bool {
    neighbors.sources.len() <= MOST && neighbors.destinations.len() <= MOST
}

/// Whether a layout of blocks of their own lengths has few, and short ones only.
fn is_short(layout: &Layout<'_>, comm: &Comm) -> bool {
    let (me, ranks) = (comm.rank() as usize, comm.size() as usize);
    let bytes = || {
        let others = (0..ranks).filter(|rank| *rank != me);
        others.fold(0, |sum: usize, rank| sum.saturating_add(layout.bytes(rank)))
    };
    !matches!(layout, Layout::Uniform(_)) && ranks <= MOST && bytes() <= SHORT
}

/// Messages of a call.
pub(crate) struct Exchange<'a> {
    here: NodeCall<'a>,
    port: CommPort<'a, NoSlots>,
    /// The call's number among the communicator's collectives.
    tag: u32,
    message_tag: u32,
    /// Operations that were not complete at once, with whom they are.
    pending: SmallVec<[(u32, RequestId); FEW]>,
}

impl Exchange<'_> {
    /// # Safety
    /// As for [`call`].
    unsafe fn run(&mut self, call: &Call<'_>) -> Result<()> {
        let NodeCall {
            shared, signature, ..
        } = self.here;
        shared.check(self.tag)?;
        shared.publish(self.tag, signature);
        // SAFETY: the caller's contract: the blocks are what the call reads and writes.
        unsafe {
            match *call {
                Call::NeighborAlltoall {
                    neighbors,
                    send,
                    recv,
                } => {
                    let (to, from) = (neighbors.sends(), neighbors.receives());
                    self.trade((to, &send), (from, &recv))?;
                }
                Call::NeighborAllgather {
                    neighbors,
                    send,
                    recv,
                } => {
                    let to = neighbors.sends().map(|(_, rank)| (0, rank));
                    self.trade((to, &Layout::Uniform(send)), (neighbors.receives(), &recv))?;
                }
                Call::Alltoall {
                    send: Some(send),
                    recv,
                } => self.with_all(&send, &recv)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Blocks from and to all ranks, beginning with the next one.
    ///
    /// # Safety
    /// As for [`call`].
    unsafe fn with_all(&mut self, send: &Layout<'_>, recv: &Layout<'_>) -> Result<()> {
        let own = self.here.comm.rank() as usize;
        let others = || self.here.next_ones();
        let (to, from) = (others(), others());
        // SAFETY: the caller's contract.
        unsafe {
            self.trade((to, send), (from, recv))?;
            self.copy_own((send, own), (recv, own))
        }
    }

    /// Blocks by number, to and from these ranks.
    ///
    /// Sends come first: others wait for them. If all have left, messages that arrive promptly are received without
    /// requests.
    ///
    /// # Safety
    /// As for [`call`].
    #[inline]
    pub unsafe fn trade(
        &mut self,
        (to, send): (impl Iterator<Item = (usize, u32)>, &Layout<'_>),
        (from, recv): (impl Iterator<Item = (usize, u32)>, &Layout<'_>),
    ) -> Result<()> {
        // SAFETY: the caller's contract.
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

    /// The block from this rank to itself.
    ///
    /// # Safety
    /// As for [`call`].
    pub unsafe fn copy_own(
        &mut self,
        send: (&Layout<'_>, usize),
        recv: (&Layout<'_>, usize),
    ) -> Result<()> {
        let me = self.here.comm.rank();
        // SAFETY: the caller's contract.
        unsafe {
            if !self.here.copy_plain(send, recv) {
                self.receive(me, recv.0, recv.1)?;
                self.send(me, send.0, send.1)?;
            }
        }
        Ok(())
    }

    /// Receives a block if it comes soon. Returns whether it has; an empty one needn't.
    ///
    /// # Safety
    /// Block `i` of the receive buffer is this call's.
    unsafe fn take(&self, from: u32, layout: &Layout<'_>, i: usize) -> bool {
        let (len, datatype) = (layout.bytes(i), layout.datatype(i));
        if len == 0 || !datatype.is_contiguous() {
            return len == 0;
        }
        let at = layout.offset(i) + datatype.true_lb();
        let place = (self.here.buffers.recv.wrapping_offset(at), len);
        let (purpose, tag) = (self.port.purpose, self.message_tag as i32);
        // SAFETY: the caller's contract; the block has no gaps.
        let taken = unsafe {
            receive_polling(
                self.here.process,
                self.here.comm,
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
        let start = self.here.buffers.recv.wrapping_offset(layout.offset(i));
        let (count, datatype) = (layout.count(i), layout.datatype(i));
        // SAFETY: the caller's contract; the operation ends before this call does.
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
        let start = self.here.buffers.send.wrapping_offset(layout.offset(i));
        let (count, datatype) = (layout.count(i), layout.datatype(i));
        // SAFETY: as for `receive`.
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

    /// Waits until all operations are complete. Those that are have been taken out.
    fn wait(&mut self) -> Result<()> {
        let tag = self.tag;
        let NodeCall {
            process,
            comm,
            shared,
            signature,
            ..
        } = self.here;
        let mut doubt = Doubt::new(process);
        let mut note = ProgressNote::new(process);
        process.wait_ignoring_loss(comm.vci(), || {
            // With a member lost nothing goes on, lest others take what is missing for the result.
            if let Some(error) = comm.trouble(process) {
                return Err(error);
            }
            while let Some((rank, id)) = self.last() {
                let is_done = self.port.test(Some(id));
                if let Ok(false) = is_done {
                    shared.check_agreement(tag, signature, doubt.is_due(process))?;
                    note.update(process, comm, || ((0, 1), vec![rank]));
                    return Ok(None);
                }
                self.pending.pop();
                is_done?;
            }
            Ok(Some(()))
        })
    }

    /// Ends what is under way, so that the buffers are the caller's.
    #[cold]
    fn give_up(&mut self) -> Result<()> {
        let NodeCall { process, comm, .. } = self.here;
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
