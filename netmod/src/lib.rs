//! The contract between Weft's MPI core and its transports.
//!
//! Everything in MPI is built on two primitives that every transport provides per VCI (virtual
//! communication interface, an independent communication stream):
//!
//! 1. **Active messages**: an ordered stream of (small header, payload) from one VCI to another
//!    ([`Lane::send`], delivered through [`Sink::message`]).
//! 2. **Remote memory**: exposed memory with put, get, 8-byte atomics and flush
//!    ([`Lane::access`], [`Lane::flush`]).
//!
//! Tagged messages matched by the network would be a third primitive; the contract has none until a
//! transport offers it.
//!
//! The contract knows no MPI concept but the VCI: the core alone interprets headers. A transport is
//! a crate that depends on this one and, of Weft's crates, on nothing else but `netmod-kit`, the
//! code that transports share.
//!
//! [`Lane::send`] and [`Lane::poll`] make no system call, allocate nothing and take no lock in the
//! common case. A lane is owned by one VCI and called under that VCI's lock, so it needs no lock of
//! its own; no data written on its hot path may share a cache line with another lane.
//!
//! The core calls lanes; lanes call back only through the [`Sink`] given to [`Lane::poll`]. A sink
//! never calls the lane (the lane is borrowed): it records what to send, and the core sends it
//! after `poll` has returned.

#![forbid(unsafe_op_in_unsafe_fn)]

use std::fmt;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

mod atomic_op;
pub mod breakdown;
mod pipe;

pub use atomic_op::AtomicOp;
pub use pipe::{Pipe, PipeReader, Pipes, PullProgress, PushProgress, Source};

/// A process of the job: its rank in `MPI_COMM_WORLD` if the launcher started all processes
/// together.
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

    /// Returns the header as bytes, in native byte order.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Reads a header from bytes in native byte order.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
        Header([word(0), word(1), word(2)])
    }
}

/// Names exposed memory for peers: an opaque value that travels in messages.
///
/// `words` belong to the transport that made the key; `address` is the start of the exposed memory
/// in the terms of that transport (usually its virtual address).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RemoteKey {
    /// Start of the exposed memory, in the exposing transport's terms.
    pub address: u64,
    /// The transport's own data (protection key, segment number …).
    pub words: [u64; 2],
}

/// An address in a peer's exposed memory: `offset` bytes past the start of what `key` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAddr {
    /// The exposed memory.
    pub key: RemoteKey,
    /// Distance from its start, in bytes.
    pub offset: u64,
}

/// Data and words that [`Lane::signal`] writes to a peer's exposed memory.
#[derive(Clone, Copy, Debug)]
pub struct Signal<'a> {
    /// May be empty.
    pub data: &'a [u8],
    /// The place of the data.
    pub remote: RemoteAddr,
    /// 1 to [`MAX_WORDS`] words.
    pub words: &'a [u64],
    /// The place of the words, aligned to 8 bytes.
    pub at: RemoteAddr,
}

impl RemoteAddr {
    /// Returns the address at the peer, if the key names it by address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.key.address.wrapping_add(self.offset)
    }
}

/// What an access to a peer's memory does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Reads it.
    Get,
    /// Writes it.
    Put,
    /// Changes 8 bytes of it.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Its operand.
        operand: u64,
        /// The value that a compare-and-swap compares with.
        compare: u64,
    },
}

/// An access to a peer's exposed memory.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAccess {
    /// What it does.
    pub action: Action,
    /// Destination of a get, source of a put, or the place for an atomic's previous value. Need not
    /// be registered.
    pub local: *mut u8,
    /// Bytes; 8 of an atomic.
    pub len: usize,
    /// The peer's memory; 8-byte aligned for an atomic.
    pub remote: RemoteAddr,
}

impl RemoteAccess {
    /// Reads `len` bytes to `local`.
    #[inline]
    pub fn get(local: *mut u8, len: usize, remote: RemoteAddr) -> RemoteAccess {
        RemoteAccess {
            action: Action::Get,
            local,
            len,
            remote,
        }
    }

    /// Writes `len` bytes from `local`.
    #[inline]
    pub fn put(local: *const u8, len: usize, remote: RemoteAddr) -> RemoteAccess {
        RemoteAccess {
            action: Action::Put,
            local: local.cast_mut(),
            len,
            remote,
        }
    }

    /// Changes 8 bytes and stores the previous value to `result`.
    #[inline]
    pub fn atomic(
        op: AtomicOp,
        [operand, compare]: [u64; 2],
        result: *mut u64,
        remote: RemoteAddr,
    ) -> RemoteAccess {
        RemoteAccess {
            action: Action::Atomic {
                op,
                operand,
                compare,
            },
            local: result.cast(),
            len: 8,
            remote,
        }
    }
}

