//! `MPI_Dims_create` (MPI-3.1 section 7.5.2): a balanced grid for a number of processes.

use super::cart::by;
use mpi_core::{Class, Error, Result};

/// Fills the zeros in `dims` so that the grid has `nnodes` processes.
///
/// The chosen dimensions are as close to each other as possible: the difference between the largest
/// and the smallest is minimal, and among grids equal in that the dimensions, in decreasing order,
/// are lexicographically least. They come in non-increasing order.
///
/// # Errors
///
/// `MPI_ERR_ARG` if `nnodes` is not positive. `MPI_ERR_DIMS` if a given dimension is negative, or
/// if `nnodes` is not a multiple of the product of those given.
pub fn dims_create(nnodes: i32, dims: &mut [i32]) -> Result<()> {
    if nnodes < 1 {
        return Err(Error::new(
            Class::Arg,
            format!("nnodes is {nnodes}; it must be 1 or more"),
        ));
    }
    let mut free = 0;
    let mut given: Vec<i32> = Vec::new();
    for (i, &dim) in dims.iter().enumerate() {
        match dim {
            ..0 => {
                return Err(Error::new(
                    Class::Dims,
                    format!("dims[{i}] is {dim}; it must be positive, or 0 to have it chosen"),
                ));
            }
            0 => free += 1,
            _ => given.push(dim),
        }
    }
    let mut rest = nnodes as u32;
    for &dim in &given {
        if !rest.is_multiple_of(dim as u32) {
            return Err(Error::new(
                Class::Dims,
                format!(
                    "nnodes is {nnodes}, which is not a multiple of the dimensions given, {}",
                    by(&given)
                ),
            ));
        }
        rest /= dim as u32;
    }
    if free == 0 {
        // Nothing to choose; the product may be a divisor of nnodes, as in MPICH.
        return Ok(());
    }
    let mut chosen = balanced(rest, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = chosen.next().expect("one for each") as i32;
    }
    Ok(())
}

/// Returns `count` factors of `n`, not increasing, that are as close to each other as possible.
fn balanced(n: u32, count: usize) -> Vec<u32> {
    let primes = prime_factors(n);
    if primes.len() <= count {
        // With fewer prime factors than `count`, the smallest factor is 1, and joining primes gains
        // nothing.
        let mut factors: Vec<u32> = primes.into_iter().rev().collect();
        factors.resize(count, 1);
        return factors;
    }
    let mut search = Search {
        divisors: divisors(&primes),
        chosen: Vec::with_capacity(count),
        best: Vec::with_capacity(count),
        spread: u32::MAX,
    };
    search.run(n, count);
    search.best
}

struct Search {
    /// In increasing order.
    divisors: Vec<u32>,
    chosen: Vec<u32>,
    best: Vec<u32>,
    /// Spread of `best`: largest less smallest.
    spread: u32,
}

impl Search {
    /// Tries all factorizations of `rest` into `count` factors that do not exceed the last chosen.
    ///
    /// Lexicographically least first; skips those whose spread can't be less than the best one's.
    fn run(&mut self, rest: u32, count: usize) {
        let limit = self.chosen.last().copied().unwrap_or(u32::MAX);
        let largest = self.chosen.first().copied();
        if count == 1 {
            let spread = largest.map_or(0, |largest| largest.saturating_sub(rest));
            if rest <= limit && spread < self.spread {
                self.chosen.push(rest);
                self.best.clone_from(&self.chosen);
                self.chosen.pop();
                self.spread = spread;
            }
            return;
        }
        let least = root(rest, count, true);
        let from = self.divisors.partition_point(|&divisor| divisor < least);
        for at in from..self.divisors.len() {
            let divisor = self.divisors[at];
            if divisor > limit {
                break;
            }
            if !rest.is_multiple_of(divisor) {
                continue;
            }
            // The smallest factor is at most the root of the rest, which decreases as the divisor
            // grows, so no larger divisor is better.
            let smallest = root(rest / divisor, count - 1, false);
            if largest.unwrap_or(divisor) - smallest.min(divisor) >= self.spread {
                break;
            }
            self.chosen.push(divisor);
            self.run(rest / divisor, count - 1);
            self.chosen.pop();
        }
    }
}

/// Returns the `k`th root of `n`, rounded up or down.
fn root(n: u32, k: usize, up: bool) -> u32 {
    // 2^32 has no root of a higher degree than 32 but 1.
    let k = k.min(33) as u32;
    if k == 1 {
        return n;
    }
    let exceeds = |r: u32| u64::from(r).checked_pow(k).is_none_or(|p| p > u64::from(n));
    // The float is close; the steps make it exact.
    let mut r = match k {
        2 => n.isqrt(),
        3 => f64::from(n).cbrt() as u32,
        _ => f64::from(n).powf(1.0 / f64::from(k)) as u32,
    };
    while exceeds(r) {
        r -= 1;
    }
    while !exceeds(r + 1) {
        r += 1;
    }
    let exact = u64::from(r).pow(k) == u64::from(n);
    if up && !exact { r + 1 } else { r }
}

