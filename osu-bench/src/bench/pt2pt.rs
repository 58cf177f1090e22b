//! Two ranks: latency, bandwidth in one direction and in both.

use std::time::Duration;

use super::timing::{Bench, fill, matches};
use crate::error::{Error, Result};
use crate::mpi::{Request, World};
use crate::options::{Defaults, Options};
use crate::pages::Pages;

/// The tag of messages.
pub(super) const DATA: i32 = 100;
/// The tag of acknowledgements.
pub(super) const ACK: i32 = 101;

pub(super) const LATENCY: Defaults = Defaults {
    min: 0,
    max: 1 << 22,
    iterations: [10_000, 1_000],
    warmup: [100, 10],
};
pub(super) const BANDWIDTH: Defaults = Defaults {
    min: 1,
    max: 1 << 22,
    iterations: [100, 20],
    warmup: [10, 2],
};

pub(super) fn two_ranks<'a>(
    world: &'a World,
    options: &'a Options,
    defaults: Defaults,
) -> Result<Bench<'a>> {
    if world.size != 2 {
        return Err(Error::everywhere(format!(
            "this benchmark needs exactly 2 ranks and the job has {}; start it with \
             mpiexec -n 2",
            world.size
        )));
    }
    Ok(Bench {
        world,
        options,
        defaults,
    })
}

/// One message there and one back; `first` sends first.
pub(super) fn ping_pong(
    world: &World,
    first: bool,
    peer: usize,
    send: &[u8],
    receive: &mut [u8],
) -> Result<()> {
    if first {
        world.send(send, peer, DATA)?;
        world.recv(receive, peer, DATA)
    } else {
        world.recv(receive, peer, DATA)?;
        world.send(send, peer, DATA)
    }
}

/// Ping-pong with checked data.
pub(super) fn check_ping_pong(
    world: &World,
    first: bool,
    peer: usize,
    send: &mut [u8],
    receive: &mut [u8],
    seed: u8,
) -> Result<bool> {
    fill(send, seed);
    receive.fill(0);
    ping_pong(world, first, peer, send, receive)?;
    Ok(matches(receive, seed))
}

/// `latency`: half the time of a ping-pong.
pub fn latency(world: &World, options: &Options) -> Result<bool> {
    let bench = two_ranks(world, options, LATENCY)?;
    let (first, peer) = (world.rank == 0, 1 - world.rank);
    bench.each_size("Latency Test", "Latency (us)", 2, |size| {
        let (mut send, mut receive) = (Pages::of(1_u8, size), Pages::of(0_u8, size));
        let (elapsed, iterations) =
            bench.time(size, || ping_pong(world, first, peer, &send, &mut receive))?;
        let valid = bench
            .validate(|seed| check_ping_pong(world, first, peer, &mut send, &mut receive, seed))?;
        let latency = elapsed.as_secs_f64() * 1e6 / (2 * iterations) as f64;
        Ok((latency, iterations, valid))
    })
}

/// A window of messages between two ranks (or threads of theirs), and the acknowledgement that ends
/// it. All messages of a direction share one buffer, as in OSU's test.
pub(super) struct Window {
    send: Pages<u8>,
    receive: Pages<u8>,
    requests: Vec<Request>,
    window: usize,
    /// Whether each window ends with an acknowledgement, instead of the last one alone.
    acknowledges: bool,
    /// The tags of messages and acknowledgements.
    tags: [i32; 2],
}

impl Window {
    pub(super) fn new(size: usize, window: u32, thread: u16, acknowledges: bool) -> Self {
        let window = window as usize;
        Self {
            send: Pages::of(1, size),
            receive: Pages::of(0, size),
            requests: Vec::with_capacity(2 * window),
            window,
            acknowledges,
            tags: [DATA, ACK].map(|tag| tag + 2 * i32::from(thread)),
        }
    }

    fn post_sends(&mut self, world: &World, peer: usize) -> Result<()> {
        for _ in 0..self.window {
            let (data, length) = (self.send.as_ptr(), self.send.len());
            // SAFETY: `send` is unchanged until `finish` has waited for the requests; an error
            // in between ends the job.
            self.requests
                .push(unsafe { world.isend(data, length, peer, self.tags[0]) }?);
        }
        Ok(())
    }