/// The payload of an active message.
pub enum Payload<'a> {
    /// Bytes that are copied or sent during the call.
    Bytes(&'a [u8]),
    /// This number of bytes, which the function writes to the transport's buffer. It is called at most
    /// once, with a slice of that length, and only if the message will be sent.
    Fill(usize, &'a mut dyn FnMut(&mut [u8])),
    /// Blocks that are sent from where they lie.
    Vectored(Vectored<'a>),
}

/// Blocks of memory that a lane sends without a copy. Meant for payloads of [`Limits::zcopy_min`]
/// bytes and more.
#[derive(Clone, Copy)]
pub struct Vectored<'a> {
    blocks: &'a [IoVec],
    token: Option<Token>,
}

impl<'a> Vectored<'a> {
    /// Makes a payload of at most [`MAX_IOVECS`] blocks, with a token only of one. Without a token
    /// the lane sends them during the call, or refuses the message without any effect.
    ///
    /// # Safety
    /// The blocks must be valid for reads during the call of [`Lane::send`], and with a token until
    /// completion.
    pub unsafe fn new(blocks: &'a [IoVec], token: Option<Token>) -> Vectored<'a> {
        Vectored { blocks, token }
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &'a [IoVec] {
        self.blocks
    }

    /// Returns the token of the completion; `None`: the blocks are valid only during the call.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Returns the length of all blocks in bytes.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.len).sum()
    }

    /// Whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A contiguous block of this process's memory.
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// Start of the block.
    pub ptr: *mut u8,
    /// Its length in bytes.
    pub len: usize,
}

/// Most blocks in one call of [`DirectCopy::readv`] or [`DirectCopy::writev`], or of one
/// [`Vectored`] payload.
pub const MAX_IOVECS: usize = 256;

/// Names an operation on remote memory between its issue and [`Sink::complete`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Token(pub u64);

/// State of an operation on remote memory when its call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Issued {
    /// The operation is complete; the sink is not called.
    Complete,
    /// [`Sink::complete`] will be called with the operation's token.
    Pending,
}

/// Why a lane refused or failed an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaneError {
    /// No resources at the moment (queue full, no descriptor). The call had no effect; poll, then
    /// retry.
    Again,
    /// The transport cannot do this towards this peer (the kernel refuses CMA, say). The call had
    /// no effect, and a retry gives the same answer.
    Unsupported,
    /// The peer died, or the connection to it is broken. Boxed so that results fit two registers.
    PeerLost(Box<Lost>),
    /// Memory to be read or written is not mapped or lacks the right. The peer lives, and other
    /// operations go on.
    BadMemory(Box<BadMemory>),
}

/// Memory that a copy could not access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMemory {
    /// Whether the memory is this process's; otherwise the peer's.
    pub is_local: bool,
    /// First inaccessible address.
    pub address: u64,
}

/// A peer that can no longer be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The lost peer.
    pub peer: Peer,
    /// Cause and remedy, for the user.
    pub why: String,
}

impl LaneError {
    /// Makes the error of a lost peer.
    #[cold]
    pub fn lost(peer: Peer, why: impl Into<String>) -> LaneError {
        LaneError::PeerLost(Box::new(Lost {
            peer,
            why: why.into(),
        }))
    }
}

/// Why a transport or a lane could not be opened, for the user: what was tried, what came back,
/// what to do.
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
                let whose = if bad.is_local { "this" } else { "the other" };
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

/// Most words of one [`Lane::signal`].
pub const MAX_WORDS: usize = 8;

/// What a transport's [`Lane::signal`] can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signals {
    /// Most bytes of data before the words.
    pub max_data: usize,
    /// Most bytes of data for which a signal is faster than a message; `None`: for no size.
    pub faster_up_to: Option<usize>,
    /// Whether signals arrive without the target's processor entering the library.
    pub passive_target: bool,
}

/// Properties of a transport's atomics ([`Lane::access`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomics {
    /// Whether the network carries atomics out without the target's processor entering the library.
    /// If not, they pay off over the core's messages only for single words.
    pub passive_target: bool,
    /// Whether they are atomic with respect to the target processor's own atomic instructions on
    /// the same words. Set only by transports that know it; an adapter's atomics are atomic only
    /// among themselves.
    pub coherent: bool,
    /// Whether atomics of one lane to one VCI of a peer are carried out in the order of issue.
    pub ordered: bool,
    /// Largest get or put, in bytes, that is carried out in the order of issue with other such gets
    /// and puts and with [`AtomicOp::Load`], [`AtomicOp::Add`] and [`AtomicOp::CompareSwap`] of the
    /// same lane to the same VCI of a peer. Exception: a put or an atomic may overtake an
    /// incomplete get or atomic issued before it, which may then read the newer value. 0: no such
    /// guarantee.
    pub ordered_access: usize,
}

