//! A VCI's lane: its own queue to receive from, and peers' queues to send to.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::ring::{CELLS, INLINE, Inbox, Mailbox, Sent, claim, publish};
use netmod::{
    AtomicOp, DirectCopy, Header, IoVec, Issued, Lane, LaneError, Peer, Pipes, RemoteAddr,
    RemoteKey, Resolver, Sink, Token, VciId, WakeUp,
};
use netmod_kit::PeerTable;

use crate::choice::Choice;
use crate::config::SingleCopy;
use crate::ends::End;
use crate::hand_over::HandOver;
use crate::lent::Kept;
use crate::live::Hands;
use crate::liveness::{exists, gone};
use crate::pipes::Receiving;
use crate::segment::{BODY, Location, STRIDE, Segment};
use crate::sending::{Ended, Sending};
use crate::shared_copy::{Habit, may_share};
use crate::single_copy::{self, Direction, NotCopied};
use crate::turns::{Came, Turns};
use crate::wake_up;

/// A peer's queue.
pub(crate) struct Remote {
    pub mailbox: End<Mailbox>,
    /// Dropped after the mailbox, which points into it.
    pub segment: Segment,
    at: Location,
    /// Whether its memory can be copied directly; `None` until tried.
    single_copy: Option<bool>,
    /// Which way long messages go to it, as measured; `None` until the first.
    pub choice: Option<Box<Choice>>,
    /// Its core seems to share no cache with this one.
    pub far: bool,
    /// How many messages the lane had received when one was last sent to it.
    taken_before: u64,
    /// So many units of its pipes' room are mapped.
    pub units_mapped: usize,
    /// Units of its room that this process has kept.
    pub kept: Option<Kept>,
    pub turns: Turns,
    /// The ends of the generations of the last pipe to there, and of the last one from there that this process was through
    /// with.
    pub opened: u8,
    pub ended: u8,
    /// The last message from there was sent before its sender had the last one to there: both send before they receive, and
    /// nobody waits for what is written yet.
    pub crosses: bool,
    /// What is known of memory that changes hands.
    pub hand_over: HandOver,
    /// The message that it reads, or will read, was sent by turns.
    pub reads_by_turns: bool,
    /// Whether it helps to read its memory.
    pub habit: Habit,
}

/// So many bytes come sooner from memory than line by line from a core that shares no cache with the reader's.
const PAST: usize = 2048;

/// In a stream the next message's lines are asked for from so many bytes on, as there is little time between asking and
/// writing; after an answer always.
const AHEAD_IN_STREAMS: usize = 1024;

impl Remote {
    /// Whether the lane, which has received `taken` messages, has received any since the last long one went there.
    #[inline(always)]
    fn answers(&mut self, taken: u64) -> bool {
        mem::replace(&mut self.taken_before, taken) != taken
    }

