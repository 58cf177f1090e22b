//! Pending operations on remote memory.

struct Slot<T> {
    op: Option<T>,
    generation: u32,
}

/// A table of pending operations. Its memory is reserved when it is made.
pub struct Operations<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    most: usize,
}

impl<T> Operations<T> {
    /// Makes a table for `most` operations.
    pub fn new(most: usize) -> Self {
        Operations {
            slots: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
        }
    }

    /// Returns how many operations are pending.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether fewer operations are pending than the table is made for.
    pub fn has_room(&self) -> bool {
        self.count() < self.most
    }

    /// Adds an operation and returns its number. A full table grows: callers that can refuse an
    /// operation check [`Operations::has_room`] first.
    pub fn insert(&mut self, op: T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                op: None,
                // No operation is named by 0.
                generation: 1,
            });
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize].op = Some(op);
        index
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

    /// Iterates over all pending operations.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.op.as_ref())
    }

    /// Lists the numbers of the pending operations for which `is_wanted` returns `true`.
    pub fn indices(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        (0..self.slots.len() as u32)
            .filter(|&index| {
                self.slots[index as usize]
                    .op
                    .as_ref()
                    .is_some_and(&is_wanted)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_names_are_noticed_and_room_is_bounded() {
        let mut operations = Operations::new(2);
        let a = operations.insert('a');
        let cookie = operations.cookie(a);
        assert_eq!(operations.by_cookie(cookie), Some((a, &mut 'a')));
        assert_eq!(operations.remove(a), Some('a'));
        assert_eq!(operations.by_cookie(cookie), None);
        let b = operations.insert('b');
        assert_eq!(operations.by_cookie(cookie), None);
        assert!(operations.has_room());
        let c = operations.insert('c');
        assert!(!operations.has_room() && b != c);
        operations.insert('d');
        assert_eq!(operations.by_cookie(u64::MAX), None);
        assert_eq!(operations.indices(|&op| op != 'b'), [1, 2]);
        assert_eq!((operations.count(), operations.iter().count()), (3, 3));
    }
}
