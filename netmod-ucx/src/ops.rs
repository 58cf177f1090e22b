//! Pending operations on remote memory, and flushes.

use crate::ffi::*;
use crate::inbox::{Inbox, Note, Work};
use netmod::{AtomicOp, LaneError, Peer, RemoteAddr, Token};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Get,
    Put,
    Atomic(AtomicOp),
}

/// A pending operation.
pub(crate) struct Op {
    pub(crate) action: Action,
    pub(crate) token: Token,
    pub(crate) endpoint: u32,
    /// Source or destination of the data; for atomics, of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// The operation's own key, destroyed with it; null if the key is shared.
    pub(crate) own_key: *mut ucp_rkey,
    /// Whether it waits for its key.
    pub(crate) waits: bool,
}

/// A bounded table of pending operations.
pub(crate) struct Ops {
    pub(crate) ops: Vec<Option<Op>>,
    pub(crate) notes: Box<[Note]>,
    /// Operand or comparand, and result, of each atomic.
    pub(crate) words: Box<[[u64; 2]]>,
    pub(crate) free: Vec<u32>,
    /// Operations that wait for their keys.
    pub(crate) waiting: Vec<u32>,
}

impl Ops {
    pub(crate) fn new(inbox: *const Inbox, count: usize) -> Self {
        Ops {
            ops: (0..count).map(|_| None).collect(),
            notes: (0..count as u32)
                .map(|index| Note {
                    inbox,
                    work: Work::Op(index),
                })
                .collect(),
            words: vec![[0; 2]; count].into_boxed_slice(),
            free: (0..count as u32).rev().collect(),
            waiting: Vec::new(),
        }
    }

    pub(crate) fn get(&mut self, index: u32) -> Option<&mut Op> {
        self.ops.get_mut(index as usize)?.as_mut()
    }

    /// Returns the index for the next operation, if there is space.
    pub(crate) fn next(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Adds a get that is requested by a message.
    pub(crate) fn add_pull(
        &mut self,
        endpoint: u32,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) {
        if let Some(index) = self.free.pop() {
            self.ops[index as usize] = Some(Op {
                action: Action::Get,
                token,
                endpoint,
                local,
                len,
                remote,
                own_key: null_mut(),
                waits: false,
            });
        }
    }

    /// Returns destination and length of a get, and the argument for the callback.
    pub(crate) fn pull_place(&mut self, index: u32) -> Option<(*mut u8, usize, *mut c_void)> {
        let arg = self.notes.get(index as usize)?.arg();
        let op = self.get(index)?;
        Some((op.local, op.len, arg))
    }

    /// Returns the endpoint of an operation.
    pub(crate) fn endpoint(&mut self, index: u32) -> Option<u32> {
        self.get(index).map(|op| op.endpoint)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Op> {
        let op = self.ops.get_mut(index as usize)?.take()?;
        self.free.push(index);
        if op.waits {
            self.waiting.retain(|&other| other != index);
        }
        Some(op)
    }
}

/// A pending flush, at a fixed address.
pub(crate) struct Flush {
    pub(crate) note: Note,
    /// Pending parts; 0: not in use.
    pub(crate) parts: u32,
    pub(crate) token: Token,
    pub(crate) peer: Peer,
    pub(crate) error: Option<LaneError>,
    pub(crate) endpoints: Vec<u32>,
}
