//! The contract between Weft's MPI core and its transports.
//!
//! Everything in MPI is built on two primitives that every transport provides per VCI (virtual
//! communication interface, an independent communication stream):
//!
//! 1. **Active messages**: an ordered stream of (small header, payload) from one VCI to another
//!    ([`Lane::send`], delivered through [`Sink::message`]).
//! 2. **Remote memory**: exposed memory with put, get, 8-byte atomics and flush ([`Lane::put`],
//!    [`Lane::get`], [`Lane::atomic`], [`Lane::flush`]).
//!
//! A third one, tagged messages matched by the network, is optional and not part of the contract
//! until a transport offers it.
//!
//! The contract knows no MPI words but "VCI": what a header means is the core's business. A
//! transport is a crate that depends on this one and, of Weft's, on nothing else but `netmod-kit`, which
//! holds what transports share.
//!
//! # The law of the hot path
//! [`Lane::send`] and [`Lane::poll`] make no system call, allocate nothing and take no lock in the
//! common case. A lane is owned by one VCI and is called under that VCI's lock, so it needs no lock
//! of its own; nothing written on its hot path may share a cache line with another lane.
//!
//! # Who calls whom
//! The core calls lanes; lanes call back only through the [`Sink`] given to [`Lane::poll`]. A sink
//! never calls the lane again (it could not: the lane is borrowed); it notes what is to be sent and
//! the core sends it when `poll` has returned.

#![forbid(unsafe_op_in_unsafe_fn)]

use std::fmt;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

mod atomic_op;
mod pipe;
pub mod ring;
mod shares;
mod sync;

pub use atomic_op::AtomicOp;
pub use pipe::{
    Ending, NoPipe, Pipe, Pipes, Pulled, Pushed, RING, Reading, Source, Taken, Wish, Words,
};
pub use shares::{Helped, MOST_CHUNKS, SharedCopy, Shares};

/// A process of the job, numbered as its launcher does (the rank in `MPI_COMM_WORLD` for processes
/// that were started together).
pub type Peer = u32;

/// A virtual communication interface within a process.
pub type VciId = u16;

/// The header of an active message: 24 bytes that the transport carries and never reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(8))]
pub struct Header(pub [u64; 3]);

impl Header {
    /// The size of a header on the wire, in bytes.
    pub const SIZE: usize = 24;

    /// The header as bytes, in the machine's order.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The header from bytes, in the machine's order.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
        Header([word(0), word(1), word(2)])
    }
}

/// What a peer needs to reach a piece of exposed memory: an opaque value that travels in messages.
///
/// `words` belong to the transport that made the key; `address` is where the exposed piece starts,
/// in the terms of that transport (usually its virtual address).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RemoteKey {
    /// Start of the exposed piece, in the exposing transport's terms.
    pub address: u64,
    /// The transport's own data (protection key, segment number …).
    pub words: [u64; 2],
}

/// A place in a peer's exposed memory: `offset` bytes past the start of what `key` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAddr {
    /// The exposed piece.
    pub key: RemoteKey,
    /// Distance from its start, in bytes.
    pub offset: u64,
}

/// A run of bytes in this process's memory.
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// Where it begins.
    pub ptr: *mut u8,
    /// Its length in bytes.
    pub len: usize,
}

/// The most pieces that are given to [`DirectCopy::readv`], [`DirectCopy::writev`] and
/// [`Lane::send_pieces`] at once.
pub const MAX_IOVECS: usize = 256;

/// Names an operation on remote memory between its issue and [`Sink::complete`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Token(pub u64);

/// How an operation on remote memory was issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Issued {
    /// It is complete; the sink will not be told.
    Done,
    /// [`Sink::complete`] will be called with its token.
    Pending,
}

/// Why a lane did not do what it was asked to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaneError {
    /// No room at the moment (queue full, no descriptor): poll, then ask again. Nothing was done.
    Again,
    /// The transport cannot do this towards this peer (a kernel that refuses single copy, say).
    /// Nothing was done, and asking again will give the same answer.
    Unsupported,
    /// The peer can't be reached: it died, or the way to it is broken. (Boxed: results travel in two
    /// registers.)
    PeerLost(Box<Lost>),
    /// Memory that was to be read or written isn't there, or not for that. The peer lives, and all else goes on.
    BadMemory(Box<BadMemory>),
}

/// Where memory isn't what a copy was told that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMemory {
    /// Whether it is this process's, or else the peer's.
    pub own: bool,
    /// The first address that can't be used.
    pub address: u64,
}

