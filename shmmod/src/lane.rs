//! The lane of a VCI: its own ring to receive from, and peers' rings to send to.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{
    Action, DirectCopy, Header, IoVec, Issued, Lane, LaneError, NodeLane, Payload, Peer, Pipes,
    RemoteAccess, RemoteAddr, RemoteKey, Resolver, Sink, Token, VciId, WakeUp,
};
use netmod_kit::process_number::{has_ended, own_number, pid_of};
use netmod_kit::{Machine, Nearness, PeerTable};
use shmring::ring::{CELLS, INLINE, RxRing, Sent, TxRing, publish};

use crate::cma::{self, Direction, NotCopied};
use crate::config::SingleCopy;
use crate::ends::End;
use crate::policy::{LongMessagePolicy, StaticPolicy};
use crate::segment::{BODY, Location, STRIDE, Segment};
use crate::sending::Sending;
use crate::wake_up;

/// State of a peer's VCI.
pub(crate) struct Remote {
    pub tx_ring: End<TxRing>,
    /// Dropped after `tx_ring`, which points into it.
    pub segment: Segment,
    at: Location,
    /// The peer's pid if CMA works with it; `None` until tried.
    single_copy: Option<Option<u32>>,
    /// Sampled only where streaming stores reach far cores faster than plain ones.
    pub nearness: Nearness,
    /// The last value of the probe that was sampled.
    pub probed: u64,
    /// Number of the peer's pipes that this process has ended, wrapping.
    pub ended: u32,
    /// Number of messages that the lane had received at the last send to this peer.
    taken_before: u64,
    /// Number of mapped units of the peer's pipeline memory.
    pub units_mapped: usize,
}

/// Bytes. Messages of at least this length reach a core that shares no cache with this one faster
/// through memory than line by line from this core's cache.
const PAST: usize = 2048;

/// Bytes. In a stream, the lines of the next message are prefetched if messages are at least this
/// long, as there is little time between prefetch and write; after a reply they always are.
const AHEAD_IN_STREAMS: usize = 1024;

impl Remote {
    /// Returns whether the lane has received a message since its last long message to the peer.
    /// `taken`: number of messages received so far.
    #[inline(always)]
    fn answers(&mut self, taken: u64) -> bool {
        mem::replace(&mut self.taken_before, taken) != taken
    }

    /// Sends a message that may need a body. `taken`: number of messages that the lane has
    /// received.
    #[inline(never)]
    fn send_long(
        &mut self,
        (me, taken): (Peer, u64),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let answers = self.answers(taken);
        let past = payload.len() >= PAST && self.nearness.is_far();
        if !past && (answers || payload.len() >= AHEAD_IN_STREAMS) {
            self.put_copy::<false>((me, answers), header, payload)?;
            self.ask_for_next(payload.len(), answers);
            return Ok(());
        }
        match past {
            true => self.put_copy::<true>((me, answers), header, payload),
            false => self.put_copy::<false>((me, answers), header, payload),
        }
    }

    #[inline(always)]
    fn put_copy<const PAST_CACHES: bool>(
        &mut self,
        as_what: (Peer, bool),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        self.put(as_what, header, payload.len(), |out| {
            // SAFETY: `put` passes the payload's memory, `len` bytes that no other process touches
            // before the message is published.
            unsafe {
                match PAST_CACHES {
                    true => netmod_kit::copy_non_temporal(payload.as_ptr(), out, payload.len()),
                    false => netmod_kit::copy_to_prefetched(payload.as_ptr(), out, payload.len()),
                }
            }
        })
    }

    /// Prefetches the lines of the next message's payload for writing, as if it were as long as
    /// this one: they are in the reader's cache, and would otherwise arrive late, one by one.
    fn ask_for_next(&mut self, len: usize, answers: bool) {
        let next = self.segment.front().ends.tail.0.load(Ordering::Relaxed);
        let view = &self.tx_ring.get().view;
        if view.may_claim(next, CELLS) {
            let body = self.segment.body(view.body(next, answers));
            netmod_kit::prefetch_for_write(body, len);
        }
    }

