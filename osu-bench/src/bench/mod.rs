//! The benchmarks that run as MPI programs.

mod breakdown;
mod collectives;
mod model;
mod name;
mod onesided;
mod pairs;
mod partitioned;
mod patterns;
mod pt2pt;
mod sort;
mod timing;
mod writes;

pub use name::{Name, Unit};

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::mpi::{Combine, Counter, Table, Window, World};
use crate::options::Options;
use crate::output;

/// Runs a benchmark as one rank of the job that this process belongs to.
pub fn run(name: Name, options: &Options) -> Result<()> {
    let table = Table::open()?;
    let start = Instant::now();
    let world = World::init(table, name.has_threads())?;
    let took = start.elapsed();
    let outcome = match name {
        Name::Init => init(&world, options, took),
        Name::Hello => hello(&world),
        Name::Locks => locks(&world),
        Name::CommDup => duplicates(&world),
        Name::RmaModel => model::run(&world, options),
        Name::RmaPatterns => patterns::run(&world, options),
        Name::RmaRandom => patterns::random(&world, options),
        Name::RmaSort => sort::run(&world, options),
        Name::Writes => writes::run(&world, options),
        Name::Breakdown => breakdown::run(&world, options),
        Name::BreakdownMt => breakdown::run_threads(&world, options),
        Name::Latency => pt2pt::latency(&world, options),
        Name::Bw => pt2pt::bandwidth(&world, options),
        Name::Bibw => pt2pt::bidirectional(&world, options),
        Name::MbwMr | Name::MbwMrMt => pairs::bandwidth_and_rate(name, &world, options),
        Name::Partitioned => partitioned::latency(&world, options),
        Name::MultiLat => pairs::latency(&world, options),
        _ if name.is_one_sided() => onesided::run(name, &world, options),
        _ => collectives::run(name, &world, options),
    };
    match outcome {
        Ok(true) => world.finalize(),
        Ok(false) => {
            world.finalize()?;
            Err(Error::new(
                "data arrived wrong; see the lines that say Fail",
            ))
        }
        Err(error) if error.is_everywhere() => {
            let first = world.rank == 0;
            world.finalize()?;
            if first {
                Err(error)
            } else {
                std::process::exit(1)
            }
        }
        Err(error) => {
            // Other ranks may wait for this one, so the job ends here.
            output::complain(&format!("osu-bench: rank {}: {error}", world.rank));
            world.abort()
        }
    }
}

/// `init`: minimum, maximum and mean time of `MPI_Init`, in milliseconds.
fn init(world: &World, options: &Options, took: Duration) -> Result<bool> {
    let p = usize::from(options.precision);
    let milliseconds = took.as_secs_f64() * 1e3;
    let min = world.combine(milliseconds, Combine::Min)?;
    let max = world.combine(milliseconds, Combine::Max)?;
    let mean = world.combine(milliseconds, Combine::Sum)? / world.size as f64;
    if world.rank == 0 {
        output::say(&world.title("Init Test"));
        output::say(&format!(
            "nprocs: {}, min: {min:.p$} ms, max: {max:.p$} ms, avg: {mean:.p$} ms",
            world.size
        ));
    }
    Ok(true)
}

/// Returns the mean of a line that [`init`] printed, in milliseconds.
pub fn parse_init(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("avg: ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `comm_dup`: the time of a duplicate by its number of VCIs, the first one, which opens them, and the
/// mean of the next ones, in microseconds.
fn duplicates(world: &World) -> Result<bool> {
    const NEXT: u32 = 10;
    if world.rank == 0 {
        output::say(&world.title("Comm_dup Test"));
        output::say("# VCIs         first (us)         next (us)");
    }
    for count in [1, 2, 4, 8, 16, 32, 63] {
        let hints = [
            (c"weft_num_vcis", format!("{count}")),
            (c"mpi_assert_no_any_tag", "true".to_owned()),
        ];
        let timed = || {
            world.barrier()?;
            let start = Instant::now();
            let copy = world.duplicate_with(&hints)?;
            let took = start.elapsed().as_secs_f64() * 1e6;
            copy.free()?;
            world.combine(took, Combine::Max)
        };
        let first = timed()?;
        let next = (0..NEXT).map(|_| timed()).sum::<Result<f64>>()? / f64::from(NEXT);
        if world.rank == 0 {
            output::say(&format!("{count:<9}{first:>16.2}{next:>18.2}"));
        }
    }
    Ok(true)
}

/// `locks`: how often rank 0 takes the lock of a VCI in a call.
fn locks(world: &World) -> Result<bool> {
    const CALLS: usize = 16;
    const LONG: usize = 1 << 16;
    if world.size != 2 {
        return Err(Error::everywhere("locks are counted with 2 ranks"));
    }
    let counter = Counter::start(world, c"locks_taken")?;
    let (mut data, mut long) = ([0_u8; 8], vec![0_u8; LONG]);
    let window = Window::allocate(world, data.len(), &[])?;
    let mut requests = Vec::new();
    // Reading takes locks, always as many; the first round opens what is opened late.
    for round in 0..2 {
        world.barrier()?;
        if world.rank == 1 {
            (0..2 * CALLS).try_for_each(|_| world.recv(&mut data, 0, 0))?;
            world.send(&data, 0, 0)?;
            (0..CALLS).try_for_each(|_| world.recv(&mut long, 0, 0))?;
            continue;
        }
        let mut last = counter.read()?;
        let reading = counter.read()? - last;
        last += reading;
        let mut taken = || -> Result<f64> {
            let now = counter.read()?;
            let locks = (now - last).saturating_sub(reading);
            last = now;
            Ok(locks as f64 / CALLS as f64)
        };
        for _ in 0..CALLS {
            // SAFETY: the data stays as it is until the wait.
            requests.push(unsafe { world.isend(data.as_ptr(), data.len(), 1, 0) }?);
        }
        let isend = taken()?;
        world.waitall(&mut requests)?;
        requests.clear();
        let wait = taken()?;
        (0..CALLS).try_for_each(|_| world.send(&data, 1, 0))?;
        let send = taken()?;
        for _ in 0..CALLS {
            // SAFETY: flushed at once.
            unsafe { window.put(&data, 1, 0) }?;
            window.flush(1)?;
        }
        let put = taken()?;
        world.recv(&mut data, 1, 0)?;
        taken()?;
        for _ in 0..CALLS {
            // SAFETY: as above.
            requests.push(unsafe { world.isend(long.as_ptr(), LONG, 1, 0) }?);
        }
        let isend_long = taken()?;
        // The receiver reads them meanwhile.
        thread::sleep(Duration::from_millis(20));
        world.waitall(&mut requests)?;
        requests.clear();
        let wait_long = taken()?;
        if round > 0 {
            output::say(&world.title("Locks Test"));
            output::say(&format!(
                "Isend: {isend}, its Wait: {wait}, Send: {send}, Put and flush: {put}, \
                 Isend of {LONG} bytes: {isend_long}, its Wait: {wait_long}"
            ));
        }
    }
    window.free()?;
    Ok(true)
}

/// `hello`: prints the number of ranks.
fn hello(world: &World) -> Result<bool> {
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
