//! A VCI's lane: its own queue to receive from, and peers' queues to send to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use netmod::{
    AtomicOp, DirectCopy, Header, IoVec, Issued, Lane, LaneError, Peer, RemoteAddr, RemoteKey,
    Resolver, Sink, Token, VciId, WakeUp,
};
use netmod_kit::PeerTable;

use crate::ring::{self, INLINE, ReceiverView, SenderView};
use crate::segment::{BODY, CELLS, Location, Segment};
use crate::single_copy::{self, Direction, NotCopied};
use crate::sync::AtomicU32;
use crate::wake_up;

/// A peer's queue.
struct Remote {
    segment: Segment,
    view: SenderView,
    at: Location,
    /// Whether its memory can be copied directly; `None` until tried.
    single_copy: Option<bool>,
}

/// Payloads up to this length are copied by a few instructions in line. Their way through `send` then
/// makes no call at all, and so needs no stack frame.
const SHORT: usize = 16;

impl Remote {
    #[inline(always)]
    fn send_short(
        &mut self,
        me: Peer,
        senders_fence: bool,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let front = self.segment.front();
        let Some(position) = ring::claim(&front.ends, CELLS, &mut self.view) else {
            return again();
        };
        let cell = &self.segment.cells()[position as usize & (CELLS - 1)];
        let [a, b, c] = header.0;
        let len = payload.len();
        // SAFETY: the cell is claimed, so nobody else touches it until it is published, and has
        // room for a short payload.
        unsafe {
            cell.envelope
                .get()
                .write([u64::from(me) | (len as u64) << 32, a, b, c]);
            std::hint::assert_unchecked(len <= SHORT);
            netmod_kit::copy(payload.as_ptr(), cell.inline.get().cast(), len);
        }
        ring::publish(cell, position);
        if wake_up::is_silent(&front.wake_up.0, senders_fence) {
            Ok(())
        } else {
            woken(&front.wake_up.0)
        }
    }

    #[inline(never)]
    fn send_long(
        &mut self,
        me: Peer,
        senders_fence: bool,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        self.put(me, senders_fence, header, payload.len(), |out| {
            // SAFETY: `put` gives the place of the payload, apart from all else.
            unsafe { netmod_kit::copy(payload.as_ptr(), out, payload.len()) };
        })
    }

    /// Puts a message of `len` bytes, which `fill` writes to the place it is given, into the queue.
    #[inline(always)]
    fn put(
        &mut self,
        me: Peer,
        senders_fence: bool,
        header: &Header,
        len: usize,
        fill: impl FnOnce(*mut u8),
    ) -> Result<(), LaneError> {
        if len > BODY {
            return too_long();
        }
        let front = self.segment.front();
        let Some(position) = ring::claim(&front.ends, CELLS, &mut self.view) else {
            return Err(LaneError::Again);
        };
        let number = position as usize & (CELLS - 1);
        let cell = &self.segment.cells()[number];
        let payload = if len <= INLINE {
            cell.inline.get().cast()
        } else {
            self.segment.body(number)
        };
        let [a, b, c] = header.0;
        // SAFETY: the cell is claimed, so nobody else touches it until it is published.
        unsafe {
            cell.envelope
                .get()
                .write([u64::from(me) | (len as u64) << 32, a, b, c])
        };
        fill(payload);
        ring::publish(cell, position);
        if wake_up::is_silent(&front.wake_up.0, senders_fence) {
            Ok(())
        } else {
            woken(&front.wake_up.0)
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

/// Wakes the receiver; the message has been sent.
#[cold]
#[inline(never)]
fn woken(wake_up: &AtomicU32) -> Result<(), LaneError> {
    wake_up::wake(wake_up);
    Ok(())
}

pub(crate) struct ShmLane {
    me: Peer,
    own: Arc<Segment>,
    view: ReceiverView,
    remotes: PeerTable<Option<Box<Remote>>>,
    resolver: Arc<dyn Resolver>,
    single_copy: bool,
    senders_fence: bool,
    /// Whether they live is looked at: where those are that were sent to or waited for.
    watched: HashMap<Peer, u32>,
    /// Peers whose process was found ended once.
    ended: HashSet<Peer>,
    /// Those that are lost: found ended again.
    dead: HashSet<Peer>,
}

/// Whether a process lives. One that has ended has a number until its parent has taken note, which
/// launchers do at once and others may not; it has no memory any more.
fn exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: no signal is sent and no memory is passed.
    let there = unsafe { libc::kill(pid, 0) } == 0;
    if !there && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return false;
    }
    let mut byte = 0u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // Nothing is ever there: it is the reason that counts.
    let nowhere = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    };
    // SAFETY: one byte is written, at most, to a byte of ours.
    let read = unsafe { libc::process_vm_readv(pid, &here, 1, &nowhere, 1, 0) };
    read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

fn gone(peer: Peer, pid: u32) -> String {
    format!(
        "its process {pid} on this node has ended without MPI_Finalize; the launcher's messages \
         or the kernel's (dmesg) may say why, rank {peer}'s own output perhaps what it did last"
    )
}

impl ShmLane {
    pub fn new(
        me: Peer,
        vci: VciId,
        own: Arc<Segment>,
        resolver: Arc<dyn Resolver>,
        single_copy: bool,
    ) -> Self {
        ShmLane {
            me,
            own,
            view: ReceiverView::default(),
            remotes: PeerTable::new(vci),
            resolver,
            single_copy,
            senders_fence: wake_up::senders_fence(),
            watched: HashMap::new(),
            ended: HashSet::new(),
            dead: HashSet::new(),
        }
    }

