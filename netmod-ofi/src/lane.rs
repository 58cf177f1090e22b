//! The lane: endpoint, completion queue and address vector of one VCI, and sending.

use crate::address::tagged_address;
use crate::buffers::{Buffers, Role};
use crate::ffi::*;
use crate::links;
use crate::objects::{Objects, open_cq};
use crate::peers::Peers;
use crate::probe::can_probe;
use crate::shared::{Region, Shared};
use crate::watch::Watched;
use crate::wire::{self, MessageKind, Prefix};
use netmod::{
    Header, Issued, Lane, LaneError, OpenError, Payload, Peer, RemoteAccess, Signal, Sink, Token,
    VciId, Vectored, WakeUp,
};
use netmod_kit::Notice;
use netmod_kit::bundle::{self, Bundles};
use netmod_kit::remote::{self, RemoteOps};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::Arc;

/// Bytes. Messages up to this size are assembled in the lane and injected, if the provider accepts
/// them.
const INJECT_MOST: usize = 512;

/// An accepted message that the provider had no space for.
pub(crate) struct Stalled {
    pub(crate) buffer: u32,
    pub(crate) endpoint: u32,
    pub(crate) len: usize,
}

/// The lane of one VCI.
///
/// Fields are dropped from top to bottom: the endpoint is closed before its buffers are freed.
pub(crate) struct OfiLane {
    pub(crate) objects: Objects,
    pub(crate) buffers: Buffers,
    pub(crate) peers: Peers,
    pub(crate) remote: RemoteOps<Option<Region>>,
    /// Accepted messages that wait for the provider.
    pub(crate) stalled: VecDeque<Stalled>,
    /// Receive buffers to be posted again.
    pub(crate) unposted: Vec<u32>,
    pub(crate) bundles: Bundles,
    /// Endpoints with injected messages that may not have left.
    dirty: Vec<u32>,
    pub(crate) sends_under_way: usize,
    /// Idle polls in a row.
    pub(crate) idle_polls: u32,
    /// Largest message to inject.
    inject_limit: usize,
    /// Largest part of a get or put.
    pub(crate) part_limit: usize,
    pub(crate) vci: VciId,
    wake_up: Option<RawFd>,
    /// Whether peers can be probed.
    pub(crate) probes: bool,
    /// Peers that are waited for.
    pub(crate) watched: HashMap<Peer, Watched>,
    /// Lost peers that have been reported.
    pub(crate) reported_lost: HashSet<Peer>,
    /// The listening port, if addresses are those of TCP sockets.
    pub(crate) port: u16,
    /// The listening socket.
    pub(crate) listener: Option<RawFd>,
    scratch: [u64; INJECT_MOST / 8],
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: raw pointers are to memory that the lane owns or that the issuer of an operation keeps
// valid until completion; libfabric's objects may move between threads.
unsafe impl Send for OfiLane {}

impl OfiLane {
    /// Opens the endpoint of a VCI. Also returns its address.
    pub(crate) fn open(shared: Arc<Shared>, vci: VciId) -> Result<(Self, Vec<u8>), OpenError> {
        let fail = |what: &str, rc: i32| {
            let hint = match -rc {
                libc::EMFILE | libc::ENFILE => "; raise the limit on open files (ulimit -n)",
                libc::ENOMEM => "; raise the limits on memory (ulimit -l and ulimit -v)",
                _ => "",
            };
            OpenError(format!(
                "{}: {what} for VCI {vci} failed: {}{hint}",
                shared.provider,
                shared.lib.error_text(-rc)
            ))
        };
        let buffers = Buffers::new(&shared)?;
        let mut objects = Objects {
            ep: null_mut(),
            cq: null_mut(),
            av: null_mut(),
        };

        let mut attr = fi_av_attr {
            type_: FI_AV_UNSPEC,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is open, `attr` is valid, and the call writes `objects.av`.
        let rc = unsafe { fi_av_open(shared.domain, &mut attr, &mut objects.av) };
        if rc != 0 {
            return Err(fail("opening the address vector", rc));
        }
        let wake_up = open_cq(&shared, &mut objects).map_err(|rc| fail("opening the queue", rc))?;

        // SAFETY: the objects are open and stay so until the endpoint is closed.
        unsafe {
            let rc = fi_endpoint(shared.domain, shared.info.raw(), &mut objects.ep);
            if rc != 0 {
                return Err(fail("opening the endpoint", rc));
            }
            let rc = fi_ep_bind(objects.ep, objects.av.cast(), 0);
            if rc != 0 {
                return Err(fail("binding the address vector", rc));
            }
            let rc = fi_ep_bind(objects.ep, objects.cq.cast(), FI_TRANSMIT | FI_RECV);
            if rc != 0 {
                return Err(fail("binding the queue", rc));
            }
            let rc = fi_enable(objects.ep);
            if rc != 0 {
                return Err(fail("enabling the endpoint", rc));
            }
        }
        let mut name = [0_u8; 256];
        let mut len = name.len();
        // SAFETY: the endpoint is enabled; `name` has `len` bytes.
        let rc = unsafe { fi_getname(objects.ep, name.as_mut_ptr().cast(), &mut len) };
        if rc != 0 {
            return Err(fail("querying the address", rc));
        }
        let address = tagged_address(&shared.provider, &name[..len]);

        let config = &shared.config;
        let mut lane = OfiLane {
            inject_limit: shared.info.tx().inject_size.min(INJECT_MOST),
            part_limit: shared.info.ep().max_msg_size.min(config.max_part),
            remote: RemoteOps::new(config.operations),
            stalled: VecDeque::with_capacity(config.send_buffers),
            unposted: (0..config.recv_buffers as u32).rev().collect(),
            bundles: Bundles::default(),
            dirty: Vec::new(),
            sends_under_way: 0,
            idle_polls: 0,
            peers: Peers::new(vci),
            vci,
            wake_up,
            probes: can_probe(&shared.provider, shared.info.addr_format()),
            watched: HashMap::new(),
            reported_lost: HashSet::new(),
            port: links::port(&name[..len]).unwrap_or(0),
            listener: links::port(&name[..len]).and_then(links::listener),
            scratch: [0; INJECT_MOST / 8],
            objects,
            buffers,
            shared,
        };
        match lane.post_receives() {
            Ok(_) => Ok((lane, address)),
            Err(rc) => {
                let why = lane.shared.lib.error_text(-rc as i32);
                Err(OpenError(format!(
                    "{}: posting receive buffers for VCI {vci} failed: {why}",
                    lane.shared.provider
                )))
            }
        }
    }

    /// Posts all unposted receive buffers. Returns whether any was posted.
    pub(crate) fn post_receives(&mut self) -> Result<bool, isize> {
        let mut any = false;
        while let Some(&buffer) = self.unposted.last() {
            match self.post(buffer) {
                0 => any = true,
                rc if rc == -(libc::EAGAIN as isize) => break,
                rc => return Err(rc),
            }
            self.unposted.pop();
        }
        Ok(any)
    }

    /// Posts one receive buffer.
    #[inline]
    pub(crate) fn post(&mut self, buffer: u32) -> isize {
        let context = self.buffers.recv_context(buffer);
        // SAFETY: buffer and context belong to the lane, are not posted, and outlive the endpoint.
        unsafe {
            fi_recv(
                self.objects.ep,
                self.buffers.recv_at(buffer).cast(),
                self.shared.buffer_size,
                self.buffers.recv_desc,
                context,
            )
        }
    }

    /// Returns the prefix of this lane's messages.
    #[inline]
    pub(crate) fn prefix(&self, kind: MessageKind, code: u8) -> [u8; wire::PREFIX] {
        Prefix {
            peer: self.shared.config.peer,
            vci: self.vci,
            kind,
            code,
        }
        .to_bytes()
    }

    /// Keeps an event for the next poll.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.remote.notices.push_back((self.vci, notice));
    }

