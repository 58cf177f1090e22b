//! Puts, gets, atomics and flushes of windows by the transports' remote memory.

use std::sync::Arc;

use netmod::breakdown::{Part, enter};
use netmod::{Issued, Lane, LaneError, RemoteAccess, RemoteAddr};

use super::VciState;
use crate::error::Result;
use crate::pt2pt::engine::Address;
use crate::pt2pt::engine::failed;
use crate::pt2pt::operations::{Access, Act, Flight, Ops, Pending};
use crate::pt2pt::request::{RequestId, Role};

/// The outcome of starting an access.
pub enum Started {
    /// It is complete.
    Done,
    /// The transport is carrying it out; the program's request, if it asked for one.
    Pending(Option<RequestId>),
    /// A part is issued. There is no space for the rest, which
    /// [`Process::continue_access`](crate::Process::continue_access) issues.
    Partly(u32, Option<RequestId>),
    /// The transport can't carry it out; nothing was issued.
    Refused,
}

impl VciState {
    /// Returns the name of the transport that reaches a peer, if it has remote memory of its own, and
    /// whether a burst of small accesses is faster by messages: where the transport bundles them and
    /// the target's processor is needed anyway.
    pub fn remote_memory(&mut self, to: Address) -> Option<(&'static str, bool)> {
        let route = self.route_to(to).ok()?;
        let native = route.limits.native_rma && route.transport.shared_memory().is_none();
        let in_bursts = route.limits.coalesces && !route.limits.passive_target;
        native.then(|| (route.transport.name(), in_bursts))
    }

    /// Starts an access. With an `owner`, makes a request if the access is not complete at once.
    /// Takes `place`'s access if it is pending. Returns `None` if there is no space.
    ///
    /// # Safety
    /// The memory that `place` names stays valid until it is complete, and the peer has exposed the
    /// blocks.
    pub unsafe fn start_access(
        &mut self,
        place: &mut Option<Access>,
        flight: &Arc<Flight>,
        owner: Option<u32>,
    ) -> Result<Option<Started>> {
        let Some(access) = place else {
            return Ok(Some(Started::Done));
        };
        let index = self.engine.remote.next();
        let route = match access.transport {
            Some(route) => route,
            None => self.route_index(access.to).map_err(failed)?,
        };
        let nowhere = self.engine.remote.nowhere();
        // SAFETY: the memory is valid until the access is complete (# Safety).
        unsafe { issue(&mut *self.routes[route].lane, access, index, nowhere) };
        if access.next == 0 {
            return match access.failed.take() {
                None => Ok(None),
                Some(error @ LaneError::PeerLost(_)) => Err(failed(error)),
                Some(error) if matches!(access.act, Act::Flush) => Err(failed(error)),
                Some(_) => Ok(Some(Started::Refused)),
            };
        }
        let counted = u64::from(!access.internal);
        match access.act {
            Act::Put => {
                self.engine.counters.native_puts += counted;
                flight.wrote(access.target);
            }
            Act::Get => self.engine.counters.native_gets += counted,
            // Completed atomics have been carried out: there is nothing to flush.
            Act::Atomic(_) => self.engine.counters.native_atomics += counted,
            Act::Flush => {}
        }
        access.held = access.next < access.blocks.len() && access.failed.is_none();
        if access.is_over() && access.failed.is_none() {
            access.arrive();
            if let Some(number) = access.number {
                flight.end(number, None);
            }
            return Ok(Some(Started::Done));
        }
        let outer = owner.map(|owner| self.engine.start(owner)).transpose();
        if let Ok(Some(id)) = outer {
            if let Some(record) = self.engine.records.get(id) {
                record.role = Role::External;
            }
            access.outer = Some(id);
        }
        access
            .number
            .get_or_insert_with(|| flight.begin(access.target));
        let (held, flight) = (access.held, flight.clone());
        if let Some(access) = place.take() {
            self.engine.remote.insert(Pending { access, flight });
        }
        self.engine.end_if_over(index);
        let outer = outer?;
        Ok(Some(match held {
            true => Started::Partly(index, outer),
            false => Started::Pending(outer),
        }))
    }

    /// Issues more of an access. Returns whether nothing is left to issue.
    pub fn go_on(&mut self, index: u32) -> bool {
        let Some(Pending { access, .. }) = self.engine.remote.get(index) else {
            return true;
        };
        let (to, transport) = (access.to, access.transport);
        let route = transport.map_or_else(|| self.route_index(to), Ok);
        let nowhere = self.engine.remote.nowhere();
        let Some(Pending { access, .. }) = self.engine.remote.get(index) else {
            return true;
        };
        match route {
            // SAFETY: the memory is valid until the access is complete, by the contract of
            // `start_access`.
            Ok(route) => unsafe { issue(&mut *self.routes[route].lane, access, index, nowhere) },
            Err(error) => access.failed = Some(error),
        }
        access.held = access.next < access.blocks.len() && access.failed.is_none();
        let held = access.held;
        self.engine.end_if_over(index);
        !held
    }

    /// Gives up the rest of an access because of `why`.
    pub fn give_up(&mut self, index: u32, why: LaneError) {
        if let Some(Pending { access, .. }) = self.engine.remote.get(index) {
            access.failed.get_or_insert(why);
            access.held = false;
        }
        self.engine.end_if_over(index);
    }
}

/// Issues blocks of an access to a lane while there is space.
///
/// # Safety
/// The memory that `access` names stays valid until it is complete, and the peer has exposed the
/// blocks; `nowhere`, which gets unwanted results of atomics, stays valid as long.
unsafe fn issue(lane: &mut dyn Lane, access: &mut Access, index: u32, nowhere: *mut u64) {
    let token = Ops::token(index);
    let Address { peer, vci } = access.to;
    while let Some(&(offset, len)) = access.blocks.get(access.next) {
        let remote = RemoteAddr {
            key: access.key,
            offset,
        };
        let local = access.local.wrapping_add(access.moved);
        let part = match &access.act {
            Act::Put => Some(RemoteAccess::put(local, len, remote)),
            Act::Get => Some(RemoteAccess::get(local, len, remote)),
            Act::Atomic(atomic) => {
                let operand = atomic.operands.get(access.next);
                let operands = [operand.copied().unwrap_or_default(), atomic.compare];
                let result = match access.local.is_null() {
                    true => nowhere,
                    false => local.cast(),
                };
                Some(RemoteAccess::atomic(atomic.op, operands, result, remote))
            }
            Act::Flush => None,
        };
        let timed = enter(Part::Lane);
        let issued = match part {
            // SAFETY: `local` holds the bytes of all blocks (# Safety), or for atomics aligned
            // words; unwanted results go to `nowhere`.
            Some(part) => unsafe { lane.access(peer, vci, part, token) },
            None => lane.flush(peer, token),
        };
        drop(timed);
        match issued {
            Ok(Issued::Complete) => {}
            Ok(Issued::Pending) => access.parts += 1,
            Err(LaneError::Again) => return,
            Err(error) => {
                access.failed = Some(error);
                return;
            }
        }
        access.next += 1;
        access.moved += len;
    }
}