    /// The queue of a peer's VCI, mapped on first contact.
    #[inline(always)]
    fn remote(&mut self, peer: Peer, vci: VciId) -> Result<&mut Remote, LaneError> {
        let slot = self.remotes.get(peer, vci);
        if slot.is_none() {
            let remote = attach(&*self.resolver, peer, vci)?;
            let pid = remote.at.pid;
            if self.dead.contains(&peer) {
                return Err(LaneError::lost(peer, gone(peer, pid)));
            }
            self.watched.insert(peer, pid);
            *slot = Some(remote);
        }
        match slot {
            Some(remote) => Ok(remote),
            None => unreachable!("just attached"),
        }
    }

    /// A send that does not find its peer at once: the first, or one to a VCI of another number.
    #[cold]
    #[inline(never)]
    fn send_first(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let (me, senders_fence) = (self.me, self.senders_fence);
        self.remote(to, vci)?
            .send_long(me, senders_fence, header, payload)
    }

    /// The process number of a peer whose memory can be copied directly; tried at first contact.
    fn single_copy(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let allowed = self.single_copy;
        let remote = self.remote(peer, vci)?;
        let at = remote.at;
        match remote
            .single_copy
            .get_or_insert_with(|| allowed && single_copy::works(&at))
        {
            true => Ok(at.pid),
            false => Err(LaneError::Unsupported),
        }
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
        // SAFETY: `get`, `put`, `read` and `write` are promised that `local` is valid; the peer has exposed `place`.
        let copied = unsafe { single_copy::copy(direction, pid, local, place, len) };
        copied.map_err(|error| not_copied(peer, pid, place, error))?;
        Ok(Issued::Done)
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
        // SAFETY: `readv` and `writev` are promised that all pieces are valid; the peer has
        // exposed `place`.
        let copied = unsafe { single_copy::copy_pieces(direction, pid, local, place) };
        copied.map_err(|error| not_copied(peer, pid, place, error))
    }
}

#[cold]
fn not_copied(peer: Peer, pid: u32, place: u64, error: NotCopied) -> LaneError {
    match error {
        NotCopied::Bad(bad) => LaneError::BadMemory(Box::new(bad)),
        NotCopied::Refused(error) => LaneError::lost(
            peer,
            format!("its memory (process {pid}, at {place:#x}) could not be copied: {error}"),
        ),
    }
}

#[cold]
fn attach(resolver: &dyn Resolver, peer: Peer, vci: VciId) -> Result<Box<Remote>, LaneError> {
    let lost = |why: String| LaneError::lost(peer, why);
    let bytes = resolver.resolve(peer, vci).map_err(|error| lost(error.0))?;
    let at = Location::parse(&bytes)
        .ok_or_else(|| lost("its shared-memory address can't be read".to_string()))?;
    let segment = Segment::attach(&at).map_err(|error| lost(error.0))?;
    Ok(Box::new(Remote {
        segment,
        view: SenderView::default(),
        at,
        single_copy: None,
    }))
}

impl Lane for ShmLane {
    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        match self.remotes.peek(to, vci) {
            Some(Some(remote)) if payload.len() <= SHORT => {
                remote.send_short(self.me, self.senders_fence, header, payload)
            }
            Some(Some(remote)) => remote.send_long(self.me, self.senders_fence, header, payload),
            _ => self.send_first(to, vci, header, payload),
        }
    }

