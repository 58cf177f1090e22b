//! The timing that benchmarks share, and the data that they check.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::mpi::{Combine, World};
use crate::options::{Defaults, Options, Plan};
use crate::output::{self, Field};

/// Rounds of exchange that `-c` checks.
const VALIDATION_ROUNDS: u8 = 4;

/// The most iterations that a time budget may lead to.
const MOST_ITERATIONS: f64 = 1e7;

/// One benchmark's run: where it runs, and how often.
pub(super) struct Bench<'a> {
    pub world: &'a World,
    pub options: &'a Options,
    pub defaults: Defaults,
}

impl Bench<'_> {
    /// Prints a line, once for all ranks.
    pub fn say(&self, line: &str) {
        if self.world.rank == 0 {
            output::say(line);
        }
    }

    /// The sizes to run of which `buffers` bytes-per-byte-of-message fit the memory limit.
    pub fn sizes(&self, buffers: usize) -> Result<Vec<usize>> {
        let all = self.options.sizes(&self.defaults);
        let fits = |size: &usize| {
            size.checked_mul(buffers)
                .is_some_and(|n| n <= self.options.memory)
        };
        let sizes: Vec<usize> = all.iter().copied().filter(fits).collect();
        match all.last() {
            _ if sizes.len() == all.len() => {}
            Some(_) if sizes.is_empty() => {
                return Err(Error::everywhere(format!(
                    "no size fits {} bytes of memory; choose smaller sizes with -m or more \
                     memory with -M",
                    self.options.memory
                )));
            }
            _ => self.say(&format!(
                "# {} sizes left out: over -M",
                all.len() - sizes.len()
            )),
        }
        Ok(sizes)
    }

    /// Prints the first lines: title and columns.
    pub fn header(&self, title: &str, columns: &[&str]) {
        self.say(&self.world.title(title));
        self.columns(columns);
    }

    /// Prints the line that names the columns, with one for validation if asked for.
    pub fn columns(&self, columns: &[&str]) {
        let mut columns = columns.to_vec();
        if self.options.validation {
            columns.push("Validation");
        }
        self.say(&output::columns(&columns));
    }

    /// Prints the line of one size, with `valid` when data was checked.
    pub fn row(&self, size: usize, fields: &[Field], valid: Option<bool>) {
        let mut fields = fields.to_vec();
        fields.extend(valid.map(Field::Valid));
        self.say(&output::row(size, &fields, self.options.precision));
    }

    /// Prints the column `what` of all sizes. `measure` returns the value, the number of iterations
    /// and, if it was checked, whether the data was right; `buffers` is the memory that a byte of
    /// message needs. Returns whether all data was right.
    pub fn each_size(
        &self,
        title: &str,
        what: &str,
        buffers: usize,
        mut measure: impl FnMut(usize) -> Result<(f64, u64, Option<bool>)>,
    ) -> Result<bool> {
        let shown = if self.options.full { 2 } else { 1 };
        self.header(title, &[what, "Iterations"][..shown]);
        let mut all_valid = true;
        for size in self.sizes(buffers)? {
            let (value, iterations, valid) = measure(size)?;
            all_valid &= valid != Some(false);
            let fields = [Field::Number(value), Field::Count(iterations)];
            self.row(size, &fields[..shown], valid);
        }
        Ok(all_valid)
    }

    /// Warms up and returns the number of iterations to time, the same at every rank.
    pub fn warm_up(&self, size: usize, mut step: impl FnMut() -> Result<()>) -> Result<u64> {
        self.warm_up_batches(size, |iterations| (0..iterations).try_for_each(|_| step()))
    }

    /// Warms up with a function that runs a number of iterations, and returns the number to time.
    pub fn warm_up_batches(
        &self,
        size: usize,
        mut batch: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let budget = match self.options.plan(size, &self.defaults) {
            Plan::Fixed { warmup, iterations } => {
                self.world.barrier()?;
                batch(warmup)?;
                return Ok(iterations);
            }
            Plan::Budget(budget) => budget.as_secs_f64(),
        };
        let mut iterations = 1_u64;
        loop {
            self.world.barrier()?;
            let start = Instant::now();
            batch(iterations)?;
            let took = self
                .world
                .agree(start.elapsed().as_secs_f64(), Combine::Max)?;
            if took >= budget / 4.0 || iterations as f64 >= MOST_ITERATIONS {
                let wanted = iterations as f64 * budget / took.max(1e-9);
                return Ok(wanted.clamp(1.0, MOST_ITERATIONS) as u64);
            }
            iterations *= 2;
        }
    }

    /// Times all iterations of `step` together, after warm-up.
    pub fn time(
        &self,
        size: usize,
        mut step: impl FnMut() -> Result<()>,
    ) -> Result<(Duration, u64)> {
        let iterations = self.warm_up(size, &mut step)?;
        self.world.barrier()?;
        let start = Instant::now();
        for _ in 0..iterations {
            step()?;
        }
        let elapsed = start.elapsed();
        self.world.barrier()?;
        Ok((elapsed, iterations))
    }

    /// With `-c`, runs `round` with a few seeds and returns whether every rank got the right data.
    pub fn validate(&self, mut round: impl FnMut(u8) -> Result<bool>) -> Result<Option<bool>> {
        if !self.options.validation {
            return Ok(None);
        }
        let mut right = true;
        for seed in 1..=VALIDATION_ROUNDS {
            right &= round(seed)?;
        }
        let wrong = self
            .world
            .agree(f64::from(u8::from(!right)), Combine::Max)?;
        Ok(Some(wrong == 0.0))
    }
}

/// The byte at `index` of a message marked by `seed`: no short period, so that shifted and
/// repeated pieces show.
pub(super) fn pattern(seed: u8, index: usize) -> u8 {
    let mixed = (index as u32 ^ (u32::from(seed) << 24)).wrapping_mul(0x9E37_79B1);
    (mixed >> 24) as u8
}

/// Fills a message with the pattern of `seed`.
pub(super) fn fill(data: &mut [u8], seed: u8) {
    for (index, byte) in data.iter_mut().enumerate() {
        *byte = pattern(seed, index);
    }
}

/// Returns whether a message has the pattern of `seed`.
pub(super) fn matches(data: &[u8], seed: u8) -> bool {
    data.iter()
        .enumerate()
        .all(|(index, &byte)| byte == pattern(seed, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_tell_seeds_and_shifts_apart() {
        let mut data = [0; 64];
        fill(&mut data, 3);
        assert!(matches(&data, 3));
        assert!(!matches(&data, 4));
        assert!(!matches(&data[1..], 3));
        data[63] ^= 1;
        assert!(!matches(&data, 3));
    }
}
