//! Reproducible random numbers.

/// A SplitMix64 generator: small, fast, and good enough to choose test cases.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Makes a generator from a seed. Different seeds give unrelated numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// Returns an index below `end`, which is not 0.
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns `true` in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u8) -> bool {
        percent > 0 && self.below(100) < u64::from(percent)
    }

    /// Returns one of the values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())]
    }

    /// Shuffles the values.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for end in (1..values.len()).rev() {
            values.swap(end, self.index(end + 1));
        }
    }
}

/// Scrambles the bits of a number.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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
