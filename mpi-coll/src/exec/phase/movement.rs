//! Short equal blocks in one phase: broadcast, gather, scatter, allgather, alltoall.

use super::PhasePlan;
use super::flags::{NodeContext, Phase};
use crate::exec::buffers::Buffers;
use crate::plan::call::{Call, Root};
use mpi_core::error::Result;

impl PhasePlan {
    /// Runs a movement that the plan is for.
    ///
    /// # Safety
    /// The buffers are valid for what the call reads and writes by its arguments.
    pub(super) unsafe fn move_call(
        &self,
        node: NodeContext<'_>,
        buffers: Buffers,
        call: &Call<'_>,
    ) -> Result<()> {
        let Buffers { send, recv } = buffers;
        // A block that is in its place already is not copied.
        let apart = |own: *const u8, place: *mut u8| (own != place.cast_const()).then_some(own);
        // SAFETY: the buffers are valid for the call, by this function's contract.
        unsafe {
            match *call {
                Call::Bcast(Root::Rank(root), _) => self.bcast(node, root, recv),
                Call::Gather {
                    root: Root::Rank(root),
                    send: part,
                    ..
                } => {
                    let own = part.and_then(|_| apart(send, self.block(recv, root)));
                    self.gather(node, root, own, recv)
                }
                Call::Scatter {
                    root: Root::Rank(root),
                    recv: part,
                    ..
                } => {
                    let place = self.block(send.cast_mut(), root);
                    let own = part.and_then(|_| apart(recv, place));
                    self.scatter(node, root, send, own.map(<*const u8>::cast_mut))
                }
                Call::Allgather(part, _) => self.allgather(node, part.map(|_| send), recv),
                Call::Alltoall(layout, _) => self.alltoall(node, layout.map(|_| send), recv),
                _ => Ok(()),
            }
        }
    }

    /// Returns the address of rank `of`'s block in a buffer with the blocks of all ranks.
    #[inline(always)]
    pub fn block(&self, buffer: *mut u8, of: u32) -> *mut u8 {
        buffer.wrapping_add(of as usize * self.bytes)
    }

    /// Runs a broadcast from rank `root`.
    ///
    /// # Safety
    /// A block is readable at `buffer` at the root, and writable at the other ranks.
    #[inline(always)]
    pub unsafe fn bcast(&self, node: NodeContext<'_>, root: u32, buffer: *mut u8) -> Result<()> {
        let mut phase = Phase::begin(node, self.signature.at_root(root))?;
        if node.shared.slots.rank == root {
            phase.claim()?;
            let addresses = phase.addresses(self.offset);
            // SAFETY: the slot is claimed, and has space: the schedule of this call stores as much
            // there. The root's buffer is readable, by this function's contract.
            unsafe {
                phase
                    .view
                    .store(buffer, phase.own_of(addresses), self.bytes)
            };
            phase.raise();
            return phase.end(self.bytes);
        }
        phase.raise();
        // SAFETY: the buffer is writable, by this function's contract.
        unsafe { self.take(&mut phase, (root, self.offset), buffer)? };
        phase.end(0)
    }

    /// Copies a block from `offset` of rank `of`'s slot.
    ///
    /// # Safety
    /// A block is writable at `to`.
    #[inline(always)]
    unsafe fn take(
        &self,
        phase: &mut Phase<'_>,
        (of, offset): (u32, isize),
        to: *mut u8,
    ) -> Result<()> {
        phase.wait_for(of)?;
        let from = phase.addresses(offset).of(of);
        // SAFETY: rank `of`'s flag is up, so its slot is written, and is not written again before
        // this rank raises the flag of the next phase; a block is writable at `to`, by this
        // function's contract.
        unsafe { netmod_kit::copy(from, to, self.bytes) };
        Ok(())
    }

    /// Runs a gather of blocks from `own` to `all` at the root, where `own` is `None` in place.
    ///
    /// # Safety
    /// A block is readable at `own`, and at the root blocks of all ranks are writable at `all`,
    /// which don't overlap.
    #[inline(always)]
    pub unsafe fn gather(
        &self,
        node: NodeContext<'_>,
        root: u32,
        own: Option<*const u8>,
        all: *mut u8,
    ) -> Result<()> {
        let (slots, bytes) = (&node.shared.slots, self.bytes);
        let place = self.block(all, root);
        let mut phase = Phase::begin(node, self.signature.at_root(root))?;
        if slots.rank != root {
            phase.claim()?;
            let addresses = phase.addresses(self.offset);
            let from = own.unwrap_or(place);
            // SAFETY: the slot is claimed, and has space: the schedule of this call stores as much
            // there. Only the root's block can be in place, so `own` is readable.
            unsafe { phase.view.store(from, phase.own_of(addresses), bytes) };
            phase.raise();
            return phase.end(bytes);
        }
        phase.raise();
        if let Some(own) = own {
            // SAFETY: both are blocks of the caller's that don't overlap, by this function's contract.
            unsafe { netmod_kit::copy(own, place, bytes) };
        }
        phase.wait()?;
        let addresses = phase.addresses(self.offset);
        for rank in slots.others() {
            // SAFETY: all flags are up, so all slots are written, and are not written again before
            // this rank raises the flag of the next phase; `all` has a writable block for each rank,
            // by this function's contract.
            unsafe { netmod_kit::copy(addresses.of(rank), self.block(all, rank), bytes) };
        }
        phase.end(0)
    }