    /// Returns the error for a call that libfabric refused with `rc`.
    #[cold]
    pub(crate) fn refused(&mut self, endpoint: u32, rc: isize, what: &str) -> LaneError {
        let why = if rc == -(libc::EAGAIN as isize) {
            match self.no_room(endpoint, false) {
                None => return LaneError::Again,
                Some(why) => why,
            }
        } else {
            self.shared.lib.error_text(-rc as i32)
        };
        self.fail_peer(endpoint, what, &why);
        self.peers.process_of(endpoint).error()
    }

    /// Sends `len` bytes that `fill` writes, which begin with a prefix. If the provider has no
    /// space, fails without any effect, or, with `keep`, queues the message for a later poll.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        endpoint: u32,
        len: usize,
        keep: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let state = self.peers.endpoint(endpoint);
        let addr = state.addr;
        if state.stalled > 0 {
            // Order: earlier accepted messages go first.
            return Err(LaneError::Again);
        }
        if len <= self.inject_limit && !keep {
            let scratch = self.scratch.as_mut_ptr().cast::<u8>();
            // SAFETY: `scratch` has INJECT_MOST bytes, and `len` is at most `inject_limit`, which
            // is no more; no other code uses it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(scratch, len) };
            fill(bytes);
            // SAFETY: the endpoint is open; the call reads the bytes and does not keep them.
            let rc = unsafe { fi_inject(self.objects.ep, scratch.cast(), len, addr) };
            if rc != 0 {
                return Err(self.refused(endpoint, rc, "sending"));
            }
            self.mark_dirty(endpoint);
            return Ok(());
        }
        let buffer = self.buffers.take().ok_or(LaneError::Again)?;
        // SAFETY: the lane just took the buffer, which has at least `len` bytes since callers check
        // `buffer_size`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.buffers.send_at(buffer), len) };
        fill(bytes);
        match self.send_buffer(buffer, endpoint, len) {
            0 => {
                self.peers.endpoint(endpoint).stuck = None;
                Ok(())
            }
            rc if keep && rc == -(libc::EAGAIN as isize) => {
                self.peers.endpoint(endpoint).stalled += 1;
                self.stalled.push_back(Stalled {
                    buffer,
                    endpoint,
                    len,
                });
                Ok(())
            }
            rc => {
                self.buffers.give(buffer);
                Err(self.refused(endpoint, rc, "sending"))
            }
        }
    }

