//! The modes of a benchmark: workers as processes or threads, and the separation of their
//! communication by communicators, tags or endpoints.

use std::collections::HashMap;
use std::ffi::CStr;

use clap::ValueEnum;

use super::stencil::Grid;
use crate::error::{Error, Result};
use crate::mpi::{Window, World};
use crate::together::ended;

/// The mode of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A process for each worker.
    Processes,
    /// Threads, one communicator (or window), one VCI.
    OneOn1,
    /// Threads, a communicator (or window) for each, all on one VCI.
    EachOn1,
    /// Threads, a communicator (or window) for each, without hints.
    EachAlone,
    /// Threads, one communicator whose tags name the threads (or one window), a VCI for each.
    OneOnN,
    /// Threads, a communicator (or window) for each, with a VCI of its own.
    EachOnN,
    /// Threads, each a rank by itself.
    Endpoints,
    /// The same, made by `MPIX_Threadcomm_init`.
    Threadcomm,
    /// Threads, a stream each in one communicator (or a window on each stream's).
    Streams,
    /// Threads, two sets of communicators between processes, even and odd, in two dimensions.
    OddEven,
    /// Threads, as few communicators as keep all threads of each process apart.
    Ideal,
    /// The same on two VCIs.
    IdealOn2,
    /// Threads, one communicator in which messages may overtake each other, a VCI for each sender.
    Overtaking,
}

/// Bits of the tag for a thread.
const BITS: u32 = 8;

/// The arguments of one worker's messages to or from another.
pub struct Link<'a> {
    /// The communicator.
    pub world: &'a World,
    /// The other's rank there.
    pub rank: usize,
    /// The tag.
    pub tag: i32,
    /// The streams of this worker and of the other.
    pub streams: Option<(usize, usize)>,
}

/// The communicators of this process.
pub struct Comms {
    mode: Mode,
    threads: usize,
    /// `MPI_COMM_WORLD`, those that threads have, or this process's endpoints.
    worlds: Vec<World>,
    /// Communicators of a stream each.
    of_streams: Vec<World>,
    /// The communicator of a worker's message of a kind, for stencils.
    edges: Option<Edges>,
    /// Workers of this process.
    first: usize,
    /// All workers.
    pub workers: usize,
}

/// Pairs of a key and a value.
type Hints = Vec<(&'static CStr, String)>;

fn own_vci() -> Hints {
    vec![(c"weft_num_vcis", "1".to_owned())]
}

fn on_vci(number: usize) -> Hints {
    vec![(c"vci", number.to_string())]
}

impl Mode {
    /// Returns the name on the command line and in tables.
    pub fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Describes the mode for the user.
    pub fn label(self) -> &'static str {
        match self {
            Mode::Processes => "processes",
            Mode::OneOn1 => "one comm., 1 VCI",
            Mode::EachOn1 => "a comm. each, 1 VCI",
            Mode::EachAlone => "a comm. each, no hint",
            Mode::OneOnN => "one comm., n VCIs",
            Mode::EachOnN => "a comm. each, n VCIs",
            Mode::Endpoints => "endpoints",
            Mode::Threadcomm => "thread comm.",
            Mode::Streams => "streams",
            Mode::OddEven => "odd and even comm.",
            Mode::Ideal => "ideal comm.",
            Mode::IdealOn2 => "ideal comm., 2 VCIs",
            Mode::Overtaking => "one comm., overtaking",
        }
    }

    /// Returns whether only Weft has it.
    pub fn is_extension(self) -> bool {
        matches!(self, Mode::Endpoints | Mode::Threadcomm | Mode::Streams)
    }

    /// Returns whether each thread is a rank.
    fn has_ranks(self) -> bool {
        matches!(self, Mode::Endpoints | Mode::Threadcomm)
    }

    /// Returns whether workers are threads.
    pub fn has_threads(self) -> bool {
        self != Mode::Processes
    }

    /// Returns the numbers of ranks, and of threads in each, for `workers` workers on each side.
    pub fn layout(self, workers: usize) -> (usize, usize) {
        match self {
            Mode::Processes => (2 * workers, 1),
            _ => (2, workers),
        }
    }

    /// Creates the communicators, which for a stencil depend on its grid; all processes call it.
    pub fn comms(self, world: &World, threads: u16, grid: Option<&Grid>) -> Result<Comms> {
        let count = usize::from(threads);
        let many = |count: usize, hints: &dyn Fn(usize) -> Hints| -> Result<Vec<World>> {
            let one = |number| match hints(number).as_slice() {
                [] => world.duplicate(),
                hints => world.duplicate_with(hints),
            };
            (0..count).map(one).collect()
        };
        let (mut of_streams, mut edges) = (Vec::new(), None);
        let worlds = match self {
            Mode::Processes => vec![world.view()],
            Mode::OneOn1 => many(1, &|_| Hints::new())?,
            Mode::EachOn1 => many(count, &|_| on_vci(0))?,
            Mode::EachAlone => many(count, &|_| Hints::new())?,
            Mode::OneOnN => {
                let bits = |shift: u32| format!("{shift}:{BITS}");
                many(1, &|_| {
                    vec![
                        (c"weft_num_vcis", count.to_string()),
                        (c"weft_tag_sender_bits", bits(0)),
                        (c"weft_tag_receiver_bits", bits(BITS)),
                        (c"mpi_assert_no_any_tag", "true".to_owned()),
                    ]
                })?
            }
            Mode::EachOnN => many(count, &|thread| {
                let mut hints = own_vci();
                // Intel MPI's hint for an endpoint.
                hints.push((c"thread_id", thread.to_string()));
                hints
            })?,
            Mode::Endpoints => world.endpoints(threads)?,
            Mode::Threadcomm => world.threadcomm(threads)?,
            Mode::Streams => {
                let (all, each) = world.streams(threads)?;
                of_streams = each;
                vec![all]
            }
            Mode::OddEven | Mode::Ideal | Mode::IdealOn2 => {
                let grid = grid.ok_or_else(|| Error::new("internal error: no grid"))?;
                let found = match self {
                    Mode::OddEven => Edges::odd_and_even(grid, count),
                    _ => Edges::ideal(grid, count),
                };
                let hints = |number: usize| match self {
                    Mode::IdealOn2 => on_vci(number % 2),
                    _ => own_vci(),
                };
                let worlds = many(found.count, &hints)?;
                edges = Some(found);
                worlds
            }
            Mode::Overtaking => many(1, &|_| {
                vec![
                    (c"weft_num_vcis", count.to_string()),
                    (c"mpi_assert_allow_overtaking", "true".to_owned()),
                ]
            })?,
        };
        Ok(Comms {
            mode: self,
            threads: count,
            worlds,
            of_streams,
            edges,
            first: world.rank * count,
            workers: world.size * count,
        })
    }
}

