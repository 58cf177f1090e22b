//! Emulated atomics: carries the requests and answers of [`netmod_kit::emulation`], for adapters
//! without atomics.

use crate::engine::Engine;
use crate::wire::{MessageKind, Prefix};
use netmod::LaneError;
use netmod_kit::emulation::{self, Ask, Request};
use netmod_kit::remote;

impl Engine {
    /// Sends a message of the emulation to the VCI of a connection.
    pub(crate) fn internal(
        &mut self,
        index: u32,
        kind: MessageKind,
        code: u8,
        request: &Request,
    ) -> Result<(), LaneError> {
        let to = self.peers.endpoint(index).vci;
        self.transmit(index, kind, code, to, Request::SIZE, |bytes| {
            bytes.copy_from_slice(&request.to_bytes());
        })
    }

    /// Handles a message of the emulation.
    #[cold]
    pub(crate) fn serve(&mut self, index: u32, prefix: &Prefix, rest: &[u8]) {
        let Some((request, _)) = Request::parse(rest) else {
            return;
        };
        if prefix.kind == MessageKind::Answer {
            remote::answered(self, prefix.code, &request, &[]);
            return;
        }
        let ask = Ask::Atomic(prefix.code);
        let answer = emulation::serve(&self.shared.exposures, ask, &request, &[], 0);
        remote::answer(self, index, answer);
    }
}