    /// Marks an endpoint as having an injected message that may not have left.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, endpoint: u32) {
        let state = self.peers.endpoint(endpoint);
        state.stuck = None;
        if !state.dirty {
            state.dirty = true;
            self.dirty.push(endpoint);
        }
    }

    /// Returns the largest message to inject, in bytes.
    pub(crate) fn inject_limit(&self) -> usize {
        self.inject_limit
    }

    /// Sends a filled send buffer.
    pub(crate) fn send_buffer(&mut self, buffer: u32, endpoint: u32, len: usize) -> isize {
        let addr = self.peers.endpoint(endpoint).addr;
        self.post_send(buffer, addr, len, Role::Send { buffer, endpoint })
    }

    fn post_send(&mut self, buffer: u32, addr: fi_addr_t, len: usize, role: Role) -> isize {
        let context = self.buffers.send_context(buffer, role);
        // SAFETY: buffer and context belong to the lane, are not in use, and outlive the endpoint.
        let rc = unsafe {
            fi_send(
                self.objects.ep,
                self.buffers.send_at(buffer).cast(),
                len,
                self.buffers.send_desc,
                addr,
                context,
            )
        };
        if rc == 0 {
            self.sends_under_way += 1;
        }
        rc
    }

    /// Sends a message without copying its payload.
    ///
    /// # Safety
    /// `payload` must be valid for reads of `len` bytes until completion.
    unsafe fn lend(
        &mut self,
        endpoint: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        token: Token,
    ) -> Result<Issued, LaneError> {
        if self.peers.endpoint(endpoint).stalled > 0 {
            // Order: earlier accepted messages go first.
            return Err(LaneError::Again);
        }
        let buffer = self.buffers.take().ok_or(LaneError::Again)?;
        let prefix = self.prefix(MessageKind::Message, 0);
        let head = self.buffers.send_at(buffer);
        // SAFETY: the lane just took the buffer, which is longer than prefix and header.
        unsafe {
            head.cast::<[u8; wire::PREFIX]>().write(prefix);
            let place = head.add(wire::PREFIX).cast::<[u8; Header::SIZE]>();
            place.write(header.to_bytes());
        }
        let pieces = [
            iovec {
                base: head.cast(),
                len: wire::MESSAGE,
            },
            iovec {
                base: payload.cast_mut().cast(),
                len,
            },
        ];
        let role = Role::Lent {
            buffer,
            endpoint,
            token,
        };
        let context = self.buffers.send_context(buffer, role);
        let addr = self.peers.endpoint(endpoint).addr;
        let mut desc = [null_mut(); 2];
        // SAFETY: head and context belong to the lane, are not in use, and outlive the endpoint;
        // the caller promised that the payload stays valid until completion; it needs no
        // registration (`Shared::lends`).
        let rc = unsafe { fi_sendv(self.objects.ep, &pieces, desc.as_mut_ptr(), addr, context) };
        if rc == 0 {
            self.sends_under_way += 1;
            self.peers.endpoint(endpoint).stuck = None;
            return Ok(Issued::Pending);
        }
        self.buffers.give(buffer);
        Err(self.refused(endpoint, rc, "sending"))
    }

    /// Sends an empty message. Returns `false` if there is no space.
    fn send_nop(&mut self, endpoint: u32) -> bool {
        let Some(buffer) = self.buffers.take() else {
            return false;
        };
        let prefix = self.prefix(MessageKind::Nop, 0);
        // SAFETY: the lane just took the buffer, which is longer than a prefix.
        unsafe {
            self.buffers
                .send_at(buffer)
                .cast::<[u8; wire::PREFIX]>()
                .write(prefix)
        };
        let addr = self.peers.endpoint(endpoint).addr;
        let rc = self.post_send(buffer, addr, wire::PREFIX, Role::Nop { buffer });
        if rc == 0 {
            return true;
        }
        self.buffers.give(buffer);
        rc != -(libc::EAGAIN as isize) || self.no_room(endpoint, true).is_some()
    }

    fn check(&self, payload: usize) -> Result<(), LaneError> {
        if wire::MESSAGE + payload > self.shared.buffer_size {
            Err(LaneError::Unsupported)
        } else {
            Ok(())
        }
    }
}

