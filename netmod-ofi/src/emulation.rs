//! Get, put and atomics by messages: the target's side, and the answers.
//!
//! Each request has one answer, and an initiator has a bounded number of requests without answer,
//! so what a target owes is bounded by the number of lanes that talk to it.

use crate::lane::{Notice, OfiLane};
use crate::ops::Action;
use crate::wire::{self, DONE, Kind, NOT_EXPOSED, Prefix, Request};
use netmod::{AtomicOp, LaneError};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// An answer owed.
pub(crate) struct Reply {
    pub(crate) endpoint: u32,
    status: u8,
    /// The answer; for a get, the request's exposure and offset are in `source`.
    answer: Request,
    /// Get: exposure, offset and length of what is to be sent.
    source: Option<(u64, u64, usize)>,
}

impl OfiLane {
    /// Sends a message of the emulation.
    pub(crate) fn internal(
        &mut self,
        endpoint: u32,
        kind: Kind,
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

    /// A message of the emulation has arrived.
    pub(crate) fn serve(&mut self, prefix: Prefix, rest: &[u8]) {
        let Some((request, data)) = Request::parse(rest) else {
            return;
        };
        if prefix.kind == Kind::Answer {
            self.answered(prefix.code, &request, data);
            return;
        }
        let mut answer = Request {
            cookie: request.cookie,
            ..Request::default()
        };
        let mut source = None;
        let status = match prefix.kind {
            Kind::Atomic => match self.carry_out(prefix.code, &request) {
                Some(found) => {
                    answer.value = found;
                    DONE
                }
                None => NOT_EXPOSED,
            },
            Kind::Put => match self
                .shared
                .exposed(request.exposure, request.offset, data.len())
            {
                Some(place) => {
                    // SAFETY: all of it is exposed, so it is valid memory by the contract of
                    // `expose`; the data is in a receive buffer.
                    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), place, data.len()) };
                    DONE
                }
                None => NOT_EXPOSED,
            },
            Kind::Get => {
                answer.offset = request.extra;
                let most = self.shared.buffer_size - wire::INTERNAL;
                match usize::try_from(request.value) {
                    Ok(len) if len <= most => {
                        source = Some((request.exposure, request.offset, len));
                        DONE
                    }
                    _ => NOT_EXPOSED,
                }
            }
            Kind::Message | Kind::Bundle | Kind::Nop | Kind::Answer => return,
        };
        let endpoint = match self.endpoint(prefix.peer, prefix.vci) {
            Ok(endpoint) => endpoint,
            Err(LaneError::PeerLost(lost)) => {
                let netmod::Lost { peer, why } = *lost;
                self.notices.push_back(Notice::Lost(peer, why));
                return;
            }
            Err(_) => return,
        };
        let reply = Reply {
            endpoint,
            status,
            answer,
            source,
        };
        if !self.reply(&reply) {
            self.replies.push_back(reply);
        }
    }

    /// Tries to send an answer. Returns whether it is no longer owed.
    pub(crate) fn reply(&mut self, reply: &Reply) -> bool {
        let mut status = reply.status;
        let mut data: &[u8] = &[];
        if let Some((exposure, offset, len)) = reply.source {
            match self.shared.exposed(exposure, offset, len) {
                // SAFETY: all of it is exposed, so it is valid memory by the contract of `expose`;
                // what races with its owner's writes is the program's own affair, as on any network.
                Some(place) => data = unsafe { std::slice::from_raw_parts(place, len) },
                None => status = NOT_EXPOSED,
            }
        }
        let sent = self.internal(reply.endpoint, Kind::Answer, status, &reply.answer, data);
        !matches!(sent, Err(LaneError::Again))
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
                .compare_exchange(request.extra, operand, SeqCst, SeqCst)
                .unwrap_or_else(|found| found),
        })
    }

    /// An answer has arrived.
    fn answered(&mut self, status: u8, answer: &Request, data: &[u8]) {
        // Answers to operations that have ended with their peer are dropped here.
        let Some((index, op)) = self.ops.by_cookie(answer.cookie) else {
            return;
        };
        if op.parts == 0 {
            return;
        }
        let endpoint = op.endpoint;
        let mut ok = status == DONE;
        match op.action {
            _ if !ok => {}
            Action::Get => {
                let skip = usize::try_from(answer.offset).unwrap_or(usize::MAX);
                match skip.checked_add(data.len()) {
                    Some(end) if end <= op.len && !data.is_empty() => {
                        // SAFETY: within the `op.len` bytes of `local`, which is valid until
                        // completion by the contract of `get`.
                        unsafe {
                            let place = op.local.add(skip);
                            std::ptr::copy_nonoverlapping(data.as_ptr(), place, data.len());
                        }
                    }
                    _ => ok = false,
                }
            }
            // SAFETY: the place of the result is valid until completion.
            Action::Atomic { .. } => unsafe {
                op.local.cast::<u64>().write_unaligned(answer.value);
            },
            Action::Put => {}
        }
        self.requests_under_way -= 1;
        let error = (!ok).then(|| {
            let number = self.peers.peer_of(endpoint).number;
            let why = format!(
                "{}: process {number} exposes no memory at the place that was accessed (it was \
                 withdrawn, or the access goes beyond its end)",
                self.shared.provider
            );
            LaneError::lost(number, why)
        });
        self.part_done(index, error);
    }
}