/// A peer that can't be reached any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Which.
    pub peer: Peer,
    /// Cause and next step, for the user.
    pub why: String,
}

impl LaneError {
    /// The error of a lost peer.
    #[cold]
    pub fn lost(peer: Peer, why: impl Into<String>) -> LaneError {
        LaneError::PeerLost(Box::new(Lost {
            peer,
            why: why.into(),
        }))
    }
}

/// Why a transport or a lane could not be opened, in words for the user: what was tried, what came
/// back, what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError(pub String);

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneError::Again => f.write_str("no resources at the moment"),
            LaneError::Unsupported => f.write_str("not supported by the transport"),
            LaneError::PeerLost(lost) => {
                write!(f, "process {} is lost: {}", lost.peer, lost.why)
            }
            LaneError::BadMemory(bad) => {
                let whose = if bad.own { "this" } else { "the other" };
                write!(
                    f,
                    "{whose} process has no usable memory at {:#x}",
                    bad.address
                )
            }
        }
    }
}
impl std::error::Error for LaneError {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for OpenError {}

/// The most words of one [`Lane::signal`].
pub const MAX_WORDS: usize = 8;

/// What a transport's [`Lane::signal`] can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signals {
    /// The most bytes of data before the words.
    pub max_data: usize,
    /// Up to how many bytes of data they are quicker than messages, if at all.
    pub faster_up_to: Option<usize>,
    /// Whether they arrive without the target's processor entering the library.
    pub passive_target: bool,
}

/// What a transport's [`Lane::atomic`] is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomics {
    /// Whether they are carried out without the target's processor entering the library. If not, they are
    /// worth more than messages of the core's only for single words.
    pub passive_target: bool,
    /// Whether they are atomic towards the target's processor, too: towards its own atomic
    /// instructions on the same words. Said only by transports that know it; an adapter's are atomic
    /// among themselves, which is no more than that.
    pub coherent: bool,
    /// Whether those of one lane to one peer's VCI are carried out in the order in which they were
    /// issued.
    pub ordered: bool,
    /// Gets and puts of at most so many bytes, and [`AtomicOp::Load`], [`AtomicOp::Add`] and
    /// [`AtomicOp::CompareSwap`], of one lane to one peer's VCI are carried out in the order in which they were
    /// issued, save that a put or an atomic need not wait for a get or an atomic before it that is not complete:
    /// what that reads may be newer. 0: nothing is said.
    pub ordered_access: usize,
}

/// The size up to which most transports send messages at once, in bytes: beyond it the copies on the
/// way cost more than asking first.
pub const EAGER: usize = 8192;

/// What a transport can do and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest payload of one active message, in bytes; at least 1,024.
    pub max_payload: usize,
    /// Messages up to this size, in bytes, are best sent at once, before anybody asks for them; the
    /// core sends as much less as fits beside its own header.
    pub eager: usize,
    /// Whether peers' exposed memory may be read by [`Lane::get`] in general (a single peer may
    /// still answer [`LaneError::Unsupported`]).
    pub get: bool,
    /// Whether get and put are the network's own. If not, the transport makes them of messages, which
    /// is no gain over messages of the core's.
    pub native_rma: bool,
    /// Whether get and put are carried out without the target's processor entering the library.
    pub passive_target: bool,
    /// Payloads from this size on are best sent by [`Lane::send_zcopy`]; `usize::MAX`: none.
    pub zcopy_min: usize,
    /// Whether a put to a peer becomes visible there no later than an active message or a put that
    /// was issued after it on the same lane (what flags in remote memory need).
    pub ordered_put: bool,
    /// What [`Lane::signal`] can do; none if it can do nothing.
    pub signals: Option<Signals>,
    /// What [`Lane::atomic`] is like; none if it can do nothing.
    pub atomics: Option<Atomics>,
    /// The greatest number of VCIs that can be opened.
    pub max_vcis: usize,
}

/// Tells a transport where a peer's VCI is. Implemented by the core, which gets the addresses from
/// the launcher or from messages; may be slow, is called once per peer and VCI.
pub trait Resolver: Send + Sync {
    /// The bytes that [`Transport::address`] returned for `vci` in process `peer`.
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError>;
}

/// A transport: one per process and kind of connection.
pub trait Transport: Send + Sync {
    /// Short name for messages and control variables ("shm", "ofi", "sim").
    fn name(&self) -> &'static str;

