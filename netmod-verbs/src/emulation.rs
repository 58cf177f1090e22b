//! Atomics by messages, for adapters that have none: both sides.
//!
//! Each request has one answer, and an initiator has a bounded number of requests without answer,
//! so what a target owes is bounded by the number of engines that talk to it.

use crate::engine::Engine;
use crate::ops::Action;
use crate::peers::State;
use crate::remote::Stop;
use crate::wire::{DONE, Kind, NOT_EXPOSED, Prefix, Request};
use netmod::{AtomicOp, LaneError, VciId};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Requests of the emulation that an engine has under way at most; bounds what targets owe it.
const REQUESTS_MOST: usize = 64;

/// An answer owed to a request of the emulation.
pub(crate) struct Reply {
    pub(crate) connection: u32,
    to: VciId,
    status: u8,
    answer: Request,
}

impl Engine {
    /// Sends the request for an emulated atomic.
    pub(crate) fn request(&mut self, op_index: u32) -> Result<usize, Stop> {
        if self.requests_under_way >= REQUESTS_MOST {
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
            compare,
        };
        let index = op.connection;
        let to = self.connections[index as usize].vci;
        self.transmit(
            index,
            Kind::Atomic,
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

    /// A message of the emulation has arrived.
    #[cold]
    pub(crate) fn serve(&mut self, index: u32, prefix: &Prefix, rest: &[u8]) {
        let Some(request) = Request::parse(rest) else {
            return;
        };
        if prefix.kind == Kind::Answer {
            self.answered(prefix.code, &request);
            return;
        }
        let mut answer = Request {
            cookie: request.cookie,
            ..Request::default()
        };
        let status = match self.carry_out(prefix.code, &request) {
            Some(found) => {
                answer.value = found;
                DONE
            }
            None => NOT_EXPOSED,
        };
        let reply = Reply {
            connection: index,
            to: prefix.from,
            status,
            answer,
        };
        if !self.reply(&reply) {
            self.replies.push_back(reply);
        }
    }

    /// Tries to send an answer. Returns whether it is no longer owed.
    pub(crate) fn reply(&mut self, reply: &Reply) -> bool {
        let bytes = reply.answer.to_bytes();
        let (to, status) = (reply.to, reply.status);
        let sent = self.transmit(
            reply.connection,
            Kind::Answer,
            status,
            to,
            bytes.len(),
            |room| room.copy_from_slice(&bytes),
        );
        let state = self.connections[reply.connection as usize].state;
        state == State::Lost || !matches!(sent, Err(LaneError::Again))
    }

    /// Carries out an atomic here; `None` if the memory is not exposed.
    fn carry_out(&self, code: u8, request: &Request) -> Option<u64> {
        let place = self
            .shared
            .exposed(request.exposure, request.offset, 8)?
            .cast::<u64>();
        if !place.is_aligned() {
            return None;
        }
        let operand = request.value;
        // SAFETY: exposed, so valid by the contract of `expose`, and aligned. Others that write it
        // at the same time do so by atomics too, or the program is wrong.
        let place = unsafe { AtomicU64::from_ptr(place) };
        const CODES: [AtomicOp; 7] = [
            AtomicOp::Load,
            AtomicOp::Swap,
            AtomicOp::Add,
            AtomicOp::And,
            AtomicOp::Or,
            AtomicOp::Xor,
            AtomicOp::CompareSwap,
        ];
        let op = *CODES.iter().find(|&&op| op as u8 == code)?;
        Some(match op {
            AtomicOp::Load => place.load(SeqCst),
            AtomicOp::Swap => place.swap(operand, SeqCst),
            AtomicOp::Add => place.fetch_add(operand, SeqCst),
            AtomicOp::And => place.fetch_and(operand, SeqCst),
            AtomicOp::Or => place.fetch_or(operand, SeqCst),
            AtomicOp::Xor => place.fetch_xor(operand, SeqCst),
            AtomicOp::CompareSwap => place
                .compare_exchange(request.compare, operand, SeqCst, SeqCst)
                .unwrap_or_else(|found| found),
        })
    }

    /// An answer has arrived.
    fn answered(&mut self, status: u8, answer: &Request) {
        // Answers to operations that have ended with their peer are dropped here.
        let Some((op_index, op)) = self.ops.by_cookie(answer.cookie) else {
            return;
        };
        if op.parts == 0 {
            return;
        }
        let connection = op.connection;
        if status == DONE {
            // SAFETY: the place of the result is valid until completion.
            unsafe { op.local.cast::<u64>().write_unaligned(answer.value) };
        }
        self.requests_under_way -= 1;
        let error = (status != DONE).then(|| {
            let peer = self.connections[connection as usize].peer;
            let number = self.peers.all[peer as usize].number;
            let why = format!(
                "process {number} exposes no memory at the place that was accessed (it was \
                 withdrawn, or the access goes beyond its end)"
            );
            LaneError::lost(number, why)
        });
        self.part_done(op_index, error);
    }
}