/// Usual eager limit of transports, in bytes: above it the copies cost more than a rendezvous.
pub const EAGER: usize = 8192;

/// Capabilities and limits of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest payload of one active message, in bytes; at least 1,024.
    pub max_payload: usize,
    /// Largest message, in bytes, that is best sent eagerly. The core subtracts the size of its own
    /// header.
    pub eager: usize,
    /// Whether long messages are best read from their sender's exposed memory by [`Lane::access`] (a
    /// single peer may still answer [`LaneError::Unsupported`]).
    pub get: bool,
    /// Whether the network itself offers get and put, for windows. If not, the transport emulates
    /// them by messages, which gains nothing over the core's own messages.
    pub native_rma: bool,
    /// Whether get and put need no call of the library at the target.
    pub passive_target: bool,
    /// Smallest payload that is best sent as [`Payload::Vectored`]; `usize::MAX`: never.
    pub zcopy_min: usize,
    /// Whether a put to a peer becomes visible there no later than any active message or put issued
    /// after it on the same lane. Flags in remote memory need this.
    pub ordered_put: bool,
    /// What [`Lane::signal`] can do; `None` if it is unsupported.
    pub signals: Option<Signals>,
    /// Properties of atomics; `None` if it is unsupported.
    pub atomics: Option<Atomics>,
    /// Whether [`Lane::coalesce`] has an effect: then a message may be refused although there is
    /// space.
    pub coalesces: bool,
    /// Most VCIs that can be opened.
    pub max_vcis: usize,
}

/// Finds the addresses of peers' VCIs for a transport. Implemented by the core, which gets the
/// addresses from the launcher or from messages; may be slow, is called once per peer and VCI.
pub trait Resolver: Send + Sync {
    /// Returns what [`Transport::address`] returned for `vci` in process `peer`.
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError>;
}

/// A network, or the shared memory of a node, as one process uses it.
pub trait Transport: Send + Sync {
    /// Short name for messages and control variables ("shm", "ofi", "sim").
    fn name(&self) -> &'static str;

    /// Returns one line for the user: library, provider, device.
    fn describe(&self) -> String {
        self.name().to_string()
    }

    /// Lists the providers and devices that were considered and not chosen, each with the reason.
    fn considered(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns capabilities and limits.
    fn limits(&self) -> Limits;

    /// Opens the lane of a VCI. Each VCI is opened at most once.
    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError>;

    /// Returns the address of an opened VCI, at most 320 bytes, for peers' [`Resolver`]s.
    fn address(&self, vci: VciId) -> Vec<u8>;

    /// Exposes `len` bytes at `ptr` to peers' get, put and atomics until [`Transport::withdraw`].
    ///
    /// # Safety
    /// The memory must stay valid until it is withdrawn.
    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError>;

    /// Ends an exposure. Peers may no longer use the key.
    fn withdraw(&self, key: &RemoteKey);

    /// Returns the factory of shared memory if all peers of the transport are on this node. Only
    /// lanes of such a transport may have a [`DirectCopy`].
    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        None
    }
}

/// Creates and opens memory shared by processes of a node.
pub trait SharedMemory: Send + Sync {
    /// Creates a segment of `len` zero bytes. Its memory is allocated by
    /// [`SharedSegment::reserve`], or on first touch where [`SharedMemory::commits_lazily`] allows that.
    fn create(&self, len: usize) -> Result<Box<dyn SharedSegment>, OpenError>;

    /// Returns whether the memory of a segment, `len` bytes in all, may be allocated on first
    /// touch. A shortage then shows like that of any other memory instead of as an error. Fails if
    /// there is not enough memory now.
    fn commits_lazily(&self, len: usize) -> Result<bool, OpenError> {
        let _ = len;
        Ok(false)
    }

    /// Returns whether one copy by the kernel between two processes is expected to take less time
    /// than two copies through a segment. Processes of a node may answer differently.
    fn prefers_direct_copy(&self) -> bool {
        false
    }

    /// Maps the segment of this length that a peer created.
    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError>;
}

/// A segment of shared memory, mapped until it is dropped.
pub trait SharedSegment: Send + Sync {
    /// Returns the start of the mapping, aligned to a page.
    fn as_ptr(&self) -> *mut u8;

