//! Remote keys: by which the network reaches other members' memory, and they this process's.
//!
//! In small windows all members exchange keys at creation. In larger ones an origin asks a member
//! for its key at the first access, and until the answer comes accesses go by messages, since a put
//! must not wait for its target. So only members that were accessed take memory.

use std::sync::Arc;

use netmod::{RemoteKey, Transport};
use netmod_kit::NumberMap;
use parking_lot::{Mutex, RwLock};

use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::Address;

/// A key on the wire: the name of its transport (0: no key), and the key's three words.
pub(crate) type WireKey = [u64; 4];

/// How the network reaches a member's memory.
#[derive(Clone, Copy)]
pub(crate) struct Far {
    pub key: RemoteKey,
    /// Whether a burst of small accesses goes by messages instead.
    pub few_small: bool,
    /// Index of the transport in the process, if its atomics take turns with accumulates by
    /// messages (see [`crate::network::word`]).
    pub words: Option<usize>,
}

/// The state of a member's key.
pub(crate) enum PeerKey {
    /// Received, but not checked against this process's transports yet.
    Received(WireKey),
    /// The network reaches the member's memory by this key.
    Reachable(Far),
    /// The network doesn't reach the member's memory.
    Unreachable,
    /// Asked for. A window that goes before the answer leaves the answer's buffer behind.
    Requested(Loan<Box<WireKey>>),
}

/// The keys of a window's members.
pub(crate) struct Keys {
    pub(crate) known: RwLock<NumberMap<u32, PeerKey>>,
    pub(crate) exposed: Mutex<Vec<Exposed>>,
    /// Whether remote memory is used at all.
    pub on: bool,
}

/// This process's memory while a transport exposes it.
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

/// Encodes a transport's name as a word; never 0.
pub(crate) fn word(name: &str) -> u64 {
    let mut bytes = [0; 8];
    for (byte, of_name) in bytes.iter_mut().zip(name.bytes()) {
        *byte = of_name;
    }
    u64::from_le_bytes(bytes)
}

impl Keys {
    /// Creates an empty table. `on`: whether remote memory is used at all.
    pub fn new(on: bool) -> Keys {
        Keys {
            known: RwLock::default(),
            exposed: Mutex::default(),
            on,
        }
    }

    /// Ends the exposure of this process's memory.
    pub fn withdraw(&self) {
        self.exposed.lock().clear();
    }

    /// Whether no answer is pending.
    pub fn is_idle(&self, process: &Process) -> bool {
        let known = self.known.read();
        let awaited = |known: &PeerKey| matches!(known, PeerKey::Requested(answer) if !answer.is_done(process));
        !known.values().any(awaited)
    }

    /// Whether a member's key was received and not used yet.
    pub fn has_unused_key(&self, rank: u32) -> bool {
        matches!(self.known.read().get(&rank), Some(PeerKey::Received(_)))
    }

    /// Notes that the network does not reach a member.
    pub fn forget(&self, rank: u32) {
        self.known.write().insert(rank, PeerKey::Unreachable);
    }

    /// Bytes of memory, for `known` members that were accessed.
    #[cfg(test)]
    pub fn bytes(known: usize) -> usize {
        (known * 8 / 7 + 1).next_power_of_two() * (size_of::<(u32, PeerKey)>() + 1)
    }
}

/// Decodes the key of a wire form.
pub(crate) fn key_of(wire: &WireKey) -> RemoteKey {
    RemoteKey {
        address: wire[1],
        words: [wire[2], wire[3]],
    }
}

/// Transports with remote memory between nodes, with their indices in the process.
pub(crate) fn transports(process: &Process) -> impl Iterator<Item = (usize, &Arc<dyn Transport>)> {
    let native = |(_, transport): &(usize, &Arc<dyn Transport>)| {
        transport.limits().native_rma && transport.shared_memory().is_none()
    };
    // The transport to the process itself comes first.
    let all = process.transports().iter().enumerate().skip(1);
    all.filter(native)
}

/// The local VCI and the remote address of an access.
pub(crate) struct Ends {
    pub vci_here: netmod::VciId,
    pub there: Address,
}
