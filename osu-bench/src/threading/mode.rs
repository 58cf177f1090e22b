//! The modes of a benchmark: workers as processes or threads, and the separation of their
//! communication by communicators, tags or endpoints.

use std::ffi::CStr;

use clap::ValueEnum;

use crate::error::Result;
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
}

/// The communicators of this process.
pub struct Comms {
    mode: Mode,
    threads: usize,
    /// `MPI_COMM_WORLD`, those that threads have, or this process's endpoints.
    worlds: Vec<World>,
    /// Workers of this process.
    first: usize,
    /// All workers.
    pub workers: usize,
}

fn own_vci() -> Vec<(&'static CStr, String)> {
    vec![(c"weft_num_vcis", "1".to_owned())]
}

fn first_vci() -> Vec<(&'static CStr, String)> {
    vec![(c"vci", "0".to_owned())]
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
        }
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

    /// Creates the communicators; all processes call it.
    pub fn comms(self, world: &World, threads: u16) -> Result<Comms> {
        let count = usize::from(threads);
        let each = |hints: &[(&CStr, String)]| -> Result<Vec<World>> {
            (0..count)
                .map(|_| match hints {
                    [] => world.duplicate(),
                    hints => world.duplicate_with(hints),
                })
                .collect()
        };
        let worlds = match self {
            Mode::Processes => vec![world.view()],
            Mode::OneOn1 => vec![world.duplicate()?],
            Mode::EachOn1 => each(&first_vci())?,
            Mode::EachAlone => each(&[])?,
            Mode::OneOnN => {
                let bits = |shift: u32| format!("{shift}:{BITS}");
                vec![world.duplicate_with(&[
                    (c"weft_num_vcis", count.to_string()),
                    (c"weft_tag_sender_bits", bits(0)),
                    (c"weft_tag_receiver_bits", bits(BITS)),
                    (c"mpi_assert_no_any_tag", "true".to_owned()),
                ])?]
            }
            Mode::EachOnN => each(&own_vci())?,
            Mode::Endpoints => world.endpoints(threads)?,
        };
        Ok(Comms {
            mode: self,
            threads: count,
            worlds,
            first: world.rank * count,
            workers: world.size * count,
        })
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
            Mode::Endpoints => (own, other, kind),
            Mode::OneOn1 | Mode::OneOnN => (0, other / self.threads, in_tag),
            Mode::EachOn1 | Mode::EachAlone | Mode::EachOnN => {
                (sender, other / self.threads, in_tag)
            }
        };
        Link {
            world: &self.worlds[world],
            rank,
            tag: tag as i32,
        }
    }

    /// Creates windows of `bytes` bytes: one, or one per thread; all processes call it.
    pub fn windows(&self, bytes: usize) -> Result<Vec<Window<'_>>> {
        let hints = match self.mode {
            Mode::OneOnN => vec![
                (c"weft_num_vcis", self.threads.to_string()),
                (c"accumulate_ordering", "none".to_owned()),
            ],
            Mode::EachOnN => own_vci(),
            _ => Vec::new(),
        };
        let hints = hints.as_slice();
        self.each(self.worlds.iter(), |world| {
            Window::allocate(world, bytes, hints)
        })
    }

    /// Frees windows of [`Comms::windows`].
    pub fn free(&self, windows: Vec<Window<'_>>) -> Result<()> {
        self.each(windows.into_iter(), Window::free).map(drop)
    }

    /// Runs a collective call on items in turn, or at once for endpoints, which must all take part.
    fn each<T: Send, R: Send>(
        &self,
        items: impl Iterator<Item = T>,
        call: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if self.mode != Mode::Endpoints {
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
            Mode::Processes | Mode::Endpoints => (worker, 0),
            _ => (worker / self.threads, worker % self.threads),
        }
    }
}
