//! Communicators (MPI-3.1 chapter 6): groups, context, VCIs and the state kept with them.
//!
//! A context has 64 bits: the process that led the creation of the communicator, and a count of
//! that process. The leader chooses it alone, without an agreement of the members.

use std::any::Any;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub mod attachment;
pub mod automatic;
pub mod cma;
pub mod debugger;
pub mod endpoint_table;
mod pt2pt;
mod revoked;
pub mod vci_map;

use mpi_types::local::Local;
use netmod::{Peer, VciId};

pub use self::pt2pt::send_to_member;
pub use self::pt2pt::{Sent, receive_inline, receive_polling, send_contiguous, send_inline, wake};
pub use self::pt2pt::{matched_probe_on, probe_on, receive_bytes, receive_on, send_on};
pub use self::pt2pt::{receive_by, send_by, try_matched_probe_by};
pub use self::revoked::revoke;
use crate::comm::attachment::Attachment;
use crate::comm::automatic::AutomaticVci;
use crate::comm::endpoint_table::{Endpoint, EndpointTable};
use crate::comm::vci_map::{VciHints, VciMap};
use crate::error::{Class, Error, Result};
use crate::group::Group;
use crate::process::{Destination, NOBODY, Source};
pub use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::Address;
use crate::pt2pt::wire::Key;
use crate::vci::pool::Users;
use crate::{ANY_SOURCE, ANY_TAG};

/// Marks "no single VCI" in [`Comm::sends`] and [`Comm::receives`]. The communicator is not in use
/// yet, has several VCIs, or has promises to check. No VCI has this number, so the fast path fails
/// on its lookup without a test of its own.
const SLOW_PATH: u32 = u32::MAX;

const NO_ANY_TAG: u8 = 1;
const NO_ANY_SOURCE: u8 = 2;

/// The processes that sends and receives name by rank, laid out for the send path: process
/// `first + rank * step`, unless the group is irregular.
#[derive(Clone, Copy)]
struct Targets {
    size: u32,
    first: u32,
    /// Modulo 2^32, so that negative steps need nothing special.
    step: u32,
    irregular: bool,
}

impl Targets {
    fn new(group: &Group) -> Targets {
        let run = group.as_strided();
        let (first, step) = run.unwrap_or((0, 0));
        Targets {
            size: group.size(),
            first,
            step: step as u32,
            irregular: run.is_none(),
        }
    }
}

/// No message has been sent or received on the communicator.
const UNUSED: u8 = 0;
/// Messages may be in flight; the VCIs are fixed.
const USED: u8 = 1;
/// The members are agreeing on VCIs; threads that begin to use the communicator wait.
const CHOOSING: u8 = 2;
/// The communicator has been revoked; new operations fail.
const REVOKED: u8 = 3;

/// Keeps a communicator in [`CHOOSING`], so that no thread begins to use it.
pub struct Unused<'a>(&'a AtomicU8);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // Release: the next thread that uses the communicator sees its VCIs. The exchange fails if
        // another thread has revoked the communicator meanwhile.
        let _ = self
            .0
            .compare_exchange(CHOOSING, UNUSED, Ordering::Release, Ordering::Relaxed);
    }
}

