//! Eager buffers of an engine, for sending and for its shared receive queue.

use crate::calls::post_srq_recv;
use crate::device::Context;
use crate::ffi::*;
use crate::memory::Area;
use crate::objects::{Counted, Counts, Srq};
use netmod::OpenError;
use std::ptr::null_mut;
use std::sync::Arc;

/// Receive buffers allocated together.
const BLOCK: usize = 64;

/// Receive buffers posted in one list.
const LIST: usize = 16;

/// Send buffers.
pub(crate) struct SendBuffers {
    area: Area,
    free: Vec<u32>,
    count: usize,
    _counted: Counted,
}

impl SendBuffers {
    pub(crate) fn new(
        context: &Arc<Context>,
        counts: &Arc<Counts>,
        size: usize,
        count: usize,
    ) -> Result<Self, OpenError> {
        let area = Area::new(context, size, count)?;
        Ok(SendBuffers {
            _counted: Counted::new(counts, |counts| &counts.buffer_bytes, area.bytes()),
            area,
            free: (0..count as u32).rev().collect(),
            count,
        })
    }
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }
    #[inline]
    pub(crate) fn give(&mut self, buffer: u32) {
        debug_assert!(self.free.len() < self.count);
        self.free.push(buffer);
    }
    #[inline]
    pub(crate) fn at(&self, buffer: u32) -> *mut u8 {
        self.area.at(buffer as usize)
    }
    #[inline]
    pub(crate) fn lkey(&self) -> u32 {
        self.area.lkey()
    }
    /// Returns whether few enough are free that each one in use should be signalled.
    #[inline]
    pub(crate) fn are_few(&self) -> bool {
        2 * self.free.len() < self.count
    }
}

/// Receive buffers, all of which are in the shared receive queue unless they are being read.
pub(crate) struct RecvBuffers {
    srq: Srq,
    blocks: Vec<Area>,
    counted: Vec<Counted>,
    unposted: Vec<u32>,
    size: usize,
    /// High bits of the names of work requests, before a buffer's number.
    name: u64,
    /// Number of buffers that connections need.
    needed: usize,
}

impl RecvBuffers {
    pub(crate) fn new(srq: Srq, size: usize, name: u64) -> Self {
        RecvBuffers {
            srq,
            blocks: Vec::new(),
            counted: Vec::new(),
            unposted: Vec::new(),
            size,
            name,
            needed: 0,
        }
    }

    pub(crate) fn srq(&self) -> *mut ibv_srq {
        self.srq.raw
    }

    #[inline]
    pub(crate) fn at(&self, buffer: u32) -> *mut u8 {
        let buffer = buffer as usize;
        self.blocks[buffer / BLOCK].at(buffer % BLOCK)
    }

    /// Allocates buffers for a connection that may have `more` messages in the queue. At the
    /// greatest number of buffers none are added: the adapters then hold senders back.
    pub(crate) fn provide(
        &mut self,
        context: &Arc<Context>,
        counts: &Arc<Counts>,
        more: usize,
    ) -> Result<(), OpenError> {
        self.needed += more;
        let want = self.needed.min(self.srq.depth);
        while self.blocks.len() * BLOCK < want {
            let count = BLOCK.min(self.srq.depth - self.blocks.len() * BLOCK);
            let area = Area::new(context, self.size, count)?;
            let first = (self.blocks.len() * BLOCK) as u32;
            self.counted.push(Counted::new(
                counts,
                |counts| &counts.buffer_bytes,
                area.bytes(),
            ));
            self.blocks.push(area);
            self.unposted.extend(first..first + count as u32);
        }
        self.post();
        Ok(())
    }

    /// Returns a buffer that has been read.
    #[inline]
    pub(crate) fn give(&mut self, buffer: u32) {
        self.unposted.push(buffer);
    }

    /// Posts all unposted buffers, in lists.
    #[inline]
    pub(crate) fn post(&mut self) {
        while !self.unposted.is_empty() {
            let count = self.unposted.len().min(LIST);
            let first = self.unposted.len() - count;
            let mut pieces = [ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            }; LIST];
            let mut list = [ibv_recv_wr {
                wr_id: 0,
                next: null_mut(),
                sg_list: null_mut(),
                num_sge: 1,
            }; LIST];
            let base = list.as_mut_ptr();
            for (i, piece) in pieces[..count].iter_mut().enumerate() {
                let buffer = self.unposted[first + i];
                *piece = ibv_sge {
                    addr: self.at(buffer) as u64,
                    length: self.size as u32,
                    lkey: self.blocks[buffer as usize / BLOCK].lkey(),
                };
                let next = if i + 1 < count {
                    // SAFETY: `i + 1` is less than `count`, so within the list.
                    unsafe { base.add(i + 1) }
                } else {
                    null_mut()
                };
                // SAFETY: `i` is less than `count`, so within the list, which lives until the call
                // below has read it.
                unsafe {
                    *base.add(i) = ibv_recv_wr {
                        wr_id: self.name | u64::from(buffer),
                        next,
                        sg_list: piece,
                        num_sge: 1,
                    };
                }
            }
            // SAFETY: the queue is open; the buffers belong to this engine, are not posted, and
            // outlive the queue pairs, which are closed first.
            let rc = unsafe { post_srq_recv(self.srq.raw, base) };
            if rc != 0 {
                // The queue has space for all buffers, so the adapter has failed, which sends will
                // report.
                return;
            }
            self.unposted.truncate(first);
        }
    }
}
