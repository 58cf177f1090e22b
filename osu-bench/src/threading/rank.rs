//! One rank of a benchmark of this folder: measures and lets rank 0 print one number.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::mode::{Comms, Link, Mode};
use super::stencil::Grid;
use crate::error::{Error, Result};
use crate::mpi::constants::SUM;
use crate::mpi::{Combine, Request, Table, Window, World};
use crate::output;
use crate::together::{self, Meeting};

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
    /// Put to the neighbours of a 2-D grid, signal them, get a block, as in WOMBAT; steps of all
    /// workers per second.
    Wombat,
    /// Messages of all threads but one to the one that polls, as in Legion; messages per second.
    Legion,
    /// MPI_Allreduce of vectors of all workers; calls per second.
    Allreduce,
    /// MPI_Put while the target computes, which then frees its windows; operations per second.
    BusyTarget,
}

impl Pattern {
    /// Returns the names of further results: mean times of an operation, or counts of a side in a
    /// round.
    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Pattern::Stencil2d | Pattern::Stencil3d => &["MPI bytes of a side in a round"],
            Pattern::Ebms => &["get, us", "flush, us"],
            Pattern::Bspmm => &["counter, us", "get, us", "multiply, us", "accumulate, us"],
            Pattern::Wombat => &[
                "put, us",
                "signal, us",
                "get, us",
                "MPI puts of a side in a round",
            ],
            Pattern::Legion => &["receive, us"],
            Pattern::BusyTarget => &["MPI_Win_free, us"],
            Pattern::Isend | Pattern::Put | Pattern::Allreduce => &[],
        }
    }
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

/// The text before the rate that rank 0 prints.
pub const RESULT: &str = "result ";
/// The text before each further result.
pub const PART: &str = "part ";

/// Messages or operations per window.
const WINDOW: usize = 64;

/// Gets between two barriers of EBMS.
const BAND: u64 = 16;

/// Bytes before the tiles of a window, for a counter.
const HEAD: usize = 64;

/// Bytes between what two threads write, so that they share no cache line (nor the pair of two that
/// is fetched at once).
const APART: usize = 128;
const _: () = assert!(align_of::<Worker<'_>>() == APART);

/// The part of a process that its threads share.
struct Shared<'a> {
    world: &'a World,
    grid: Option<Grid>,
    meeting: Meeting,
    /// The halo of each thread, which the others of the process read.
    halos: Vec<Vec<u8>>,
    /// The part of each thread in a reduction by hand.
    slices: Vec<Mutex<Vec<i64>>>,
}

/// A worker: the state of one thread.
#[repr(align(128))]
struct Worker<'a> {
    comms: &'a Comms,
    shared: &'a Shared<'a>,
    windows: &'a [Window<'a>],
    sums: &'a [Window<'a>],
    thread: usize,
    id: usize,
    bytes: usize,
    out: Vec<u8>,
    room: Vec<u8>,
    requests: Vec<Request>,
    /// Seconds or counts, by [`Pattern::parts`].
    parts: [f64; 4],
    /// Signals that this worker waited for.
    signals: i64,
}

/// Runs a rank.
pub fn run(options: &RankOptions) -> Result<()> {
    let world = World::init(Table::open()?, options.mode.has_threads())?;
    let (rate, parts) = match options.pattern {
        Pattern::BusyTarget => puts_to_busy(&world, options)?,
        _ => measure(&world, options)?,
    };
    if world.rank == 0 {
        output::say(&format!("{RESULT}{rate}"));
        for part in parts {
            output::say(&format!("{PART}{part}"));
        }
    }
    world.finalize()
}

