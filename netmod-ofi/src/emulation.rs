//! Emulated gets, puts and atomics: carries the requests and answers of [`netmod_kit::emulation`].

use crate::lane::{Notice, OfiLane};
use crate::ops::Reply;
use crate::wire::{self, MessageKind, Prefix};
use netmod::LaneError;
use netmod_kit::emulation::{self, Ask, Request};

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
            MessageKind::Answer => return self.answered(prefix.code, &request, data),
            MessageKind::Message | MessageKind::Bundle | MessageKind::Nop => return,
        };
        let most = self.shared.buffer_size - wire::INTERNAL;
        let answer = emulation::serve(&self.shared.exposures, ask, &request, data, most);
        let endpoint = match self.endpoint(prefix.peer, prefix.vci) {
            Ok(endpoint) => endpoint,
            Err(LaneError::PeerLost(lost)) => {
                let netmod::Lost { peer, why } = *lost;
                self.notices.push_back(Notice::Lost(peer, why));
                return;
            }
            Err(_) => return,
        };
        let reply = Reply { endpoint, answer };
        if !self.reply(&reply) {
            self.replies.push_back(reply);
        }
    }

    /// Tries to send an answer. Returns whether it is no longer owed.
    pub(crate) fn reply(&mut self, reply: &Reply) -> bool {
        let shared = self.shared.clone();
        let (status, request, data) = reply.answer.now(&shared.exposures);
        let sent = self.internal(reply.endpoint, MessageKind::Answer, status, &request, data);
        !matches!(sent, Err(LaneError::Again))
    }

    /// Handles an answer.
    fn answered(&mut self, status: u8, answer: &Request, data: &[u8]) {
        // Answers to operations that have ended with their peer are dropped.
        let Some((index, op)) = self.ops.by_cookie(answer.cookie) else {
            return;
        };
        if op.parts == 0 {
            return;
        }
        let endpoint = op.endpoint;
        // SAFETY: the issuer keeps `local` valid until completion.
        let taken =
            unsafe { emulation::take_answer(op.action, op.local, op.len, status, answer, data) };
        self.requests_under_way -= 1;
        let error = taken.err().map(|error| {
            let number = self.peers.peer_of(endpoint).number;
            error.at(number)
        });
        self.part_done(index, error);
    }
}
