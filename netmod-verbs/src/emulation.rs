//! Emulated atomics: carries the requests and answers of [`netmod_kit::emulation`], for adapters
//! without atomics.

use crate::engine::Engine;
use crate::ops::Reply;
use crate::peers::State;
use crate::remote::Stop;
use crate::wire::{MessageKind, Prefix};
use netmod::LaneError;
use netmod_kit::Action;
use netmod_kit::emulation::{self, Ask, MOST_REQUESTS, Request};

impl Engine {
    /// Sends the request for an emulated atomic.
    pub(crate) fn request(&mut self, op_index: u32) -> Result<usize, Stop> {
        if self.requests_under_way >= MOST_REQUESTS {
            return Err(Stop::Full);
        }
        let cookie = self.ops.cookie(op_index);
        let Some(op) = self.ops.get(op_index) else {
            return Err(Stop::Lost);
        };
        let Action::Atomic {
            op: code,
            operand,
            compare,
        } = op.action
        else {
            return Err(Stop::Lost);
        };
        let request = Request {
            cookie,
            exposure: op.remote.key.words[1],
            offset: op.remote.offset,
            value: operand,
            extra: compare,
        };
        let index = op.connection;
        let to = self.connections[index as usize].vci;
        self.transmit(
            index,
            MessageKind::Atomic,
            code as u8,
            to,
            Request::SIZE,
            |bytes| {
                bytes.copy_from_slice(&request.to_bytes());
            },
        )?;
        self.requests_under_way += 1;
        Ok(8)
    }

    /// Handles a message of the emulation.
    #[cold]
    pub(crate) fn serve(&mut self, index: u32, prefix: &Prefix, rest: &[u8]) {
        let Some((request, _)) = Request::parse(rest) else {
            return;
        };
        if prefix.kind == MessageKind::Answer {
            self.answered(prefix.code, &request);
            return;
        }
        let ask = Ask::Atomic(prefix.code);
        let reply = Reply {
            connection: index,
            to: prefix.from,
            answer: emulation::serve(&self.shared.exposures, ask, &request, &[], 0),
        };
        if !self.reply(&reply) {
            self.replies.push_back(reply);
        }
    }

    /// Tries to send an answer. Returns whether it is no longer owed.
    pub(crate) fn reply(&mut self, reply: &Reply) -> bool {
        let (status, request, _) = reply.answer.now(&self.shared.exposures);
        let bytes = request.to_bytes();
        let sent = self.transmit(
            reply.connection,
            MessageKind::Answer,
            status,
            reply.to,
            bytes.len(),
            |room| room.copy_from_slice(&bytes),
        );
        let state = self.connections[reply.connection as usize].state;
        state == State::Lost || !matches!(sent, Err(LaneError::Again))
    }

    /// Handles an answer.
    fn answered(&mut self, status: u8, answer: &Request) {
        // Answers to operations that have ended with their peer are dropped.
        let Some((op_index, op)) = self.ops.by_cookie(answer.cookie) else {
            return;
        };
        if op.parts == 0 {
            return;
        }
        let connection = op.connection;
        // SAFETY: the issuer keeps the result's memory valid until completion.
        let taken =
            unsafe { emulation::take_answer(op.action, op.local, op.len, status, answer, &[]) };
        self.requests_under_way -= 1;
        let error = taken.err().map(|error| {
            let peer = self.connections[connection as usize].peer;
            error.at(self.peers.all[peer as usize].number)
        });
        self.part_done(op_index, error);
    }
}
