//! The engine: the queues of one VCI (of all VCIs if they share queue pairs), and sending.

use crate::buffers::{RecvBuffers, SendBuffers};
use crate::calls::{errno_text, post_list, post_send, work};
use crate::config::Sharing;
use crate::datagrams::{Datagrams, random};
use crate::device::Context;
use crate::ffi::*;
use crate::memory::Registry;
use crate::names as name;
use crate::objects::{Counted, Qp, QpPlan, Srq, ThreadDomain};
use crate::peers::{NO_BUFFER, Peers, Slot, State};
use crate::queue::Queue;
use crate::remote::OpState;
use crate::shared::Shared;
use crate::wire::{self, MessageKind, Prefix};
use netmod::{Header, Issued, LaneError, OpenError, Peer, Token, VciId};
use netmod_kit::Notice;
use netmod_kit::remote::{self, RemoteOps};
use std::collections::{HashMap, VecDeque};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of the scratch buffer for inline messages.
const SCRATCH: usize = 512;

/// Sizes of inline data to try; the first one that the device accepts is used.
const INLINE: [u32; 6] = [256, 192, 128, 96, 64, 0];

/// The queues and connections of a VCI. Fields are dropped from top to bottom: queue pairs are
/// closed before the objects that they use.
pub(crate) struct Engine {
    pub(crate) peers: Peers,
    pub(crate) datagrams: Datagrams,
    pub(crate) recv: RecvBuffers,
    pub(crate) queue: Queue,
    thread_domain: Option<ThreadDomain>,
    pub(crate) send: SendBuffers,
    pub(crate) remote: RemoteOps<OpState>,
    /// Connections on which credit is to be sent.
    pub(crate) owing: Vec<u32>,
    /// Connections that need a signalled work request, when there is space.
    pub(crate) to_tell: Vec<u32>,
    /// Completions found while waiting for datagrams.
    pub(crate) put_off: VecDeque<ibv_wc>,
    /// Connections being set up.
    pub(crate) connecting: Vec<u32>,
    /// Events for VCIs that did not poll, if several share the engine.
    pub(crate) inboxes: HashMap<VciId, VecDeque<Notice>>,
    /// Idle polls in a row, and the state of probing idle connections.
    pub(crate) idle_polls: u32,
    pub(crate) watched: Instant,
    pub(crate) watch_next: usize,
    /// The VCI that is using the engine.
    pub(crate) turn: VciId,
    /// Whether several VCIs share the engine.
    pub(crate) one_for_all: bool,
    /// The engine's number among those that share its queue, in the bits that names use for it.
    pub(crate) slot_bits: u64,
    pub(crate) inline: usize,
    depth: u32,
    signal_every: u32,
    pub(crate) cookie: u64,
    scratch: [u64; SCRATCH / 8],
    counted: Vec<Counted>,
    /// Registrations in `home`.
    registry: Arc<Registry>,
    /// The device context of all objects above.
    pub(crate) home: Arc<Context>,
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: raw pointers are to memory that the engine owns or that the issuer of an operation keeps
// valid until completion; libibverbs' objects may move between threads.
unsafe impl Send for Engine {}

impl Engine {
    /// Opens the queues of a VCI. Also returns their address.
    pub(crate) fn open(shared: &Arc<Shared>, vci: VciId) -> Result<(Engine, Vec<u8>), OpenError> {
        let config = &shared.config;
        let home = shared.home(vci)?;
        let mut counted = Vec::new();
        let mut count = |which: fn(&crate::objects::Counts) -> &std::sync::atomic::AtomicUsize| {
            counted.push(Counted::new(&shared.counts, which, 1));
        };
        if !Arc::ptr_eq(&home, &shared.registry.context) {
            count(|counts| &counts.contexts);
        }
        let registry = match Arc::ptr_eq(&home, &shared.registry.context) {
            true => shared.registry.clone(),
            false => Arc::new(Registry::new(home.clone())),
        };
        let depth = config.send_queue.next_power_of_two() as u32;
        let depth = depth.min(shared.port.max_qp_wr.max(16));
        // A power of two again, for the ring of slots.
        let depth = 1 << depth.ilog2();

        let port = &shared.port;
        let posted = config.recv_buffers.min(port.max_srq_wr as usize);
        let entries = (2 * config.window + 2 * Datagrams::COUNT + depth as usize) as u32;
        let entries = entries.next_power_of_two().min(port.max_cqe);
        let queue = match &shared.queue {
            Some(queue) => Queue::share(queue.clone())?,
            None => {
                count(|counts| &counts.completion_queues);
                let wake_up = config.wake_up && config.sharing != Sharing::Qp;
                Queue::own(home.clone(), entries, wake_up)?
            }
        };
        let mut queue = queue;
        let slot_bits = (queue.slot() as u64) << 52;
        let few = 2 * Datagrams::COUNT as u32;
        queue.reserve(few, port.max_cqe).map_err(OpenError)?;

        let thread_domain = match shared.sharing {
            Sharing::Domain => {
                count(|counts| &counts.thread_domains);
                let domain = ThreadDomain::open(&home);
                Some(domain.map_err(|number| {
                    OpenError(format!(
                        "cannot make a thread domain for VCI {vci}: {}; set \
                         WEFT_VERBS_SHARING=uar",
                        errno_text(number)
                    ))
                })?)
            }
            _ => None,
        };
        count(|counts| &counts.receive_queues);
        let srq = Srq::open(&home, posted)?;
        let recv = RecvBuffers::new(srq, config.buffer_size, slot_bits | name::RECV);
        let send = SendBuffers::new(
            &home,
            &shared.counts,
            config.buffer_size,
            config.send_buffers,
        )?;
        count(|counts| &counts.queue_pairs);
        let datagrams = Datagrams::open(&home, port, &queue, slot_bits)?;
        let one_for_all = shared.sharing == Sharing::Qp;
        let mut engine = Engine {
            peers: Peers::new(if one_for_all { 0 } else { vci }),
            datagrams,
            recv,
            queue,
            thread_domain,
            send,
            remote: RemoteOps::new(config.operations),
            owing: Vec::new(),
            to_tell: Vec::new(),
            put_off: VecDeque::new(),
            connecting: Vec::new(),
            inboxes: HashMap::new(),
            idle_polls: 0,
            watched: Instant::now(),
            watch_next: 0,
            turn: vci,
            one_for_all,
            slot_bits,
            inline: 0,
            depth,
            signal_every: config.signal_every.min(depth / 2),
            cookie: random(),
            scratch: [0; SCRATCH / 8],
            counted,
            registry,
            home,
            shared: shared.clone(),
        };
        engine.inline = engine.find_inline()?;
        let address = engine.address().to_bytes().to_vec();
        Ok((engine, address))
    }