/// The communicators of a stencil's messages between processes: each serves one thread of a process.
struct Edges {
    count: usize,
    /// By sender and kind.
    numbers: HashMap<(usize, usize), usize>,
}

impl Edges {
    /// Gives each border between two processes, which are slabs of a grid in two dimensions, a
    /// communicator for each of its threads: of one set if its lower process is even, of the other if
    /// it is odd.
    fn odd_and_even(grid: &Grid, threads: usize) -> Self {
        let row = grid.row();
        let mut numbers = HashMap::new();
        for (from, kind, to, is_up) in grid.messages(threads) {
            let lower = if is_up { from } else { to } / threads;
            numbers.insert((from, kind), lower % 2 * row + from % row);
        }
        let count = 2 * row;
        Self { count, numbers }
    }

    /// Gives each pair of threads of different processes the first communicator that no other thread
    /// of the two processes uses.
    fn ideal(grid: &Grid, threads: usize) -> Self {
        let mut users: Vec<HashMap<usize, usize>> = Vec::new();
        let mut numbers = HashMap::new();
        for (from, kind, to, _) in grid.messages(threads) {
            let ends = [from, to].map(|worker| (worker / threads, worker));
            let is_free = |users: &HashMap<usize, usize>| {
                let of = |(process, worker)| users.get(&process).is_none_or(|one| *one == worker);
                ends.into_iter().all(of)
            };
            let number = users.iter().position(is_free).unwrap_or(users.len());
            if number == users.len() {
                users.push(HashMap::new());
            }
            users[number].extend(ends);
            numbers.insert((from, kind), number);
        }
        let count = users.len();
        Self { count, numbers }
    }
}

impl Comms {
    /// Returns the number among all workers of a thread of this process.
    pub fn worker(&self, thread: usize) -> usize {
        self.first + thread
    }

    /// Returns the communicator in which a thread of this process is a rank, or all are.
    pub fn of_thread(&self, thread: usize) -> &World {
        &self.worlds[thread % self.worlds.len()]
    }

