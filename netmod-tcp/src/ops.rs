//! Operations on remote memory that wait for an answer.

use netmod::{Peer, Token};

/// The most of a lane at once.
const MOST: usize = 4096;

/// What an answer is for.
pub(crate) enum Act {
    /// Data for `local`, `len` bytes, of which `filled` have come. `whole` is the cookie of a
    /// [`Act::Shared`] that it is a part of, or 0.
    Get {
        local: *mut u8,
        len: usize,
        filled: usize,
        whole: u64,
    },
    /// A get whose parts are shared by several connections.
    Shared {
        rest: Rest,
        /// Parts that were asked for and have not come.
        open: u32,
        failed: bool,
    },
    /// The value found.
    Atomic { result: *mut u64 },
    /// That so many connections have done all before.
    Flush { left: u32, failed: bool },
}

/// What of a get has not been asked for.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    pub local: *mut u8,
    pub len: usize,
    /// The exposure, and the place in it.
    pub number: u64,
    pub offset: u64,
    /// How much is asked for at once.
    pub part: usize,
}

/// An operation.
pub(crate) struct Op {
    pub token: Token,
    pub peer: Peer,
    pub act: Act,
}

/// All of a lane, by cookies.
#[derive(Default)]
pub(crate) struct Ops {
    slots: Vec<(u32, Option<Op>)>,
    free: Vec<u32>,
    pub(crate) open: usize,
}

impl Ops {
    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.open < MOST
    }

    /// Adds one; its cookie.
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

    /// The operation of a cookie, if it is open, and is one with `peer`.
    pub(crate) fn get(&mut self, cookie: u64, peer: Peer) -> Option<&mut Op> {
        let (generation, slot) = self.slots.get_mut(cookie as u32 as usize)?;
        let fits = u64::from(*generation) == cookie >> 32;
        slot.as_mut().filter(|op| fits && op.peer == peer)
    }

    /// Takes the operation of a cookie.
    pub(crate) fn take(&mut self, cookie: u64, peer: Peer) -> Option<Op> {
        self.get(cookie, peer)?;
        let index = cookie as u32;
        self.free.push(index);
        self.open -= 1;
        self.slots[index as usize].1.take()
    }

    /// Whether there is one with a process.
    pub(crate) fn has_peer(&self, peer: Peer) -> bool {
        let mut all = self.slots.iter();
        self.open > 0 && all.any(|(_, slot)| slot.as_ref().is_some_and(|op| op.peer == peer))
    }

    /// Takes all with a process.
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