    /// Returns the key by which peers open the segment until it is settled.
    fn key(&self) -> RemoteKey;

    /// Allocates memory for `len` bytes from `offset` on, so that a shortage is an error now.
    fn reserve(&self, offset: usize, len: usize) -> Result<(), OpenError>;

    /// Closes the segment to further peers and reservations; all peers have opened it or given up.
    fn seal(&self);

    /// Returns whether peers can still open the segment. `false` if the program has closed the file
    /// descriptor behind it.
    fn is_open(&self) -> bool {
        true
    }
}

/// One VCI's connection to all peers of a transport. Called under the VCI's lock.
pub trait Lane: Send {
    /// Sends an active message. Messages from this lane to the same `(peer, vci)` arrive in order.
    ///
    /// [`Issued::Complete`]: the payload has been copied or sent, and the caller may change it.
    /// [`Issued::Pending`], only for [`Payload::Vectored`] with a token: its memory stays unchanged
    /// until [`Sink::complete`] is called with the token.
    ///
    /// Fails with [`LaneError::Unsupported`] if the payload is longer than [`Limits::max_payload`],
    /// or if the lane does not send blocks from where they lie.
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError>;

    /// Checks whether peers still live, for transports that are not notified of a peer's end.
    /// Covers the peers in `awaited` and all that were sent to. Threads that wait for long call it
    /// now and then.
    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        let _ = (awaited, sink);
    }

    /// Begins or ends a batch of messages. Between `coalesce(true)` and `coalesce(false)` the lane
    /// may bundle small messages to one destination; it has sent them all when `coalesce(false)`
    /// returns or as soon as there is space. Outside a batch it may refuse messages with
    /// [`LaneError::Again`] so that they come back in one. Does nothing by default.
    fn coalesce(&mut self, on: bool) {
        let _ = on;
    }

    /// Receives what has arrived and reports it to `sink`, at most about `budget` events. Returns
    /// whether there was progress; a retry without effect is none.
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool;

    /// Gets, puts or changes `peer`'s exposed memory.
    ///
    /// Completion of a put means that its data may be reused; [`Lane::flush`] makes it visible at the
    /// peer. On completion of an atomic its effect is visible there as if flushed. The peer of an
    /// atomic may be one that is normally reached by another transport (one on this node), or this
    /// process itself.
    ///
    /// # Safety
    /// Until completion, `local` must be valid for writes of `len` bytes (get), for reads of them
    /// (put), or aligned and valid for writing a `u64` (atomic).
    unsafe fn access(
        &mut self,
        _peer: Peer,
        _vci: VciId,
        _access: RemoteAccess,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        Err(LaneError::Unsupported)
    }

    /// Writes a signal's data to a peer's exposed memory, then its words. A reader whose acquire load
    /// finds all bytes of a word as written sees all of the data, too, without any notification. The
    /// words may arrive in any order, and so may the bytes of each: **no transport promises that a
    /// word is stored as a whole**, so the reader must be able to tell from the value whether every
    /// byte has arrived. If there is data, the 8 bytes before it must be free for a word of the
    /// transport's own.
    ///
    /// The party that stores the words:
    /// - verbs: the adapter. Hardware writes aligned words as a whole as far as is known, but
    ///   neither the InfiniBand specification nor PCI Express promises it; Soft-RoCE copies as
    ///   `memcpy` does, in part byte by byte, while the target looks on.
    /// - libfabric: without data, as the provider's device does; with data and a notice, this
    ///   library in the target's own process, as a whole.
    /// - UCX: the device, a peer's `memcpy` to mapped memory, or the target's own process.
    ///
    /// On `Ok` the caller may change data and words; there is no completion, and no flush waits for
    /// them. A failure to write them is reported as the loss of the peer.
    ///
    /// A transport with [`Limits::signals`] guarantees this by its own rules: order of writes, a
    /// notice of completion at the target, or one write after the other.
    fn signal(&mut self, _to: Peer, _vci: VciId, _signal: Signal<'_>) -> Result<(), LaneError> {
        Err(LaneError::Unsupported)
    }

    /// Completes when all puts and atomics issued to `peer` before it are visible there. By default
    /// they are visible when they are issued.
    fn flush(&mut self, _peer: Peer, _token: Token) -> Result<Issued, LaneError> {
        Ok(Issued::Complete)
    }

    /// Returns whether everything accepted by [`Lane::send`] has left this process, so that it may
    /// end.
    fn drained(&mut self) -> bool;

    /// Returns the object that a sleeping thread waits on.
    fn wake_up(&self) -> WakeUp;

    /// Announces that the owner is about to sleep: from now on an arrival wakes it. Returns `false`
    /// if something has already arrived; the owner must then poll instead of sleeping.
    fn arm(&mut self) -> bool;

    /// Revokes [`Lane::arm`] after waking.
    fn disarm(&mut self);

    /// Returns what only memory of the same node offers, if the transport stays within a node.
    fn node(&mut self) -> Option<&mut dyn NodeLane> {
        None
    }
}

