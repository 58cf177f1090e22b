//! Reproducible random numbers.

/// A random generator to choose test cases with.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Makes a generator from a seed. Different seeds give unrelated numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// Returns an index below `end`, which is not 0.
    pub fn index(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// Returns `true` in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.0.u8(..100) < percent
    }

    /// Returns one of the values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())]
    }

    /// Shuffles the values.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        self.0.shuffle(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_bounds() {
        let (mut a, mut b, mut c) = (Rng::new(7), Rng::new(7), Rng::new(8));
        let mut hits = [0; 10];
        for _ in 0..1000 {
            let value = a.below(10);
            assert_eq!(value, b.below(10));
            c.number();
            hits[value as usize] += 1;
        }
        assert!(hits.iter().all(|&hits| hits > 50), "{hits:?}");
        assert_ne!(a.number(), c.number());
        let mut order: Vec<_> = (0..20).collect();
        a.shuffle(&mut order);
        order.sort();
        assert!(order.iter().copied().eq(0..20));
    }
}
