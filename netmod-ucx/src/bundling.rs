//! Bundles small messages (see [`netmod_kit::bundle`]).

use crate::lane::UcxLane;
use crate::wire::{HEAD, MessageKind};
use netmod::{Header, LaneError};
use netmod_kit::bundle::{self, Bundles, BundlingLane, Outgoing};

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
        match bundle::gather(self, endpoint, header, len, fill)? {
            Some(fill) => self.transmit(endpoint, MessageKind::Message, header, len, fill),
            None => Ok(()),
        }
    }
}

impl BundlingLane for UcxLane {
    #[inline]
    fn bundles(&mut self) -> &mut Bundles {
        &mut self.bundles
    }

    #[inline]
    fn outgoing(&mut self, endpoint: u32) -> &mut Outgoing {
        &mut self.peers.endpoint(endpoint).outgoing
    }

    fn take_buffer(&mut self) -> Option<u32> {
        self.buffers.free.pop()
    }

    fn give_buffer(&mut self, buffer: u32) {
        self.buffers.free.push(buffer);
    }

    fn bundle_space(&mut self, buffer: u32) -> &mut [u8] {
        let most = self.shared.buffer_size.min(bundle::LONGEST);
        &mut self.buffers.bytes(buffer, most)[HEAD..]
    }

    fn post_bundle(&mut self, endpoint: u32, buffer: u32, len: usize) -> Result<bool, LaneError> {
        let header = Header::default();
        self.send_buffer(endpoint, buffer, MessageKind::Bundle, &header, len)
    }
}
