//! Pending operations on remote memory.

use netmod::{AtomicOp, LaneError};

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Reads a peer's memory.
    Get,
    /// Writes a peer's memory.
    Put,
    /// Changes 8 bytes of a peer's memory.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Its operand.
        operand: u64,
        /// The value that a compare-and-swap compares with.
        compare: u64,
    },
}

struct Slot<T> {
    op: Option<T>,
    generation: u32,
}

/// A bounded table of pending operations.
pub struct Operations<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Operations<T> {
    /// Makes a table for `count` operations.
    pub fn new(count: usize) -> Self {
        Operations {
            slots: (0..count)
                .map(|_| Slot {
                    op: None,
                    generation: 0,
                })
                .collect(),
            free: (0..count as u32).rev().collect(),
        }
    }

    /// Returns whether there is space for one more.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds an operation and returns its number.
    ///
    /// # Errors
    /// [`LaneError::Again`]: the table is full.
    pub fn insert(&mut self, op: T) -> Result<u32, LaneError> {
        let index = self.free.pop().ok_or(LaneError::Again)?;
        self.slots[index as usize].op = Some(op);
        Ok(index)
    }

    /// Returns an operation by its number.
    pub fn get(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.op.as_mut()
    }

    /// Removes an operation.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let op = slot.op.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(op)
    }

    /// Returns the name of an operation in messages. Contains a generation, so that stale names are
    /// detected.
    pub fn cookie(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Returns the operation that a message names.
    pub fn by_cookie(&mut self, cookie: u64) -> Option<(u32, &mut T)> {
        let index = cookie as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != (cookie >> 32) as u32 {
            return None;
        }
        slot.op.as_mut().map(|op| (index, op))
    }

    /// Lists the numbers of all pending operations.
    pub fn indices(&self) -> Vec<u32> {
        (0..self.slots.len() as u32)
            .filter(|&i| self.slots[i as usize].op.is_some())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_names_are_noticed_and_room_is_bounded() {
        let mut operations = Operations::new(2);
        let a = operations.insert('a').unwrap();
        let cookie = operations.cookie(a);
        assert_eq!(operations.by_cookie(cookie), Some((a, &mut 'a')));
        assert_eq!(operations.remove(a), Some('a'));
        assert_eq!(operations.by_cookie(cookie), None);
        let b = operations.insert('b').unwrap();
        assert_eq!(operations.by_cookie(cookie), None);
        let c = operations.insert('c').unwrap();
        assert_eq!(operations.insert('d'), Err(LaneError::Again));
        assert!(!operations.has_room() && b != c);
        assert_eq!(operations.by_cookie(u64::MAX), None);
        assert_eq!(operations.indices(), [0, 1]);
    }
}
