//! What a flush waits for.

use std::collections::VecDeque;

/// Counts puts and atomics under way to a process, in epochs that end with each flush: a flush is
/// complete when its epoch and all before it have nothing under way. `T` says whom to tell.
pub struct Fences<T> {
    first: u32,
    /// One per flush, but for the current epoch in `current`.
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
    /// An operation begins; returns its epoch.
    #[inline]
    pub fn begin(&mut self) -> u32 {
        self.current += 1;
        self.first.wrapping_add(self.closed.len() as u32)
    }

    /// An operation of `epoch` ends; `complete` is told of the flushes that it was the last for.
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

    /// Whether nothing is under way.
    pub fn is_clear(&self) -> bool {
        self.current == 0 && self.closed.is_empty()
    }

    /// Ends the current epoch with a flush. Not when clear.
    pub fn flush(&mut self, token: T) {
        self.closed
            .push_back((std::mem::take(&mut self.current), token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_waits_for_what_came_before_only() {
        let mut fences = Fences::default();
        let mut told = Vec::new();
        let a = fences.begin();
        let b = fences.begin();
        fences.flush(1);
        let c = fences.begin();
        fences.flush(2);
        let d = fences.begin();
        fences.end(c, |t| told.push(t));
        fences.end(d, |t| told.push(t));
        fences.end(a, |t| told.push(t));
        assert!(told.is_empty() && !fences.is_clear());
        fences.end(b, |t| told.push(t));
        assert_eq!(told, [1, 2]);
        assert!(fences.is_clear());
        let e = fences.begin();
        fences.flush(3);
        fences.end(e, |t| told.push(t));
        assert_eq!(told, [1, 2, 3]);
        assert!(fences.is_clear());
    }
}
