//! The target's side of windows whose members share no memory: any thread that makes progress
//! carries out the requests of origins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{Peer, VciId};

use crate::messages::lock_queue::Waiter;
use crate::messages::message::{Kind, Request, zeroed};
use crate::messages::pending::Sent;
use crate::messages::service::{Incoming, REQUEST, Service, State};
use crate::window::keys::{self};
use crate::window::lanes::Lane;
use crate::window::registry::Windows;
use mpi_core::ANY_SOURCE;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::process::source::ProgressSource;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_types::error::{Class, Result};

mod data;
pub mod fuzzing;

impl ProgressSource for Windows {
    fn advance_on(&self, process: &Process, vci: VciId, moved: bool) -> Result<bool> {
        // If no other thread makes progress, only the last poll can have brought work for windows.
        // Work that the last round left, and losses, wait for a round that is due.
        if !moved && !self.is_due(process) {
            return Ok(false);
        }
        advance_services(self, process, vci)
    }

    fn before_loss(&self, peer: Peer) {
        self.watch.end(peer);
    }

    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        self.holders_on(vci)
    }
}

/// Whether a new window may use the network's remote memory. It may not if members belong to several
/// jobs, since remote keys are valid within a job only.
pub(crate) fn uses_remote_memory(process: &Process, comm: &Comm) -> bool {
    let foreign = process.foreign();
    let own = |peer| !foreign.is_foreign(peer);
    let within = !foreign.any() || comm.local().peers().all(own);
    let only_messages = process.source::<Windows>().only_messages;
    within && !only_messages && keys::transports(process).next().is_some()
}

pub(crate) fn serve(process: &Process, service: &Arc<Service>) {
    for (lane, Lane { vci, .. }) in service.lanes.iter().enumerate() {
        let served = process.source::<Windows>().of_vci(process, *vci);
        served.change(|list| list.push((service.clone(), lane)));
    }
    process.source::<Windows>().count(process, 1);
    process.source::<Windows>().signal.window_added();
}

pub(crate) fn end_service(process: &Process, service: &Arc<Service>) {
    for Lane { vci, .. } in service.lanes.iter() {
        let served = process.source::<Windows>().of_vci(process, *vci);
        served.change(|list| list.retain(|(other, _)| !Arc::ptr_eq(other, service)));
    }
    process.source::<Windows>().count(process, -1);
    process.source::<Windows>().signal.window_removed();
}

/// Carries out what has arrived for windows on a VCI. Returns whether anything happened.
pub(crate) fn advance_services(windows: &Windows, process: &Process, vci: VciId) -> Result<bool> {
    let any = windows.serve_rings();
    let Some(served) = windows.served_on(vci) else {
        return Ok(any);
    };
    // Another thread that holds the lock makes progress on the list.
    let Some(list) = served.list.try_lock() else {
        return Ok(any);
    };
    // Most windows are idle and must cost little, however many there are. If another thread holds
    // the VCI's lock, that thread checks for messages itself.
    let arrived = process.has_unexpected(vci)?;
    let mut any = any;
    let losses = process.losses();
    for (service, lane) in list.iter() {
        if service.losses_seen.load(Ordering::Relaxed) != losses {
            service.free_locks_of_lost(process, losses)?;
        }
        if service.lanes.get(*lane).flight.has_refused() {
            any |= service.do_by_messages(process, *lane)?;
        }
        if arrived || service.lanes.get(*lane).active.load(Ordering::Acquire) {
            any |= service.advance(process, *lane, arrived)?;
        }
    }
    Ok(any)
}

impl Service {
    /// Runs one round on a lane: requests (if `arrived`), answers, and pending operations.
    fn advance(&self, process: &Process, lane: usize, arrived: bool) -> Result<bool> {
        let active = &self.lanes.get(lane).active;
        // Cleared before the round: operations that begin during it set it again.
        active.store(false, Ordering::SeqCst);
        let mut rest = true;
        let result = self.advance_all(process, lane, arrived, &mut rest);
        if rest {
            active.store(true, Ordering::Release);
        }
        result
    }

    /// Runs the round. Clears `rest` if nothing is pending any more.
    fn advance_all(
        &self,
        process: &Process,
        lane: usize,
        arrived: bool,
        rest: &mut bool,
    ) -> Result<bool> {
        let mut any = false;
        let mut quiet = false;
        if let Some(mut origin) = self.lanes.get(lane).origin.try_lock() {
            any |= self.settle(process, &mut origin.sends)?;
            let before = origin.fetches.len();
            origin.end_fetches(|fetch| {
                if !is_done(process, fetch.id) {
                    return None;
                }
                let ended = process.finish(fetch.id);
                Some(ended.and_then(|(_, error)| match fetch.outer {
                    Some(outer) => process.complete(outer, Status::EMPTY, error),
                    None => error.map_or(Ok(()), Err),
                }))
            })?;
            any |= origin.fetches.len() != before;
            quiet = origin.fetches.is_empty() && origin.sends.is_empty();
        }
        let Some(mut state) = self.state.try_lock() else {
            return Ok(any);
        };
        any |= self.settle(process, &mut state.answers)?;
        while arrived && let Some(incoming) = self.accept(process, lane)? {
            state.incoming[lane].push_back(incoming);
            any = true;
        }
        // Invariant: the requests of an origin that came by one lane are carried out in order.
        while let Some(first) = state.incoming[lane].front() {
            if !first.request.is_done(process) {
                break;
            }
            let Some(Incoming {
                from,
                request,
                whole,
            }) = state.incoming[lane].pop_front()
            else {
                break;
            };
            let (bytes, error) = request.take(process)?;
            match error {
                Some(error) if error.class() == Class::ProcFailed => continue,
                Some(error) if whole => return Err(error),
                _ => {}
            }
            self.carry_out(process, &mut state, (from, lane), &bytes)?;
            self.give_back(bytes);
            any = true;
        }
        *rest = !(quiet && state.answers.is_empty() && state.incoming[lane].is_empty());
        Ok(any)
    }

