//! Who was talked to: endpoints of peers' VCIs, and what is known of each process.
//!
//! Memory is used for those that were talked to only.

use crate::ffi::{ucp_ep, ucp_rkey};
use crate::inbox::Tie;
use netmod::{Peer, VciId};
use netmod_kit::PeerTable;
use netmod_kit::bundle::{Bundle, BurstLimit};
use std::collections::HashMap;
use std::time::Instant;

/// Unpacked keys that an endpoint keeps.
const KEYS_MOST: usize = 64;

/// Number of an endpoint, one more, so that the default is "none".
#[derive(Default, Clone, Copy)]
pub(crate) struct Place(u32);

/// A connection to a peer's VCI.
pub(crate) struct Endpoint {
    /// Null when it has been closed.
    pub(crate) ep: *mut ucp_ep,
    /// Index of the process.
    pub(crate) peer: u32,
    pub(crate) vci: VciId,
    /// Number of the next message.
    pub(crate) seq: u32,
    /// Decides which small messages leave at once.
    pub(crate) burst_limit: BurstLimit,
    /// The send buffer of those that leave together, and how full it is.
    pub(crate) bundle: Option<(u32, Bundle)>,
    /// It takes nothing any more: broken, or its process is lost.
    pub(crate) broken: bool,
    /// A put or an atomic was issued since the last flush.
    pub(crate) written: bool,
    /// Flushes under way.
    pub(crate) flushes: u32,
    /// It was told that this process ends.
    pub(crate) told: bool,
    /// Operations under way that use its keys.
    pub(crate) ops: u32,
    /// Unpacked keys by what travelled.
    pub(crate) keys: HashMap<[u64; 2], *mut ucp_rkey>,
    /// Held for UCX.
    pub(crate) _tie: Box<Tie>,
}

impl Endpoint {
    /// Whether one more unpacked key can be kept. If there are too many and none is in use, `destroy`
    /// ends them.
    pub(crate) fn has_room_for_key(&mut self, destroy: impl FnMut(*mut ucp_rkey)) -> bool {
        if self.keys.len() >= KEYS_MOST && self.ops == 0 {
            self.keys.drain().map(|(_, key)| key).for_each(destroy);
        }
        self.keys.len() < KEYS_MOST
    }
}

/// A process.
pub(crate) struct Process {
    pub(crate) number: Peer,
    /// Why it can't be reached any more.
    pub(crate) lost: Option<String>,
    /// A connection to it broke then, for this reason, and it is not yet decided what that means.
    pub(crate) doubtful: Option<(Instant, String)>,
}

/// All that were talked to.
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

    /// The number of the endpoint of a VCI, if there is one.
    #[inline]
    pub(crate) fn find(&mut self, peer: Peer, vci: VciId) -> Option<u32> {
        self.places.get(peer, vci).0.checked_sub(1)
    }

    /// The index of a process; it is added if it is new.
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

    /// The index of a process that is known.
    pub(crate) fn find_process(&self, number: Peer) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// Adds an endpoint, whose number is the count of those before it.
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

    /// The process that an endpoint belongs to.
    pub(crate) fn process_of(&mut self, endpoint: u32) -> &mut Process {
        let index = self.endpoints[endpoint as usize].peer;
        &mut self.processes[index as usize]
    }

    /// The numbers of the endpoints of a process.
    pub(crate) fn endpoints_of(&self, process: u32) -> Vec<u32> {
        let all = self.endpoints.iter().enumerate();
        all.filter(|(_, endpoint)| endpoint.peer == process)
            .map(|(index, _)| index as u32)
            .collect()
    }
}