    /// One line for the user: library, provider, device.
    fn describe(&self) -> String {
        self.name().to_string()
    }

    /// What else was considered (providers, devices), each with the reason why it is not used.
    fn considered(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it can do.
    fn limits(&self) -> Limits;

    /// Opens the lane of a VCI. Each VCI is opened at most once.
    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError>;

    /// The address of an opened VCI, at most 320 bytes, for peers' [`Resolver`]s.
    fn address(&self, vci: VciId) -> Vec<u8>;

    /// Exposes `len` bytes at `ptr` to peers' get, put and atomics until [`Transport::withdraw`].
    ///
    /// # Safety
    /// The memory must stay valid until it is withdrawn.
    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError>;

    /// Ends an exposure. Peers may not use the key any longer.
    fn withdraw(&self, key: &RemoteKey);

    /// Memory that this process and the transport's peers have in common, if all of them are processes of
    /// this node. Its lanes may have a [`DirectCopy`] then.
    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        None
    }
}

/// Memory that processes of a node have in common.
pub trait SharedMemory: Send + Sync {
    /// Makes a piece of `len` zero bytes. Memory is taken for it by [`SharedSegment::reserve`], or where
    /// that [`SharedMemory::may_wait`] when it is touched.
    fn create(&self, len: usize) -> Result<Box<dyn SharedSegment>, OpenError>;

    /// Whether memory for `len` bytes, of all parts of a piece together, may be taken when it is touched:
    /// then a lack of it is no error any more, but is no other than that of any memory. An error if
    /// there is not so much now.
    fn may_wait(&self, len: usize) -> Result<bool, OpenError> {
        let _ = len;
        Ok(false)
    }

    /// Maps the piece that a peer made with this length.
    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError>;
}

/// A piece of shared memory, mapped until it is dropped.
pub trait SharedSegment: Send + Sync {
    /// Where it begins here; the beginning of a page.
    fn as_ptr(&self) -> *mut u8;

    /// By which peers open it, until it is settled.
    fn key(&self) -> RemoteKey;

    /// Takes memory for `len` bytes from `offset` on, so that a lack of it shows now.
    fn reserve(&self, offset: usize, len: usize) -> Result<(), OpenError>;

    /// All have opened it, or have given it up: nobody can from now on, and nothing can be reserved.
    fn settle(&self);

    /// Whether peers can open it still: not if the program has closed what it was made by.
    fn is_open(&self) -> bool {
        true
    }
}

/// One VCI's connection to all peers of a transport. Called under the VCI's lock.
pub trait Lane: Send {
    /// Sends an active message. On `Ok` the payload has been taken over (copied or sent) and may be
    /// changed by the caller. Messages from this lane to the same `(peer, vci)` arrive in order.
    ///
    /// Payloads are at most [`Limits::max_payload`] bytes long; longer ones are refused by
    /// [`LaneError::Unsupported`].
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError>;

    /// Like [`Lane::send`] for a payload that need not be copied ([`Limits::zcopy_min`]), if the lane can let it leave
    /// now, from where it lies. Otherwise it is refused, and nothing has happened.
    fn send_at_once(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        let _ = (to, vci, header, payload);
        Err(LaneError::Unsupported)
    }

