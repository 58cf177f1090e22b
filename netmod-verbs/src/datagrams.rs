//! Sends and receives the datagrams that set up connections, over a queue pair of their own.

use crate::calls::{errno_text, post_recv, post_send, work};
use crate::device::{Context, Port};
use crate::ffi::*;
use crate::memory::Area;
use crate::names as name;
use crate::objects::{Ah, DATAGRAM_KEY, Qp, QpPlan};
use crate::queue::Queue;
use crate::wire::{Address, DATAGRAM_MOST, Datagram};
use netmod::OpenError;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr::null_mut;
use std::sync::Arc;

/// Bytes that the adapter puts before received datagrams (a global routing header).
const GRH: usize = 40;

/// Returns a number that is hard to guess.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The queue pair for datagrams, and its buffers.
pub(crate) struct Datagrams {
    qp: Qp,
    area: Area,
    free: Vec<u32>,
    slot_bits: u64,
}

impl Datagrams {
    /// Most datagrams in flight in each direction.
    pub(crate) const COUNT: usize = 32;
    const SIZE: usize = GRH + DATAGRAM_MOST;

    pub(crate) fn open(
        context: &Arc<Context>,
        port: &Port,
        queue: &Queue,
        slot_bits: u64,
    ) -> Result<Self, OpenError> {
        let plan = QpPlan {
            kind: IBV_QPT_UD,
            pd: context.pd,
            cq: queue.raw(),
            srq: null_mut(),
            send: Self::COUNT as u32,
            recv: Self::COUNT as u32,
            inline: 0,
        };
        let fail = |number| {
            OpenError(format!(
                "cannot make a datagram queue pair: {}",
                errno_text(number)
            ))
        };
        let qp = Qp::open(context, &plan).map_err(fail)?;
        qp.start_datagrams(port).map_err(fail)?;
        let area = Area::new(context, Self::SIZE, 2 * Self::COUNT)?;
        let datagrams = Datagrams {
            qp,
            area,
            free: (Self::COUNT as u32..2 * Self::COUNT as u32).collect(),
            slot_bits,
        };
        for buffer in 0..Self::COUNT {
            datagrams.post(buffer as u32);
        }
        Ok(datagrams)
    }

    /// Posts a receive buffer.
    pub(crate) fn post(&self, buffer: u32) {
        let mut sge = ibv_sge {
            addr: self.area.at(buffer as usize) as u64,
            length: Self::SIZE as u32,
            lkey: self.area.lkey(),
        };
        let mut wr = ibv_recv_wr {
            wr_id: self.slot_bits | name::DATAGRAM | u64::from(buffer),
            next: null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
        };
        // SAFETY: the queue pair is open; the buffer belongs to it, is not posted, and is dropped
        // after it. The queue has space for all buffers.
        unsafe { post_recv(self.qp.raw, &mut wr) };
    }

    /// Parses a filled receive buffer.
    pub(crate) fn parse(&self, buffer: u32, len: usize) -> Option<Datagram> {
        let len = len.min(Self::SIZE).checked_sub(GRH)?;
        // SAFETY: the buffer was filled and is not posted until `post`.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.area.at(buffer as usize).add(GRH), len) };
        Datagram::parse(bytes)
    }

    /// Frees a send buffer.
    pub(crate) fn sent(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Returns the number of the queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.qp.number()
    }

    /// Returns whether all send buffers are in use.
    pub(crate) fn are_all_under_way(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns whether no datagram is being sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == Self::COUNT
    }

    /// Sends a datagram, or drops it if no buffer is free, since datagrams may be lost anyway.
    pub(crate) fn send(&mut self, datagram: &Datagram, to: &Address, ah: &Ah) {
        let Some(buffer) = self.free.pop() else {
            return;
        };
        let bytes = datagram.to_bytes();
        let place = self.area.at(buffer as usize);
        // SAFETY: the buffer belongs to the queue pair, was free, and is longer than any datagram.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        let mut sge = ibv_sge {
            addr: place as u64,
            length: bytes.len() as u32,
            lkey: self.area.lkey(),
        };
        let mut wr = work(IBV_WR_SEND, &mut sge);
        wr.wr_id = self.slot_bits | name::DATAGRAM_SENT | u64::from(buffer);
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud = ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: ah.raw,
            remote_qpn: to.qpn,
            remote_qkey: DATAGRAM_KEY,
        };
        // SAFETY: queue pair and address handle are open; the buffer is not reused until
        // completion.
        if unsafe { post_send(self.qp.raw, &mut wr) } != 0 {
            self.free.push(buffer);
        }
    }
}