    /// Finds the largest inline data that the device accepts, by trial.
    fn find_inline(&self) -> Result<usize, OpenError> {
        let mut last = 0;
        let may = |size: &u32| *size == 0 || self.shared.config.inline;
        for inline in INLINE.into_iter().filter(may) {
            match Qp::open(&self.home, &self.plan(inline)) {
                Ok(_) => return Ok(inline as usize),
                Err(number) => last = number,
            }
        }
        let hint = match last {
            libc::ENOMEM => "; raise the limit on locked memory (ulimit -l)",
            libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS => {
                "; the device has no reliable connections with shared receive queues"
            }
            _ => "",
        };
        Err(OpenError(format!(
            "cannot make a reliable queue pair: {}{hint}",
            errno_text(last)
        )))
    }

    /// Returns the parameters of connections' queue pairs.
    pub(crate) fn plan(&self, inline: u32) -> QpPlan {
        QpPlan {
            kind: IBV_QPT_RC,
            pd: match &self.thread_domain {
                Some(domain) => domain.pd,
                None => self.home.pd,
            },
            cq: self.queue.raw(),
            srq: self.recv.srq(),
            send: self.depth,
            recv: 0,
            inline,
        }
    }

    /// Returns the registrations for this engine's operations.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts the queue pair of a new connection.
    pub(crate) fn counted_connection(&mut self) {
        let counted = Counted::new(&self.shared.counts, |counts| &counts.queue_pairs, 1);
        self.counted.push(counted);
    }

    /// Returns whether no work is pending in the engine, so that the owner may sleep.
    pub(crate) fn is_quiet(&self) -> bool {
        self.remote.notices.is_empty()
            && self.put_off.is_empty()
            && self.to_tell.is_empty()
            && self.owing.is_empty()
            && !self.remote.has_backlog()
    }