/// A communicator.
pub struct Comm {
    targets: Targets,
    /// Set at most once after creation, when a nonblocking duplication receives its context.
    context: AtomicU64,
    local: Group,
    /// The other group of an intercommunicator.
    remote: Option<Group>,
    rank: u32,
    /// The VCI of collectives, and of all messages if `map` is not set.
    vci: AtomicU16,
    /// The VCI of all sends, or [`SLOW_PATH`]; with a VCI, `targets` is regular.
    sends: AtomicU32,
    /// The VCI of all receives and probes, or [`SLOW_PATH`].
    receives: AtomicU32,
    /// Wildcards that the program promised not to use: bits [`NO_ANY_TAG`], [`NO_ANY_SOURCE`].
    promises: AtomicU8,
    /// [`UNUSED`], [`USED`], [`CHOOSING`] or [`REVOKED`].
    used: AtomicU8,
    /// The VCIs that the members agreed on by hints.
    map: OnceLock<Arc<VciMap>>,
    /// The VCI that the members agreed on without hints.
    automatic: AutomaticVci,
    /// Set if the ranks are endpoints, or receive by streams.
    endpoint: Option<Endpoint>,
    /// Recorded in requests; the caller maps it to the communicator's handle.
    owner: AtomicU32,
    /// Number of collectives begun; the tag of their messages derives from it.
    collectives: AtomicU32,
    /// Number of persistent collectives created.
    persistent: AtomicU32,
    /// Number of groups of partitioned sends announced.
    groups: AtomicU32,
    name: Local<String>,
    /// Whether the local group of an intercommunicator is the first: its rank 0 leads the
    /// operations of both groups. True for intracommunicators.
    first: bool,
    /// State of collectives.
    collective_state: Attachment,
    /// State of failure agreement and shrinking (ULFM).
    failure_state: Attachment,
    /// The virtual topology, shared by duplicates.
    topology: Option<Arc<dyn Any + Send + Sync>>,
}

impl AsRef<Comm> for Comm {
    fn as_ref(&self) -> &Comm {
        self
    }
}

impl Comm {
    /// Creates an intracommunicator of `local`, in which this process has `rank`.
    pub fn new(context: ContextId, local: Group, rank: u32) -> Comm {
        Comm {
            targets: Targets::new(&local),
            context: AtomicU64::new(context.0),
            local,
            remote: None,
            rank,
            vci: AtomicU16::new(0),
            sends: AtomicU32::new(SLOW_PATH),
            receives: AtomicU32::new(SLOW_PATH),
            promises: AtomicU8::new(0),
            used: AtomicU8::new(UNUSED),
            map: OnceLock::new(),
            automatic: AutomaticVci::default(),
            endpoint: None,
            owner: AtomicU32::new(0),
            collectives: AtomicU32::new(0),
            persistent: AtomicU32::new(0),
            groups: AtomicU32::new(0),
            name: Local::default(),
            first: true,
            collective_state: Attachment::default(),
            failure_state: Attachment::default(),
            topology: None,
        }
    }

    /// Creates an intercommunicator between `local`, in which this process has `rank`, and
    /// `remote`. All members of exactly one of the groups pass `first`.
    pub fn inter(context: ContextId, local: Group, remote: Group, rank: u32, first: bool) -> Comm {
        Comm {
            targets: Targets::new(&remote),
            remote: Some(remote),
            first,
            ..Comm::new(context, local, rank)
        }
    }

    /// Returns the table of endpoints, if the communicator has endpoints or streams.
    pub fn endpoint_table(&self) -> Option<&Arc<EndpointTable>> {
        self.endpoint.as_ref().map(|endpoint| &endpoint.table)
    }

    /// Attaches a virtual topology (chapter 7).
    pub fn with_topology(self, topology: Arc<dyn Any + Send + Sync>) -> Comm {
        Comm {
            topology: Some(topology),
            ..self
        }
    }

    /// Returns the virtual topology, whose type is known only to the module that attached it.
    pub fn topology(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.topology.as_deref()
    }

    /// Returns the state that collectives keep.
    #[inline(always)]
    pub fn collective_state(&self) -> &Attachment {
        &self.collective_state
    }

    /// Returns the state that failure agreement and shrinking keep.
    pub fn failure_state(&self) -> &Attachment {
        &self.failure_state
    }

    /// Returns the state of VCIs that are assigned without hints.
    #[inline]
    pub fn automatic(&self) -> &AutomaticVci {
        &self.automatic
    }

    /// Creates a communicator with the same groups and topology in another context. With endpoints,
    /// `context` is the first of a block of [`Comm::contexts`] contexts.
    pub fn duplicate_in(&self, context: ContextId) -> Comm {
        if let Some(endpoint) = &self.endpoint {
            return endpoint.duplicate(self, context);
        }
        let automatic = AutomaticVci::default();
        automatic.inherit(&self.automatic);
        Comm {
            automatic,
            targets: self.targets,
            remote: self.remote.clone(),
            first: self.first,
            topology: self.topology.clone(),
            ..Comm::new(context, self.local.clone(), self.rank)
        }
    }