    /// Puts a message of `len` bytes, written by `fill`, into the peer's ring. `answers`: a message
    /// has been received since the previous one was sent.
    #[inline(always)]
    fn put(
        &mut self,
        (me, answers): (Peer, bool),
        header: &Header,
        len: usize,
        fill: impl FnOnce(*mut u8),
    ) -> Result<(), LaneError> {
        if len > BODY {
            return too_long();
        }
        let tx_ring = self.tx_ring.get();
        let Some(position) = tx_ring.claim() else {
            return Err(LaneError::Again);
        };
        let cell = &self.segment.cells()[position as usize & (CELLS - 1)];
        let [a, b, c] = header.0;
        // SAFETY: `claim` gave the cell to this process, so no other touches it until it is
        // published.
        let short = unsafe {
            cell.set_envelope([u64::from(me) | (len as u64) << 32, a, b, c]);
            cell.payload()
        };
        let payload = if len <= INLINE {
            short
        } else {
            let ends = &self.segment.front().ends;
            let (number, is_first) = tx_ring.view.take_body(ends, position, answers);
            // SAFETY: `claim` gave the cell to this process, so no other touches it until it is
            // published.
            unsafe { cell.set_body(number) };
            let body = self.segment.body(number);
            if is_first {
                // The body's pages may not be mapped yet. A read fault maps several at once, a
                // write fault only one.
                // SAFETY: the body is within the mapped segment; any content is valid for a byte.
                unsafe { body.read_volatile() };
            }
            body
        };
        fill(payload);
        publish(cell, position);
        if tx_ring.is_silent() {
            Ok(())
        } else {
            woken(tx_ring)
        }
    }
}

#[cold]
#[inline(never)]
fn again() -> Result<(), LaneError> {
    Err(LaneError::Again)
}

#[cold]
#[inline(never)]
fn too_long() -> Result<(), LaneError> {
    Err(LaneError::Unsupported)
}

/// Wakes the receiver after a message has been sent.
#[cold]
#[inline(never)]
fn woken(tx_ring: &TxRing) -> Result<(), LaneError> {
    tx_ring.wake();
    Ok(())
}

pub(crate) struct ShmLane {
    pub me: Peer,
    rx_ring: End<RxRing>,
    /// Dropped after `rx_ring`, which points into it.
    pub own: Arc<Segment>,
    /// Pipes that this lane has opened.
    pub sending: Sending,
    pub remotes: PeerTable<Option<Box<Remote>>>,
    resolver: Arc<dyn Resolver>,
    mode: SingleCopy,
    policy: Option<Box<dyn LongMessagePolicy>>,
    /// Process numbers (`process_number`) of the peers that `check_peers` covers: those sent to or
    /// waited for.
    watched: HashMap<Peer, u32>,
    /// Peers whose process one check has found dead.
    ended: HashSet<Peer>,
    /// Lost peers: found dead by a second check.
    dead: HashSet<Peer>,
}

impl ShmLane {
    pub fn new(
        me: Peer,
        vci: VciId,
        own: Arc<Segment>,
        resolver: Arc<dyn Resolver>,
        mode: SingleCopy,
    ) -> Self {
        // SAFETY: `own` is kept beside the ring's end, and has a body of that size for each cell.
        let rx_ring = unsafe { RxRing::new(own.parts(), own.body(0), STRIDE, BODY) };
        ShmLane {
            me,
            rx_ring: End::new(rx_ring),
            own,
            remotes: PeerTable::new(vci),
            resolver,
            mode,
            policy: None,
            sending: Sending::default(),
            watched: HashMap::new(),
            ended: HashSet::new(),
            dead: HashSet::new(),
        }
    }

    /// Returns the policy for long messages. The lane has none before the first one, since the ranks
    /// of a node agree on what copies cost after its lanes are open.
    pub fn policy(&mut self) -> &dyn LongMessagePolicy {
        let mode = self.mode;
        &**self
            .policy
            .get_or_insert_with(|| Box::new(StaticPolicy::new(mode, Machine::get())))
    }

    /// Returns the state of a peer's VCI, mapping its segment on first contact.
    #[inline(always)]
    pub fn remote(&mut self, peer: Peer, vci: VciId) -> Result<&mut Remote, LaneError> {
        let slot = self.remotes.get(peer, vci);
        if slot.is_none() {
            let remote = attach(&*self.resolver, self.me, peer, vci)?;
            let process = remote.at.place.process;
            if self.dead.contains(&peer) {
                return Err(LaneError::lost(peer, gone(peer, process)));
            }
            self.watched.insert(peer, process);
            *slot = Some(remote);
        }
        match slot {
            Some(remote) => Ok(remote),
            None => unreachable!("the slot was filled above"),
        }
    }

    /// Sends the first message to a peer, or one to a VCI of another number.
    #[cold]
    #[inline(never)]
    fn send_first(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let from = (self.me, self.rx_ring.get().taken());
        self.remote(to, vci)?.send_long(from, header, payload)
    }

