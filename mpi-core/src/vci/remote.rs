//! Puts, gets, atomics and flushes of windows by the transports' remote memory.

use std::sync::Arc;

use netmod::breakdown::{Part, enter};
use netmod::{Issued, LaneError, RemoteAccess, RemoteAddr, RemoteKey};

use super::VciState;
use crate::error::Result;
use crate::pt2pt::engine::Address;
use crate::pt2pt::engine::failed;
use crate::pt2pt::operations::{Access, Act, Block, Blocks, Flight, Op, Ops};
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
    /// There is no space; nothing was issued.
    Full(Access),
    /// The transport can't carry it out; nothing was issued.
    Refused(Access),
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

    /// Starts a put, a get or atomics. With an `owner`, makes a request if the access is not complete
    /// at once.
    ///
    /// # Safety
    /// The memory that `access` names stays valid until it is complete, and the peer has exposed the
    /// blocks.
    pub unsafe fn start_access(
        &mut self,
        mut access: Access,
        owner: Option<u32>,
    ) -> Result<Started> {
        let index = self.engine.remote.next();
        // SAFETY: the memory is valid until the access is complete (# Safety).
        unsafe { self.issue(&mut access, index) };
        if access.next == 0 {
            return match access.failed.take() {
                None => Ok(Started::Full(access)),
                Some(error @ LaneError::PeerLost(_)) => Err(failed(error)),
                Some(_) => Ok(Started::Refused(access)),
            };
        }
        match access.act {
            Act::Put => {
                self.engine.counters.native_puts += u64::from(!access.internal);
                access.flight.wrote(access.target);
            }
            Act::Get => self.engine.counters.native_gets += u64::from(!access.internal),
            // Completed atomics have been carried out: there is nothing to flush.
            Act::Atomic(_) => self.engine.counters.native_atomics += u64::from(!access.internal),
        }
        let rest = access.next < access.runs.list().len() && access.failed.is_none();
        if !rest && access.parts == 0 && access.failed.is_none() {
            access.arrive();
            return Ok(Started::Done);
        }
        let outer = match owner.map(|owner| self.engine.start(owner)) {
            Some(Ok(id)) => {
                if let Some(record) = self.engine.records.get(id) {
                    record.role = Role::External;
                }
                Ok(Some(id))
            }
            Some(Err(error)) => Err(error),
            None => Ok(None),
        };
        access.outer = outer.as_ref().ok().copied().flatten();
        access.held = rest;
        access.number = access.flight.begin(access.target);
        self.engine.remote.insert(Op::Access(access));
        self.engine.end_if_over(index);
        let outer = outer?;
        Ok(match rest {
            true => Started::Partly(index, outer),
            false => Started::Pending(outer),
        })
    }

    /// Puts one contiguous block, if there is space. Most such puts complete at once and need no
    /// [`Access`]. Returns whether it was issued.
    ///
    /// # Safety
    /// `local` holds the bytes of the block and stays valid until the put is complete; the peer has
    /// exposed the block.
    pub unsafe fn put_at_once(
        &mut self,
        (target, to): (u32, Address),
        transport: Option<usize>,
        (key, run): (RemoteKey, Block),
        local: *const u8,
        flight: &Arc<Flight>,
    ) -> bool {
        let Ok(route) = transport.map_or_else(|| self.route_index(to), Ok) else {
            return false;
        };
        let index = self.engine.remote.next();
        let (offset, len) = run;
        let remote = RemoteAddr { key, offset };
        let (lane, token) = (&mut self.routes[route].lane, Ops::token(index));
        let part = enter(Part::Lane);
        // SAFETY: `local` is valid until the put is complete (# Safety).
        let issued = unsafe {
            lane.access(
                to.peer,
                to.vci,
                RemoteAccess::put(local, len, remote),
                token,
            )
        };
        drop(part);
        match issued {
            Ok(Issued::Complete) => {}
            Ok(Issued::Pending) => {
                let runs = (key, Blocks::One([run]));
                let (local, flight) = (local.cast_mut(), flight.clone());
                let mut access = Access::new((target, to), runs, Act::Put, local, flight);
                (access.next, access.moved, access.parts) = (1, len, 1);
                access.transport = transport;
                access.number = access.flight.begin(target);
                self.engine.remote.insert(Op::Access(access));
            }
            Err(_) => return false,
        }
        self.engine.counters.native_puts += 1;
        flight.wrote(target);
        true
    }

    /// Issues more of an access. Returns whether nothing is left to issue.
    pub fn go_on(&mut self, index: u32) -> bool {
        let Some(Op::Access(mut access)) = self.engine.remote.take(index) else {
            return true;
        };
        // SAFETY: the memory is valid until the access is complete, by the contract of `start_access`.
        unsafe { self.issue(&mut access, index) };
        access.held = access.next < access.runs.list().len() && access.failed.is_none();
        let rest = access.held;
        // `insert` gets the same index again: the index freed last is given out first.
        self.engine.remote.insert(Op::Access(access));
        self.engine.end_if_over(index);
        !rest
    }

    /// Gives up the rest of an access because of `why`.
    pub fn give_up(&mut self, index: u32, why: LaneError) {
        if let Some(Op::Access(access)) = self.engine.remote.get(index) {
            access.failed.get_or_insert(why);
            access.held = false;
        }
        self.engine.end_if_over(index);
    }

    /// Issues blocks while there is space.
    ///
    /// # Safety
    /// The memory that `access` names stays valid until it is complete, and the peer has exposed the
    /// blocks.
    unsafe fn issue(&mut self, access: &mut Access, index: u32) {
        let route = match &access.act {
            Act::Atomic(atomic) => Ok(atomic.transport),
            _ => access
                .transport
                .map_or_else(|| self.route_index(access.to), Ok),
        };
        let route = match route {
            Ok(route) => route,
            Err(error) => {
                access.failed = Some(error);
                return;
            }
        };
        let nowhere = self.engine.remote.nowhere();
        let (lane, token) = (&mut self.routes[route].lane, Ops::token(index));
        let runs = access.runs.list();
        while let Some(&(offset, len)) = runs.get(access.next) {
            let remote = RemoteAddr {
                key: access.key,
                offset,
            };
            let Address { peer, vci } = access.to;
            let local = access.local.wrapping_add(access.moved);
            let part = match &access.act {
                Act::Put => RemoteAccess::put(local, len, remote),
                Act::Get => RemoteAccess::get(local, len, remote),
                Act::Atomic(atomic) => {
                    let operands = [atomic.operands.get(access.next), atomic.compare];
                    let result = match access.local.is_null() {
                        true => nowhere,
                        false => local.cast(),
                    };
                    RemoteAccess::atomic(atomic.op, operands, result, remote)
                }
            };
            // SAFETY: `local` holds the bytes of all blocks (# Safety), or for atomics aligned words or
            // NULL; unwanted results of atomics go to a word of this VCI's.
            let issued = unsafe { lane.access(peer, vci, part, token) };
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

    /// Starts a flush: requests completion at the target of what `transport`, or the one that reaches
    /// the target, has written there. `number` ends with the flush. Returns whether there was space.
    pub fn start_flush(
        &mut self,
        to: Address,
        transport: Option<usize>,
        flight: &Arc<Flight>,
        number: u64,
    ) -> bool {
        let token = Ops::token(self.engine.remote.next());
        let part = enter(Part::Lane);
        let flushed = match transport {
            Some(transport) => self.routes[transport].lane.flush(to.peer, token),
            None => self
                .route_to(to)
                .and_then(|route| route.lane.flush(to.peer, token)),
        };
        drop(part);
        match flushed {
            Ok(Issued::Complete) => flight.end(number, None),
            Ok(Issued::Pending) => {
                self.engine.remote.insert(Op::Flush {
                    peer: to.peer,
                    flight: flight.clone(),
                    number,
                });
            }
            Err(LaneError::Again) => return false,
            Err(error) => flight.end(number, Some(failed(error))),
        }
        true
    }
}