    /// Returns the link of messages of a kind from one worker to another, as thread `own` of this
    /// process sees it.
    pub fn link(&self, own: usize, from: usize, to: usize, kind: usize) -> Link<'_> {
        let other = if self.worker(own) == from { to } else { from };
        let (sender, receiver) = (from % self.threads, to % self.threads);
        let in_tag = kind << (2 * BITS) | receiver << BITS | sender;
        let (world, rank, tag) = match self.mode {
            Mode::Processes => (0, other, kind),
            Mode::Endpoints | Mode::Threadcomm => (own, other, kind),
            Mode::OneOn1 | Mode::OneOnN | Mode::Streams | Mode::Overtaking => {
                (0, other / self.threads, in_tag)
            }
            Mode::EachOn1 | Mode::EachAlone | Mode::EachOnN => {
                (sender, other / self.threads, in_tag)
            }
            Mode::OddEven | Mode::Ideal | Mode::IdealOn2 => {
                let edges = self.edges.as_ref();
                let number = edges.and_then(|edges| edges.numbers.get(&(from, kind)));
                (number.copied().unwrap_or(0), other / self.threads, in_tag)
            }
        };
        Link {
            world: &self.worlds[world],
            rank,
            tag: tag as i32,
            streams: (self.mode == Mode::Streams).then_some((own, other % self.threads)),
        }
    }

    /// Returns the rank of a process's first thread, which takes events.
    pub fn poller(&self, process: usize) -> usize {
        match self.mode.has_ranks() {
            true => process * self.threads,
            false => process,
        }
    }

    /// Returns the communicators in which events arrive at this process's first thread.
    pub fn polled(&self) -> &[World] {
        match self.mode.has_ranks() {
            true => &self.worlds[..1],
            false if self.worlds.len() > 1 => &self.worlds[1..],
            false => &self.worlds,
        }
    }

    /// Returns the thread of a worker in its process.
    pub fn thread(&self, worker: usize) -> usize {
        worker % self.threads
    }

    /// Returns whether two workers are in one process.
    pub fn is_near(&self, one: usize, other: usize) -> bool {
        one / self.threads == other / self.threads
    }

    /// Creates windows of `bytes` bytes for puts and gets: one, or one per thread on the same memory;
    /// all processes call it.
    pub fn windows(&self, bytes: usize) -> Result<Vec<Window<'_>>> {
        if self.mode.has_ranks() {
            return self.apart(bytes);
        }
        let (worlds, hints) = self.of_windows();
        let hints = hints.as_slice();
        let mut windows = vec![Window::allocate(&worlds[0], bytes, hints)?];
        for world in &worlds[1..] {
            // SAFETY: `free` frees the first window last.
            windows.push(unsafe { windows[0].again(world, hints) }?);
        }
        Ok(windows)
    }

    /// Creates windows like [`Comms::windows`], each with memory of its own.
    pub fn apart(&self, bytes: usize) -> Result<Vec<Window<'_>>> {
        let (worlds, hints) = self.of_windows();
        let make = |world| Window::allocate(world, bytes, &hints);
        self.each(worlds.iter(), make)
    }

    /// Returns the communicators and hints of windows for puts and gets.
    fn of_windows(&self) -> (&[World], Hints) {
        match self.mode {
            Mode::OneOnN => (&self.worlds, self.unordered()),
            Mode::EachOnN => (&self.worlds, own_vci()),
            Mode::Streams => (&self.of_streams, Hints::new()),
            _ => (&self.worlds, Hints::new()),
        }
    }

    /// Creates the window for accumulates, which threads share whatever else they have; all processes
    /// call it.
    pub fn sums(&self, bytes: usize) -> Result<Vec<Window<'_>>> {
        let hints = match self.mode {
            Mode::OneOnN | Mode::EachOnN | Mode::Streams => self.unordered(),
            _ => Hints::new(),
        };
        let count = if self.mode.has_ranks() {
            self.threads
        } else {
            1
        };
        let make = |world| Window::allocate(world, bytes, &hints);
        self.each(self.worlds[..count].iter(), make)
    }

    /// Returns the hints of a window for all threads.
    fn unordered(&self) -> Hints {
        vec![
            (c"weft_num_vcis", self.threads.to_string()),
            (c"accumulate_ordering", "none".to_owned()),
        ]
    }

    /// Frees windows of [`Comms::windows`].
    pub fn free(&self, windows: Vec<Window<'_>>) -> Result<()> {
        self.each(windows.into_iter().rev(), Window::free).map(drop)
    }

    /// Runs a collective call on items in turn, or at once for endpoints, which must all take part.
    fn each<T: Send, R: Send>(
        &self,
        items: impl Iterator<Item = T>,
        call: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if !self.mode.has_ranks() {
            return items.map(call).collect();
        }
        std::thread::scope(|scope| {
            let call = &call;
            let threads: Vec<_> = items.map(|item| scope.spawn(move || call(item))).collect();
            let results = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| ended())?);
            results.collect()
        })
    }

    /// Returns the rank in a window of the memory of a worker's process or endpoint, and the
    /// worker's part of that memory.
    pub fn place(&self, worker: usize) -> (usize, usize) {
        match self.mode {
            Mode::Processes | Mode::Endpoints | Mode::Threadcomm => (worker, 0),
            _ => (worker / self.threads, worker % self.threads),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Checks that a communicator serves one thread of each process, and returns their number.
    fn checked(edges: &Edges, grid: &Grid, threads: usize) -> usize {
        let mut users: HashMap<(usize, usize), usize> = HashMap::new();
        let mut used = HashSet::new();
        for (from, kind, to, _) in grid.messages(threads) {
            let number = edges.numbers[&(from, kind)];
            assert!(number < edges.count);
            used.insert(number);
            for worker in [from, to] {
                let user = *users.entry((number, worker / threads)).or_insert(worker);
                assert_eq!(user, worker, "communicator {number}, {threads} threads");
            }
        }
        used.len()
    }

    #[test]
    fn communicators_keep_threads_apart() {
        for threads in [2, 4, 8] {
            let flat = Grid::new(2 * threads, 2);
            let sets = checked(&Edges::odd_and_even(&flat, threads), &flat, threads);
            let least = checked(&Edges::ideal(&flat, threads), &flat, threads);
            assert!(
                least <= sets && least >= flat.row(),
                "{threads}: {least} of {sets}"
            );
            let cube = Grid::new(2 * threads, 3);
            assert!(checked(&Edges::ideal(&cube, threads), &cube, threads) >= threads);
        }
    }
}