    /// `taken`: how many messages the lane has received.
    #[inline(never)]
    fn send_long(
        &mut self,
        (me, taken): (Peer, u64),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let answers = self.answers(taken);
        let past =
            self.far && payload.len() >= PAST && !netmod_kit::writes_whole_lines(payload.len());
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
            // SAFETY: `put` gives the place of the payload, apart from all else.
            unsafe {
                match PAST_CACHES {
                    true => netmod_kit::copy_past_caches(payload.as_ptr(), out, payload.len()),
                    false => netmod_kit::copy_to_asked(payload.as_ptr(), out, payload.len()),
                }
            }
        })
    }

    /// Asks for the lines that the next message's payload is written to, as if it were as long as this one: they are
    /// the reader's, and one after the other they come late. (8 KiB, cores of a Xeon with a near cache each: 1.46 to
    /// 1.22 µs; a stream of 1 KiB: 5.7 to 7.1 GB/s.)
    fn ask_for_next(&mut self, len: usize, answers: bool) {
        let next = self.segment.front().ends.tail.0.load(Ordering::Relaxed);
        let view = &self.mailbox.get().view;
        if view.may_claim(next, CELLS) {
            let body = self.segment.body(view.body(next, answers));
            netmod_kit::ask_for_lines(body, len);
        }
    }

    /// Whether it was tried to copy its memory directly.
    pub fn is_tried(&self) -> bool {
        self.single_copy.is_some()
    }

    /// Its process number, if its memory can be copied directly, as far as was tried.
    pub fn pid(&self) -> Option<u32> {
        (self.single_copy == Some(true)).then_some(self.at.pid)
    }

    /// Puts a message of `len` bytes, which `fill` writes to the place it is given, into the queue. `answers`: something has
    /// been received since the one before.
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
        let front = self.segment.front();
        let view = &mut self.mailbox.get().view;
        let Some(position) = claim(&front.ends, CELLS, view) else {
            return Err(LaneError::Again);
        };
        let cell = &self.segment.cells()[position as usize & (CELLS - 1)];
        let [a, b, c] = header.0;
        // SAFETY: the cell is claimed, so nobody else touches it until it is published.
        let short = unsafe {
            cell.set_envelope([u64::from(me) | (len as u64) << 32, a, b, c]);
            cell.payload()
        };
        let payload = if len <= INLINE {
            short
        } else {
            let (number, is_first) = view.take_body(&front.ends, position, answers);
            // SAFETY: as above.
            unsafe { cell.set_body(number) };
            let body = self.segment.body(number);
            if is_first {
                // It meets pages that are not mapped yet. A read has the system map some at once, a write but one.
                // SAFETY: the body is within the segment; what is in it doesn't matter.
                unsafe { body.read_volatile() };
            }
            body
        };
        fill(payload);
        publish(cell, position);
        let mailbox = self.mailbox.get();
        if mailbox.is_silent() {
            Ok(())
        } else {
            woken(mailbox)
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
fn woken(mailbox: &Mailbox) -> Result<(), LaneError> {
    mailbox.wake();
    Ok(())
}

pub(crate) struct ShmLane {
    pub me: Peer,
    pub vci: VciId,
    inbox: End<Inbox>,
    /// Dropped after the inbox, which points into it.
    pub own: Arc<Segment>,
    /// The pipes that peers have opened.
    pub receiving: Receiving,
    /// The pipes that are open.
    pub sending: Sending,
    pub remotes: PeerTable<Option<Box<Remote>>>,
    resolver: Arc<dyn Resolver>,
    pub mode: SingleCopy,
    /// Whether others may do a share of what is read to this process's memory.
    pub shares: bool,
    /// Whether they live is looked at: where those are that were sent to or waited for.
    watched: HashMap<Peer, u32>,
    /// Peers whose process was found ended once.
    ended: HashSet<Peer>,
    /// Those that are lost: found ended again.
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
        let (ends, cells, _) = own.parts();
        // SAFETY: the segment is kept beside it, and has a body of that size for each cell.
        let inbox = unsafe { Inbox::new(ends, cells, own.body(0), STRIDE, BODY) };
        ShmLane {
            me,
            vci,
            inbox: End::new(inbox),
            own,
            remotes: PeerTable::new(vci),
            resolver,
            mode,
            shares: may_share(),
            receiving: Receiving::default(),
            sending: Sending::default(),
            watched: HashMap::new(),
            ended: HashSet::new(),
            dead: HashSet::new(),
        }
    }

    /// The queue of a peer's VCI, mapped on first contact.
    #[inline(always)]
    pub fn remote(&mut self, peer: Peer, vci: VciId) -> Result<&mut Remote, LaneError> {
        let slot = self.remotes.get(peer, vci);
        if slot.is_none() {
            let remote = attach(&*self.resolver, self.me, peer, vci)?;
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
        let from = (self.me, self.inbox.get().taken());
        self.remote(to, vci)?.send_long(from, header, payload)
    }

    /// The process number of a peer whose memory can be copied directly; tried at first contact.
    pub fn single_copy(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let allowed = self.mode != SingleCopy::Never;
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

    /// Takes note of what receivers of pipes have told.
    #[inline]
    pub fn hear(&mut self) {
        if !self.sending.ended.is_empty() || !self.sending.unread.is_empty() {
            self.hear_all();
        }
    }

    #[inline(never)]
    fn hear_all(&mut self) {
        while let Some(ended) = self.sending.ended.pop() {
            let Ended {
                to,
                vci,
                len,
                way,
                hands,
                by_turns,
                work,
            } = ended;
            if let Ok(remote) = self.remote(to, vci) {
                let by_hand = hands != Hands::Own;
                if by_turns {
                    remote.hand_over.note(len, by_hand, work.slower());
                }
                if !by_hand {
                    remote.note(len, way, work);
                }
            }
        }
        while let Some((to, vci, kept)) = self.sending.unread.pop() {
            if let Ok(remote) = self.remote(to, vci) {
                kept.give_back(&remote.segment);
            }
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
        let copied = match direction {
            Direction::Read => {
                // It may be a long message.
                self.remote(peer, vci)?.turns.receive(len, Came::Read);
                // SAFETY: `get` and `read` are promised that `local` is valid; the peer has exposed `place`.
                unsafe { self.read_shared((peer, vci), pid, local, place, len) }
            }
            // SAFETY: as above, of `put` and `write`.
            Direction::Write => unsafe { single_copy::copy(direction, pid, local, place, len) },
        };
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

/// Finds the segment of a peer's VCI.
fn locate(resolver: &dyn Resolver, peer: Peer, vci: VciId) -> Result<Location, String> {
    let bytes = resolver.resolve(peer, vci).map_err(|error| error.0)?;
    Location::parse(&bytes).ok_or_else(|| "its shared-memory address can't be read".to_string())
}

/// Maps a peer's segment. That of a process that has ended is not there, whatever else may keep it from being opened.
fn open(peer: Peer, at: &Location) -> Result<Segment, String> {
    Segment::attach(at).map_err(|error| match exists(at.pid) {
        true => error.0,
        false => gone(peer, at.pid),
    })
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
    let (ends, cells, word) = segment.parts();
    let fence = wake_up::senders_fence();
    // SAFETY: the segment is kept beside it.
    let mailbox = unsafe { Mailbox::new(me, ends, cells, word, wake_up::wake, fence) };
    Ok(Box::new(Remote {
        mailbox: End::new(mailbox),
        segment,
        at,
        single_copy: None,
        choice: None,
        far: false,
        units_mapped: 0,
        kept: None,
        turns: Turns::default(),
        opened: 0,
        ended: 0,
        crosses: false,
        hand_over: HandOver::default(),
        taken_before: 0,
        reads_by_turns: false,
        habit: Habit::default(),
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
            Some(Some(remote)) if payload.len() <= INLINE => {
                let mailbox = remote.mailbox.get();
                // SAFETY: a slice, no longer than a cell takes.
                match unsafe { mailbox.send(*header, payload.as_ptr(), payload.len()) } {
                    Sent::Silent => Ok(()),
                    Sent::Asleep => woken(mailbox),
                    Sent::NoRoom => again(),
                }
            }
            Some(Some(remote)) => {
                let from = (self.me, self.inbox.get().taken());
                remote.send_long(from, header, payload)
            }
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
        let (me, taken) = (self.me, self.inbox.get().taken());
        let remote = self.remote(to, vci)?;
        let answers = remote.answers(taken);
        remote.put((me, answers), header, len, |out| {
            // SAFETY: `put` gives the place of the payload, which nobody else touches.
            fill(unsafe { std::slice::from_raw_parts_mut(out, len) });
        })?;
        if len >= AHEAD_IN_STREAMS {
            remote.ask_for_next(len, answers);
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        let inbox = self.inbox.get();
        for done in 0..budget {
            let Some(front) = inbox.peek() else {
                return done > 0;
            };
            let (from, header, len) = (front.from(), front.header(), front.len());
            assert!(len <= BODY);
            // SAFETY: published, and senders leave it alone until `advance` lets them; the length has been
            // bounded.
            let payload = unsafe { std::slice::from_raw_parts(inbox.payload(front), len) };
            sink.message(from, &header, payload);
            inbox.advance();
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
            if self.watched.contains_key(&peer) {
                continue;
            }
            match locate(&*self.resolver, peer, 0) {
                // A peer whose memory can't be opened gets no answers, so waiting for its messages may never end. One
                // that has ended is lost when it is found so again: what it has sent may still lie unread.
                Ok(at) => match open(peer, &at) {
                    Err(why) if exists(at.pid) => sink.peer_lost(peer, why),
                    _ => {
                        self.watched.insert(peer, at.pid);
                    }
                },
                Err(why) => sink.peer_lost(peer, why),
            }
        }
        for (&peer, &pid) in &self.watched {
            // Who has ended may have sent and stored what nobody has looked at yet, and need not be missed at all: it
            // counts as lost when it is found so again, after everything has been looked at.
            if !exists(pid) && !self.ended.insert(peer) && self.dead.insert(peer) {
                self.remotes.forget(peer);
                self.sending.forget(peer);
                sink.peer_lost(peer, gone(peer, pid));
            }
        }
    }

    fn drained(&mut self) -> bool {
        true // what was sent lies in the receiver's memory, or in pipes
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Futex((&raw const self.own.front().wake_up.0).cast())
    }

    fn arm(&mut self) -> bool {
        wake_up::arm(&self.own.front().wake_up.0);
        self.inbox.get().peek().is_none()
    }

    fn disarm(&mut self) {
        wake_up::disarm(&self.own.front().wake_up.0);
    }

    fn mailbox(&mut self, to: Peer, vci: VciId) -> Option<NonNull<Mailbox>> {
        Some(self.remote(to, vci).ok()?.mailbox.pointer())
    }

    fn inbox(&mut self) -> Option<NonNull<Inbox>> {
        Some(self.inbox.pointer())
    }

    #[inline]
    fn help(&mut self) -> bool {
        self.own.front().shares.are_offered() && self.help_reader()
    }

    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        Some(self)
    }

    fn pipes(&mut self) -> Option<&mut dyn Pipes> {
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
