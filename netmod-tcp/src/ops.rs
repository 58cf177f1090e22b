//! Pending operations on remote memory.

use netmod::{Peer, Token};
use netmod_kit::Operations;

/// Pending operations from which on a lane refuses further ones.
const MOST: usize = 4096;

/// The state of an operation.
pub(crate) enum Act {
    /// A get of `len` bytes to `local`, of which `filled` have arrived.
    Get {
        local: *mut u8,
        len: usize,
        filled: usize,
        part: Option<Part>,
    },
    /// A get that is split over several connections.
    Shared {
        rest: Rest,
        /// Parts requested and not yet answered.
        open: u32,
        failed: bool,
    },
    /// An atomic; `result` gets the previous value.
    Atomic { result: *mut u64 },
    /// A flush that waits for `left` connections.
    Flush { left: u32, failed: bool },
}

/// What a get is a part of.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Cookie of the [`Act::Shared`].
    pub whole: u64,
    /// Endpoint of the stream over which the part was requested.
    pub index: u32,
}

/// The part of a get that has not been requested.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    pub local: *mut u8,
    pub len: usize,
    /// The exposure, and the offset in it.
    pub number: u64,
    pub offset: u64,
    /// Length of one request, in bytes.
    pub part: usize,
}

/// A pending operation.
pub(crate) struct Op {
    pub token: Token,
    pub peer: Peer,
    pub act: Act,
}

/// The pending operations of a lane, by cookie. A cookie from a process names only its own.
pub(crate) struct Ops(Operations<Op>);

impl Default for Ops {
    fn default() -> Self {
        Ops(Operations::new(MOST))
    }
}

impl Ops {
    /// Returns whether there is space for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// Adds an operation. Returns its cookie.
    pub(crate) fn add(&mut self, op: Op) -> u64 {
        let index = self.0.insert(op);
        self.0.cookie(index)
    }

    /// Returns the operation of a cookie if it is pending and is one with `peer`.
    pub(crate) fn get(&mut self, cookie: u64, peer: Peer) -> Option<&mut Op> {
        let (_, op) = self.0.by_cookie(cookie)?;
        (op.peer == peer).then_some(op)
    }

    /// Removes the operation of a cookie.
    pub(crate) fn take(&mut self, cookie: u64, peer: Peer) -> Option<Op> {
        self.get(cookie, peer)?;
        self.0.remove(cookie as u32)
    }

    /// Lists the cookies of the parts that a stream owes.
    pub(crate) fn parts(&self, stream: u32) -> Vec<u64> {
        let is_owed = |op: &Op| matches!(op.act, Act::Get { part: Some(Part { index, .. }), .. } if index == stream);
        let indices = self.0.indices(is_owed).into_iter();
        indices.map(|index| self.0.cookie(index)).collect()
    }

    /// Returns whether an operation with a process is pending.
    pub(crate) fn has_peer(&self, peer: Peer) -> bool {
        self.0.count() > 0 && self.0.iter().any(|op| op.peer == peer)
    }

    /// Removes all operations with a process.
    pub(crate) fn take_all(&mut self, peer: Peer) -> Vec<Op> {
        let indices = self.0.indices(|op| op.peer == peer);
        let ops = indices.into_iter().map(|index| self.0.remove(index));
        ops.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_name_operations_of_one_process() {
        let mut ops = Ops::default();
        let add = |ops: &mut Ops, peer| {
            ops.add(Op {
                token: Token(7),
                peer,
                act: Act::Flush {
                    left: 1,
                    failed: false,
                },
            })
        };
        let first = add(&mut ops, 1);
        assert!(ops.get(first, 2).is_none(), "another process's answer");
        assert!(ops.take(first, 1).is_some() && ops.take(first, 1).is_none());
        add(&mut ops, 1);
        assert!(ops.get(first, 1).is_none(), "an answer that comes twice");
        add(&mut ops, 3);
        assert_eq!((ops.take_all(1).len(), ops.0.count()), (1, 1));
        assert!(ops.has_peer(3) && !ops.has_peer(1));
    }
}