/// What a lane offers to peers of the same node beyond [`Lane`]. All of it is optional.
pub trait NodeLane {
    /// Returns the sender's end of the ring by which a peer's VCI receives, if it has one. The VCI
    /// may then send short messages without a call of the lane; they keep their order with those of
    /// [`Lane::send`]. The target of the pointer lives until the lane is dropped or reports the
    /// peer lost; it is used under the VCI's lock and not during a call of the lane.
    fn tx_ring(&mut self, _to: Peer, _vci: VciId) -> Option<NonNull<shmring::ring::TxRing>> {
        None
    }

    /// Returns the ring by which this lane receives, if it has one. The VCI may then take messages
    /// from its front without a call of the lane. The target of the pointer lives until the lane is
    /// dropped; it is used under the VCI's lock and not during a call of the lane.
    fn rx_ring(&mut self) -> Option<NonNull<shmring::ring::RxRing>> {
        None
    }

    /// Returns direct access (CMA) to peers' memory, if the transport has it.
    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        None
    }

    /// Returns the pipelines through shared memory for long messages, if the transport has them.
    fn pipes(&mut self) -> Option<&mut dyn Pipes> {
        None
    }
}

/// Copies to and from any memory of a peer on this node, exposed or not. A copy is complete, and
/// visible at the peer, when the call returns. Fails with [`LaneError::Unsupported`] if the peer's
/// memory cannot be reached.
pub trait DirectCopy {
    /// Reads `len` bytes at `address` in the peer's memory to `local`.
    ///
    /// # Safety
    /// `local` must be valid for writes of `len` bytes, and the peer must have lent the bytes at
    /// `address`.
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
    /// `local` must be valid for reads of `len` bytes, and the peer must have lent the bytes at
    /// `address`.
    unsafe fn write(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError>;

    /// Reads the peer's memory from `address` on to the blocks of `local` in order (a scatter
    /// list), at most [`MAX_IOVECS`].
    ///
    /// # Safety
    /// The blocks must be valid for writes, and the peer must have lent the bytes at `address`.
    unsafe fn readv(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError>;

    /// Writes the blocks of `local` in order to the peer's memory from `address` on (a gather
    /// list), at most [`MAX_IOVECS`].
    ///
    /// # Safety
    /// The blocks must be valid for reads, and the peer must have lent the bytes at `address`.
    unsafe fn writev(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError>;
}

/// Receives the events that [`Lane::poll`] finds.
pub trait Sink {
    /// Receives an active message. `payload` is valid during the call only.
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]);
    /// Returns the destination of a long active message whose arrival begins, if it is known for
    /// all `len` bytes. The memory stays valid until completion: [`Sink::complete`] is called with
    /// the token, instead of [`Sink::message`], once the payload has arrived or its sender is lost.
    /// Later messages on the same connection may be reported before that. `None`: the message is
    /// reported as a whole when it has arrived.
    fn destination(
        &mut self,
        _from: Peer,
        _header: &Header,
        _len: usize,
    ) -> Option<(*mut u8, Token)> {
        None
    }
    /// Reports the completion of an operation that was issued as [`Issued::Pending`].
    fn complete(&mut self, token: Token, result: Result<(), LaneError>);
    /// Reports the loss of a peer; the text names cause and remedy. May be called more than once.
    fn peer_lost(&mut self, peer: Peer, why: String);
}

/// How a thread sleeps until its lane has an event.
#[derive(Clone, Copy, Debug)]
pub enum WakeUp {
    /// The thread cannot sleep: the lane must be polled.
    None,
    /// A word for `futex(FUTEX_WAIT)`, in memory that outlives the lane's transport. While armed it
    /// holds 1; the sender sets it to 0 and wakes the sleeper.
    Futex(*const AtomicU32),
    /// A file descriptor that becomes readable.
    Fd(RawFd),
}

// SAFETY: the futex word is an atomic in memory that outlives the transport (the contract of
// `WakeUp::Futex`, upheld by each lane), so any thread may wait on it.
unsafe impl Send for WakeUp {}
