//! Pending operations on remote memory, and flushes.

use crate::ffi::*;
use crate::inbox::{Inbox, Note, Work};
use netmod::{Action, LaneError, Peer, RemoteAddr, Token};
use netmod_kit::Operations;

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
}

/// The pending operations of a lane. Each has a note and words at fixed addresses, which UCX knows.
pub(crate) struct Ops {
    table: Operations<Op>,
    pub(crate) notes: Box<[Note]>,
    /// Operand or comparand, and result, of each atomic.
    pub(crate) words: Box<[[u64; 2]]>,
    /// Operations that wait for their keys, with their endpoints.
    pub(crate) waiting: Vec<(u32, u32)>,
}

impl Ops {
    pub(crate) fn new(inbox: *const Inbox, count: usize) -> Self {
        Ops {
            table: Operations::new(count),
            notes: (0..count as u32)
                .map(|index| Note {
                    inbox,
                    work: Work::Op(index),
                })
                .collect(),
            words: vec![[0; 2]; count].into_boxed_slice(),
            waiting: Vec::new(),
        }
    }

    /// Returns whether there is space for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.table.has_room()
    }

    /// Adds an operation if there is space ([`Ops::has_room`]). Returns its number.
    pub(crate) fn insert(&mut self, op: Op) -> u32 {
        self.table.insert(op)
    }

    pub(crate) fn get(&mut self, index: u32) -> Option<&mut Op> {
        self.table.get(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Op> {
        self.table.iter()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Op> {
        self.table.remove(index)
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
