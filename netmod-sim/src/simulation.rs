//! What a test holds.

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

/// An event that happened: whose lane may have something to poll now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// Where.
    pub peer: Peer,
    /// On which VCI.
    pub vci: VciId,
}

/// Counts of what was sent.
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
    /// A network without processes, at time 0.
    ///
    /// # Panics
    /// If the configuration breaks the contract (a `max_payload` below 1,024).
    pub fn new(seed: u64, config: SimConfig) -> Simulation {
        Simulation {
            world: Shared::new(World::new(seed, config)),
        }
    }

    /// The transport of a process. One to a process; it costs next to nothing until it is used.
    pub fn transport(&self, me: Peer) -> Arc<dyn Transport> {
        let world = self.world.clone();
        Arc::new(SimTransport { world, me })
    }

    /// Moves the clock to the next event and lets it happen. `None`: nothing is under way.
    ///
    /// # Panics
    /// If somebody uses memory that is not exposed.
    pub fn step(&self) -> Option<Delivery> {
        self.world.lock().step(u64::MAX)
    }

    /// Lets everything happen until `time` (nanoseconds), which it then is. Returns the number of
    /// events.
    ///
    /// # Panics
    /// As [`Simulation::step`].
    pub fn run_until(&self, time: u64) -> usize {
        let mut world = self.world.lock();
        let mut events = 0;
        while world.step(time).is_some() {
            events += 1;
        }
        world.now = world.now.max(time);
        events
    }

    /// The time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.lock().now
    }

    /// The number of events under way.
    pub fn under_way(&self) -> usize {
        self.world.lock().under_way()
    }

    /// Changes what the network is like from now on, as it may while processes are running: what
    /// they were told by `Transport::limits` must stay.
    pub fn change(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.world.lock().config);
    }

    /// Has a process die at a time: what it sent by then arrives, everything else fails, and those
    /// who had to do with it are told.
    pub fn lose(&self, peer: Peer, at: u64) {
        self.world.lock().lose(peer, at);
    }

    /// From now on lanes that are told to look after a peer ask its host, which may leave a question
    /// unanswered for so many nanoseconds. Without this call nobody asks.
    pub fn watch_hosts(&self, patience: u64) {
        self.world.lock().watch.set_patience(patience);
    }

    /// Has the host of a process fall silent at a time: nobody is told, and it answers no more
    /// questions. (What was sent to it arrives; it is the test that must not poll there any more.)
    pub fn silence(&self, peer: Peer, at: u64) {
        self.world.lock().silence(peer, at);
    }

    /// How many questions lanes have asked peers' hosts.
    pub fn questions(&self) -> u64 {
        self.world.lock().watch.questions()
    }

    /// From now on `reader` may not read or write the memory of `owner`.
    pub fn refuse_get(&self, reader: Peer, owner: Peer) {
        self.world.lock().refuse_get(reader, owner);
    }

    /// Pieces of memory exposed at the moment.
    pub fn exposed(&self) -> usize {
        self.world.lock().exposed()
    }

    /// What all processes sent.
    pub fn total(&self) -> Traffic {
        self.world.lock().total
    }

    /// What a process sent.
    pub fn traffic(&self, peer: Peer) -> Traffic {
        self.world.lock().traffic(peer)
    }

    /// The last events, a line each.
    pub fn log(&self) -> String {
        self.world.lock().log.to_string()
    }
}