    /// Returns the pid of a peer with which CMA works; tried at first contact.
    pub fn single_copy(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let allowed = self.mode != SingleCopy::Never;
        let remote = self.remote(peer, vci)?;
        let at = remote.at;
        let works = || {
            let pid = pid_of(at.place.process).filter(|_| allowed)?;
            Some(pid.cast_unsigned()).filter(|pid| cma::works(*pid, &at))
        };
        remote
            .single_copy
            .get_or_insert_with(works)
            .ok_or(LaneError::Unsupported)
    }

    fn copy(
        &mut self,
        direction: Direction,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<Issued, LaneError> {
        let pid = self.single_copy(peer, vci)?;
        let place = remote.key.address + remote.offset;
        // SAFETY: the callers of `access`, `read` and `write` promise that `local` is valid for
        // `len` bytes; the peer has exposed or lent `place`.
        let copied = unsafe { cma::copy(direction, pid, local, place, len) };
        copied.map_err(|error| not_copied(peer, pid, place, error))?;
        Ok(Issued::Complete)
    }

    fn copy_pieces(
        &mut self,
        direction: Direction,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        remote: RemoteAddr,
    ) -> Result<(), LaneError> {
        let pid = self.single_copy(peer, vci)?;
        let place = remote.key.address + remote.offset;
        // SAFETY: the callers of `readv` and `writev` promise that all blocks are valid; the peer
        // has lent `place`.
        let copied = unsafe { cma::copy_pieces(direction, pid, local, place) };
        copied.map_err(|error| not_copied(peer, pid, place, error))
    }
}

#[cold]
fn not_copied(peer: Peer, pid: u32, place: u64, error: NotCopied) -> LaneError {
    match error {
        NotCopied::Bad(bad) => LaneError::BadMemory(Box::new(bad)),
        NotCopied::Refused(error) => LaneError::lost(
            peer,
            format!("cannot copy its memory (process {pid}, at {place:#x}): {error}"),
        ),
    }
}

/// Resolves the location of a peer's segment.
fn locate(resolver: &dyn Resolver, peer: Peer, vci: VciId) -> Result<Location, String> {
    let bytes = resolver.resolve(peer, vci).map_err(|error| error.0)?;
    Location::parse(&bytes)
        .ok_or_else(|| "its shared-memory address record is malformed".to_string())
}

/// Maps a peer's segment. If its process has ended, the error says so.
fn open(peer: Peer, at: &Location) -> Result<Segment, String> {
    match has_ended(at.place.process) {
        true => Err(gone(peer, at.place.process)),
        false => Segment::attach(at).map_err(|error| error.0),
    }
}

fn gone(peer: Peer, process: u32) -> String {
    let pid = pid_of(process).map_or(String::new(), |pid| format!(" {pid}"));
    format!(
        "its process{pid} on this node has ended without MPI_Finalize; see the output of rank {peer}, \
         the launcher's messages, or the kernel's (dmesg)"
    )
}

#[cold]
fn attach(
    resolver: &dyn Resolver,
    me: Peer,
    peer: Peer,
    vci: VciId,
) -> Result<Box<Remote>, LaneError> {
    let lost = |why: String| LaneError::lost(peer, why);
    let at = locate(resolver, peer, vci).map_err(lost)?;
    let segment = open(peer, &at).map_err(lost)?;
    let fence = wake_up::senders_fence();
    // SAFETY: `Remote` keeps the segment beside the tx ring and drops it later.
    let tx_ring = unsafe { TxRing::new((me, own_number()), segment.parts(), wake_up::wake, fence) };
    Ok(Box::new(Remote {
        tx_ring: End::new(tx_ring),
        segment,
        at,
        single_copy: None,
        nearness: Nearness::default(),
        probed: 0,
        ended: 0,
        units_mapped: 0,
        taken_before: 0,
    }))
}

impl ShmLane {
    #[inline]
    fn send_bytes(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        match self.remotes.peek(to, vci) {
            Some(Some(remote)) if payload.len() <= INLINE => {
                let tx_ring = remote.tx_ring.get();
                // SAFETY: `payload` is a slice of at most `INLINE` bytes, as the guard checks.
                match unsafe { tx_ring.send(header.0, payload.as_ptr(), payload.len()) } {
                    Sent::Sent => Ok(()),
                    Sent::SentWake => woken(tx_ring),
                    Sent::Full => again(),
                }
            }
            Some(Some(remote)) => {
                let from = (self.me, self.rx_ring.get().taken());
                remote.send_long(from, header, payload)
            }
            _ => self.send_first(to, vci, header, payload),
        }
    }

