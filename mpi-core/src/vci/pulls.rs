//! Long messages through pipes ([`netmod::Pipes`]): the sender opens one and pushes, the receiver pulls.

#![deny(unsafe_code)]

use netmod::{
    LaneError, Lost, NoPipe, Pipe, PipeReader, PipeRequest, PullProgress, PushProgress, RemoteAddr,
    Source,
};

use super::{VciState, bad_memory};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Action, Address, Engine, failed, probe_status};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Control, Key, Name, PacketKind, Rts, Trailer};
use netmod_kit::usable::Access;

/// What has become of a message that may go by a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piped {
    Sent,
    /// Its receiver is to read it where it is, and to say how long that took if `timed`.
    Read {
        timed: bool,
    },
    /// There is no room at the moment, or it can't go so.
    No,
}

/// A receive whose data comes through a pipe.
pub(super) struct Pull {
    reading: PipeReader,
    request: Name,
    /// Where the sender's memory can be read if it doesn't come to it.
    remote: Option<RemoteAddr>,
    /// The sender is to be told.
    fin: bool,
}

/// A send whose data goes through a pipe that has no room at the moment.
pub(super) struct Push {
    to: Address,
    request: Name,
}

fn source<'a>(buffer: &'a Buffer, parts: &'a mut dyn FnMut(usize, &mut [u8])) -> Source<'a> {
    match buffer.as_bytes() {
        Some(bytes) => Source::Bytes(bytes),
        None => Source::Parts(parts),
    }
}

fn request(buffer: &Buffer) -> PipeRequest {
    match buffer.as_bytes() {
        Some(_) => PipeRequest::IfFaster,
        None => PipeRequest::Required,
    }
}

impl VciState {
    /// Sends a long message by a pipe if all of it has room there: then no request is needed, and nobody waited for.
    #[inline(never)]
    pub(super) fn send_piped(&mut self, to: Address, key: Key, buffer: &Buffer) -> Piped {
        let Ok(route) = self.route_index(to) else {
            return Piped::No;
        };
        let len = buffer.len();
        let taken = self.taken;
        let VciState { engine, routes, .. } = self;
        let route = &mut routes[route];
        let stream = engine.streams.get(to.peer, to.vci);
        if len <= route.eager_max || route.waits || stream.is_pending() || !engine.lost.is_empty() {
            return Piped::No;
        }
        let Some(pipes) = route.lane.pipes() else {
            return Piped::No;
        };
        if let Some(ptr) = buffer.as_ptr()
            && engine.usable.check_once(ptr, len, Access::Read).is_err()
        {
            return Piped::No;
        }
        let mut parts = |at: usize, out: &mut [u8]| buffer.read(at, out);
        // A receiver that waits finds its place for the message while that is copied. One that has not answered since
        // the last message is likely behind: it gets this one when all is written, unless that takes long.
        let is_behind = stream.piped_at == taken;
        stream.piped_at = taken;
        let (request, from) = (request(buffer), source(buffer, &mut parts));
        let begun = pipes.begin(to.peer, to.vci, len, request, from, is_behind);
        let (pipe, is_written) = match begun {
            Ok(begun) => begun,
            Err(NoPipe::NoRoom) => return Piped::No,
            Err(NoPipe::Read { timed }) => return Piped::Read { timed },
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
            timed: false,
        };
        let (bytes, used) = rts.to_bytes();
        let lane = &mut route.lane;
        let result = lane.send(to.peer, to.vci, &header, &bytes[..used]);
        if result.is_err() {
            if let Some(pipes) = lane.pipes() {
                pipes.abandon(pipe);
            }
            self.restore_credit(to, trailer, &result);
            return Piped::No;
        }
        if !is_written && let Some(pipes) = lane.pipes() {
            // A receiver that is lost meanwhile reads nothing of it.
            let _ = pipes.push(pipe, &mut 0, source(buffer, &mut parts));
        }
        engine.counters.count_piped_send(len as u64);
        Piped::Sent
    }

    /// Where there was no room for a message in pipes: whether there is when what has come was taken in. Two who send
    /// much to each other wait for each other's room.
    #[inline(never)]
    pub(super) fn makes_room(&mut self, to: Address, len: usize) -> bool {
        let is_full = |vci: &mut VciState| {
            let route = vci.route_to(to).ok().filter(|route| len > route.eager_max);
            let pipes = route.and_then(|route| route.lane.pipes());
            pipes.is_some_and(|pipes| pipes.is_full(len))
        };
        is_full(self) && {
            self.progress();
            !is_full(self)
        }
    }

    /// Opens a pipe for a send that has none yet, if that is the way for it.
    pub(super) fn open_pipe(&mut self, to: Address, id: RequestId) -> Result<(), LaneError> {
        let route = self.route_index(to)?;
        let VciState { engine, routes, .. } = self;
        let Engine {
            records, usable, ..
        } = engine;
        let (Some(record), Some(pipes)) = (records.get(id), routes[route].lane.pipes()) else {
            return Ok(());
        };
        let len = record.total as usize;
        let buffer = &record.buffer;
        let mut is_bad = |ptr: *mut u8| usable.check_once(ptr, len, Access::Read).is_err();
        if record.pipe.is_some() || buffer.as_ptr().is_some_and(&mut is_bad) {
            return Ok(());
        }
        record.pipe = pipes.open(to.peer, to.vci, len, request(buffer));
        Ok(())
    }

    /// Goes on with a send whose receiver has been told of its pipe.
    pub(super) fn begin_push(&mut self, to: Address, request: Name) {
        let push = Push { to, request };
        if !self.push(&push).0 {
            self.pushes.push(push);
            self.count_transfers();
        }
    }