    fn post_receives(&mut self, world: &World, peer: usize) -> Result<()> {
        for _ in 0..self.window {
            let (data, length) = (self.receive.as_mut_ptr(), self.receive.len());
            // SAFETY: `receive` is not looked at until `finish` has waited for the requests.
            // Messages of one direction are equal, so their order in the buffer doesn't matter.
            self.requests
                .push(unsafe { world.irecv(data, length, peer, self.tags[0]) }?);
        }
        Ok(())
    }

    fn finish(&mut self, world: &World) -> Result<()> {
        world.waitall(&mut self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// The sender's part of a one-way window.
    pub(super) fn send(&mut self, world: &World, peer: usize) -> Result<()> {
        self.post_sends(world, peer)?;
        self.finish(world)?;
        match self.acknowledges {
            true => world.recv(&mut [0; 4], peer, self.tags[1]),
            false => Ok(()),
        }
    }

    /// Ends the sender's windows.
    pub(super) fn end_sends(&self, world: &World, peer: usize) -> Result<()> {
        match self.acknowledges {
            true => Ok(()),
            false => world.recv(&mut [0; 4], peer, self.tags[1]),
        }
    }

    /// Ends the receiver's windows.
    pub(super) fn end_receives(&self, world: &World, peer: usize) -> Result<()> {
        match self.acknowledges {
            true => Ok(()),
            false => world.send(&[0; 4], peer, self.tags[1]),
        }
    }

    /// The receiver's part of a one-way window.
    pub(super) fn receive(&mut self, world: &World, peer: usize) -> Result<()> {
        self.post_receives(world, peer)?;
        self.finish(world)?;
        match self.acknowledges {
            true => world.send(&[0; 4], peer, self.tags[1]),
            false => Ok(()),
        }
    }

    /// Both directions at once.
    fn exchange(&mut self, world: &World, peer: usize) -> Result<()> {
        self.post_receives(world, peer)?;
        self.post_sends(world, peer)?;
        self.finish(world)?;
        if world.rank < peer {
            world.recv(&mut [0; 4], peer, self.tags[1])
        } else {
            world.send(&[0; 4], peer, self.tags[1])
        }
    }

    /// Fills what is sent with the pattern of `seed` and forgets what was received.
    pub(super) fn mark(&mut self, seed: u8) {
        fill(&mut self.send, seed);
        self.receive.fill(0);
    }

    /// Returns whether the pattern of `seed` was received.
    pub(super) fn received(&self, seed: u8) -> bool {
        matches(&self.receive, seed)
    }
}

/// Millions of bytes per second; a time of zero counts as a nanosecond.
pub(super) fn megabytes_per_second(bytes: f64, elapsed: Duration) -> f64 {
    bytes / 1e6 / elapsed.as_secs_f64().max(1e-9)
}

/// `bw`: windows of messages from rank 0 to rank 1.
pub fn bandwidth(world: &World, options: &Options) -> Result<bool> {
    run_windows(world, options, "Bandwidth Test", 1.0, |window| {
        if world.rank == 0 {
            window.send(world, 1)
        } else {
            window.receive(world, 0)
        }
    })
}

/// `bibw`: windows of messages in both directions at once.
pub fn bidirectional(world: &World, options: &Options) -> Result<bool> {
    run_windows(
        world,
        options,
        "Bi-Directional Bandwidth Test",
        2.0,
        |window| window.exchange(world, 1 - world.rank),
    )
}

fn run_windows(
    world: &World,
    options: &Options,
    title: &str,
    directions: f64,
    step: impl Fn(&mut Window) -> Result<()>,
) -> Result<bool> {
    let bench = two_ranks(world, options, BANDWIDTH)?;
    bench.each_size(title, "Bandwidth (MB/s)", 2, |size| {
        let mut window = Window::new(size, options.window, 0, true);
        let (elapsed, iterations) = bench.time(size, || step(&mut window))?;
        let receives = world.rank == 1 || directions > 1.0;
        let valid = bench.validate(|seed| {
            window.mark(seed);
            step(&mut window)?;
            Ok(!receives || window.received(seed))
        })?;
        let bytes = size as f64 * f64::from(options.window) * iterations as f64 * directions;
        Ok((megabytes_per_second(bytes, elapsed), iterations, valid))
    })
}
