//! By which keys the network reaches the memory of other members, and others this process's.
//!
//! In small windows all tell each other when the window is made. In others a member is asked when it
//! is first accessed; until it has answered, accesses go by messages, since a put must not wait for
//! its target. So memory is taken for members that were accessed only.

use std::sync::Arc;

use netmod::{RemoteKey, Transport};
use netmod_kit::NumberMap;
use parking_lot::{Mutex, RwLock};

use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::Address;

/// A key as it travels: the name of its transport (0: there is no key), and the key.
pub(crate) type Told = [u64; 4];

/// How a member's memory is reached by the network.
#[derive(Clone, Copy)]
pub(crate) struct Far {
    pub key: RemoteKey,
    /// Small accesses in a burst are not to go so.
    pub few_small: bool,
    /// The transport, as the process counts them, if its atomics take turns with accumulates by messages
    /// (see [`crate::network::word`]).
    pub words: Option<usize>,
}

/// What is known of a member's memory.
pub(crate) enum Known {
    /// What it has told; not looked at yet.
    Told(Told),
    /// It is reached by this key.
    By(Far),
    /// The network doesn't reach it.
    Not,
    /// It was asked. If the window goes before the answer comes, its place stays behind.
    Asked(Loan<Box<Told>>),
}

/// The keys of a window.
pub(crate) struct Keys {
    pub(crate) known: RwLock<NumberMap<u32, Known>>,
    pub(crate) exposed: Mutex<Vec<Exposed>>,
    /// Whether remote memory is used at all.
    pub on: bool,
}

/// This process's memory, as long as a transport exposes it.
pub(crate) struct Exposed {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) key: Option<RemoteKey>,
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.transport.withdraw(key);
        }
    }
}

/// A transport's name as a word; never 0.
pub(crate) fn word(name: &str) -> u64 {
    let mut bytes = [0; 8];
    for (byte, of_name) in bytes.iter_mut().zip(name.bytes()) {
        *byte = of_name;
    }
    u64::from_le_bytes(bytes)
}

impl Keys {
    /// `on`: whether remote memory is used at all.
    pub fn new(on: bool) -> Keys {
        Keys {
            known: RwLock::default(),
            exposed: Mutex::default(),
            on,
        }
    }

    /// Ends the exposures.
    pub fn withdraw(&self) {
        self.exposed.lock().clear();
    }

    /// Whether no answer is awaited.
    pub fn is_idle(&self, process: &Process) -> bool {
        let known = self.known.read();
        let awaited = |known: &Known| matches!(known, Known::Asked(told) if !told.is_done(process));
        !known.values().any(awaited)
    }

    /// Whether a member has told its key and nobody has looked at it.
    pub fn is_told(&self, rank: u32) -> bool {
        matches!(self.known.read().get(&rank), Some(Known::Told(_)))
    }

    /// The network does not reach a member after all.
    pub fn forget(&self, rank: u32) {
        self.known.write().insert(rank, Known::Not);
    }

    /// Bytes of memory, for `known` members that were accessed.
    pub fn bytes(known: usize) -> usize {
        (known * 8 / 7 + 1).next_power_of_two() * (size_of::<(u32, Known)>() + 1)
    }
}

/// A key as it was told.
pub(crate) fn key_of(told: &Told) -> RemoteKey {
    RemoteKey {
        address: told[1],
        words: [told[2], told[3]],
    }
}

/// The transports with remote memory between nodes, by their numbers in the process.
pub(crate) fn transports(process: &Process) -> impl Iterator<Item = (usize, &Arc<dyn Transport>)> {
    let native = |(_, transport): &(usize, &Arc<dyn Transport>)| {
        transport.limits().native_rma && transport.shared_memory().is_none()
    };
    // The way to oneself comes first.
    let all = process.transports().iter().enumerate().skip(1);
    all.filter(native)
}

/// Two ends of a way.
pub(crate) struct Ends {
    pub vci_here: netmod::VciId,
    pub there: Address,
}
