//! The network's atomics as a window uses them, and the setting that allows them.

use std::collections::HashMap;

use netmod::RemoteKey;
use parking_lot::RwLock;

use crate::window::promise::Promise;

/// Whether accumulates use the network's atomics where the program's promises allow it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NetworkAtomics {
    /// Where the targets' processors are not involved.
    #[default]
    Auto,
    /// Wherever the transport has atomics.
    Always,
    /// Never.
    Never,
}

/// The network's atomics, as all members of a window use them.
pub(crate) struct Domain {
    pub promise: Promise,
    /// Number of the transport within the process.
    pub(crate) transport_index: usize,
    /// Name of the transport, encoded as a word.
    pub(crate) name: u64,
    /// Properties of its atomics.
    pub(crate) atomics: netmod::Atomics,
    /// Remote keys of members' memory.
    pub(crate) keys: RwLock<HashMap<u32, RemoteKey>>,
}