    fn send_with(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LaneError> {
        let (me, senders_fence) = (self.me, self.senders_fence);
        self.remote(to, vci)?
            .put(me, senders_fence, header, len, |out| {
                // SAFETY: `put` gives the place of the payload, which nobody else touches.
                fill(unsafe { std::slice::from_raw_parts_mut(out, len) });
            })
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        let (ends, cells) = (&self.own.front().ends, self.own.cells());
        for done in 0..budget {
            let Some(position) = self.view.peek(cells) else {
                return done > 0;
            };
            let number = position as usize & (CELLS - 1);
            let cell = &cells[number];
            // SAFETY: published for this position, and senders leave it alone until `advance` lets
            // them; the length is bounded before it is used.
            unsafe {
                let [first, a, b, c] = *cell.envelope.get();
                let len = (first >> 32) as usize;
                assert!(len <= BODY);
                let payload: *const u8 = if len <= INLINE {
                    cell.inline.get().cast()
                } else {
                    self.own.body(number)
                };
                let payload = std::slice::from_raw_parts(payload, len);
                sink.message(first as u32, &Header([a, b, c]), payload);
            }
            self.view.advance(ends, cells);
        }
        true
    }

    unsafe fn get(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        self.copy(Direction::Read, peer, vci, local, len, remote)
    }

    unsafe fn put(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        self.copy(Direction::Write, peer, vci, local.cast_mut(), len, remote)
    }

    unsafe fn atomic(
        &mut self,
        _peer: Peer,
        _vci: VciId,
        _op: AtomicOp,
        _operand: u64,
        _compare: u64,
        _result: *mut u64,
        _remote: RemoteAddr,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        // The kernel's copy is not atomic; memory that peers have mapped will be the way.
        Err(LaneError::Unsupported)
    }

    fn flush(&mut self, _peer: Peer, _token: Token) -> Result<Issued, LaneError> {
        Ok(Issued::Done) // copies are complete, and visible, when they return
    }

    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        for &peer in awaited {
            if !self.watched.contains_key(&peer)
                && let Ok(bytes) = self.resolver.resolve(peer, 0)
                && let Some(at) = Location::parse(&bytes)
            {
                self.watched.insert(peer, at.pid);
            }
        }
        for (&peer, &pid) in &self.watched {
            // Who has ended may have sent and stored what nobody has looked at yet, and need not be missed at all: it
            // counts as lost when it is found so again, after everything has been looked at.
            if !exists(pid) && !self.ended.insert(peer) && self.dead.insert(peer) {
                self.remotes.forget(peer);
                sink.peer_lost(peer, gone(peer, pid));
            }
        }
    }

    fn drained(&mut self) -> bool {
        true // what was sent lies in the receiver's memory
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Futex((&raw const self.own.front().wake_up.0).cast())
    }

    fn arm(&mut self) -> bool {
        wake_up::arm(&self.own.front().wake_up.0);
        self.view.peek(self.own.cells()).is_none()
    }

    fn disarm(&mut self) {
        wake_up::disarm(&self.own.front().wake_up.0);
    }

    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        Some(self)
    }
}

/// A place in a peer's memory.
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