    /// Returns the capacity of a connection's send queue.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the connection to a peer's VCI. Begins to set it up if there is none.
    #[inline]
    pub(crate) fn connection(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let vci = if self.one_for_all { 0 } else { vci };
        let index = match self.peers.find(peer, vci) {
            Some(index) => index,
            None => self.connect(peer, vci)?,
        };
        match self.peers.endpoints[index as usize].state {
            State::Lost => Err(self.lost(index)),
            _ => Ok(index),
        }
    }

    #[cold]
    pub(crate) fn lost(&mut self, index: u32) -> LaneError {
        self.peers.process_of(index).error()
    }

    /// Posts a work request to a connection whose send queue has space for it.
    #[inline]
    pub(crate) fn post(
        &mut self,
        index: u32,
        wr: &mut ibv_send_wr,
        slot: Slot,
        signal: bool,
    ) -> Result<(), LaneError> {
        let connection = &mut self.peers.endpoints[index as usize];
        debug_assert!(connection.has_room());
        let seq = connection.posted;
        let signal = signal || connection.unsignalled + 1 >= self.signal_every;
        wr.wr_id =
            self.slot_bits | name::SEND | u64::from(index) << 24 | u64::from(seq & 0xff_ffff);
        if signal {
            wr.send_flags |= IBV_SEND_SIGNALED;
        }
        // SAFETY: the queue pair is open; the request names buffers of the engine or memory that
        // the issuer keeps valid until the operation completes.
        let rc = unsafe { post_send(connection.qp.raw, wr) };
        if rc != 0 {
            return Err(self.refused(index, rc));
        }
        let mask = connection.slots.len() as u32 - 1;
        connection.slots[(seq & mask) as usize] = slot;
        connection.posted = seq.wrapping_add(1);
        connection.unsignalled = if signal {
            0
        } else {
            connection.unsignalled + 1
        };
        Ok(())
    }

    /// Posts two work requests in order by one call. Only the second may be signalled.
    ///
    /// On error also returns whether the first was posted.
    pub(crate) fn post_pair(
        &mut self,
        index: u32,
        works: [&mut ibv_send_wr; 2],
        slots: [Slot; 2],
        signal: bool,
    ) -> Result<(), (LaneError, bool)> {
        let connection = &mut self.peers.endpoints[index as usize];
        debug_assert!(connection.has_room_for(2));
        let seq = connection.posted;
        let signal = signal || connection.unsignalled + 2 >= self.signal_every;
        let [first, second] = works;
        let name = |seq: u32| {
            self.slot_bits | name::SEND | u64::from(index) << 24 | u64::from(seq & 0xff_ffff)
        };
        (first.wr_id, second.wr_id) = (name(seq), name(seq.wrapping_add(1)));
        if signal {
            second.send_flags |= IBV_SEND_SIGNALED;
        }
        first.next = second;
        // SAFETY: the queue pair is open; the requests name buffers of the engine or inline data.
        let posted = unsafe { post_list(connection.qp.raw, first) };
        let count = match posted {
            Ok(()) => 2,
            Err((_, bad)) => u32::from(std::ptr::eq(bad, first.next)),
        };
        let mask = connection.slots.len() as u32 - 1;
        for (place, slot) in slots.into_iter().enumerate().take(count as usize) {
            let seq = seq.wrapping_add(place as u32);
            connection.slots[(seq & mask) as usize] = slot;
        }
        connection.posted = seq.wrapping_add(count);
        connection.unsignalled = match count {
            2 if signal => 0,
            _ => connection.unsignalled + count,
        };
        match posted {
            Ok(()) => Ok(()),
            Err((number, _)) => Err((self.refused(index, number), count > 0)),
        }
    }

    #[cold]
    fn refused(&mut self, index: u32, number: i32) -> LaneError {
        if number == libc::ENOMEM || number == libc::EAGAIN {
            return LaneError::Again;
        }
        self.fail_peer(index, "posting a work request", &errno_text(number));
        self.lost(index)
    }

    /// Makes the prefix of a message to a VCI, which carries credit.
    #[inline]
    fn prefix(&self, index: u32, kind: MessageKind, code: u8, to: VciId) -> [u8; wire::PREFIX] {
        let connection = &self.peers.endpoints[index as usize];
        Prefix {
            connection: connection.theirs,
            to,
            from: self.turn,
            taken: connection.taken,
            kind,
            code,
        }
        .to_bytes()
    }

