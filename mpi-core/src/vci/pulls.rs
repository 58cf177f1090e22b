//! Long messages through pipes ([`netmod::Pipes`]): the receiver opens one and pulls, the sender pushes.

#![deny(unsafe_code)]

use netmod::{LaneError, Opened, Pipe, Pulled, Pushed, RemoteAddr, Wish};

use super::{VciState, bad_memory};
use crate::pt2pt::engine::{Action, Address, Engine};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::usable::Access;
use crate::pt2pt::wire::Name;

/// A receive whose data comes through a pipe, or is to as soon as there is one.
#[derive(Clone, Copy)]
pub(super) struct Pull {
    from: Address,
    request: Name,
    /// Where the sender's memory can be read if it doesn't come to it.
    remote: Option<RemoteAddr>,
    /// The receive's; kept here, too, since that may end before its data has come.
    pipe: Option<Pipe>,
}

impl VciState {
    /// Has the data of a receive come through a pipe if that is the way for it. Returns whether that is seen to.
    pub(super) fn open_pipe(
        &mut self,
        from: Address,
        id: RequestId,
        remote: Option<RemoteAddr>,
    ) -> Result<bool, LaneError> {
        let wish = match remote {
            Some(_) => Wish::Better,
            None => Wish::Needed,
        };
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Engine {
            records, usable, ..
        } = engine;
        let request = records.name(id);
        let Some(record) = records.get(id) else {
            return Ok(true);
        };
        if record.pipe_settled {
            return Ok(false);
        }
        record.pipe_settled = true;
        let Some(pipes) = routes[route].lane.pipes() else {
            return Ok(false);
        };
        match pipes.open(from.peer, from.vci, record.total as usize, wish) {
            Opened::Open(pipe) => {
                if let Some(ptr) = record.buffer.as_ptr()
                    && let Err(bad) =
                        bad_memory::check(usable, ptr, record.total as usize, Access::Write)
                {
                    pipes.close(pipe);
                    return Err(bad);
                }
                record.pipe = Some(pipe);
            }
            Opened::Later => {}
            Opened::Other => return Ok(false),
        }
        let pull = Pull {
            from,
            request,
            remote,
            pipe: record.pipe,
        };
        if pull.pipe.is_some() {
            engine.outbox.push(Action::Ask(from, request));
        }
        self.pulls.push(pull);
        self.waiting.set_pulls(self.pulls.len());
        Ok(true)
    }

    /// As [`VciState::open_pipe`], where the sender's memory can't be read.
    pub(super) fn ask_for_pipe(&mut self, from: Address, name: Name) -> Result<bool, LaneError> {
        let record = self.engine.records.named(name);
        match (record, name.id()) {
            (Some(record), Some(id)) if !record.pipe_settled && !record.buffer.is_empty() => {
                self.open_pipe(from, id, None)
            }
            _ => Ok(false),
        }
    }

    /// Takes in what has come through pipes. Returns whether something has, or has become possible.
    pub(super) fn pull_all(&mut self) -> bool {
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
        self.waiting.set_pulls(self.pulls.len());
        any
    }

    /// Returns whether there is nothing more to do, and whether something was done.
    fn pull(&mut self, pull: &mut Pull) -> (bool, bool) {
        let Pull { from, request, .. } = *pull;
        let Ok(route) = self.route_index(from) else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let Some(pipes) = routes[route].lane.pipes() else {
            return (true, false);
        };
        let record = engine.records.named(request);
        let record = record.filter(|record| record.role == Role::Receiving);
        let (Some(record), Some(id)) = (record, request.id()) else {
            if let Some(pipe) = pull.pipe {
                pipes.close(pipe);
            }
            return (true, false);
        };
        let Some(pipe) = pull.pipe else {
            return self.open_promised(pull, id);
        };
        let (buffer, moved) = (&mut record.buffer, &mut record.moved);
        let mut take = |at: usize, data: &[u8]| {
            buffer.write(at, data);
            *moved = (at + data.len()) as u64;
        };
        match pipes.pull(pipe, &mut take) {
            Pulled::Part(any) => (false, any),
            Pulled::Whole => {
                engine.counters.piped += 1;
                engine.counters.piped_bytes += record.total;
                engine.finish_transfer(id);
                (true, true)
            }
            Pulled::Stalled(done) => {
                record.pipe = None;
                record.moved = done as u64;
                self.go_on_without(pull, id);
                (true, true)
            }
        }
    }

    /// A receive waits for its pipe.
    fn open_promised(&mut self, pull: &mut Pull, id: RequestId) -> (bool, bool) {
        let from = pull.from;
        let Ok(route) = self.route_index(from) else {
            return (true, false);
        };
        let VciState { engine, routes, .. } = self;
        let (Some(record), Some(pipes)) = (engine.records.get(id), routes[route].lane.pipes())
        else {
            return (true, false);
        };
        let len = record.total as usize;
        match pipes.open(from.peer, from.vci, len, Wish::Promised) {
            Opened::Open(pipe) => {
                (record.pipe, pull.pipe) = (Some(pipe), Some(pipe));
                engine.outbox.push(Action::Ask(from, pull.request));
                (false, true)
            }
            Opened::Later => (false, false),
            Opened::Other => {
                self.go_on_without(pull, id);
                (true, true)
            }
        }
    }

    fn go_on_without(&mut self, pull: &Pull, id: RequestId) {
        let Some(record) = self.engine.records.get(id) else {
            return;
        };
        let len = record.total as usize;
        match pull.remote {
            Some(remote) => self.engine.outbox.push(Action::Fetch {
                from: pull.from,
                request: pull.request,
                remote,
                len,
            }),
            None => self.engine.ask_for_data(id),
        }
    }

    /// Whether a pull must be looked after without waiting for anybody.
    pub(super) fn pulls_need_polling(&self) -> bool {
        self.pulls.iter().any(|pull| pull.remote.is_some())
    }

    /// Sends what there is room for through the pipe that the receiver has opened.
    pub(super) fn push(
        &mut self,
        to: Address,
        id: RequestId,
        any: &mut bool,
    ) -> Result<(), LaneError> {
        let route = self.route_index(to)?;
        let VciState { engine, routes, .. } = self;
        let Engine {
            records, usable, ..
        } = engine;
        let Some(record) = records.get(id) else {
            return Ok(());
        };
        let (Some(pipe), Some(pipes)) = (record.pipe, routes[route].lane.pipes()) else {
            return Ok(());
        };
        let total = record.total as usize;
        if let (Some(ptr), 0) = (record.buffer.as_ptr(), record.moved) {
            bad_memory::check(usable, ptr, total, Access::Read)?;
        }
        let mut moved = record.moved as usize;
        let buffer = &record.buffer;
        let mut fill = |at: usize, out: &mut [u8]| buffer.read(at, out);
        let pushed = pipes.push(to.peer, to.vci, pipe, total, &mut moved, &mut fill);
        record.moved = moved as u64;
        match pushed? {
            Pushed::Whole => {
                *any = true;
                engine.counters.streamed += 1;
                engine.counters.streamed_bytes += total as u64;
                engine.finish_send(id);
                Ok(())
            }
            Pushed::Part(some) => {
                *any |= some;
                Err(LaneError::Again)
            }
            Pushed::Revoked => {
                // It tells when it has read the rest, or has told already.
                record.role = Role::AwaitingReceiver;
                Ok(())
            }
        }
    }
}
