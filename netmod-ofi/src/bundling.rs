//! Bundles small messages (see [`netmod_kit::bundle`]).

use crate::lane::OfiLane;
use crate::wire::{self, MessageKind};
use netmod::{Header, LaneError};
use netmod_kit::bundle::{self, Bundles, BundlingLane, Outgoing};

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
        let Some(fill) = bundle::gather(self, endpoint, header, len, fill)? else {
            return Ok(());
        };
        let prefix = self.prefix(MessageKind::Message, 0);
        self.transmit(endpoint, wire::MESSAGE + len, keep, |bytes| {
            bytes[..wire::PREFIX].copy_from_slice(&prefix);
            bytes[wire::PREFIX..wire::MESSAGE].copy_from_slice(&header.to_bytes());
            fill(&mut bytes[wire::MESSAGE..]);
        })
    }
}

impl BundlingLane for OfiLane {
    #[inline]
    fn bundles(&mut self) -> &mut Bundles {
        &mut self.bundles
    }

    #[inline]
    fn outgoing(&mut self, endpoint: u32) -> &mut Outgoing {
        &mut self.peers.endpoint(endpoint).outgoing
    }

    fn take_buffer(&mut self) -> Option<u32> {
        self.buffers.take()
    }

    fn give_buffer(&mut self, buffer: u32) {
        self.buffers.give(buffer);
    }

    fn bundle_space(&mut self, buffer: u32) -> &mut [u8] {
        let most = self.shared.buffer_size.min(bundle::LONGEST) - wire::PREFIX;
        // SAFETY: the lane took this buffer for the bundle, so that nothing else uses it, and it has
        // `buffer_size` bytes.
        unsafe {
            let place = self.buffers.send_at(buffer).add(wire::PREFIX);
            std::slice::from_raw_parts_mut(place, most)
        }
    }

    fn post_bundle(&mut self, endpoint: u32, buffer: u32, len: usize) -> Result<bool, LaneError> {
        let state = self.peers.endpoint(endpoint);
        if state.stalled > 0 {
            return Err(LaneError::Again);
        }
        let prefix = self.prefix(MessageKind::Bundle, 0);
        // SAFETY: the lane took this buffer for the bundle, so that nothing else uses it, and it is
        // longer than a prefix.
        unsafe {
            let place = self.buffers.send_at(buffer);
            place.cast::<[u8; wire::PREFIX]>().write(prefix);
        }
        match self.send_buffer(buffer, endpoint, wire::PREFIX + len) {
            0 => {
                self.peers.endpoint(endpoint).stuck = None;
                Ok(true)
            }
            // If the peer is lost, this drops its bundle.
            rc => Err(self.refused(endpoint, rc, "sending")),
        }
    }
}