    /// Runs a scatter of blocks from `all` at the root to `own`, which is `None` in place.
    ///
    /// # Safety
    /// At the root blocks of all ranks are readable at `all`, and a block is writable at `own`,
    /// which don't overlap.
    #[inline(always)]
    pub unsafe fn scatter(
        &self,
        node: NodeContext<'_>,
        root: u32,
        all: *const u8,
        own: Option<*mut u8>,
    ) -> Result<()> {
        let (slots, bytes) = (&node.shared.slots, self.bytes);
        let block = |of: u32| all.wrapping_add(of as usize * bytes);
        let mut phase = Phase::begin(node, self.signature.at_root(root))?;
        if slots.rank != root {
            phase.raise();
            let offset = slots.offset_for(root, slots.rank, bytes);
            match own {
                // SAFETY: a block is writable at `own`, by this function's contract.
                Some(own) => unsafe { self.take(&mut phase, (root, offset), own)? },
                None => phase.wait_for(root)?,
            }
            return phase.end(0);
        }
        phase.claim()?;
        for rank in slots.others() {
            let addresses = phase.addresses(slots.offset_for(root, rank, bytes));
            // SAFETY: the slot is claimed, and has a part for each rank's block, none of which
            // overlap; `all` has a readable block for each rank, by this function's contract.
            unsafe {
                phase
                    .view
                    .store(block(rank), phase.own_of(addresses), bytes)
            };
        }
        phase.raise();
        if let Some(own) = own {
            // SAFETY: both are blocks of the caller's that don't overlap, by this function's contract.
            unsafe { netmod_kit::copy(block(root), own, bytes) };
        }
        phase.end(bytes)
    }

    /// Runs an allgather; `send` is `None` in place.
    ///
    /// # Safety
    /// A block is readable at `send`, and blocks of all ranks are writable at `recv`, which don't
    /// overlap unless the former is this rank's block of the latter.
    #[inline(always)]
    pub unsafe fn allgather(
        &self,
        node: NodeContext<'_>,
        send: Option<*const u8>,
        recv: *mut u8,
    ) -> Result<()> {
        let own = self.block(recv, node.shared.slots.rank);
        let from = send.unwrap_or(own);
        let mut phase = Phase::begin(node, self.signature)?;
        let (slots, bytes) = (&node.shared.slots, self.bytes);
        phase.claim()?;
        let addresses = phase.addresses(self.offset);
        // SAFETY: the slot is claimed, and has space: the schedule of this call stores as much there.
        unsafe { phase.view.store(from, phase.own_of(addresses), bytes) };
        phase.raise();
        if from != own {
            // SAFETY: both are blocks of the caller's that don't overlap, by this function's contract.
            unsafe { netmod_kit::copy(from, own, bytes) };
        }
        phase.wait()?;
        if slots.size == 2 {
            let other = 1 - slots.rank;
            // SAFETY: all flags are up, so all slots are written, and are not written again before
            // this rank raises the flag of the next phase; `recv` has a block for each rank.
            unsafe { netmod_kit::copy(addresses.of(other), self.block(recv, other), bytes) };
            return phase.end(bytes);
        }
        for rank in slots.others() {
            // SAFETY: all flags are up, so all slots are written, and are not written again before
            // this rank raises the flag of the next phase; `recv` has a block for each rank.
            unsafe { netmod_kit::copy(addresses.of(rank), self.block(recv, rank), bytes) };
        }
        phase.end(bytes)
    }

    /// Runs an alltoall; `send` is `None` in place.
    ///
    /// # Safety
    /// Blocks of all ranks are readable at `send`, and writable at `recv`, which don't overlap.
    #[inline(always)]
    pub unsafe fn alltoall(
        &self,
        node: NodeContext<'_>,
        send: Option<*const u8>,
        recv: *mut u8,
    ) -> Result<()> {
        let mut phase = Phase::begin(node, self.signature)?;
        let (slots, bytes) = (&node.shared.slots, self.bytes);
        let source = send.unwrap_or(recv);
        let at = |rank: u32| rank as usize * bytes;
        phase.claim()?;
        let pair = slots.size == 2;
        let (other, own) = (1 ^ slots.rank, at(slots.rank));
        if pair {
            let to = phase.own_of(phase.addresses(self.offset));
            // SAFETY: the slot is claimed, and has space: the schedule of this call stores as much
            // there; `source` has a block for each rank, by this function's contract.
            unsafe { phase.view.store(source.wrapping_add(at(other)), to, bytes) };
        } else {
            for rank in slots.others() {
                let to = phase.addresses(slots.offset_for(slots.rank, rank, bytes));
                let from = source.wrapping_add(at(rank));
                // SAFETY: the slot is claimed, and has a part for each rank's block, none of which
                // overlap; `source` has a block for each rank, by this function's contract.
                unsafe { phase.view.store(from, phase.own_of(to), bytes) };
            }
        }
        phase.raise();
        if source != recv {
            // SAFETY: both buffers have a block of each rank, and don't overlap (# Safety).
            unsafe { netmod_kit::copy(source.wrapping_add(own), recv.wrapping_add(own), bytes) };
        }
        phase.wait()?;
        if pair {
            let from = phase.addresses(self.offset).of(other);
            // SAFETY: all flags are up, so all slots are written, and are not written again before
            // this rank raises the flag of the next phase; `recv` has a block for each rank.
            unsafe { netmod_kit::copy(from, recv.wrapping_add(at(other)), bytes) };
        } else {
            for rank in slots.others() {
                let offset = slots.offset_for(rank, slots.rank, bytes);
                let from = phase.addresses(offset).of(rank);
                // SAFETY: all flags are up, so all slots are written; `recv` has a block for each
                // rank.
                unsafe { netmod_kit::copy(from, recv.wrapping_add(at(rank)), bytes) };
            }
        }
        phase.end(bytes)
    }
}