/// Returns the rate and the parts.
fn measure(world: &World, options: &RankOptions) -> Result<(f64, Vec<f64>)> {
    let (pattern, bytes) = (options.pattern, options.bytes);
    let threads = usize::from(options.threads);
    let grid = match pattern {
        Pattern::Stencil2d | Pattern::Wombat => Some(2),
        Pattern::Stencil3d => Some(3),
        _ => None,
    };
    let grid = grid.map(|dimensions| Grid::new(world.size * threads, dimensions));
    let comms = options.mode.comms(world, options.threads, grid.as_ref())?;
    let shared = Shared {
        world,
        grid,
        meeting: Meeting::of(threads),
        halos: vec![vec![1; bytes]; threads],
        slices: (0..threads).map(|_| Mutex::default()).collect(),
    };
    let tile = bytes.next_multiple_of(64);
    let mut windows = match pattern {
        Pattern::Put | Pattern::Ebms => comms.windows(threads * tile)?,
        Pattern::Bspmm => comms.windows(2 * threads * tile)?,
        Pattern::Wombat => comms.windows(4 * threads * tile)?,
        _ => Vec::new(),
    };
    let mut sums = match pattern {
        Pattern::Bspmm => comms.sums(HEAD + threads * tile)?,
        Pattern::Wombat => comms.sums(HEAD * threads)?,
        _ => Vec::new(),
    };
    for window in &mut windows {
        // The tiles to multiply are ones, so that the sum of the products is known.
        window.with_memory(|memory| memory.as_chunks_mut().0.fill(1_i64.to_ne_bytes()))?;
    }
    for window in &mut sums {
        window.with_memory(|memory| memory.fill(0))?;
    }
    let mut workers: Vec<Worker<'_>> = (0..threads)
        .map(|thread| Worker {
            comms: &comms,
            shared: &shared,
            windows: &windows,
            sums: &sums,
            thread,
            id: comms.worker(thread),
            bytes,
            out: vec![1; bytes * 26.max(WINDOW) + APART],
            room: vec![0; bytes * 26.max(WINDOW) + APART],
            requests: Vec::new(),
            parts: [0.0; 4],
            signals: 0,
        })
        .collect();
    let budget = Duration::from_millis(options.millis);
    // A few rounds show how many fit into the time.
    let (mut rounds, mut all_rounds) = (4, 0);
    let (rate, parts) = loop {
        workers
            .iter_mut()
            .for_each(|worker| worker.parts = [0.0; 4]);
        world.barrier()?;
        let elapsed = run_all(&mut workers, pattern, rounds)?;
        world.barrier()?;
        all_rounds += rounds;
        let slowest = world.agree(elapsed.as_secs_f64(), Combine::Max)?.max(1e-9);
        if slowest >= budget.as_secs_f64() / 2.0 || rounds > 1 << 24 {
            let done = rounds as f64 * workers[0].per_round(pattern);
            let part = |(place, name): (usize, &&str)| {
                let own = workers.iter().map(|worker| worker.parts[place]).sum();
                let all = world.agree(own, Combine::Sum)?;
                Ok(match name.ends_with(", us") {
                    true => all * 1e6 / done,
                    false => all / rounds as f64 / 2.0,
                })
            };
            let parts: Result<Vec<f64>> = pattern.parts().iter().enumerate().map(part).collect();
            break (done / slowest, parts?);
        }
        let more = budget.as_secs_f64() / slowest * rounds as f64;
        rounds = (more.clamp(rounds as f64 * 1.5, rounds as f64 * 50.0)) as u64;
    };
    drop(workers);
    if pattern == Pattern::Bspmm {
        let tasks = all_rounds * comms.workers as u64;
        check_products(world, &mut sums, bytes, tasks)?;
    }
    comms.free(sums)?;
    comms.free(windows)?;
    Ok((rate, parts))
}

/// Checks the common counter and the sum of all products of tiles of ones.
fn check_products(world: &World, sums: &mut [Window<'_>], bytes: usize, tasks: u64) -> Result<()> {
    let (mut own, mut counter) = (0_i64, 0_i64);
    for (number, window) in sums.iter_mut().enumerate() {
        window.with_memory(|memory| {
            let (values, _) = memory.as_chunks::<8>();
            let mut values = values.iter().map(|value| i64::from_ne_bytes(*value));
            let first = values.next().unwrap_or(0);
            if world.rank == 0 && number == 0 {
                counter = first;
            }
            own += values.sum::<i64>();
        })?;
    }
    let found = [own, counter].map(|value| world.agree(value as f64, Combine::Sum));
    let side = (bytes / 8).isqrt() as f64;
    for (found, right) in found
        .into_iter()
        .zip([tasks as f64 * side.powi(3), tasks as f64])
    {
        let found = found?;
        if found != right {
            return Err(Error::new(format!(
                "{tasks} products of tiles sum up to {found}, not {right}"
            )));
        }
    }
    Ok(())
}

/// A thread's window in [`puts_to_busy`].
struct Target<'a> {
    window: Option<Window<'a>>,
    world: &'a World,
    /// The target of puts; none at a target.
    to: Option<usize>,
    /// Seconds of the puts and of `MPI_Win_free`.
    took: [f64; 2],
}

