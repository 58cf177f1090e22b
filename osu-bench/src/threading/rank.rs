//! One rank of a benchmark of this folder: measures and lets rank 0 print one number.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::mode::{Comms, Link, Mode};
use super::stencil::Grid;
use crate::error::Result;
use crate::mpi::constants::SUM;
use crate::mpi::{Combine, Request, Table, Window, World};
use crate::output;
use crate::together;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Windows of MPI_Isend and a wait; messages per second.
    Isend,
    /// Windows of MPI_Put and a flush; operations per second.
    Put,
    /// Exchange of halos on a 2-D grid with 4 neighbours; exchanges of all workers per second.
    Stencil2d,
    /// Exchange of halos on a 3-D grid with 26 neighbours.
    Stencil3d,
    /// MPI_Get of a block and a flush, as in EBMS; operations per second.
    Ebms,
    /// Get two tiles, multiply, accumulate, as in block-sparse matrix multiplication; tiles per
    /// second.
    Bspmm,
}

/// Options of one rank.
#[derive(Args, Clone, Debug)]
pub struct RankOptions {
    #[arg(long, value_enum)]
    pattern: Pattern,
    #[arg(long, value_enum)]
    mode: Mode,
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    #[arg(long)]
    bytes: usize,
    #[arg(long)]
    millis: u64,
}

/// The text before the number that rank 0 prints.
pub const RESULT: &str = "result ";

/// Messages or operations per window.
const WINDOW: usize = 64;

/// Bytes between what two threads write, so that they share no cache line (nor the pair of two that
/// is fetched at once).
const APART: usize = 128;
const _: () = assert!(align_of::<Worker<'_>>() == APART);

/// A worker: the state of one thread.
#[repr(align(128))]
struct Worker<'a> {
    comms: &'a Comms,
    windows: &'a [Window<'a>],
    thread: usize,
    id: usize,
    grid: Option<&'a Grid>,
    bytes: usize,
    out: Vec<u8>,
    room: Vec<u8>,
    requests: Vec<Request>,
}

/// Runs a rank.
pub fn run(options: &RankOptions) -> Result<()> {
    let world = World::init(Table::open()?, options.mode.has_threads())?;
    let rate = measure(&world, options)?;
    if world.rank == 0 {
        output::say(&format!("{RESULT}{rate}"));
    }
    world.finalize()
}

fn measure(world: &World, options: &RankOptions) -> Result<f64> {
    let comms = options.mode.comms(world, options.threads)?;
    let (pattern, bytes) = (options.pattern, options.bytes);
    let threads = usize::from(options.threads);
    let grid = match pattern {
        Pattern::Stencil2d => Some(Grid::new(comms.workers, 2)),
        Pattern::Stencil3d => Some(Grid::new(comms.workers, 3)),
        _ => None,
    };
    let tile = bytes.next_multiple_of(64);
    let windows = match pattern {
        Pattern::Put | Pattern::Ebms => comms.windows(threads * tile)?,
        // Two tiles to read and one to add to, for each thread, behind a counter.
        Pattern::Bspmm => comms.windows(64 + 3 * threads * tile)?,
        _ => Vec::new(),
    };
    let mut workers: Vec<Worker<'_>> = (0..threads)
        .map(|thread| Worker {
            comms: &comms,
            windows: &windows,
            thread,
            id: comms.worker(thread),
            grid: grid.as_ref(),
            bytes,
            out: vec![1; bytes * 26.max(WINDOW) + APART],
            room: vec![0; bytes * 26.max(WINDOW) + APART],
            requests: Vec::new(),
        })
        .collect();
    let budget = Duration::from_millis(options.millis);
    // A few rounds show how many fit into the time.
    let mut rounds = 4;
    loop {
        world.barrier()?;
        let elapsed = run_all(&mut workers, pattern, rounds)?;
        world.barrier()?;
        let slowest = world.agree(elapsed.as_secs_f64(), Combine::Max)?.max(1e-9);
        if slowest >= budget.as_secs_f64() / 2.0 || rounds > 1 << 24 {
            let done = rounds as f64 * workers[0].per_round(pattern) / slowest;
            drop(workers);
            comms.free(windows)?;
            return Ok(done);
        }
        let more = budget.as_secs_f64() / slowest * rounds as f64;
        rounds = (more.clamp(rounds as f64 * 1.5, rounds as f64 * 50.0)) as u64;
    }
}

