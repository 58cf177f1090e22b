//! Emulated gets, puts and atomics: carries the requests and answers of [`netmod_kit::emulation`].

use crate::lane::OfiLane;
use crate::wire::{self, MessageKind, Prefix};
use netmod::LaneError;
use netmod_kit::emulation::{self, Ask, Request};
use netmod_kit::{Notice, remote};

impl OfiLane {
    /// Sends a message of the emulation.
    pub(crate) fn internal(
        &mut self,
        endpoint: u32,
        kind: MessageKind,
        code: u8,
        request: &Request,
        data: &[u8],
    ) -> Result<(), LaneError> {
        let prefix = self.prefix(kind, code);
        self.transmit(endpoint, wire::INTERNAL + data.len(), false, |bytes| {
            bytes[..wire::PREFIX].copy_from_slice(&prefix);
            bytes[wire::PREFIX..wire::INTERNAL].copy_from_slice(&request.to_bytes());
            bytes[wire::INTERNAL..].copy_from_slice(data);
        })
    }

    /// Handles a message of the emulation.
    pub(crate) fn serve(&mut self, prefix: Prefix, rest: &[u8]) {
        let Some((request, data)) = Request::parse(rest) else {
            return;
        };
        let ask = match prefix.kind {
            MessageKind::Atomic => Ask::Atomic(prefix.code),
            MessageKind::Put => Ask::Put,
            MessageKind::Get => Ask::Get,
            MessageKind::Answer => return remote::answered(self, prefix.code, &request, data),
            MessageKind::Message | MessageKind::Bundle | MessageKind::Nop => return,
        };
        let most = self.shared.buffer_size - wire::INTERNAL;
        let answer = emulation::serve(&self.shared.exposures, ask, &request, data, most);
        match self.endpoint(prefix.peer, prefix.vci) {
            Ok(endpoint) => remote::answer(self, endpoint, answer),
            Err(LaneError::PeerLost(lost)) => {
                let netmod::Lost { peer, why } = *lost;
                self.notify(Notice::Lost(peer, why));
            }
            Err(_) => {}
        }
    }
}