    /// Sends a message: a prefix, and `len` bytes that `fill` writes. Fails with `Again`, without
    /// any effect, if there is no credit or space.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        index: u32,
        kind: MessageKind,
        code: u8,
        to: VciId,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let connection = &self.peers.endpoints[index as usize];
        let len = wire::PREFIX + len;
        // Credit messages have receive buffers of their own.
        let may_send = match kind {
            MessageKind::Credit => connection.state == State::Ready && connection.has_room(),
            _ => connection.may_send(),
        };
        if !may_send {
            return Err(LaneError::Again);
        }
        let (place, buffer) = if len <= self.inline.min(SCRATCH) {
            (self.scratch.as_mut_ptr().cast::<u8>(), NO_BUFFER)
        } else {
            let buffer = self.send.take().ok_or(LaneError::Again)?;
            (self.send.at(buffer), buffer)
        };
        let prefix = self.prefix(index, kind, code, to);
        // SAFETY: scratch and buffers have space for `len` bytes, since callers check
        // `buffer_size`; no other code uses them meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(place, len) };
        bytes[..wire::PREFIX].copy_from_slice(&prefix);
        fill(&mut bytes[wire::PREFIX..]);
        let mut sge = ibv_sge {
            addr: place as u64,
            length: len as u32,
            lkey: 0,
        };
        let mut slot = Slot::Plain;
        let mut flags = IBV_SEND_INLINE;
        let mut signal = false;
        if buffer != NO_BUFFER {
            sge.lkey = self.send.lkey();
            slot = Slot::Buffer(buffer);
            flags = 0;
            signal = self.send.are_few();
        }
        let mut wr = work(IBV_WR_SEND, &mut sge);
        wr.send_flags = flags;
        match self.post(index, &mut wr, slot, signal) {
            Ok(()) => {
                let connection = &mut self.peers.endpoints[index as usize];
                connection.reported = connection.taken;
                if kind != MessageKind::Credit {
                    connection.sent = connection.sent.wrapping_add(1);
                }
                Ok(())
            }
            Err(error) => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                Err(error)
            }
        }
    }

    /// Implements `send` of bytes and of functions.
    #[inline]
    pub(crate) fn send_message(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        if wire::MESSAGE + len > self.shared.config.buffer_size {
            return Err(LaneError::Unsupported);
        }
        let index = self.connection(to, vci)?;
        self.transmit(
            index,
            MessageKind::Message,
            0,
            vci,
            Header::SIZE + len,
            |bytes| {
                let (head, payload) = bytes.split_at_mut(Header::SIZE);
                head.copy_from_slice(&header.to_bytes());
                fill(payload);
            },
        )
    }

    /// Posts an empty signalled write: its completion shows that all earlier requests have ended
    /// and that the peer's adapter answers. Returns `false` if there is no space.
    pub(crate) fn post_nothing(&mut self, index: u32) -> bool {
        if !self.peers.endpoints[index as usize].has_room() {
            return false;
        }
        let mut sge = ibv_sge {
            addr: 0,
            length: 0,
            lkey: 0,
        };
        let mut wr = work(IBV_WR_RDMA_WRITE, &mut sge);
        wr.sg_list = null_mut();
        wr.num_sge = 0;
        self.post(index, &mut wr, Slot::Plain, true).is_ok()
    }

    /// Returns whether everything accepted has arrived.
    pub(crate) fn is_drained(&mut self) -> bool {
        let mut drained = !self.remote.owes_answers();
        for index in 0..self.peers.endpoints.len() {
            let connection = &self.peers.endpoints[index];
            if connection.state == State::Lost || connection.is_idle() {
                continue;
            }
            drained = false;
            if connection.unsignalled > 0 {
                self.post_nothing(index as u32);
            }
        }
        drained
    }

    /// Implements `flush`: requests the completions of the earlier writes.
    pub(crate) fn issue_flush(&mut self, number: Peer, token: Token) -> Result<Issued, LaneError> {
        let issued = remote::flush(self, number, (self.turn, token))?;
        if issued == Issued::Pending
            && let Some(process) = self.peers.find_process(number)
        {
            for index in 0..self.peers.endpoints.len() as u32 {
                let connection = self.peers.endpoint(index);
                let is_silent = connection.process == process && connection.unsignalled > 0;
                if is_silent && !self.post_nothing(index) {
                    self.to_tell.push(index);
                }
            }
        }
        Ok(issued)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}
