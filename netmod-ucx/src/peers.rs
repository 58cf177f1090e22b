//! Peers: endpoints of their VCIs, and the state of each process.
//!
//! Only contacted peers use memory.

use crate::ffi::{ucp_ep, ucp_rkey};
use crate::inbox::Tie;
use netmod::{Peer, VciId};
use netmod_kit::PeerTable;
use netmod_kit::bundle::{Bundle, BurstLimit};
use std::collections::HashMap;
use std::time::Instant;

/// Most unpacked keys that an endpoint keeps.
const KEYS_MOST: usize = 64;

/// Number of an endpoint plus 1, so that the default is "none".
#[derive(Default, Clone, Copy)]
pub(crate) struct Place(u32);

/// A connection to a peer's VCI.
pub(crate) struct Endpoint {
    /// Null when closed.
    pub(crate) ep: *mut ucp_ep,
    /// Index of the process.
    pub(crate) peer: u32,
    pub(crate) vci: VciId,
    /// Number of the next message.
    pub(crate) seq: u32,
    /// Decides which small messages leave unbundled.
    pub(crate) burst_limit: BurstLimit,
    /// The send buffer of the bundle, and its state.
    pub(crate) bundle: Option<(u32, Bundle)>,
    /// Whether it is broken or its process is lost.
    pub(crate) broken: bool,
    /// Whether a put or an atomic was issued since the last flush.
    pub(crate) written: bool,
    /// Pending flushes.
    pub(crate) flushes: u32,
    /// Whether this process's farewell has been sent.
    pub(crate) has_farewell: bool,
    /// Pending operations that use its keys.
    pub(crate) ops: u32,
    /// Unpacked keys by their words.
    pub(crate) keys: HashMap<[u64; 2], *mut ucp_rkey>,
    /// The argument of UCX's callback.
    pub(crate) _tie: Box<Tie>,
}

impl Endpoint {
    /// Returns whether one more unpacked key can be kept. If there are too many and none is in use,
    /// calls `destroy` for all of them.
    pub(crate) fn has_room_for_key(&mut self, destroy: impl FnMut(*mut ucp_rkey)) -> bool {
        if self.keys.len() >= KEYS_MOST && self.ops == 0 {
            self.keys.drain().map(|(_, key)| key).for_each(destroy);
        }
        self.keys.len() < KEYS_MOST
    }
}

/// State of a peer process.
pub(crate) struct Process {
    pub(crate) number: Peer,
    /// Why it is lost.
    pub(crate) lost: Option<String>,
    /// Time and reason of a broken connection, while it is undecided whether the process is lost.
    pub(crate) doubtful: Option<(Instant, String)>,
}

/// All contacted peers.
pub(crate) struct Peers {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) processes: Vec<Process>,
    places: PeerTable<Place>,
    by_number: HashMap<Peer, u32>,
}

impl Peers {
    pub(crate) fn new(own: VciId) -> Self {
        Peers {
            endpoints: Vec::new(),
            processes: Vec::new(),
            places: PeerTable::new(own),
            by_number: HashMap::new(),
        }
    }

    /// Returns the number of the endpoint of a VCI, if there is one.
    #[inline]
    pub(crate) fn find(&mut self, peer: Peer, vci: VciId) -> Option<u32> {
        self.places.get(peer, vci).0.checked_sub(1)
    }

    /// Returns the index of a process, adding it if necessary.
    pub(crate) fn process(&mut self, number: Peer) -> u32 {
        *self.by_number.entry(number).or_insert_with(|| {
            self.processes.push(Process {
                number,
                lost: None,
                doubtful: None,
            });
            self.processes.len() as u32 - 1
        })
    }

    /// Returns the index of a process if it has been contacted.
    pub(crate) fn find_process(&self, number: Peer) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// Adds an endpoint. Its number is the count of earlier ones.
    pub(crate) fn add(&mut self, number: Peer, endpoint: Endpoint) -> u32 {
        let index = self.endpoints.len() as u32;
        *self.places.get(number, endpoint.vci) = Place(index + 1);
        self.endpoints.push(endpoint);
        index
    }

    #[inline]
    pub(crate) fn endpoint(&mut self, index: u32) -> &mut Endpoint {
        &mut self.endpoints[index as usize]
    }

    /// Returns the process of an endpoint.
    pub(crate) fn process_of(&mut self, endpoint: u32) -> &mut Process {
        let index = self.endpoints[endpoint as usize].peer;
        &mut self.processes[index as usize]
    }

    /// Lists the numbers of a process's endpoints.
    pub(crate) fn endpoints_of(&self, process: u32) -> Vec<u32> {
        let all = self.endpoints.iter().enumerate();
        all.filter(|(_, endpoint)| endpoint.peer == process)
            .map(|(index, _)| index as u32)
            .collect()
    }
}
