//! Start-up: the time of `MPI_Init`, and a program that does nothing else.

use std::time::Duration;

use crate::error::Result;
use crate::mpi::{Combine, World};
use crate::options::Options;
use crate::output;

/// `init`: minimum, maximum and mean time of `MPI_Init`, in milliseconds.
pub fn init(world: &World, options: &Options, took: Duration) -> Result<bool> {
    let p = usize::from(options.precision);
    let milliseconds = took.as_secs_f64() * 1e3;
    let min = world.combine(milliseconds, Combine::Min)?;
    let max = world.combine(milliseconds, Combine::Max)?;
    let mean = world.combine(milliseconds, Combine::Sum)? / world.size as f64;
    if world.rank == 0 {
        output::say(&world.title("Init Test"));
        println!(
            "nprocs: {}, min: {min:.p$} ms, max: {max:.p$} ms, avg: {mean:.p$} ms",
            world.size
        );
    }
    Ok(true)
}

/// The mean of a line that [`init`] printed, in milliseconds.
pub fn parse_init(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("avg: ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `hello`: says how many ranks there are.
pub fn hello(world: &World) -> Result<bool> {
    world.barrier()?;
    if world.rank == 0 {
        output::say(&world.title("Hello World Test"));
        output::say(&format!("This is a test with {} processes", world.size));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::parse_init;

    #[test]
    fn the_mean_is_found() {
        let line = "# x\nnprocs: 2, min: 1.00 ms, max: 3.00 ms, avg: 2.25 ms\n";
        assert_eq!(parse_init(line), Some(2.25));
        assert_eq!(parse_init("nothing"), None);
    }
}