/// Returns the prime factors in increasing order.
fn prime_factors(mut n: u32) -> Vec<u32> {
    let mut primes = Vec::with_capacity(32); // 2^31 has fewer
    let mut p = 2;
    while u64::from(p) * u64::from(p) <= u64::from(n) {
        while n.is_multiple_of(p) {
            primes.push(p);
            n /= p;
        }
        p += 1 + p % 2;
    }
    if n > 1 {
        primes.push(n);
    }
    primes
}

/// Returns all products of the primes, in increasing order.
fn divisors(primes: &[u32]) -> Vec<u32> {
    // The number of divisors: the product of each prime's multiplicity plus one.
    let groups = || primes.chunk_by(|a, b| a == b);
    let number = groups().map(|group| group.len() + 1).product();
    let mut divisors = Vec::with_capacity(number);
    divisors.push(1);
    let mut before = Vec::with_capacity(number);
    for &prime in primes.iter().rev() {
        // The divisors so far and `prime` times them, both in increasing order, merged without
        // duplicates.
        std::mem::swap(&mut before, &mut divisors);
        divisors.clear();
        let mut old = before.iter().copied().peekable();
        for new in before.iter().map(|divisor| divisor * prime) {
            while let Some(less) = old.next_if(|old| *old <= new) {
                divisors.push(less);
            }
            if divisors.last() != Some(&new) {
                divisors.push(new);
            }
        }
    }
    divisors
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn create(nnodes: i32, dims: &[i32]) -> Result<Vec<i32>> {
        let mut dims = dims.to_vec();
        dims_create(nnodes, &mut dims).map(|()| dims)
    }

    #[test]
    fn example_of_the_standard() {
        // The table of section 7.5.2.
        assert_eq!(create(6, &[0, 0]).unwrap(), [3, 2]);
        assert_eq!(create(7, &[0, 0]).unwrap(), [7, 1]);
        assert_eq!(create(6, &[0, 3, 0]).unwrap(), [2, 3, 1]);
        assert_eq!(create(7, &[0, 3, 0]).unwrap_err().class(), Class::Dims);
    }

    #[test]
    fn bad_arguments_and_borders() {
        assert_eq!(create(0, &[0]).unwrap_err().class(), Class::Arg);
        assert_eq!(create(-3, &[0]).unwrap_err().class(), Class::Arg);
        assert_eq!(create(6, &[-1, 0]).unwrap_err().class(), Class::Dims);
        assert_eq!(create(6, &[2, 2]).unwrap_err().class(), Class::Dims);
        assert_eq!(create(6, &[3, 4]).unwrap_err().class(), Class::Dims);
        // The standard only requires 6 to be a multiple of the given product.
        assert_eq!(create(6, &[3, 1]).unwrap(), [3, 1]);
        assert_eq!(create(6, &[3, 2]).unwrap(), [3, 2]);
        assert_eq!(create(1, &[]).unwrap(), []);
        assert_eq!(create(1, &[0; 5]).unwrap(), [1; 5]);
        assert_eq!(create(12, &[0; 40]).unwrap()[..4], [3, 2, 2, 1]);
        let huge = create(i32::MAX, &[i32::MAX, i32::MAX]).unwrap_err();
        assert_eq!(huge.class(), Class::Dims);
    }

    /// Lists all factorizations.
    fn all(n: u32, count: usize, limit: u32, chosen: &mut Vec<u32>, out: &mut Vec<Vec<u32>>) {
        if count == 0 {
            if n == 1 {
                out.push(chosen.clone());
            }
            return;
        }
        for d in (1..=n.min(limit)).filter(|d| n.is_multiple_of(*d)) {
            chosen.push(d);
            all(n / d, count - 1, d, chosen, out);
            chosen.pop();
        }
    }

    #[test]
    fn no_grid_is_better() {
        for n in 1..=420u32 {
            for count in 1..=5 {
                let mut grids = Vec::new();
                all(n, count, u32::MAX, &mut Vec::new(), &mut grids);
                let spread = |grid: &Vec<u32>| grid[0] - grid[count - 1];
                let want = grids.into_iter().min_by_key(|g| (spread(g), g.clone()));
                assert_eq!(Some(balanced(n, count)), want, "{n} in {count}");
            }
        }
    }

    #[test]
    fn large_numbers_are_quick() {
        let start = Instant::now();
        assert_eq!(create(1 << 30, &[0; 3]).unwrap(), [1 << 10; 3]);
        assert_eq!(create(i32::MAX, &[0; 2]).unwrap(), [i32::MAX, 1]);
        // 2^4 3^3 5^2 7 11 13 = 10,810,800 and multiples with the most divisors.
        for n in [
            10_810_800,
            698_377_680,
            1_396_755_360,
            2_095_133_040,
            2_147_483_646,
        ] {
            for count in 1..=12 {
                let dims = create(n, &vec![0; count]).unwrap();
                assert_eq!(
                    dims.iter().map(|&d| i64::from(d)).product::<i64>(),
                    n.into()
                );
                assert!(dims.is_sorted_by(|a, b| a >= b), "{dims:?}");
            }
        }
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
    }
}
