//! Sends through a pipeline ([`netmod::Pipes`]): the sender writes chunks that the receiver reads.

#![deny(unsafe_code)]

use netmod::{Payload, Pipe, Pipes, PushProgress, Source};

use super::super::VciState;
use super::super::transfers::Push;
use super::Outcome;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::Address;
use crate::pt2pt::request::{Record, Role};
use crate::pt2pt::wire::{self, Key, Name, PacketKind, Rts, Trailer};
use netmod_kit::usable::{Access, Usable};

fn source<'a>(buffer: &'a Buffer, parts: &'a mut dyn FnMut(usize, &mut [u8])) -> Source<'a> {
    match buffer.as_bytes() {
        Some(bytes) => Source::Bytes(bytes),
        None => Source::Parts(parts),
    }
}

/// Opens a pipeline for the data of a request that has none, if pipelines carry it and have space.
pub(super) fn open_pipe(
    pipes: &mut dyn Pipes,
    usable: &mut Usable,
    to: Address,
    record: &Record,
) -> Option<Pipe> {
    let (len, buffer) = (record.total as usize, &record.buffer);
    let is_contiguous = buffer.as_bytes().is_some();
    if !pipes.carries(to.peer, to.vci, len, is_contiguous) {
        return None;
    }
    if let Some(ptr) = buffer.as_ptr() {
        usable.check_once(ptr, len, Access::Read).ok()?;
    }
    pipes.open(to.peer, to.vci, len, is_contiguous)
}

impl VciState {
    /// Sends a message if a pipeline has space for all of it.
    #[inline(never)]
    pub(super) fn send_pipelined(
        &mut self,
        route: usize,
        to: Address,
        key: Key,
        buffer: &Buffer,
    ) -> Outcome {
        let len = buffer.len();
        let taken = self.taken;
        let VciState { engine, routes, .. } = self;
        let route = &mut routes[route];
        let stream = engine.streams.get(to.peer, to.vci);
        if stream.is_pending() || !engine.lost.is_empty() {
            return Outcome::WouldBlock;
        }
        let Some(pipes) = route.pipes() else {
            return Outcome::WouldBlock;
        };
        if let Some(ptr) = buffer.as_ptr()
            && engine.usable.check_once(ptr, len, Access::Read).is_err()
        {
            return Outcome::WouldBlock; // the request reports it
        }
        let mut parts = |at: usize, out: &mut [u8]| buffer.read(at, out);
        // A receiver that waits matches the message while it is being copied. One that has not
        // answered since the last message is likely behind: it is notified when all is written,
        // unless that takes long.
        let is_behind = stream.piped_at == taken;
        stream.piped_at = taken;
        let from = source(buffer, &mut parts);
        let begun = pipes.begin(to.peer, to.vci, len, from, is_behind);
        let Some((pipe, is_written)) = begun else {
            return Outcome::WouldBlock;
        };
        let trailer = Trailer {
            kind: PacketKind::Rts,
            from_vci: engine.vci,
            credit: std::mem::take(&mut stream.owed),
        };
        let header = wire::matched(key, trailer);
        let rts = Rts {
            len: len as u64,
            request: Name::NONE,
            key: None,
            pipe: Some(pipe),
            sync: false,
        };
        let (bytes, used) = rts.to_bytes();
        let result = route
            .lane
            .send(to.peer, to.vci, &header, Payload::Bytes(&bytes[..used]));
        if result.is_err() {
            if let Some(pipes) = route.pipes() {
                pipes.abandon(pipe);
            }
            self.restore_credit(to, trailer, &result);
            return Outcome::WouldBlock;
        }
        if !is_written && let Some(pipes) = route.pipes() {
            // A receiver that is lost meanwhile reads nothing of it.
            let _ = pipes.push(pipe, &mut 0, source(buffer, &mut parts));
        }
        engine.counters.count_piped_send(len as u64);
        Outcome::Sent
    }

    /// Whether pipelines to `to` have no space now for a message of `len` bytes, but may later.
    pub(super) fn is_pipeline_full(&mut self, to: Address, len: usize) -> bool {
        let pipes = self.route_to(to).ok().and_then(|route| route.pipes());
        pipes.is_some_and(|pipes| pipes.is_full(len))
    }

    /// Continues a send whose receiver has been told of its pipeline.
    pub(super) fn begin_push(&mut self, to: Address, request: Name) {
        let push = Push { to, request };
        if !self.push(&push).0 {
            self.pushes.push(push);
            self.count_transfers();
        }
    }

    /// Writes what the pipeline of a send has space for. Returns whether the send needs no more
    /// pushes, and whether there was progress.
    pub(in crate::vci) fn push(&mut self, push: &Push) -> (bool, bool) {
        let Push { to, request } = *push;
        let (Some(id), Ok(route)) = (self.in_role(request, Role::Streaming), self.route_index(to))
        else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let (Some(record), Some(pipes)) = (engine.records.get(id), routes[route].pipes()) else {
            return (true, false);
        };
        let Some(pipe) = record.pipe else {
            return (true, false);
        };
        let len = record.total as usize;
        let (mut moved, buffer) = (record.moved as usize, &record.buffer);
        let mut parts = |at: usize, out: &mut [u8]| buffer.read(at, out);
        let pushed = pipes.push(pipe, &mut moved, source(buffer, &mut parts));
        record.moved = moved as u64;
        match pushed {
            Ok(PushProgress::Whole) => {
                engine.counters.streamed += 1;
                engine.counters.streamed_bytes += len as u64;
                if record.sync {
                    record.role = Role::AwaitingReceiver;
                } else {
                    // It is the receiver's.
                    record.pipe = None;
                    engine.finish_send(id);
                }
                (true, true)
            }
            Ok(PushProgress::Part(any)) => (false, any),
            Ok(PushProgress::Released) => {
                // The receiver reports the end of a shorter receive, or has reported it already.
                record.role = Role::AwaitingReceiver;
                (true, true)
            }
            Err(error) => {
                self.end_transfer(to, request, error);
                (true, true)
            }
        }
    }
}