    /// Begins to receive the next request, if one has arrived.
    fn accept(&self, process: &Process, lane: usize) -> Result<Option<Incoming>> {
        let vci = self.lanes.get(lane).vci;
        let found = mpi_core::comm::try_matched_probe_by(
            process,
            &self.comm,
            vci,
            Purpose::Rma,
            ANY_SOURCE,
            REQUEST,
        )?;
        let Some(matched) = found else {
            return Ok(None);
        };
        // The sender chooses the length. If memory for it is not available, only its request fails.
        let is_member = self.is_member(matched.source(), matched.sender());
        let room = is_member.then(|| self.zeroed(matched.bytes())).flatten();
        let whole = room.is_some();
        let from = matched.source();
        if !is_member {
            let id = process.imrecv(matched, Buffer::EMPTY)?;
            process.detach(id)?;
            return Ok(None);
        }
        let bytes = room.unwrap_or_default();
        Ok(Some(Incoming {
            from: from as u32,
            request: Loan::new(bytes, |buffer| process.imrecv(matched, buffer))?,
            whole,
        }))
    }

    /// Allocates `len` zeros; pages of long ones are committed when first written. `None` if that
    /// fails.
    fn zeroed(&self, len: u64) -> Option<Vec<u8>> {
        const SHORT: usize = 1024;
        match usize::try_from(len) {
            Ok(0) => Some(Vec::new()),
            Ok(len) if len <= SHORT => {
                let mut bytes = self.memory_for(len);
                bytes.resize(len, 0);
                Some(bytes)
            }
            _ => zeroed(len),
        }
    }

    fn carry_out(
        &self,
        process: &Process,
        state: &mut State,
        (from, lane): (u32, usize),
        bytes: &[u8],
    ) -> Result<()> {
        let by = (from, lane);
        let Some(request) = Request::parse(bytes).filter(Request::can_be_answered) else {
            state.fail(from);
            return Ok(());
        };
        match request.kind {
            Kind::Put => self.write(state, from, &request),
            Kind::Get => self.read(process, state, by, &request)?,
            Kind::Accumulate => self.accumulate(process, state, by, &request)?,
            Kind::CompareAndSwap => self.compare_and_swap(process, state, by, &request)?,
            Kind::Flush => self.report(process, state, by, request.tag)?,
            Kind::Key => {
                let key = self.expose(process, request.a);
                let bytes = key.iter().flat_map(|word| word.to_ne_bytes()).collect();
                self.answer(process, state, by, request.tag, bytes)?;
            }
            Kind::Record => {
                let record = self.own_record();
                let bytes = record.iter().flat_map(|word| word.to_ne_bytes()).collect();
                self.answer(process, state, by, request.tag, bytes)?;
            }
            Kind::Lock => {
                let waiter = Waiter {
                    from: by,
                    tag: request.tag,
                    exclusive: request.a & 1 != 0,
                };
                if !self.is_lost(process, from) {
                    state.lock.join(waiter, request.a & 2 != 0);
                    self.grant(process, state)?;
                }
            }
            Kind::Unlock => {
                state.lock.leave(from);
                self.report(process, state, by, request.tag)?;
                self.grant(process, state)?;
            }
            Kind::Post => {
                *self.posts.lock().entry(from).or_default() += 1;
            }
            Kind::Complete => {
                self.completions.fetch_add(1, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Frees messages that have left. Returns whether there were any. Ignores losses: the wait for
    /// the answer reports them.
    fn settle(&self, process: &Process, sent: &mut Vec<Sent>) -> Result<bool> {
        let before = sent.len();
        let mut result = Ok(());
        let mut next = 0;
        while let Some(one) = sent.get(next) {
            if !one.is_done(process) {
                next += 1;
                continue;
            }
            match sent.swap_remove(next).take(process) {
                Ok((_, Some(error))) if error.class() == Class::ProcFailed => {}
                Ok((_, Some(error))) | Err(error) => result = Err(error),
                Ok((bytes, None)) => self.give_back(bytes),
            }
        }
        result.map(|()| sent.len() != before)
    }

    /// Answers that all earlier requests are carried out, with the number of failures.
    fn report(
        &self,
        process: &Process,
        state: &mut State,
        to: (u32, usize),
        tag: i32,
    ) -> Result<()> {
        let failed = state.failed.remove(&to.0).unwrap_or(0);
        self.answer(process, state, to, tag, self.word(failed))
    }
}

pub(crate) fn is_done(process: &Process, id: RequestId) -> bool {
    process.request(id).is_none_or(|request| request.is_done())
}

#[cfg(test)]
mod tests;