/// Measures puts to targets that compute for as many microseconds as the size says; then all threads
/// free their windows at once.
fn puts_to_busy(world: &World, options: &RankOptions) -> Result<(f64, Vec<f64>)> {
    const WINDOWS: usize = 4;
    let comms = options.mode.comms(world, options.threads, None)?;
    let half = comms.workers / 2;
    let computing = Duration::from_micros(options.bytes as u64);
    let (mut total, mut times, start) = ([0.0; 2], 0.0, Instant::now());
    loop {
        let windows = comms.apart(8)?;
        let targets = windows.into_iter().enumerate().map(|(thread, window)| {
            let id = comms.worker(thread);
            Target {
                window: Some(window),
                world: comms.of_thread(thread),
                to: (id < half).then(|| comms.place(id + half).0),
                took: [0.0; 2],
            }
        });
        let mut targets: Vec<Target<'_>> = targets.collect();
        world.barrier()?;
        together::run(
            &mut targets,
            |target| target.world,
            |target| {
                let Some(window) = target.window.take() else {
                    return Ok(());
                };
                let began = Instant::now();
                if let Some(to) = target.to {
                    for _ in 0..WINDOWS {
                        for _ in 0..WINDOW {
                            // SAFETY: flushed below, and never changed.
                            unsafe { window.put(&[1; 8], to, 0)? };
                        }
                        window.flush(to)?;
                    }
                    target.took[0] = began.elapsed().as_secs_f64();
                } else {
                    while began.elapsed() < computing {
                        std::hint::spin_loop();
                    }
                }
                let began = Instant::now();
                window.free()?;
                target.took[1] = began.elapsed().as_secs_f64();
                Ok(())
            },
        )?;
        for (place, total) in total.iter_mut().enumerate() {
            let own = targets.iter().map(|target| target.took[place]);
            *total += world.agree(own.fold(0.0, f64::max), Combine::Max)?;
        }
        times += 1.0;
        let elapsed = world.agree(start.elapsed().as_secs_f64(), Combine::Max)?;
        if elapsed * 1e3 >= options.millis as f64 {
            let rate = times * (half * WINDOWS * WINDOW) as f64 / total[0].max(1e-9);
            return Ok((rate, vec![total[1] * 1e6 / times]));
        }
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
            // Each process has a thread that polls.
            Pattern::Legion => (workers - self.shared.world.size as f64) * WINDOW as f64,
            Pattern::Allreduce => 1.0,
            _ => workers,
        }
    }

    fn rounds(&mut self, pattern: Pattern, rounds: u64) -> Result<()> {
        match pattern {
            Pattern::Isend => (0..rounds).try_for_each(|_| self.message_window()),
            Pattern::Put => self.put_windows(rounds),
            Pattern::Stencil2d | Pattern::Stencil3d => self.exchange_halos(rounds),
            Pattern::Ebms => (0..rounds).try_for_each(|round| self.fetch_block(round)),
            Pattern::Bspmm => (0..rounds).try_for_each(|_| self.multiply()),
            Pattern::Wombat => (0..rounds).try_for_each(|_| self.put_and_signal()),
            Pattern::Legion if self.thread == 0 => self.poll_events(rounds),
            Pattern::Legion => (0..rounds).try_for_each(|_| self.send_events()),
            Pattern::Allreduce => self.reduce(rounds),
            Pattern::BusyTarget => Ok(()),
        }
    }

    /// Adds the time since `start` to a part, and returns the time now.
    fn lap(&mut self, part: usize, start: Instant) -> Instant {
        let now = Instant::now();
        self.parts[part] += (now - start).as_secs_f64();
        now
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
            match link.streams {
                None => link.world.isend(data, bytes, link.rank, link.tag)?,
                Some(ends) => {
                    let to = (link.rank, link.tag);
                    link.world.stream_isend(data, bytes, to, ends)?
                }
            }
        };
        self.requests.push(request);
        Ok(())
    }

    fn receive_on(&mut self, link: &Link<'_>, place: usize, bytes: usize) -> Result<()> {
        // SAFETY: as in `send_on`.
        let request = unsafe {
            let room = self.room[place..place + bytes].as_mut_ptr();
            match link.streams {
                None => link.world.irecv(room, bytes, link.rank, link.tag)?,
                Some(ends) => {
                    let from = (link.rank, link.tag);
                    link.world.stream_irecv(room, bytes, from, ends)?
                }
            }
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

    /// Exchanges halos with neighbours in other processes, and reads those of the own process.
    fn exchange_halos(&mut self, rounds: u64) -> Result<()> {
        let (shared, comms, bytes) = (self.shared, self.comms, self.bytes);
        let Some(grid) = &shared.grid else {
            return Ok(());
        };
        // Found once, as programs know their neighbours.
        let ends: Vec<(usize, usize, usize)> = grid
            .neighbours(self.id)
            .enumerate()
            .map(|(kind, (to, from))| (kind, to, from))
            .collect();
        let is_threaded = shared.halos.len() > 1;
        let is_near = |other: usize| is_threaded && comms.is_near(self.id, other);
        let (near, far): (Vec<_>, Vec<_>) = ends.iter().partition(|(_, _, from)| is_near(*from));
        let links = far
            .iter()
            .map(|&&(kind, _, from)| (kind, self.link(from, kind, false)));
        let receives: Vec<(usize, Link<'a>)> = links.collect();
        let far_ahead = ends.iter().filter(|(_, to, _)| !is_near(*to));
        let links = far_ahead.map(|&(kind, to, _)| (kind, self.link(to, kind, true)));
        let sends: Vec<(usize, Link<'a>)> = links.collect();
        for _ in 0..rounds {
            for (kind, link) in &receives {
                self.receive_on(link, kind * bytes, bytes)?;
            }
            for (kind, link) in &sends {
                self.send_on(link, kind * bytes, bytes)?;
            }
            if is_threaded {
                shared.meeting.wait();
            }
            for (kind, _, from) in &near {
                let place = kind * bytes;
                let halo = &shared.halos[comms.thread(*from)];
                self.room[place..place + bytes].copy_from_slice(halo);
            }
            self.wait()?;
        }
        self.parts[0] += (rounds as usize * sends.len() * bytes) as f64;
        Ok(())
    }

    fn fetch_block(&mut self, round: u64) -> Result<()> {
        let of = (self.id + self.comms.workers / 2) % self.comms.workers;
        let mut room = std::mem::take(&mut self.room);
        let (window, rank, place) = self.memory(of);
        let start = Instant::now();
        // SAFETY: flushed before it is used again.
        let got = unsafe { window.get(&mut room[..self.bytes], rank, place) };
        let begun = Instant::now();
        let result = got.and_then(|()| window.flush(rank));
        self.lap(1, begun);
        self.parts[0] += (begun - start).as_secs_f64();
        self.room = room;
        if round % BAND == BAND - 1 {
            // All workers have the band before the next one.
            self.shared.meeting.wait();
            if self.thread == 0 {
                self.shared.world.barrier()?;
            }
            self.shared.meeting.wait();
        }
        result
    }

    /// Returns this worker's window for accumulates.
    fn sums(&self) -> &'a Window<'a> {
        &self.sums[self.thread % self.sums.len()]
    }

    /// Computes one tile product: the next task from the common counter, two tiles read, one added
    /// to.
    fn multiply(&mut self) -> Result<()> {
        let (workers, sums) = (self.comms.workers, self.sums());
        let start = Instant::now();
        let task = sums.fetch_and_add(1, 0, 0)? as usize;
        let start = self.lap(0, start);
        let tile = self.bytes.next_multiple_of(64);
        let (rank, part) = self.comms.place((self.id + 1 + task) % workers);
        let (mut a, mut b) = (vec![0u8; self.bytes], vec![0u8; self.bytes]);
        let window = &self.windows[self.thread % self.windows.len()];
        // SAFETY: flushed before they are used.
        unsafe {
            window.get(&mut a, rank, 2 * part * tile)?;
            window.get(&mut b, rank, (2 * part + 1) * tile)?;
        }
        window.flush(rank)?;
        let start = self.lap(1, start);
        let c = product(&a, &b);
        let start = self.lap(2, start);
        let (rank, part) = self.comms.place(task % workers);
        // SAFETY: flushed before it goes.
        unsafe { sums.accumulate(&c, rank, HEAD + part * tile, SUM)? };
        sums.flush(rank)?;
        self.lap(3, start);
        Ok(())
    }

    /// Puts halos to the neighbours in other processes, signals each of them, waits for as many
    /// signals, and gets a block of the other half's.
    fn put_and_signal(&mut self) -> Result<()> {
        let (shared, comms, bytes, sums) = (self.shared, self.comms, self.bytes, self.sums());
        let Some(grid) = &shared.grid else {
            return Ok(());
        };
        let tile = bytes.next_multiple_of(64);
        let window = &self.windows[self.thread % self.windows.len()];
        let is_far = |other: usize| other != self.id && !comms.is_near(self.id, other);
        let ahead = grid.neighbours(self.id).enumerate();
        let far: Vec<(usize, usize)> = ahead
            .map(|(kind, (to, _))| (kind, to))
            .filter(|(_, to)| is_far(*to))
            .collect();
        let behind = grid.neighbours(self.id).filter(|(_, from)| is_far(*from));
        self.signals += behind.count() as i64;
        let start = Instant::now();
        for (kind, to) in &far {
            let (rank, part) = comms.place(*to);
            // SAFETY: flushed below, and never changed.
            unsafe { window.put(&self.out[..bytes], rank, (4 * part + kind) * tile)? };
        }
        for (_, to) in &far {
            window.flush(comms.place(*to).0)?;
        }
        let start = self.lap(0, start);
        for (_, to) in &far {
            let (rank, part) = comms.place(*to);
            sums.fetch_and_add(1, rank, HEAD * part)?;
        }
        let (own, part) = comms.place(self.id);
        while sums.fetch_and_add(0, own, HEAD * part)? < self.signals {
            std::thread::yield_now();
        }
        let start = self.lap(1, start);
        let mut room = std::mem::take(&mut self.room);
        let (rank, part) = comms.place((self.id + comms.workers / 2) % comms.workers);
        // SAFETY: flushed before it is used again.
        let got = unsafe { window.get(&mut room[..bytes], rank, 4 * part * tile) };
        let result = got.and_then(|()| window.flush(rank));
        self.lap(2, start);
        self.room = room;
        self.parts[3] += far.len() as f64;
        result
    }

    /// Sends a window of events to the other process's polling thread.
    fn send_events(&mut self) -> Result<()> {
        let world = self.comms.of_thread(self.thread);
        let rank = self.comms.poller(1 - self.shared.world.rank.min(1));
        let link = Link {
            world,
            rank,
            tag: 0,
            streams: None,
        };
        for _ in 0..WINDOW {
            self.send_on(&link, 0, self.bytes)?;
        }
        self.wait()
    }

    /// Takes the events of all other threads of the other process.
    fn poll_events(&mut self, rounds: u64) -> Result<()> {
        let threads = self.comms.workers / self.shared.world.size - 1;
        let mut left = rounds * (threads * WINDOW) as u64;
        let bytes = self.bytes;
        while left > 0 {
            let before = left;
            for world in self.comms.polled() {
                let start = Instant::now();
                if world.receive_any(&mut self.room[..bytes], 0)? {
                    self.lap(0, start);
                    left -= 1;
                }
            }
            if left == before {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Reduces the vectors of all workers: by one call where each is a rank, otherwise by hand within
    /// the process and by a communicator of each thread's for its part of the vector.
    fn reduce(&mut self, rounds: u64) -> Result<()> {
        let (shared, world) = (self.shared, self.comms.of_thread(self.thread));
        let (all, threads) = (self.comms.workers as i64, shared.slices.len());
        let count = self.bytes / 8;
        let (own, mut sums) = (vec![1_i64; count], vec![0_i64; count]);
        let is_by_hand = threads > 1 && world.size < self.comms.workers;
        let slice = count.div_ceil(threads);
        let part = |thread: usize| (thread * slice).min(count)..((thread + 1) * slice).min(count);
        let locked = |thread: usize| {
            let slice = shared.slices[thread].lock();
            slice.map_err(|_| together::ended())
        };
        for _ in 0..rounds {
            if !is_by_hand {
                world.sum(&own, &mut sums)?;
                continue;
            }
            locked(self.thread)?.clone_from(&own);
            shared.meeting.wait();
            let mut reduced = vec![0_i64; part(self.thread).len()];
            for thread in 0..threads {
                let values = &locked(thread)?[part(self.thread)];
                let both = reduced.iter_mut().zip(values);
                both.for_each(|(sum, value)| *sum += value);
            }
            let range = part(self.thread);
            world.sum(&reduced, &mut sums[range.clone()])?;
            // All threads have read this one's vector before it gets its part of the sums.
            shared.meeting.wait();
            locked(self.thread)?[range.clone()].copy_from_slice(&sums[range]);
            shared.meeting.wait();
            for thread in 0..threads {
                sums[part(thread)].copy_from_slice(&locked(thread)?[part(thread)]);
            }
            shared.meeting.wait();
        }
        match sums.iter().all(|sum| *sum == all) {
            true => Ok(()),
            false => Err(Error::new(format!("a sum of {all} ones is not {all}"))),
        }
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
