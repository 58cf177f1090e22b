//! Operations on remote memory under way.

use crate::memory::Region;
use netmod::{AtomicOp, LaneError, RemoteAddr, Token, VciId};
use std::sync::Arc;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Get,
    Put,
    Atomic {
        op: AtomicOp,
        operand: u64,
        compare: u64,
    },
}

/// An operation under way, possibly in several parts.
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Whether messages carry it out.
    pub(crate) emulated: bool,
    /// The VCI that is told of completion, and how it named the operation.
    pub(crate) vci: VciId,
    pub(crate) token: Token,
    pub(crate) connection: u32,
    /// Where data comes from or goes to; for atomics the place of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// Bytes handed to the adapter so far.
    pub(crate) issued: usize,
    /// Parts under way.
    pub(crate) parts: u32,
    /// Epoch of a put or an atomic.
    pub(crate) epoch: u32,
    pub(crate) error: Option<LaneError>,
    /// Registration of `local`; `None` if data goes through buffers.
    pub(crate) region: Option<Arc<Region>>,
    /// Atomics that the adapter has not got: the value that is taken to be there.
    pub(crate) guess: Option<u64>,
}

impl Op {
    /// Whether it is an atomic that is made of several of the adapter's.
    pub(crate) fn guesses(&self) -> bool {
        let direct = |op| matches!(op, AtomicOp::Load | AtomicOp::Add | AtomicOp::CompareSwap);
        !self.emulated && matches!(self.action, Action::Atomic { op, .. } if !direct(op))
    }
}

struct Place {
    op: Option<Op>,
    generation: u32,
}

/// A bounded table of operations.
pub(crate) struct Ops {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Ops {
    pub(crate) fn new(count: usize) -> Self {
        Ops {
            places: (0..count)
                .map(|_| Place {
                    op: None,
                    generation: 0,
                })
                .collect(),
            free: (0..count as u32).rev().collect(),
        }
    }
    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }
    pub(crate) fn insert(&mut self, op: Op) -> Result<u32, LaneError> {
        let index = self.free.pop().ok_or(LaneError::Again)?;
        self.places[index as usize].op = Some(op);
        Ok(index)
    }
    pub(crate) fn get(&mut self, index: u32) -> Option<&mut Op> {
        self.places.get_mut(index as usize)?.op.as_mut()
    }
    pub(crate) fn remove(&mut self, index: u32) -> Option<Op> {
        let place = self.places.get_mut(index as usize)?;
        let op = place.op.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        Some(op)
    }
    /// What names an operation in messages; stale names are noticed.
    pub(crate) fn cookie(&self, index: u32) -> u64 {
        u64::from(self.places[index as usize].generation) << 32 | u64::from(index)
    }
    /// The operation that a message names.
    pub(crate) fn by_cookie(&mut self, cookie: u64) -> Option<(u32, &mut Op)> {
        let index = cookie as u32;
        let place = self.places.get_mut(index as usize)?;
        if place.generation != (cookie >> 32) as u32 {
            return None;
        }
        place.op.as_mut().map(|op| (index, op))
    }
    /// All operations under way, by index.
    pub(crate) fn indices(&self) -> Vec<u32> {
        (0..self.places.len() as u32)
            .filter(|&i| self.places[i as usize].op.is_some())
            .collect()
    }
}