/// Runs `rounds` rounds on all workers at once.
fn run_all(workers: &mut [Worker<'_>], pattern: Pattern, rounds: u64) -> Result<Duration> {
    together::run(
        workers,
        |worker| worker.comms.of_thread(worker.thread),
        |worker| worker.rounds(pattern, rounds),
    )
}

impl<'a> Worker<'a> {
    /// Returns the number of operations of all workers together in a round.
    fn per_round(&self, pattern: Pattern) -> f64 {
        let workers = self.comms.workers as f64;
        match pattern {
            Pattern::Isend | Pattern::Put => workers / 2.0 * WINDOW as f64,
            _ => workers,
        }
    }

    fn rounds(&mut self, pattern: Pattern, rounds: u64) -> Result<()> {
        match pattern {
            Pattern::Isend => (0..rounds).try_for_each(|_| self.message_window()),
            Pattern::Put => self.put_windows(rounds),
            Pattern::Stencil2d | Pattern::Stencil3d => {
                (0..rounds).try_for_each(|_| self.exchange_halos())
            }
            Pattern::Ebms => (0..rounds).try_for_each(|_| self.fetch_block()),
            Pattern::Bspmm => (0..rounds).try_for_each(|_| self.multiply()),
        }
    }

    /// Returns the peer in the other half of the workers, and whether this worker sends.
    fn partner(&self) -> (usize, bool) {
        let half = self.comms.workers / 2;
        match self.id.checked_sub(half) {
            None => (self.id + half, true),
            Some(partner) => (partner, false),
        }
    }

    fn wait(&mut self) -> Result<()> {
        let world = self.comms.of_thread(self.thread);
        world.waitall(&mut self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// Returns the link to another worker, on which this one sends or receives.
    fn link(&self, other: usize, kind: usize, sends: bool) -> Link<'a> {
        match sends {
            true => self.comms.link(self.thread, self.id, other, kind),
            false => self.comms.link(self.thread, other, self.id, kind),
        }
    }

    fn send_on(&mut self, link: &Link<'_>, place: usize, bytes: usize) -> Result<()> {
        // SAFETY: the buffer stays as it is until `wait`, which every round ends with.
        let request = unsafe {
            let data = self.out[place..place + bytes].as_ptr();
            link.world.isend(data, bytes, link.rank, link.tag)?
        };
        self.requests.push(request);
        Ok(())
    }

    fn receive_on(&mut self, link: &Link<'_>, place: usize, bytes: usize) -> Result<()> {
        // SAFETY: as in `send_on`.
        let request = unsafe {
            let room = self.room[place..place + bytes].as_mut_ptr();
            link.world.irecv(room, bytes, link.rank, link.tag)?
        };
        self.requests.push(request);
        Ok(())
    }

    fn send(&mut self, to: usize, kind: usize, place: usize, bytes: usize) -> Result<()> {
        self.send_on(&self.link(to, kind, true), place, bytes)
    }

    fn receive(&mut self, from: usize, kind: usize, place: usize, bytes: usize) -> Result<()> {
        self.receive_on(&self.link(from, kind, false), place, bytes)
    }

    fn message_window(&mut self) -> Result<()> {
        let ((partner, sends), bytes) = (self.partner(), self.bytes);
        // Found once, as programs know their peers. To find it takes divisions, more for threads
        // than for processes, which must not count.
        let link = self.link(partner, 0, sends);
        for i in 0..WINDOW {
            match sends {
                true => self.send_on(&link, 0, bytes)?,
                false => self.receive_on(&link, i * bytes, bytes)?,
            }
        }
        self.wait()?;
        // Acknowledged, so that no sender runs far ahead.
        match sends {
            true => self.receive(partner, 1, 0, 0)?,
            false => self.send(partner, 1, 0, 0)?,
        }
        self.wait()
    }

    /// Returns the window of this worker and, in it, the rank and place of another's memory.
    fn memory(&self, of: usize) -> (&Window<'_>, usize, usize) {
        let (rank, part) = self.comms.place(of);
        let window = &self.windows[self.thread % self.windows.len()];
        (window, rank, part * self.bytes.next_multiple_of(64))
    }

    fn put_windows(&mut self, rounds: u64) -> Result<()> {
        let (partner, sends) = self.partner();
        if sends {
            let (window, rank, place) = self.memory(partner);
            for _ in 0..rounds {
                for _ in 0..WINDOW {
                    // SAFETY: flushed below, and never changed.
                    unsafe { window.put(&self.out[..self.bytes], rank, place)? };
                }
                window.flush(rank)?;
            }
            self.send(partner, 0, 0, 0)?;
        } else {
            // The library makes progress on others' puts in this receive.
            self.receive(partner, 0, 0, 0)?;
        }
        self.wait()
    }

    fn exchange_halos(&mut self) -> Result<()> {
        let Some(grid) = self.grid else {
            return Ok(());
        };
        let bytes = self.bytes;
        for (kind, (_, from)) in grid.neighbours(self.id).enumerate() {
            self.receive(from, kind, kind * bytes, bytes)?;
        }
        for (kind, (to, _)) in grid.neighbours(self.id).enumerate() {
            self.send(to, kind, kind * bytes, bytes)?;
        }
        self.wait()
    }

    fn fetch_block(&mut self) -> Result<()> {
        let of = (self.id + self.comms.workers / 2) % self.comms.workers;
        let mut room = std::mem::take(&mut self.room);
        let (window, rank, place) = self.memory(of);
        // SAFETY: flushed before it is used again.
        let result = unsafe { window.get(&mut room[..self.bytes], rank, place) }
            .and_then(|()| window.flush(rank));
        self.room = room;
        result
    }

    /// Computes one tile product: the next task from a common counter, two tiles read, one added
    /// to.
    fn multiply(&mut self) -> Result<()> {
        let workers = self.comms.workers;
        let window = &self.windows[self.thread % self.windows.len()];
        let task = window.fetch_and_add(1, 0, 0)? as usize;
        let (rank, part) = self.comms.place((self.id + 1 + task) % workers);
        let tile = self.bytes.next_multiple_of(64);
        let start = 64 + 3 * part * tile;
        let (mut a, mut b) = (vec![0u8; self.bytes], vec![0u8; self.bytes]);
        // SAFETY: flushed before they are used.
        unsafe {
            window.get(&mut a, rank, start)?;
            window.get(&mut b, rank, start + tile)?;
        }
        window.flush(rank)?;
        let c = product(&a, &b);
        // SAFETY: flushed before it goes.
        unsafe { window.accumulate(&c, rank, start + 2 * tile, SUM)? };
        window.flush(rank)
    }
}

/// Returns the product of two square matrices of 64-bit integers, by rows.
fn product(a: &[u8], b: &[u8]) -> Vec<i64> {
    let numbers = |bytes: &[u8]| -> Vec<i64> {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| i64::from_ne_bytes(*word)).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    let n = a.len().isqrt();
    let mut c = vec![0i64; a.len()];
    for i in 0..n {
        for k in 0..n {
            for j in 0..n {
                let more = a[i * n + k].wrapping_mul(b[k * n + j]);
                c[i * n + j] = c[i * n + j].wrapping_add(more);
            }
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn tiles_are_multiplied() {
        let bytes = |numbers: [i64; 4]| numbers.map(i64::to_ne_bytes).concat();
        let (a, b) = (bytes([1, 2, 3, 4]), bytes([5, 6, 7, 8]));
        assert_eq!(product(&a, &b), [19, 22, 43, 50]);
    }
}