    fn send_filled(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LaneError> {
        let (me, taken) = (self.me, self.rx_ring.get().taken());
        let remote = self.remote(to, vci)?;
        let answers = remote.answers(taken);
        remote.put((me, answers), header, len, |out| {
            // SAFETY: `put` passes the payload's memory, `len` bytes that no other process touches
            // before the message is published.
            fill(unsafe { std::slice::from_raw_parts_mut(out, len) });
        })?;
        if len >= AHEAD_IN_STREAMS {
            remote.ask_for_next(len, answers);
        }
        Ok(())
    }
}

impl Lane for ShmLane {
    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        match payload {
            Payload::Bytes(bytes) => self.send_bytes(to, vci, header, bytes)?,
            Payload::Fill(len, fill) => self.send_filled(to, vci, header, len, fill)?,
            Payload::Vectored(_) => return Err(LaneError::Unsupported),
        }
        Ok(Issued::Complete)
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        let rx_ring = self.rx_ring.get();
        for done in 0..budget {
            let Some(front) = rx_ring.peek() else {
                return done > 0;
            };
            let (from, header, len) = (front.from(), Header(front.header()), front.len());
            assert!(len <= BODY);
            // SAFETY: `peek` found the message published, and senders do not touch it until
            // `advance`; its length is at most `BODY`.
            let payload = unsafe { std::slice::from_raw_parts(rx_ring.payload(front), len) };
            sink.message(from, &header, payload);
            rx_ring.advance();
        }
        true
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        let direction = match access.action {
            Action::Get => Direction::Read,
            Action::Put => Direction::Write,
            Action::Atomic { .. } => return Err(LaneError::Unsupported),
        };
        self.copy(
            direction,
            peer,
            vci,
            access.local,
            access.len,
            access.remote,
        )
    }

    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        for &peer in awaited {
            if self.watched.contains_key(&peer) {
                continue;
            }
            match locate(&*self.resolver, peer, 0) {
                // A peer whose segment cannot be opened gets no replies, so waiting for its
                // messages may never end. A dead one is only recorded here: it is lost when the
                // check below finds it dead a second time, since messages that it has sent may
                // still be unread.
                Ok(at) => match open(peer, &at) {
                    Err(why) if !has_ended(at.place.process) => sink.peer_lost(peer, why),
                    _ => {
                        self.watched.insert(peer, at.place.process);
                    }
                },
                Err(why) => sink.peer_lost(peer, why),
            }
        }
        // Messages that lie behind the cell of a dead sender are unread.
        let has_skipped = self
            .rx_ring
            .get()
            .skip_abandoned(|process| !has_ended(process));
        for (&peer, &process) in &self.watched {
            // A dead peer may have sent messages that are still unread, and need not be missed. It
            // counts as lost when a second check finds it dead, after everything has been read.
            let is_lost = has_ended(process) && !self.ended.insert(peer) && !has_skipped;
            if is_lost && self.dead.insert(peer) {
                self.remotes.forget(peer);
                self.sending.forget(peer);
                sink.peer_lost(peer, gone(peer, process));
            }
        }
    }

    fn drained(&mut self) -> bool {
        true // sent messages are in the receiver's memory or in pipes
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Futex((&raw const self.own.front().wake_up.0).cast())
    }

    fn arm(&mut self) -> bool {
        wake_up::arm(&self.own.front().wake_up.0);
        self.rx_ring.get().peek().is_none()
    }

    fn disarm(&mut self) {
        wake_up::disarm(&self.own.front().wake_up.0);
    }

    fn node(&mut self) -> Option<&mut dyn NodeLane> {
        Some(self)
    }
}

impl NodeLane for ShmLane {
    fn tx_ring(&mut self, to: Peer, vci: VciId) -> Option<NonNull<TxRing>> {
        Some(self.remote(to, vci).ok()?.tx_ring.pointer())
    }

    fn rx_ring(&mut self) -> Option<NonNull<RxRing>> {
        Some(self.rx_ring.pointer())
    }

    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        Some(self)
    }

    fn pipes(&mut self) -> Option<&mut dyn Pipes> {
        Some(self)
    }
}

/// Makes the address of a peer's memory.
fn at(address: u64) -> RemoteAddr {
    RemoteAddr {
        key: RemoteKey {
            address,
            words: [0; 2],
        },
        offset: 0,
    }
}

impl DirectCopy for ShmLane {
    unsafe fn read(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError> {
        let issued = self.copy(Direction::Read, peer, vci, local, len, at(address));
        issued.map(drop)
    }

    unsafe fn write(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError> {
        let local = local.cast_mut();
        let issued = self.copy(Direction::Write, peer, vci, local, len, at(address));
        issued.map(drop)
    }

    unsafe fn readv(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError> {
        self.copy_pieces(Direction::Read, peer, vci, local, at(address))
    }

    unsafe fn writev(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError> {
        self.copy_pieces(Direction::Write, peer, vci, local, at(address))
    }
}
