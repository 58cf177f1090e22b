//! Bundles small messages (see [`netmod_kit::bundle`]).

use crate::lane::OfiLane;
use crate::wire::{self, MessageKind};
use netmod::{Header, LaneError};
use netmod_kit::bundle::{Bundle, SMALL};

/// Longest bundle, in bytes: longer ones would save few further calls.
const BUNDLE_MOST: usize = 16 << 10;

impl OfiLane {
    /// Sends a message of the core with a payload of `len` bytes that `fill` writes, alone or in a
    /// bundle. With `keep`, a message that the provider has no space for is queued.
    #[inline]
    pub(crate) fn send_message(
        &mut self,
        endpoint: u32,
        header: &Header,
        len: usize,
        keep: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let round = self.round;
        let state = self.peers.endpoint(endpoint);
        if len <= SMALL {
            if self.gathering {
                return self.add_to_bundle(endpoint, header, len, fill);
            }
            if !state.burst_limit.may_leave(round) {
                return Err(LaneError::Again);
            }
        }
        // Order: earlier accepted messages go first.
        if state.bundle.is_some() && !self.send_bundle(endpoint) {
            return Err(LaneError::Again);
        }
        let prefix = self.prefix(MessageKind::Message, 0);
        self.transmit(endpoint, wire::MESSAGE + len, keep, |bytes| {
            bytes[..wire::PREFIX].copy_from_slice(&prefix);
            bytes[wire::PREFIX..wire::MESSAGE].copy_from_slice(&header.to_bytes());
            fill(&mut bytes[wire::MESSAGE..]);
        })
    }

    fn add_to_bundle(
        &mut self,
        endpoint: u32,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let most = self.shared.buffer_size.min(BUNDLE_MOST) - wire::PREFIX;
        if let Some((_, bundle)) = self.peers.endpoint(endpoint).bundle
            && bundle.used + wire::MESSAGE + len > most
            && !self.send_bundle(endpoint)
        {
            return Err(LaneError::Again);
        }
        if self.peers.endpoint(endpoint).lost {
            return Err(self.lost(endpoint));
        }
        if self.peers.endpoint(endpoint).bundle.is_none() {
            let buffer = self.buffers.take().ok_or(LaneError::Again)?;
            self.peers.endpoint(endpoint).bundle = Some((buffer, Bundle::default()));
            self.bundled.push(endpoint);
        }
        let Some((buffer, bundle)) = &mut self.peers.endpoint(endpoint).bundle else {
            return Err(LaneError::Again);
        };
        // SAFETY: the lane took this buffer for the bundle, and it has `buffer_size` bytes.
        let room = unsafe {
            let place = self.buffers.send_at(*buffer).add(wire::PREFIX);
            std::slice::from_raw_parts_mut(place, most)
        };
        if bundle.add(room, header, len, fill) {
            Ok(())
        } else {
            Err(LaneError::Again)
        }
    }

    /// Sends the bundle of an endpoint. Returns whether it has none any more.
    pub(crate) fn send_bundle(&mut self, endpoint: u32) -> bool {
        let state = self.peers.endpoint(endpoint);
        let Some((buffer, bundle)) = state.bundle else {
            return true;
        };
        if state.stalled > 0 {
            return false;
        }
        let len = wire::PREFIX + bundle.used;
        let prefix = self.prefix(MessageKind::Bundle, 0);
        // SAFETY: the lane took this buffer for the bundle, and it is longer than a prefix.
        unsafe {
            let place = self.buffers.send_at(buffer);
            place.cast::<[u8; wire::PREFIX]>().write(prefix);
        }
        let rc = self.send_buffer(buffer, endpoint, len);
        if rc == 0 {
            let state = self.peers.endpoint(endpoint);
            state.stuck = None;
            state.bundle = None;
            state.burst_limit.record_bundle(bundle.count);
            self.bundled.retain(|&other| other != endpoint);
            return true;
        }
        // If the peer is lost, `refused` has dropped its bundle.
        self.refused(endpoint, rc, "sending");
        self.peers.endpoint(endpoint).bundle.is_none()
    }

    /// Sends all bundles. Returns whether any was sent.
    pub(crate) fn send_bundles(&mut self) -> bool {
        let mut any = false;
        for endpoint in self.bundled.clone() {
            any |= self.send_bundle(endpoint);
        }
        let peers = &mut self.peers;
        self.bundled
            .retain(|&endpoint| peers.endpoint(endpoint).bundle.is_some());
        any
    }
}