    /// Looks whether peers still live, for transports that aren't told of a peer's end: those that
    /// somebody waits for, and all that were sent to. Called now and then by whoever waits for long.
    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        let _ = (awaited, sink);
    }

    /// Like [`Lane::send`] with a payload of `len` bytes that `fill` writes where the transport
    /// wants it. `fill` is called at most once, with a slice of `len` bytes, and only if the message
    /// will be sent.
    fn send_with(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LaneError>;

    /// Like [`Lane::send`] of `len` bytes that stay as they are until completion, so that they need not
    /// be copied; for payloads of [`Limits::zcopy_min`] bytes and more. The default answers
    /// [`LaneError::Unsupported`].
    ///
    /// # Safety
    /// `payload` must be valid for reads of `len` bytes until completion.
    unsafe fn send_zcopy(
        &mut self,
        _to: Peer,
        _vci: VciId,
        _header: &Header,
        _payload: *const u8,
        _len: usize,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        Err(LaneError::Unsupported)
    }

    /// Like [`Lane::send`] of a payload that lies in pieces, at most [`MAX_IOVECS`], which are the
    /// caller's again when the call returns. The default answers [`LaneError::Unsupported`]; lanes offer
    /// it where the pieces leave from where they lie, without a copy.
    ///
    /// # Safety
    /// The pieces must be valid for reads.
    unsafe fn send_pieces(
        &mut self,
        _to: Peer,
        _vci: VciId,
        _header: &Header,
        _pieces: &[IoVec],
    ) -> Result<(), LaneError> {
        Err(LaneError::Unsupported)
    }

    /// Several messages are about to be sent, between `coalesce(true)` and `coalesce(false)`: the lane may
    /// let small ones to the same destination travel together, and has sent them all when
    /// `coalesce(false)` returns or when there is room. Other messages it may refuse
    /// by [`LaneError::Again`] in order to be offered them this way later. By default nothing is
    /// gathered.
    fn coalesce(&mut self, on: bool) {
        let _ = on;
    }

    /// Whether [`Lane::coalesce`] does something, so that a message may be refused although there is
    /// room.
    fn coalesces(&self) -> bool {
        false
    }

    /// Takes in what has arrived and reports it to `sink`, at most about `budget` events. Returns
    /// whether anything happened: a retry that did nothing is not progress.
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool;

    /// Reads `len` bytes of exposed memory of `peer` to `local`. `local` need not be registered.
    ///
    /// # Safety
    /// `local` must be valid for writes of `len` bytes until completion.
    unsafe fn get(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError>;

    /// Writes `len` bytes from `local` to exposed memory of `peer`. Completion means that `local`
    /// may be reused; [`Lane::flush`] makes it visible at the peer.
    ///
    /// # Safety
    /// `local` must be valid for reads of `len` bytes until completion.
    unsafe fn put(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError>;

    /// Writes `data` to exposed memory of `peer` at `remote`, then `words` (1 to [`MAX_WORDS`]) at
    /// `at`, which is aligned to 8 bytes. Whoever reads a word there as it was written, all of its
    /// bytes, by one load that acquires, without having been told of anything, sees all of `data`, too.
    /// The words themselves may come in any order, and so may the bytes of each: **no transport
    /// promises that a word is stored as a whole**, so a reader must be able to tell by what it reads
    /// whether every byte has come. With data, there is room for a word of the transport's own in the
    /// 8 bytes before it.
    ///
    /// What stores words:
    /// - verbs: the adapter. Hardware writes aligned words as a whole as far as is known, but neither
    ///   the InfiniBand specification nor PCI Express promises it; Soft-RoCE copies as `memcpy` does,
    ///   in part byte by byte, while the target looks on.
    /// - libfabric: words by themselves as the provider's device does; with data and a notice, this
    ///   library in the target's own process, as a whole.
    /// - UCX: the device, a peer's `memcpy` to mapped memory, or the target's own process.
    ///
    /// On `Ok` data and words have been taken over; there is no completion, and no flush waits for
    /// them. That they can't be written any more is reported as the loss of the peer.
    ///
    /// This is what a transport that has [`Limits::signals`] guarantees by its own rules: order of
    /// writes, a notice of completion at the target, or one after the other.
    fn signal(
        &mut self,
        _peer: Peer,
        _vci: VciId,
        _data: &[u8],
        _remote: RemoteAddr,
        _words: &[u64],
        _at: RemoteAddr,
    ) -> Result<(), LaneError> {
        Err(LaneError::Unsupported)
    }

    /// An 8-byte atomic on exposed memory of `peer`; the value found is written to `result` by
    /// completion. Then it has been carried out, which the peer sees as if it had been flushed. The remote
    /// address is 8-byte aligned. The peer may be one that another transport leads to in general (of
    /// this node), or this process itself.
    ///
    /// # Safety
    /// `result` must be aligned and valid for writing a `u64` until completion.
    unsafe fn atomic(
        &mut self,
        peer: Peer,
        vci: VciId,
        op: AtomicOp,
        operand: u64,
        compare: u64,
        result: *mut u64,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError>;

    /// Completes when all puts and atomics issued before it to `peer` are visible there.
    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError>;

    /// The queue by which a VCI of a peer receives, if it is such a one: short messages may then be put there
    /// without a call of the lane, and keep their order with those that [`Lane::send`] sends. What it
    /// points to stays until the lane is dropped or reports the peer lost; it is used under the VCI's lock,
    /// and not during a call of the lane.
    fn mailbox(&mut self, _to: Peer, _vci: VciId) -> Option<NonNull<ring::Mailbox>> {
        None
    }

    /// The queue by which this lane receives, if it has one: messages at its front may then be taken without a
    /// call of the lane. What it points to stays until the lane is dropped; used as said above.
    fn inbox(&mut self) -> Option<NonNull<ring::Inbox>> {
        None
    }

    /// Whether everything accepted by [`Lane::send`] has left this process, so that it may end.
    fn drained(&mut self) -> bool;

    /// What a sleeping thread waits for.
    fn wake_up(&self) -> WakeUp;

    /// Announces that the owner is about to sleep: from now on an arrival wakes it.
    /// Returns `false` if something has arrived already; then the owner must poll, not sleep.
    fn arm(&mut self) -> bool;

    /// Takes [`Lane::arm`] back after waking.
    fn disarm(&mut self);

    /// Does a part of a copy that a peer has under way from this process's memory, if there is one: a long message that it
    /// reads where it is. Called while one may be read, when nothing else is to be done. Returns whether something was done.
    fn help(&mut self) -> bool {
        false
    }

    /// The way to any memory of peers of this node, if the transport has one.
    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        None
    }

    /// The way for long messages of peers of this node through memory that both see, if there is one.
    fn pipes(&mut self) -> Option<&mut dyn Pipes> {
        None
    }
}

/// What shared memory alone offers: copies from and to any memory of a peer, exposed or not, which are
/// complete, and visible at the peer, when the call returns. They all answer [`LaneError::Unsupported`]
/// towards a peer whose memory can't be reached.
pub trait DirectCopy {
    /// Reads `len` bytes at `address` in the peer's memory to `local`.
    ///
    /// # Safety
    /// `local` must be valid for writes of `len` bytes, and the peer must have lent what is at `address`.
    unsafe fn read(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError>;

    /// Writes `len` bytes from `local` to `address` in the peer's memory.
    ///
    /// # Safety
    /// `local` must be valid for reads of `len` bytes, and the peer must have lent what is at `address`.
    unsafe fn write(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError>;

    /// Reads the peer's memory from `address` on to `local` pieces one after the other (a scatter list), at
    /// most [`MAX_IOVECS`].
    ///
    /// # Safety
    /// As for [`DirectCopy::read`], for all pieces.
    unsafe fn readv(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError>;

    /// Writes `local` pieces one after the other to the peer's memory from `address` on (a gather list), at
    /// most [`MAX_IOVECS`].
    ///
    /// # Safety
    /// As for [`DirectCopy::write`], for all pieces.
    unsafe fn writev(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError>;
}

/// Receives what [`Lane::poll`] found.
pub trait Sink {
    /// An active message arrived. `payload` is valid during the call only.
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]);
    /// A long active message begins to arrive. If it is known where its `len` bytes of payload belong,
    /// all of them, the answer is that place, which stays valid until completion: then
    /// [`Sink::message`] is not called, but [`Sink::complete`] with the token, once the payload is
    /// there or its sender is lost. What arrives later on the same way may be told before that.
    /// `None`: the message is told of when it is there.
    fn place(&mut self, _from: Peer, _header: &Header, _len: usize) -> Option<(*mut u8, Token)> {
        None
    }
    /// As [`Sink::place`], for a payload that belongs in several pieces of memory, in order: fills
    /// `pieces` and says how many there are.
    fn place_pieces(
        &mut self,
        _from: Peer,
        _header: &Header,
        _len: usize,
        _pieces: &mut [IoVec; MAX_IOVECS],
    ) -> Option<(usize, Token)> {
        None
    }
    /// An operation that was issued as [`Issued::Pending`] has completed.
    fn complete(&mut self, token: Token, result: Result<(), LaneError>);
    /// A peer is lost; the text names cause and next step. May be reported more than once.
    fn peer_lost(&mut self, peer: Peer, why: String);
}

/// How a thread sleeps until a lane has something for it.
#[derive(Clone, Copy, Debug)]
pub enum WakeUp {
    /// Nothing to wait for: the lane must be polled.
    None,
    /// A word for `futex(FUTEX_WAIT)`, in memory that outlives the lane's transport. While armed it
    /// holds 1; the ringer sets it to 0 and wakes.
    Futex(*const AtomicU32),
    /// A file descriptor that becomes readable.
    Fd(RawFd),
}

// SAFETY: the futex word is an atomic in memory that outlives the transport (see `Futex`), so any
// thread may wait on it.
unsafe impl Send for WakeUp {}
