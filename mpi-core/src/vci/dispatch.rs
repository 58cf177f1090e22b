//! Carrying out what the engine leaves in its outbox, in order per address.

#![deny(unsafe_code)]

use netmod::{Header, LaneError, Lost, Payload};

use super::{OWN, VciState};
use crate::pt2pt::engine::{Action, Address, lost_peer};
use crate::pt2pt::notice::Notice;
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Control, Name, PacketKind, Trailer};
use netmod_kit::event;

impl VciState {
    /// Carries out the outbox and retries what waits for space. Returns whether anything left.
    ///
    /// Invariant: the outbox is empty when this returns. Answers to retried actions leave at once too,
    /// since the program may not call again for a long time once its receive is complete.
    ///
    /// Invariant: messages to the process itself have arrived, and so have the answers: an operation
    /// that involves no other process is complete. Programs may test once and then wait for an event of
    /// their own.
    pub fn dispatch(&mut self) -> bool {
        let mut any = self.dispatch_once();
        while std::mem::take(&mut self.own_due)
            && self.routes[OWN].lane.poll(&mut self.engine, usize::MAX)
        {
            any |= self.dispatch_once();
        }
        any
    }

    /// Dispatches an outbox whose only action receives from a pipeline. That needs no space and never
    /// waits.
    #[inline(never)]
    pub(super) fn follow_first(&mut self) -> bool {
        if let Some(action) = self.engine.outbox.pop() {
            let rest = self.follow(&action).err();
            let rest = rest.and_then(|error| self.end_action(action, error));
            self.engine.outbox.extend(rest);
        }
        if !self.engine.outbox.is_empty() || !self.waiting.is_empty() {
            self.dispatch();
        }
        true
    }

    /// Dispatches an outbox whose only action fetches a message, and notifies its sender.
    #[inline(never)]
    pub(super) fn fetch_first(&mut self) -> bool {
        let mut any = false;
        while self.waiting.is_empty()
            && self.engine.outbox.len() == 1
            && let Some(action) = self.engine.outbox.pop()
        {
            let to = action.address();
            if let Some(rest) = self.perform(action, &mut any) {
                self.hold(to, rest);
            }
        }
        if !self.engine.outbox.is_empty() || !self.waiting.is_empty() || self.own_due {
            any |= self.dispatch();
        }
        any
    }

    /// Queues an action that found no space; later ones to the same address wait behind it.
    pub(super) fn hold(&mut self, to: Address, action: Action) {
        event!(
            Pending,
            Debug,
            "no space for {} to {to}: later ones wait",
            action.name()
        );
        self.waiting.begin(to, action);
        self.engine.streams.get(to.peer, to.vci).set_pending(true);
    }

    pub(super) fn dispatch_once(&mut self) -> bool {
        let mut any = false;
        self.gather(true);
        loop {
            any |= self.carry_out();
            if self.waiting.is_empty() {
                break;
            }
            if self.has_transfers() {
                any |= self.move_all();
            }
            any |= self.retry();
            if self.engine.outbox.is_empty() {
                break;
            }
        }
        self.gather(false);
        any
    }

    /// Sets for all lanes but the loopback whether messages may be bundled.
    pub(super) fn gather(&mut self, on: bool) {
        for route in self.routes.iter_mut().skip(1) {
            route.lane.coalesce(on);
        }
    }

    /// Carries out the outbox. Actions that find no space join the pending queue.
    pub(super) fn carry_out(&mut self) -> bool {
        let mut any = false;
        while !self.engine.outbox.is_empty() {
            let mut actions = std::mem::take(&mut self.scratch);
            std::mem::swap(&mut actions, &mut self.engine.outbox);
            for action in actions.drain(..) {
                let to = action.address();
                // An action that needs no space must not wait behind one that does.
                let waits = !matches!(
                    action,
                    Action::Withdraw(..)
                        | Action::ReceivePipeline { .. }
                        | Action::ClosePipeline(..)
                );
                let action = match waits {
                    true => self.waiting.join(&to, action),
                    false => Some(action),
                };
                if let Some(action) = action
                    && let Some(rest) = self.perform(action, &mut any)
                {
                    self.hold(to, rest);
                }
            }
            self.scratch = actions;
        }
        any
    }

    /// Retries the actions that wait for space, address by address.
    ///
    /// Invariant (non-overtaking): the first action that finds no space holds up all later ones to
    /// the same address, here and in [`VciState::send`] and [`VciState::carry_out`].
    pub(super) fn retry(&mut self) -> bool {
        let mut any = false;
        let addresses = self.waiting.addresses();
        for &to in &addresses {
            let Some(mut queue) = self.waiting.take(&to) else {
                continue;
            };
            while let Some(action) = queue.pop_front() {
                if let Some(rest) = self.perform(action, &mut any) {
                    queue.push_front(rest);
                    break;
                }
            }
            if queue.is_empty() {
                event!(Pending, Debug, "all that waited for {to} has left");
                self.engine.streams.get(to.peer, to.vci).set_pending(false);
            }
            self.waiting.give_back(to, queue);
        }
        self.waiting.keep(addresses);
        any
    }

