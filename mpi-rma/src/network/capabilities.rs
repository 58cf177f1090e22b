//! The network's atomics as a window uses them, and when it is to do so.

use std::collections::HashMap;

use netmod::RemoteKey;
use parking_lot::RwLock;

use crate::window::promise::Promise;

/// Whether accumulates go by the network's atomics where they may.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NetworkAtomics {
    /// Where targets need do nothing for them.
    #[default]
    Auto,
    /// Wherever the transport has some.
    Always,
    /// Never.
    Never,
}

/// The network's atomics, as all members of a window use them.
pub(crate) struct Domain {
    pub promise: Promise,
    /// The transport, as the process counts them, and its name.
    pub(crate) way: usize,
    pub(crate) name: u64,
    pub(crate) like: netmod::Atomics,
    /// By which keys members' memory is reached.
    pub(crate) keys: RwLock<HashMap<u32, RemoteKey>>,
}
