//! Receives through a pipeline that the sender has opened ([`netmod::Pipes`]).

#![deny(unsafe_code)]

use netmod::{LaneError, Pipe, PipeReader, PullProgress};

use super::super::transfers::Pull;
use super::super::{VciState, bad_memory};
use crate::pt2pt::engine::{Action, Address, Engine, probe_status};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{Control, PacketKind};
use netmod_kit::event;
use netmod_kit::usable::Access;

impl VciState {
    /// Reads the data of a receive from its sender's pipeline, as far as it has come
    /// ([`Action::ReceivePipeline`]).
    pub(in crate::vci) fn follow(&mut self, action: &Action) -> Result<(), LaneError> {
        let Action::ReceivePipeline {
            from,
            request,
            pipe,
            sent,
            fin,
        } = *action
        else {
            return Ok(());
        };
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(pipes) = routes[route].pipes() else {
            let why = "it sent a message through memory that is not shared";
            return Err(LaneError::lost(from.peer, why));
        };
        let Engine {
            records, usable, ..
        } = engine;
        let record = records.named(request);
        let record = record.filter(|record| record.role == Role::Receiving);
        let (Some(record), Some(id)) = (record, request.id()) else {
            pipes.release(from.peer, from.vci, pipe);
            return Ok(());
        };
        let lengths = (record.total as usize, sent as usize);
        if let Some(ptr) = record.buffer.as_ptr()
            && let Err(bad) = usable.check_once(ptr, lengths.0, Access::Write)
        {
            pipes.release(from.peer, from.vci, pipe);
            return Err(bad_memory::own(bad));
        }
        let mut take = |at: usize, data: &[u8]| record.buffer.write(at, data);
        if pipes.take_written(from.peer, from.vci, pipe, lengths, &mut take)? {
            self.finish_pull(id, from, fin);
            return Ok(());
        }
        let mut pull = Pull {
            reading: PipeReader::new(from.peer, from.vci, pipe, lengths),
            request,
            fin,
        };
        if !self.pull(&mut pull).0 {
            self.pulls.push(pull);
            self.count_transfers();
        }
        Ok(())
    }

    /// Completes a receive whose data has all come through a pipeline.
    fn finish_pull(&mut self, id: RequestId, from: Address, fin: bool) {
        let engine = &mut self.engine;
        let Some((request, record)) = engine.records.find(id) else {
            return;
        };
        let (total, remote) = (record.total, record.remote);
        event!(
            Rendezvous,
            Debug,
            "all {total} bytes have come through the pipeline from {from}"
        );
        let status = probe_status(&record.key, total);
        let error = record.error.take();
        if record.conclude(request, status, error) {
            engine.records.free(id);
        }
        engine.counters.piped += 1;
        engine.counters.piped_bytes += total;
        if fin {
            let body = Control {
                request: remote,
                ..Control::default()
            };
            engine
                .outbox
                .push(Action::Control(from, PacketKind::Fin, body));
        }
    }

    /// Releases a pipeline whose message is not wanted.
    pub(in crate::vci) fn close_pipeline(
        &mut self,
        from: Address,
        pipe: Pipe,
    ) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        if let Some(pipes) = self.routes[route].pipes() {
            pipes.release(from.peer, from.vci, pipe);
        }
        Ok(())
    }

    /// Reads what has come. Returns whether the receive needs no more pulls, and whether there was
    /// progress.
    pub(in crate::vci) fn pull(&mut self, pull: &mut Pull) -> (bool, bool) {
        let from = address(&pull.reading);
        let Ok(route) = self.route_index(from) else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let Some(pipes) = routes[route].pipes() else {
            return (true, false);
        };
        let record = engine.records.named(pull.request);
        let record = record.filter(|record| record.role == Role::Receiving);
        let (Some(record), Some(id)) = (record, pull.request.id()) else {
            pipes.release(from.peer, from.vci, pull.reading.pipe);
            return (true, false);
        };
        let (buffer, moved) = (&mut record.buffer, &mut record.moved);
        let mut take = |at: usize, data: &[u8]| {
            buffer.write(at, data);
            *moved = (at + data.len()) as u64;
        };
        match pipes.pull(&mut pull.reading, &mut take) {
            Ok(PullProgress::Part(any)) => (false, any),
            Ok(PullProgress::Whole) => {
                self.finish_pull(id, from, pull.fin);
                (true, true)
            }
            Err(error) => {
                self.end_transfer(from, pull.request, error);
                (true, true)
            }
        }
    }
}

fn address(reading: &PipeReader) -> Address {
    Address {
        peer: reading.from,
        vci: reading.vci,
    }
}
