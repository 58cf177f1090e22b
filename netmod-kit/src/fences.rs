//! Epochs of puts and atomics, for which flushes wait.

use std::collections::VecDeque;

/// Counts the pending puts and atomics to a process, in epochs that end with each flush. A flush is
/// complete when its epoch and all before it have none pending. `T` identifies a flush.
pub struct Fences<T> {
    first: u32,
    /// Pending operations of each flushed epoch; those of the open epoch are in `current`.
    closed: VecDeque<(u32, T)>,
    current: u32,
}

impl<T> Default for Fences<T> {
    fn default() -> Self {
        Fences {
            first: 0,
            closed: VecDeque::new(),
            current: 0,
        }
    }
}

impl<T: Copy> Fences<T> {
    /// Counts an operation that begins. Returns its epoch.
    #[inline]
    pub fn begin(&mut self) -> u32 {
        self.current += 1;
        self.first.wrapping_add(self.closed.len() as u32)
    }

    /// Counts an operation of `epoch` that ends. Calls `complete` for each flush that this
    /// completes.
    #[inline]
    pub fn end(&mut self, epoch: u32, mut complete: impl FnMut(T)) {
        let index = epoch.wrapping_sub(self.first) as usize;
        match self.closed.get_mut(index) {
            None => self.current -= 1,
            Some((count, _)) => *count -= 1,
        }
        while let Some(&(0, token)) = self.closed.front() {
            self.closed.pop_front();
            self.first = self.first.wrapping_add(1);
            complete(token);
        }
    }

    /// Returns whether no operation is pending.
    pub fn is_clear(&self) -> bool {
        self.current == 0 && self.closed.is_empty()
    }

    /// Ends the current epoch with a flush. Must not be called when clear.
    pub fn flush(&mut self, token: T) {
        self.closed
            .push_back((std::mem::take(&mut self.current), token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_waits_only_for_earlier_operations() {
        let mut fences = Fences::default();
        let mut completed = Vec::new();
        let a = fences.begin();
        let b = fences.begin();
        fences.flush(1);
        let c = fences.begin();
        fences.flush(2);
        let d = fences.begin();
        fences.end(c, |t| completed.push(t));
        fences.end(d, |t| completed.push(t));
        fences.end(a, |t| completed.push(t));
        assert!(completed.is_empty() && !fences.is_clear());
        fences.end(b, |t| completed.push(t));
        assert_eq!(completed, [1, 2]);
        assert!(fences.is_clear());
        let e = fences.begin();
        fences.flush(3);
        fences.end(e, |t| completed.push(t));
        assert_eq!(completed, [1, 2, 3]);
        assert!(fences.is_clear());
    }
}
