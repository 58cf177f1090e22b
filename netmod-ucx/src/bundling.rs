//! Bundles small messages (see [`netmod_kit::bundle`]).

use crate::lane::UcxLane;
use crate::wire::{HEAD, MessageKind};
use netmod::{Header, LaneError};
use netmod_kit::bundle::{Bundle, SMALL};

/// Longest bundle, in bytes: longer ones would save few further calls.
const BUNDLE_MOST: usize = 16 << 10;

impl UcxLane {
    /// Sends a message of the core with a payload of `len` bytes that `fill` writes, alone or in a
    /// bundle.
    #[inline]
    pub(crate) fn send_message(
        &mut self,
        endpoint: u32,
        header: &Header,
        len: usize,
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
        if state.bundle.is_some() {
            self.send_bundle(endpoint)?;
        }
        self.transmit(endpoint, MessageKind::Message, header, len, fill)
    }

    fn add_to_bundle(
        &mut self,
        endpoint: u32,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let most = self.shared.buffer_size.min(BUNDLE_MOST) - HEAD;
        if let Some((_, bundle)) = self.peers.endpoint(endpoint).bundle
            && bundle.used + HEAD + len > most
        {
            self.send_bundle(endpoint)?;
        }
        if self.peers.endpoint(endpoint).bundle.is_none() {
            let buffer = self.buffers.free.pop().ok_or(LaneError::Again)?;
            self.peers.endpoint(endpoint).bundle = Some((buffer, Bundle::default()));
            self.bundled.push(endpoint);
        }
        let Some((buffer, bundle)) = &mut self.peers.endpoint(endpoint).bundle else {
            return Err(LaneError::Again);
        };
        let room = self.buffers.bytes(*buffer, HEAD + most);
        if bundle.add(&mut room[HEAD..], header, len, fill) {
            Ok(())
        } else {
            Err(LaneError::Again)
        }
    }

    /// Sends the bundle of an endpoint, if it has one.
    pub(crate) fn send_bundle(&mut self, endpoint: u32) -> Result<(), LaneError> {
        let Some((buffer, bundle)) = self.peers.endpoint(endpoint).bundle else {
            return Ok(());
        };
        let pending = self.send_buffer(
            endpoint,
            buffer,
            MessageKind::Bundle,
            &Header::default(),
            bundle.used,
        )?;
        if !pending {
            self.buffers.free.push(buffer);
        }
        let state = self.peers.endpoint(endpoint);
        state.bundle = None;
        state.burst_limit.record_bundle(bundle.count);
        self.bundled.retain(|&other| other != endpoint);
        Ok(())
    }

    /// Sends all bundles. Returns whether any was sent.
    pub(crate) fn send_bundles(&mut self) -> bool {
        let mut any = false;
        for endpoint in self.bundled.clone() {
            // Bundles of a lost peer are dropped when its endpoints are closed.
            any |= self.send_bundle(endpoint).is_ok();
        }
        any
    }

    /// Drops the bundle of an endpoint.
    pub(crate) fn drop_bundle(&mut self, endpoint: u32) {
        if let Some((buffer, _)) = self.peers.endpoint(endpoint).bundle.take() {
            self.buffers.free.push(buffer);
            self.bundled.retain(|&other| other != endpoint);
        }
    }
}