    /// Sets the context of a duplicate that was created with [`ContextId::UNKNOWN`].
    pub fn learn_context(&self, context: ContextId) {
        let number = self.endpoint.as_ref().map_or(0, |own| own.number);
        let own = context.plus(number.into());
        self.context.store(own.0, Ordering::Release);
    }

    /// Returns the local group of an intercommunicator as an intracommunicator, for the library's
    /// own messages while communicators are created.
    pub fn local_intracomm(&self) -> Comm {
        Comm::new(self.context().within(), self.local.clone(), self.rank)
    }

    /// Whether the local group leads the operations of both groups of an intercommunicator. Always
    /// true for an intracommunicator.
    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Returns the context.
    #[inline(always)]
    pub fn context(&self) -> ContextId {
        ContextId(self.context.load(Ordering::Relaxed))
    }

    /// Returns the rank of this process.
    #[inline(always)]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes in the local group.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.local.size()
    }

    /// The local group.
    pub fn local(&self) -> &Group {
        &self.local
    }

    /// The remote group of an intercommunicator.
    pub fn remote(&self) -> Option<&Group> {
        self.remote.as_ref()
    }

    /// The group that ranks in send and receive calls refer to.
    #[inline(always)]
    pub fn peer_group(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.local)
    }

    /// Returns the process that a send to `rank` goes to.
    #[inline(always)]
    fn target(&self, rank: u32) -> Peer {
        let Targets {
            first,
            step,
            irregular,
            ..
        } = self.targets;
        if irregular {
            return self.peer_group().peer(rank);
        }
        first.wrapping_add(rank.wrapping_mul(step))
    }

    /// Returns the process that a send to `rank` of a regular group goes to.
    #[inline(always)]
    fn regular_target(&self, rank: u32) -> Peer {
        let Targets { first, step, .. } = self.targets;
        first.wrapping_add(rank.wrapping_mul(step))
    }

    /// Returns the key of a user message that this rank sends.
    #[inline(always)]
    fn message_key(&self, tag: i32) -> Key {
        const { assert!(Purpose::PointToPoint as u64 == 0) };
        Key {
            context: self.context.load(Ordering::Relaxed),
            source: self.rank as i32,
            tag,
        }
    }

    /// Number of ranks that send and receive calls can name.
    #[inline(always)]
    pub fn targets(&self) -> u32 {
        self.targets.size
    }

    /// Returns the VCI of collectives, and of all messages if no VCIs were agreed on.
    #[inline(always)]
    pub fn vci(&self) -> VciId {
        self.vci.load(Ordering::Relaxed)
    }

    /// Whether user messages may have been sent, or VCIs agreed on.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) == USED || self.map.get().is_some()
    }

    /// Fixes the VCIs, because messages follow.
    #[inline]
    pub fn mark_used(&self) {
        let _ = self.begin_use();
    }

    /// Fixes the VCIs, because messages follow.
    ///
    /// # Errors
    /// `MPIX_ERR_REVOKED` if it has been revoked.
    #[inline]
    pub fn begin_use(&self) -> Result<()> {
        match self.used.load(Ordering::Relaxed) {
            USED => Ok(()),
            _ => self.become_used(),
        }
    }

    #[cold]
    fn become_used(&self) -> Result<()> {
        loop {
            let found =
                self.used
                    .compare_exchange(UNUSED, USED, Ordering::Acquire, Ordering::Acquire);
            match found {
                Ok(_) => {
                    self.update_fast_paths();
                    return Ok(());
                }
                // Short: all members are already inside the agreement on VCIs.
                Err(CHOOSING) => std::thread::yield_now(),
                Err(REVOKED) => return Err(self.revoked_error()),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Blocks other threads from using the communicator while the guard lives, so that its members
    /// can agree on VCIs. Returns `None` if it is in use already.
    pub fn keep_unused(&self) -> Option<Unused<'_>> {
        let found =
            self.used
                .compare_exchange(UNUSED, CHOOSING, Ordering::Acquire, Ordering::Relaxed);
        found.is_ok().then_some(Unused(&self.used))
    }

    fn update_fast_paths(&self) {
        let used = self.used.load(Ordering::Relaxed) == USED;
        let one = used && self.map.get().is_none_or(|map| map.is_one());
        // Endpoints have no VCI in common with their peers.
        let same = self.endpoint.is_none();
        let unpromised = self.promises.load(Ordering::Relaxed) == 0;
        let vci = self.map.get().map_or(self.vci(), |map| map.first());
        let state = |fast| if fast { vci.into() } else { SLOW_PATH };
        let regular = !self.targets.irregular;
        self.sends
            .store(state(one && same && regular), Ordering::Release);
        self.receives
            .store(state(one && unpromised), Ordering::Release);
    }

    /// Assigns VCIs. The communicator must not be in use.
    pub fn use_vcis(&self, map: Arc<VciMap>) {
        let common = map.common();
        if self.map.set(map).is_ok() {
            self.vci.store(common, Ordering::Relaxed);
            self.automatic.release();
            self.update_fast_paths();
        }
    }

    /// Assigns the VCI that the members agreed on without hints; the program may still ask for
    /// others. The communicator must not be in use. Returns false if a thread has the VCI
    /// exclusively.
    pub fn use_own_vci(&self, vci: VciId, users: &Arc<Users>) -> bool {
        let held = self.automatic.hold(vci, users);
        if held {
            self.vci.store(vci, Ordering::Relaxed);
        }
        held
    }

    /// Assigns the VCIs of another communicator.
    pub fn share_vcis_of(&self, other: &Comm) {
        if let Some(map) = other.map.get() {
            self.use_vcis(map.clone());
        } else if let Some(vci) = self.automatic.hold_as(&other.automatic) {
            self.vci.store(vci, Ordering::Relaxed);
        }
    }

    /// Returns the VCIs that the members agreed on by hints.
    pub fn agreed_vcis(&self) -> &[VciId] {
        self.map.get().map_or(&[], |map| map.vcis())
    }

    /// Returns the VCIs of a window's messages.
    pub fn rma_vcis(&self) -> &[VciId] {
        match self.map.get() {
            Some(map) if map.is_by_thread() => map.vcis(),
            Some(map) => &map.vcis()[..1],
            None => match &self.endpoint {
                Some(endpoint) => &endpoint.vci,
                None => &[0],
            },
        }
    }

    /// Returns the VCI whose lane the calling thread uses for direct copies.
    pub(crate) fn copying_vci(&self) -> VciId {
        match self.map.get() {
            Some(_) => crate::process::threads::share_out(self.rma_vcis()),
            None => self.vci(),
        }
    }

    /// Whether the members have agreed on VCIs by hints.
    pub fn has_vcis(&self) -> bool {
        self.map.get().is_some()
    }

    /// Records the program's promises about wildcards. A promise that the choice of VCIs depends on
    /// is never revoked.
    pub fn set_promises(&self, no_any_tag: bool, no_any_source: bool) {
        let needs = |need: fn(&VciMap) -> bool| self.map.get().is_some_and(|map| need(map));
        let no_any_tag = no_any_tag || needs(VciMap::needs_tag);
        let no_any_source = no_any_source || needs(VciMap::needs_source);
        let promises =
            (u8::from(no_any_tag) * NO_ANY_TAG) | (u8::from(no_any_source) * NO_ANY_SOURCE);
        self.promises.store(promises, Ordering::Relaxed);
        self.update_fast_paths();
    }

    /// Returns the promises in force: (no `MPI_ANY_TAG`, no `MPI_ANY_SOURCE`).
    pub fn promises(&self) -> (bool, bool) {
        let promises = self.promises.load(Ordering::Relaxed);
        (promises & NO_ANY_TAG != 0, promises & NO_ANY_SOURCE != 0)
    }

    /// Returns the VCI hints that are in force.
    pub fn vci_hints(&self, hints: &VciHints) -> Vec<(&'static str, String)> {
        let map = self.map.get();
        map.map_or(Vec::new(), |map| map.in_force(hints))
    }

    /// Returns the sender's and the receiver's VCI of a user message.
    ///
    /// # Errors
    /// `MPIX_ERR_REVOKED` if the communicator has been revoked.
    #[inline]
    fn send_vcis(&self, rank: u32, tag: i32) -> Result<(VciId, VciId)> {
        self.begin_use()?;
        Ok(match self.map.get() {
            Some(map) => (
                map.sender(self.rank, rank, tag),
                map.receiver(self.rank, rank, tag),
            ),
            None => (self.vci(), self.vci_of(rank)),
        })
    }

    /// Returns the VCI at which a rank receives, if no VCIs were agreed on.
    #[inline]
    fn vci_of(&self, rank: u32) -> VciId {
        match &self.endpoint {
            None => self.vci(),
            Some(endpoint) => endpoint.table.get(rank).vci,
        }
    }

    /// Returns the VCI at which user messages arrive that match a receive or probe.
    ///
    /// # Errors
    /// `MPI_ERR_TAG` or `MPI_ERR_RANK` for a wildcard that the program has promised not to use,
    /// `MPIX_ERR_REVOKED` if the communicator has been revoked.
    #[inline(always)]
    pub fn receive_vci(&self, rank: i32, tag: i32) -> Result<VciId> {
        match self.receives.load(Ordering::Relaxed) {
            // A separate arm, so that the fast path keeps the VCI in a register.
            SLOW_PATH => Ok(self.receive_vci_slow(rank, tag)?),
            vci => Ok(vci as VciId),
        }
    }

    #[inline(never)]
    fn receive_vci_slow(&self, rank: i32, tag: i32) -> Result<VciId> {
        self.begin_use()?;
        let (no_any_tag, no_any_source) = self.promises();
        if (no_any_tag && tag == ANY_TAG) || (no_any_source && rank == ANY_SOURCE) {
            return Err(broken_promise(tag == ANY_TAG && no_any_tag));
        }
        Ok(match self.map.get() {
            Some(map) => map.receiver(rank as u32, self.rank, tag),
            None => self.vci(),
        })
    }

    /// Sets the owner that requests on this communicator report.
    pub fn set_owner(&self, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Returns the name (`MPI_Comm_get_name`).
    pub fn name(&self) -> String {
        self.with_name(str::to_string)
    }

    /// Calls `read` with the name.
    pub fn with_name<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        read(&self.name.lock())
    }

    /// Sets the name.
    pub fn set_name(&self, new: &str) {
        new.clone_into(&mut self.name.lock());
    }

    /// Returns the sequence number of the next collective: the same on all members, since they
    /// begin collectives in the same order (section 5.12).
    pub fn next_collective(&self) -> u32 {
        self.collectives.fetch_add(1, Ordering::Relaxed) & i32::MAX as u32
    }

    /// Returns the number of the first of `groups` groups of partitions that this process will
    /// send, in 0..`tags`. The other groups have the numbers that follow; numbers repeat after
    /// `tags`. They distinguish groups in flight (MPI-4.1 chapter 4).
    pub fn next_groups(&self, groups: u32, tags: u32) -> u32 {
        self.groups.fetch_add(groups, Ordering::Relaxed) % tags
    }

    /// Returns the VCIs of internal messages that any thread may progress, such as groups of
    /// partitions. They are the same on all members once the communicator is in use
    /// ([`Comm::begin_use`]).
    pub fn partition_vcis(&self) -> Vec<VciId> {
        match self.map.get() {
            Some(map) if map.is_shared_freely() => map.vcis().to_vec(),
            _ => vec![self.vci()],
        }
    }

    /// Returns the sequence number of the next persistent collective, distinct from those of
    /// [`Comm::next_collective`]: the same on all members, since they create these in the same
    /// order (MPI-4.1 section 6.13).
    pub fn next_persistent(&self) -> u32 {
        const MOST: u32 = i32::MAX as u32; // more would be the wildcard
        (1 << 31) | (self.persistent.fetch_add(1, Ordering::Relaxed) % MOST)
    }

    /// Returns the owner that requests on this communicator report.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn to(&self, rank: u32, tag: i32, purpose: Purpose) -> Destination {
        if let Some(endpoint) = &self.endpoint {
            let address = endpoint.table.get(rank);
            let context = self.context().moved(endpoint.number, address.number);
            return Destination {
                peer: address.peer,
                vci: address.vci,
                context: context.of(purpose),
                rank: self.rank as i32,
                tag,
                owner: self.owner.load(Ordering::Relaxed),
            };
        }
        Destination {
            peer: self.target(rank),
            vci: self.vci(),
            context: self.context().of(purpose),
            rank: self.rank as i32,
            tag,
            owner: self.owner.load(Ordering::Relaxed),
        }
    }

    /// Returns the address of a rank's window for messages from `vci`, one of [`Comm::rma_vcis`].
    pub fn rma_address(&self, rank: u32, vci: VciId) -> Address {
        let to = self.to(rank, 0, Purpose::Rma);
        Address {
            peer: to.peer,
            vci: if vci == self.vci() { to.vci } else { vci },
        }
    }

    /// Returns the destination of member `number` of a collective. In an intercommunicator the
    /// ranks of the remote group follow those of the local group, on either side, so that messages
    /// within a group differ from messages between groups.
    #[inline]
    pub fn member_destination(&self, number: u32, tag: i32, purpose: Purpose) -> Destination {
        let Some(remote) = &self.remote else {
            return self.to(number, tag, purpose);
        };
        let local = self.local.size();
        let (peer, rank) = match number.checked_sub(local) {
            None => (self.local.peer(number), self.rank),
            Some(other) => (remote.peer(other), remote.size() + self.rank),
        };
        Destination {
            peer,
            vci: self.vci(),
            context: self.context().of(purpose),
            rank: rank as i32,
            tag,
            owner: self.owner.load(Ordering::Relaxed),
        }
    }

    /// Returns the VCI by whose ring messages are received. [`SLOW_PATH`] if there is none.
    #[inline(always)]
    fn ring_vci(&self, purpose: Purpose) -> u32 {
        match purpose {
            Purpose::PointToPoint => self.receives.load(Ordering::Relaxed),
            _ if self.endpoint.is_some() => SLOW_PATH,
            _ => self.vci().into(),
        }
    }

    #[inline(always)]
    fn from(&self, rank: i32, tag: i32, purpose: Purpose) -> Source {
        Source {
            context: self.context().of(purpose),
            rank,
            tag,
            owner: self.owner.load(Ordering::Relaxed),
            peer: self.sender(rank, purpose),
        }
    }

    /// Returns the process that has `rank` as a sender, [`NOBODY`] for a wildcard.
    #[inline]
    fn sender(&self, rank: i32, purpose: Purpose) -> Peer {
        let Ok(rank) = u32::try_from(rank) else {
            return NOBODY;
        };
        match (&self.remote, purpose) {
            (None, _) => self.local.peer(rank),
            (Some(remote), Purpose::PointToPoint) => remote.peer(rank),
            // Members of a collective, numbered as in `member_destination`.
            (Some(remote), _) => match rank.checked_sub(self.local.size()) {
                None => self.local.peer(rank),
                Some(other) => remote.peer(other),
            },
        }
    }

    /// Whether a process is a member of either group.
    pub fn has_member(&self, peer: Peer) -> bool {
        let in_remote = |remote: &Group| remote.rank_of(peer).is_some();
        self.local.rank_of(peer).is_some() || self.remote.as_ref().is_some_and(in_remote)
    }
}

#[cold]
fn broken_promise(tag: bool) -> Error {
    let (class, what, hint) = if tag {
        (Class::Tag, "tag is MPI_ANY_TAG", "mpi_assert_no_any_tag")
    } else {
        (
            Class::Rank,
            "source is MPI_ANY_SOURCE",
            "mpi_assert_no_any_source",
        )
    };
    Error::new(
        class,
        format!(
            "{what}, but the communicator's hint {hint} promises that there is none; leave the \
             hint, or receive on a communicator without it"
        ),
    )
}
