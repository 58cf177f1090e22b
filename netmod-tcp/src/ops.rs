//! Pending operations on remote memory.

use netmod::{Peer, Token};

/// Most pending operations of a lane.
const MOST: usize = 4096;

/// The state of an operation.
pub(crate) enum Act {
    /// A get of `len` bytes to `local`, of which `filled` have arrived. `whole` is the cookie of
    /// the [`Act::Shared`] that this is a part of, or 0.
    Get {
        local: *mut u8,
        len: usize,
        filled: usize,
        whole: u64,
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

/// The pending operations of a lane, by cookie.
#[derive(Default)]
pub(crate) struct Ops {
    slots: Vec<(u32, Option<Op>)>,
    free: Vec<u32>,
    pub(crate) open: usize,
}

impl Ops {
    /// Returns whether there is space for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.open < MOST
    }

    /// Adds an operation. Returns its cookie.
    pub(crate) fn add(&mut self, op: Op) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, slot) = &mut self.slots[index as usize];
        *generation = generation.wrapping_add(1);
        *slot = Some(op);
        self.open += 1;
        u64::from(*generation) << 32 | u64::from(index)
    }

    /// Returns the operation of a cookie if it is pending and is one with `peer`.
    pub(crate) fn get(&mut self, cookie: u64, peer: Peer) -> Option<&mut Op> {
        let (generation, slot) = self.slots.get_mut(cookie as u32 as usize)?;
        let fits = u64::from(*generation) == cookie >> 32;
        slot.as_mut().filter(|op| fits && op.peer == peer)
    }

    /// Removes the operation of a cookie.
    pub(crate) fn take(&mut self, cookie: u64, peer: Peer) -> Option<Op> {
        self.get(cookie, peer)?;
        let index = cookie as u32;
        self.free.push(index);
        self.open -= 1;
        self.slots[index as usize].1.take()
    }

    /// Returns whether an operation with a process is pending.
    pub(crate) fn has_peer(&self, peer: Peer) -> bool {
        let mut all = self.slots.iter();
        self.open > 0 && all.any(|(_, slot)| slot.as_ref().is_some_and(|op| op.peer == peer))
    }

    /// Removes all operations with a process.
    pub(crate) fn take_all(&mut self, peer: Peer) -> Vec<Op> {
        let mut all = Vec::new();
        for (index, (_, slot)) in self.slots.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|op| op.peer == peer) {
                all.extend(slot.take());
                self.free.push(index as u32);
                self.open -= 1;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_name_one_operation_once() {
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
        let second = add(&mut ops, 1);
        assert_eq!(first as u32, second as u32);
        assert!(ops.get(first, 1).is_none(), "an answer that comes twice");
        add(&mut ops, 3);
        assert!(ops.get(u64::MAX, 1).is_none());
        assert_eq!((ops.take_all(1).len(), ops.open), (1, 1));
    }
}
