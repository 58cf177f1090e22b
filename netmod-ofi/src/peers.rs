//! Peers: addresses of their VCIs, and pending operations of each process.
//!
//! Only contacted peers use memory.

use crate::ffi::fi_addr_t;
use crate::probe::Stuck;
use netmod::{Peer, Token, VciId};
use netmod_kit::Fences;
use netmod_kit::bundle::{Bundle, BurstLimit};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes integers that no adversary chooses, by one multiplication.
#[derive(Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table uses the low bits; the high ones of the product are best.
        self.0 = product.rotate_left(32);
    }
}

type IntMap<K> = HashMap<K, u32, BuildHasherDefault<IntHasher>>;

/// State of a peer's VCI.
pub(crate) struct EndpointState {
    pub(crate) addr: fi_addr_t,
    pub(crate) vci: VciId,
    /// Index of the process.
    pub(crate) peer: u32,
    /// Whether the process is lost.
    pub(crate) lost: bool,
    /// Whether a message was injected since the last completed one, so that it may not have left
    /// yet.
    pub(crate) dirty: bool,
    /// Queued messages that the provider had no space for.
    pub(crate) stalled: u32,
    /// Decides which small messages leave unbundled.
    pub(crate) burst_limit: BurstLimit,
    /// The send buffer of the bundle, and its state.
    pub(crate) bundle: Option<(u32, Bundle)>,
    /// Set while the provider has no space for this endpoint.
    pub(crate) stuck: Option<Box<Stuck>>,
    /// The provider's address.
    pub(crate) address: Box<[u8]>,
}

/// State of a peer process.
pub(crate) struct PeerState {
    pub(crate) number: Peer,
    pub(crate) lost: Option<String>,
    pub(crate) fences: Fences<Token>,
    /// Why a put that was reported as complete did not arrive; reported by the next flush.
    pub(crate) write_error: Option<String>,
}

/// All contacted peers.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) endpoints: Vec<EndpointState>,
    pub(crate) peers: Vec<PeerState>,
    by_address: IntMap<u64>,
    by_number: IntMap<Peer>,
}

impl Peers {
    fn key(peer: Peer, vci: VciId) -> u64 {
        u64::from(peer) << 16 | u64::from(vci)
    }
    /// Returns the index of a VCI if it has been contacted.
    #[inline]
    pub(crate) fn find(&self, peer: Peer, vci: VciId) -> Option<u32> {
        self.by_address.get(&Self::key(peer, vci)).copied()
    }
    /// Returns the index of a process if it has been contacted.
    pub(crate) fn find_peer(&self, peer: Peer) -> Option<u32> {
        self.by_number.get(&peer).copied()
    }
    /// Returns the index of any contacted VCI of a process.
    #[cold]
    pub(crate) fn any_of(&self, peer: Peer) -> Option<u32> {
        let index = self.find_peer(peer)?;
        let mut endpoints = self.endpoints.iter();
        let place = endpoints.position(|endpoint| endpoint.peer == index)?;
        Some(place as u32)
    }
    /// Adds a VCI. Returns its index.
    pub(crate) fn add(&mut self, number: Peer, vci: VciId, addr: fi_addr_t, address: &[u8]) -> u32 {
        let peer = *self.by_number.entry(number).or_insert_with(|| {
            self.peers.push(PeerState {
                number,
                lost: None,
                fences: Fences::default(),
                write_error: None,
            });
            self.peers.len() as u32 - 1
        });
        let lost = self.peers[peer as usize].lost.is_some();
        let endpoint = self.endpoints.len() as u32;
        self.endpoints.push(EndpointState {
            addr,
            vci,
            peer,
            lost,
            dirty: false,
            stalled: 0,
            burst_limit: BurstLimit::default(),
            bundle: None,
            stuck: None,
            address: address.into(),
        });
        self.by_address.insert(Self::key(number, vci), endpoint);
        endpoint
    }
    #[inline]
    pub(crate) fn endpoint(&mut self, endpoint: u32) -> &mut EndpointState {
        &mut self.endpoints[endpoint as usize]
    }
    /// Returns the process of an endpoint.
    #[inline]
    pub(crate) fn peer_of(&mut self, endpoint: u32) -> &mut PeerState {
        let peer = self.endpoints[endpoint as usize].peer;
        &mut self.peers[peer as usize]
    }
}
