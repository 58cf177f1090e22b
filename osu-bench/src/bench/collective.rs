//! What all collective benchmarks share: timing call by call, and minimum, mean and maximum over
//! the ranks.

use std::time::{Duration, Instant};

use super::timing::Bench;
use crate::error::Result;
use crate::mpi::Combine;
use crate::output::Field;

/// One collective with its buffers for one message size.
pub trait Case {
    /// Calls the collective once.
    fn step(&mut self) -> Result<()>;
    /// Fills the buffers with data marked by `seed`.
    fn prepare(&mut self, seed: u8);
    /// Whether this rank's result of data marked by `seed` is right.
    fn right(&self, seed: u8) -> bool;
}

/// Times of one size over the ranks, in microseconds; meaningful at rank 0.
pub struct Times {
    mean: f64,
    min: f64,
    max: f64,
    iterations: u64,
}

impl Times {
    /// The columns that [`Times::fields`] fills.
    pub fn columns(full: bool) -> &'static [&'static str] {
        let all = &[
            "Avg Latency(us)",
            "Min Latency(us)",
            "Max Latency(us)",
            "Iterations",
        ];
        if full { all } else { &all[..1] }
    }

    /// The values to print.
    pub fn fields(&self, full: bool) -> Vec<Field> {
        let mut fields = vec![Field::Number(self.mean)];
        if full {
            fields.push(Field::Number(self.min));
            fields.push(Field::Number(self.max));
            fields.push(Field::Count(self.iterations));
        }
        fields
    }
}

impl Bench<'_> {
    /// Times each call of the collective by itself. `align` puts a barrier between calls, so that
    /// a rank that leaves early (a broadcast's root) cannot run ahead.
    pub(super) fn time_calls(
        &self,
        size: usize,
        align: bool,
        mut call: impl FnMut() -> Result<()>,
    ) -> Result<Times> {
        let iterations = self.warm_up(size, || {
            call()?;
            if align { self.world.barrier() } else { Ok(()) }
        })?;
        self.world.barrier()?;
        let mut inside = Duration::ZERO;
        for _ in 0..iterations {
            let start = Instant::now();
            call()?;
            inside += start.elapsed();
            if align {
                self.world.barrier()?;
            }
        }
        self.world.barrier()?;
        let mine = inside.as_secs_f64() * 1e6 / iterations as f64;
        Ok(Times {
            mean: self.world.combine(mine, Combine::Sum)? / self.world.size as f64,
            min: self.world.combine(mine, Combine::Min)?,
            max: self.world.combine(mine, Combine::Max)?,
            iterations,
        })
    }

    /// Runs a collective at all sizes; `buffers` is how many bytes of memory a byte of message
    /// needs. Tells whether all data was right.
    pub(super) fn collective<'c>(
        &self,
        title: &str,
        buffers: usize,
        make: impl Fn(usize) -> Box<dyn Case + 'c>,
    ) -> Result<bool> {
        self.header(title, Times::columns(self.options.full));
        let mut all_valid = true;
        for size in self.sizes(buffers)? {
            let mut case = make(size);
            let times = self.time_calls(size, true, || case.step())?;
            let valid = self.validate(|seed| {
                case.prepare(seed);
                case.step()?;
                Ok(case.right(seed))
            })?;
            all_valid &= valid != Some(false);
            self.row(size, &times.fields(self.options.full), valid);
        }
        Ok(all_valid)
    }
}