impl OfiLane {
    fn send_vectored(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Vectored<'_>,
    ) -> Result<Issued, LaneError> {
        let ([block], Some(token)) = (payload.blocks(), payload.token()) else {
            return Err(LaneError::Unsupported);
        };
        self.check(block.len)?;
        let endpoint = self.endpoint(to, vci)?;
        // Order: earlier accepted messages go first.
        bundle::send_bundle(self, endpoint)?;
        // SAFETY: the maker of the payload promised that the block is valid until completion.
        unsafe { self.lend(endpoint, header, block.ptr, block.len, token) }
    }
}

impl Lane for OfiLane {
    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        self.look_after(awaited, sink);
    }

    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        match payload {
            Payload::Bytes(bytes) => {
                self.check(bytes.len())?;
                let endpoint = self.endpoint(to, vci)?;
                self.send_message(endpoint, header, bytes.len(), false, |room| {
                    room.copy_from_slice(bytes)
                })?;
            }
            Payload::Fill(len, fill) => {
                self.check(len)?;
                let endpoint = self.endpoint(to, vci)?;
                // Queued if there is no space: `fill` cannot be undone.
                self.send_message(endpoint, header, len, true, fill)?;
            }
            Payload::Vectored(vectored) => return self.send_vectored(to, vci, header, vectored),
        }
        Ok(Issued::Complete)
    }

    fn coalesce(&mut self, on: bool) {
        bundle::coalesce(self, on);
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        self.progress(sink, budget)
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        // SAFETY: the caller's contract is the same.
        unsafe { remote::access(self, peer, vci, access, (self.vci, token)) }
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        self.issue_signal(peer, vci, signal)
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        remote::flush(self, peer, (self.vci, token))
    }

    fn drained(&mut self) -> bool {
        // Injected messages have no completion: an empty message with one is sent behind them. If
        // it cannot be sent because the peer has ended, there is nothing to wait for, and that is
        // no event either.
        let mut waiting = Vec::new();
        while let Some(endpoint) = self.dirty.pop() {
            if self.peers.endpoint(endpoint).lost || self.send_nop(endpoint) {
                self.peers.endpoint(endpoint).dirty = false;
            } else {
                waiting.push(endpoint);
            }
        }
        self.dirty = waiting;
        self.dirty.is_empty()
            && self.sends_under_way == 0
            && self.stalled.is_empty()
            && self.bundles.is_empty()
            && !self.remote.owes_answers()
    }

    fn wake_up(&self) -> WakeUp {
        self.wake_up.map_or(WakeUp::None, WakeUp::Fd)
    }

    fn arm(&mut self) -> bool {
        let idle = self.remote.notices.is_empty()
            && self.stalled.is_empty()
            && self.bundles.is_empty()
            && !self.remote.has_backlog()
            && self.unposted.is_empty();
        if !idle || self.wake_up.is_none() {
            return false;
        }
        let mut queue: *mut fid = self.objects.cq.cast();
        // SAFETY: fabric and queue are open.
        unsafe { fi_trywait(self.shared.fabric, &mut queue, 1) == 0 }
    }

    fn disarm(&mut self) {
        // Reading the queue, which the next poll does, resets the descriptor.
    }
}