    /// Carries out an action; gives back what of it must wait for room.
    pub(super) fn perform(&mut self, action: Action, any: &mut bool) -> Option<Action> {
        let to = action.address();
        let outcome = match action {
            Action::Control(_, kind, body) => self.send_control(to, kind, body),
            Action::Recall(_, name) => self.recall(to, name),
            Action::Notice(notice) => self.send_notice(&notice),
            Action::Ask(_, name) => self.ask(to, name),
            Action::Launch(_, name) => self.launch_queued(to, name),
            Action::Stream(_, name) => match self.in_role(name, Role::Streaming) {
                Some(id) => self.stream(to, id, any),
                None => Ok(()),
            },
            Action::Fetch {
                request,
                remote,
                len,
                ..
            } => match self.in_role(request, Role::Receiving) {
                Some(id) => self.fetch(to, id, remote, len, any),
                None => Ok(()),
            },
            Action::ReceivePipeline { .. } => self.follow(&action),
            Action::ClosePipeline(from, pipe) => self.close_pipeline(from, pipe),
            Action::Withdraw(_, id, status) => {
                self.withdraw(to, id);
                let record = self.engine.records.get(id);
                let error = record.and_then(|record| record.error.take());
                self.engine.records.complete(id, status, error);
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {
                *any = true;
                None
            }
            Err(error) => self.end_action(action, error),
        }
    }

    /// Handles the error of an action. Returns the action if it has to wait for space.
    #[cold]
    pub(super) fn end_action(&mut self, action: Action, error: LaneError) -> Option<Action> {
        match error {
            LaneError::Again | LaneError::Unsupported => return Some(action),
            LaneError::BadMemory(bad) => self.end_on_bad_memory(action, *bad),
            LaneError::PeerLost(lost) => {
                let Lost { peer, why } = *lost;
                if let Action::Ask(_, name)
                | Action::Launch(_, name)
                | Action::Stream(_, name)
                | Action::Fetch { request: name, .. }
                | Action::ReceivePipeline { request: name, .. } = action
                    && let Some(id) = name.id()
                    && self.engine.records.named(name).is_some()
                {
                    self.withdraw(action.address(), id);
                    self.engine.fail(id, lost_peer(peer, &why));
                }
                netmod::Sink::peer_lost(&mut self.engine, peer, why);
            }
        }
        None
    }

    /// Returns the request of this name, if it still has this role.
    pub(super) fn in_role(&mut self, name: Name, role: Role) -> Option<RequestId> {
        let record = self.engine.records.named(name)?;
        (record.role == role).then(|| name.id())?
    }

    pub(super) fn send_control(
        &mut self,
        to: Address,
        kind: PacketKind,
        body: Control,
    ) -> Result<(), LaneError> {
        let trailer = self.engine.trailer(to, kind);
        if kind == PacketKind::Credit && trailer.credit == 0 {
            return Ok(()); // it has gone with another message
        }
        let result = self.send_counted(to, trailer, &body.header(trailer), &[]);
        if result.is_ok() && kind == PacketKind::Fin {
            event!(
                Rendezvous,
                Debug,
                "FIN to {to} for its request {:#x}",
                body.request.word()
            );
        }
        result
    }

    fn send_notice(&mut self, notice: &Notice) -> Result<(), LaneError> {
        let to = notice.with;
        let trailer = self.engine.trailer(to, notice.kind());
        let (header, payload) = notice.message(trailer);
        self.send_counted(to, trailer, &header, &payload)
    }

    /// Sends a message whose trailer returns credit.
    fn send_counted(
        &mut self,
        to: Address,
        trailer: Trailer,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let lane = &mut self.route_to(to)?.lane;
        let result = lane.send(to.peer, to.vci, header, Payload::Bytes(payload));
        self.restore_credit(to, trailer, &result);
        result.map(drop)
    }

    /// Asks the receiver of a send to cancel it.
    pub(super) fn recall(&mut self, to: Address, name: Name) -> Result<(), LaneError> {
        let Some(record) = self.engine.records.named(name) else {
            return Ok(());
        };
        let key = record.key;
        let trailer = self.engine.trailer(to, PacketKind::Cancel);
        let (header, payload) = (wire::matched(key, trailer), name.word().to_ne_bytes());
        self.send_counted(to, trailer, &header, &payload)
    }

    /// Restores credit whose message did not leave.
    pub(super) fn restore_credit<T>(
        &mut self,
        to: Address,
        trailer: Trailer,
        result: &Result<T, LaneError>,
    ) {
        if result.is_err() {
            self.engine.streams.get(to.peer, to.vci).owed += trailer.credit;
        }
    }
}
