//! The interface for tests.

use std::sync::Arc;

use netmod::{Peer, Transport, VciId};

use crate::config::SimConfig;
use crate::lane::{Shared, SimTransport};
use crate::world::World;

/// A network of simulated processes, and its clock.
#[derive(Clone)]
pub struct Simulation {
    world: Shared,
}

/// An event that has occurred: a lane that may have something to poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Nanoseconds of virtual time.
    pub at: u64,
    /// The process.
    pub peer: Peer,
    /// The VCI.
    pub vci: VciId,
}

/// Counts of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Active messages.
    pub messages: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Reads of remote memory.
    pub gets: u64,
    /// Bytes read.
    pub get_bytes: u64,
    /// Puts.
    pub puts: u64,
    /// Bytes put.
    pub put_bytes: u64,
}

impl Simulation {
    /// Makes a network without processes, at time 0.
    ///
    /// # Panics
    /// If the configuration breaks the contract (a `max_payload` below 1,024).
    pub fn new(seed: u64, config: SimConfig) -> Simulation {
        Simulation {
            world: Shared::new(World::new(seed, config)),
        }
    }

    /// Returns the transport of a process, one for each process. It costs next to nothing until it
    /// is used.
    pub fn transport(&self, me: Peer) -> Arc<dyn Transport> {
        let world = self.world.clone();
        Arc::new(SimTransport { world, me })
    }

    /// Moves the clock to the next event and executes it. Returns `None` if no event is pending.
    ///
    /// # Panics
    /// If an access is to memory that is not exposed.
    pub fn step(&self) -> Option<Delivery> {
        self.world.lock().step(u64::MAX)
    }

    /// Executes all events until `time` (nanoseconds), and sets the clock to it. Returns the number
    /// of events.
    ///
    /// # Panics
    /// If an access is to memory that is not exposed.
    pub fn run_until(&self, time: u64) -> usize {
        let mut world = self.world.lock();
        let mut events = 0;
        while world.step(time).is_some() {
            events += 1;
        }
        world.now = world.now.max(time);
        events
    }

    /// Returns the time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.lock().now
    }

    /// Returns the number of pending events.
    pub fn under_way(&self) -> usize {
        self.world.lock().under_way()
    }

    /// Changes the network from now on, as may happen while processes run. The values of
    /// `Transport::limits` must stay.
    pub fn change(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.world.lock().config);
    }

    /// Makes a process die at a time: its earlier messages arrive, everything else fails, and its
    /// contacts are notified.
    pub fn lose(&self, peer: Peer, at: u64) {
        self.world.lock().lose(peer, at);
    }

    /// Makes lanes probe peers' hosts in `check_peers`. A host that leaves a probe unanswered for
    /// `patience` nanoseconds is lost. Without this call lanes send no probes.
    pub fn watch_hosts(&self, patience: u64) {
        self.world.lock().watch.set_patience(patience);
    }

    /// Makes the host of a process fall silent at a time: no process is notified, and it answers no
    /// more probes. (Messages to it still arrive; the test must not poll there any more.)
    pub fn silence(&self, peer: Peer, at: u64) {
        self.world.lock().silence(peer, at);
    }

    /// Returns the number of probes that lanes have sent.
    pub fn questions(&self) -> u64 {
        self.world.lock().watch.questions()
    }

    /// Forbids `reader` from now on to read or write the memory of `owner`.
    pub fn refuse_get(&self, reader: Peer, owner: Peer) {
        self.world.lock().refuse_get(reader, owner);
    }

    /// Returns the number of current exposures.
    pub fn exposed(&self) -> usize {
        self.world.lock().exposed()
    }

    /// Returns the traffic of all processes.
    pub fn total(&self) -> Traffic {
        self.world.lock().total
    }

    /// Returns the traffic of a process.
    pub fn traffic(&self, peer: Peer) -> Traffic {
        self.world.lock().traffic(peer)
    }

    /// Returns the last events, a line each.
    pub fn log(&self) -> String {
        self.world.lock().log.to_string()
    }
}