    /// Sends what there is room for through the pipe of a send. Returns whether there is nothing more to do, and
    /// whether something was done.
    fn push(&mut self, push: &Push) -> (bool, bool) {
        let Push { to, request } = *push;
        let (Some(id), Ok(route)) = (self.in_role(request, Role::Streaming), self.route_index(to))
        else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let (Some(record), Some(pipes)) = (engine.records.get(id), routes[route].lane.pipes())
        else {
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
            Ok(PushProgress::Revoked) => {
                // It tells when it has read the rest, or has told already.
                record.role = Role::AwaitingReceiver;
                (true, true)
            }
            Err(error) => {
                self.end_transfer(to, request, error);
                (true, true)
            }
        }
    }

    /// The other side of a transfer is lost, or can't be relied on.
    #[cold]
    fn end_transfer(&mut self, with: Address, request: Name, error: LaneError) {
        if let Some(id) = request.id()
            && self.engine.records.named(request).is_some()
        {
            self.withdraw(with, id);
            self.engine.fail(id, failed(error.clone()));
        }
        let (peer, why) = match error {
            LaneError::PeerLost(lost) => {
                let Lost { peer, why } = *lost;
                (peer, why)
            }
            error => (with.peer, error.to_string()),
        };
        netmod::Sink::peer_lost(&mut self.engine, peer, why);
    }

    /// Takes the data of a receive from the pipe that its sender has opened, as far as it has come, if that is the action.
    pub(super) fn follow(&mut self, action: &Action) -> Result<(), LaneError> {
        let Action::ReceivePipeline {
            from,
            request,
            pipe,
            remote,
            sent,
            fin,
        } = *action
        else {
            return Ok(());
        };
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(pipes) = routes[route].lane.pipes() else {
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
        let replaceable = remote.is_some();
        let mut pull = Pull {
            reading: PipeReader::new(from.peer, from.vci, pipe, lengths, replaceable),
            request,
            remote,
            fin,
        };
        if !self.pull(&mut pull).0 {
            self.pulls.push(pull);
            self.count_transfers();
        }
        Ok(())
    }

    /// All of a message has come through a pipe.
    fn finish_pull(&mut self, id: RequestId, from: Address, fin: bool) {
        let engine = &mut self.engine;
        let Some((request, record)) = engine.records.find(id) else {
            return;
        };
        let (total, remote) = (record.total, record.remote);
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

    /// Gives back a pipe that nobody wants.
    pub(super) fn close_pipeline(&mut self, from: Address, pipe: Pipe) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        if let Some(pipes) = self.routes[route].lane.pipes() {
            pipes.release(from.peer, from.vci, pipe);
        }
        Ok(())
    }

    /// Takes in and sends what goes through pipes. Returns whether something has, or has become possible.
    pub(super) fn move_all(&mut self) -> bool {
        let mut any = false;
        let mut pulls = std::mem::take(&mut self.pulls);
        pulls.retain_mut(|pull| {
            let (is_over, did) = self.pull(pull);
            any |= did;
            !is_over
        });
        // What was begun meanwhile comes behind.
        pulls.append(&mut self.pulls);
        self.pulls = pulls;
        let mut pushes = std::mem::take(&mut self.pushes);
        pushes.retain(|push| {
            let (is_over, did) = self.push(push);
            any |= did;
            !is_over
        });
        pushes.append(&mut self.pushes);
        self.pushes = pushes;
        self.count_transfers();
        any || self.help()
    }

    /// Does a share of what a receiver reads where it is. Returns whether there was something.
    fn help(&mut self) -> bool {
        let own = self.rx_ring.as_ref().filter(|_| self.offers > 0);
        own.is_some_and(|(_, own)| self.routes[*own].lane.help())
    }

    /// The memory of so many sends more may be read by receivers of this node; or of so many fewer.
    pub(super) fn count_offers(&mut self, more: isize) {
        self.offers = self.offers.saturating_add_signed(more);
        self.count_transfers();
    }

    fn count_transfers(&mut self) {
        self.waiting
            .set_transfers(self.pulls.len() + self.pushes.len() + self.offers);
    }

    /// Whether anything goes through pipes, or may be read where it is.
    pub(super) fn has_transfers(&self) -> bool {
        !self.pulls.is_empty() || !self.pushes.is_empty() || self.offers > 0
    }

    /// Returns whether there is nothing more to do, and whether something was done.
    fn pull(&mut self, pull: &mut Pull) -> (bool, bool) {
        let from = address(&pull.reading);
        let Ok(route) = self.route_index(from) else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let Some(pipes) = routes[route].lane.pipes() else {
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
            Ok(PullProgress::Stalled(done)) => {
                record.moved = done as u64;
                let len = record.total as usize;
                match pull.remote {
                    Some(remote) => engine.outbox.push(Action::Fetch {
                        from,
                        request: pull.request,
                        remote,
                        len,
                        timed: true,
                    }),
                    None => engine.ask_for_data(id),
                }
                (true, true)
            }
            Err(error) => {
                self.end_transfer(from, pull.request, error);
                (true, true)
            }
        }
    }

    /// Whether a pull must be looked after without waiting for anybody.
    pub(super) fn pulls_need_polling(&self) -> bool {
        self.pulls.iter().any(|pull| pull.remote.is_some())
    }
}

fn address(reading: &PipeReader) -> Address {
    Address {
        peer: reading.from,
        vci: reading.vci,
    }
}
