//! Communicators (MPI-3.1 chapter 6): who takes part, in which context, over which VCI.
//!
//! A context has 64 bits: the process that led the creation of the communicator, and a count of
//! that process. The leader chooses it alone, so that the members agree on nothing and there is no
//! limit on the number of communicators.

use std::any::Any;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub mod attachment;
pub mod automatic;
pub mod debugger;
pub mod points;
mod pt2pt;
mod revoked;
pub mod single_copy;
pub mod vci_map;

use mpi_types::local::Local;
use netmod::{Peer, VciId};

pub use self::pt2pt::send_to_member;
pub use self::pt2pt::{Sent, mail, take_plain, take_soon, try_send_plain, wake};
pub use self::pt2pt::{matched_probe_on, probe_on, receive_bytes, receive_on, send_on, send_plain};
pub use self::pt2pt::{receive_by, send_by, try_matched_probe_by};
pub use self::revoked::revoke;
use crate::comm::attachment::Attachment;
use crate::comm::automatic::Automatic;
use crate::comm::points::{Endpoint, Points};
use crate::comm::vci_map::{VciMap, Wishes};
use crate::error::{Class, Error, Result};
use crate::group::Group;
use crate::process::{Destination, NOBODY, Source};
pub use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::Address;
use crate::vci::pool::Users;
use crate::{ANY_SOURCE, ANY_TAG};

/// In place of a VCI's number: the communicator is not in use yet, or there are VCIs to choose from
/// or promises to check. No VCI has this number, so that the fast path of sending, which looks for
/// it, finds out at no cost that it must not be taken.
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
        let run = group.as_run();
        let (first, step) = run.unwrap_or((0, 0));
        Targets {
            size: group.size(),
            first,
            step: step as u32,
            irregular: run.is_none(),
        }
    }
}

/// No message is under way.
const UNUSED: u8 = 0;
/// One may be.
const USED: u8 = 1;
/// Its VCIs are being chosen: who wants to use it waits.
const CHOOSING: u8 = 2;
/// It has been revoked: nothing may be begun.
const REVOKED: u8 = 3;

/// That nobody begins to use a communicator.
pub struct Unused<'a>(&'a AtomicU8);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // Release: who uses it finds its VCIs. Another thread may have revoked it.
        let _ = self
            .0
            .compare_exchange(CHOOSING, UNUSED, Ordering::Release, Ordering::Relaxed);
    }
}

/// A communicator.
pub struct Comm {
    targets: Targets,
    /// Changes once at most: when a nonblocking duplication learns it.
    context: AtomicU64,
    local: Group,
    /// The other group of an intercommunicator.
    remote: Option<Group>,
    rank: u32,
    /// That of collectives, and of all messages where no VCIs were agreed on.
    vci: AtomicU16,
    /// `vci` if sends have nothing else to look at, or [`SLOW_PATH`].
    sends: AtomicU32,
    /// The same for receives and probes.
    receives: AtomicU32,
    /// Promises about wildcards: [`NO_ANY_TAG`], [`NO_ANY_SOURCE`].
    promises: AtomicU8,
    /// Whether a message may be under way, so that VCIs must stay what they are: [`UNUSED`] and so on.
    used: AtomicU8,
    /// The VCIs that were agreed on.
    map: OnceLock<Arc<VciMap>>,
    /// The one that it has without hints.
    automatic: Automatic,
    /// Set if its ranks are endpoints, or receive by streams.
    endpoint: Option<Endpoint>,
    /// Given to requests, so that the caller finds the communicator they belong to.
    owner: AtomicU32,
    /// Collective operations begun, by which their messages are told apart.
    collectives: AtomicU32,
    /// Persistent ones made, in the same way.
    persistent: AtomicU32,
    /// Groups of partitioned sends announced.
    groups: AtomicU32,
    name: Local<String>,
    /// Whether the local group is the first of an intercommunicator: its rank 0 leads what both
    /// groups do together. True for intracommunicators.
    first: bool,
    /// What collectives keep with it.
    collective_state: Attachment,
    /// What is kept with it for going on after a loss.
    failure_state: Attachment,
    /// Its virtual topology, which duplicates share.
    topology: Option<Arc<dyn Any + Send + Sync>>,
}

impl AsRef<Comm> for Comm {
    fn as_ref(&self) -> &Comm {
        self
    }
}

impl Comm {
    /// An intracommunicator of `local`, in which this process has `rank`.
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
            automatic: Automatic::default(),
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

    /// An intercommunicator between `local`, in which this process has `rank`, and `remote`. In one
    /// of both groups all members say that theirs is the `first`.
    pub fn inter(context: ContextId, local: Group, remote: Group, rank: u32, first: bool) -> Comm {
        Comm {
            targets: Targets::new(&remote),
            remote: Some(remote),
            first,
            ..Comm::new(context, local, rank)
        }
    }

    /// Where its ranks are, if it has endpoints.
    pub fn points(&self) -> Option<&Arc<Points>> {
        self.endpoint.as_ref().map(|endpoint| &endpoint.points)
    }

    /// Gives it a virtual topology (chapter 7).
    pub fn with_topology(self, topology: Arc<dyn Any + Send + Sync>) -> Comm {
        Comm {
            topology: Some(topology),
            ..self
        }
    }

    /// Its virtual topology, which only the room that gave it one knows.
    pub fn topology(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.topology.as_deref()
    }

    /// What collectives keep with it.
    #[inline(always)]
    pub fn collective_state(&self) -> &Attachment {
        &self.collective_state
    }

    /// What is kept with it for going on after a loss.
    pub fn failure_state(&self) -> &Attachment {
        &self.failure_state
    }

    /// What is known of VCIs that it may get without hints.
    #[inline]
    pub fn automatic(&self) -> &Automatic {
        &self.automatic
    }

    /// A communicator of the same groups with the same topology in another context, or in a block of contexts
    /// ([`Comm::contexts`]) that begins with it.
    pub fn same_in(&self, context: ContextId) -> Comm {
        if let Some(endpoint) = &self.endpoint {
            return endpoint.duplicate(self, context);
        }
        let automatic = Automatic::default();
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

    /// Sets the context of [`Comm::same_in`] where that was not known yet ([`ContextId::UNKNOWN`]).
    pub fn learn_context(&self, context: ContextId) {
        let number = self.endpoint.as_ref().map_or(0, |own| own.number);
        let own = context.plus(number.into());
        self.context.store(own.0, Ordering::Release);
    }

    /// The local group of an intercommunicator as an intracommunicator, for the library's own
    /// messages about the making of communicators.
    pub fn within(&self) -> Comm {
        Comm::new(self.context().within(), self.local.clone(), self.rank)
    }

    /// Whether the local group leads what both groups of an intercommunicator do together; of an
    /// intracommunicator, always.
    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Its context.
    #[inline(always)]
    pub fn context(&self) -> ContextId {
        ContextId(self.context.load(Ordering::Relaxed))
    }

    /// This process's rank.
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
    pub fn others(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.local)
    }

    /// The process that a send to `rank` goes to.
    #[inline(always)]
    fn target(&self, rank: u32) -> Peer {
        let Targets {
            first,
            step,
            irregular,
            ..
        } = self.targets;
        if irregular {
            return self.others().peer(rank);
        }
        first.wrapping_add(rank.wrapping_mul(step))
    }

    /// As [`Comm::target`], where it takes no look at the group.
    #[inline(always)]
    fn regular_target(&self, rank: u32) -> Option<Peer> {
        let Targets { first, step, .. } = self.targets;
        (!self.targets.irregular).then_some(first.wrapping_add(rank.wrapping_mul(step)))
    }

    /// How many ranks send and receive calls can name.
    #[inline(always)]
    pub fn targets(&self) -> u32 {
        self.targets.size
    }

    /// The VCI that its collectives use, and all its messages unless VCIs were agreed on.
    #[inline(always)]
    pub fn vci(&self) -> VciId {
        self.vci.load(Ordering::Relaxed)
    }

    /// Whether messages of the program may have been sent on it, or its VCIs are agreed on.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) == USED || self.map.get().is_some()
    }

    /// From now on its VCIs stay what they are.
    #[inline]
    pub fn mark_used(&self) {
        let _ = self.begin_use();
    }

    /// As [`Comm::mark_used`].
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
                    self.find_quick_ways();
                    return Ok(());
                }
                // All members have come to agree, so that it does not take long.
                Err(CHOOSING) => std::thread::yield_now(),
                Err(REVOKED) => return Err(self.revoked_error()),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Keeps other threads from using it as long as the guard lives, while all members agree on VCIs. None if one has
    /// begun to.
    pub fn keep_unused(&self) -> Option<Unused<'_>> {
        let found =
            self.used
                .compare_exchange(UNUSED, CHOOSING, Ordering::Acquire, Ordering::Relaxed);
        found.is_ok().then_some(Unused(&self.used))
    }

    fn find_quick_ways(&self) {
        let used = self.used.load(Ordering::Relaxed) == USED;
        let one = used && self.map.get().is_none_or(|map| map.is_one());
        // Endpoints have no VCI in common with their peers.
        let same = self.endpoint.is_none();
        let unpromised = self.promises.load(Ordering::Relaxed) == 0;
        let vci = self.map.get().map_or(self.vci(), |map| map.first());
        let state = |fast| if fast { vci.into() } else { SLOW_PATH };
        self.sends.store(state(one && same), Ordering::Release);
        self.receives
            .store(state(one && unpromised), Ordering::Release);
    }

    /// Has its messages use these VCIs. It must not be in use.
    pub fn use_vcis(&self, map: Arc<VciMap>) {
        let common = map.common();
        if self.map.set(map).is_ok() {
            self.vci.store(common, Ordering::Relaxed);
            self.automatic.let_go();
            self.find_quick_ways();
        }
    }

    /// Has its messages use this VCI, which its members have agreed on without hints; they may still ask for
    /// others. It must not be in use. False if a thread has the VCI for itself.
    pub fn use_own_vci(&self, vci: VciId, users: &Arc<Users>) -> bool {
        let held = self.automatic.hold(vci, users);
        if held {
            self.vci.store(vci, Ordering::Relaxed);
        }
        held
    }

    /// Has its messages use the same VCIs as another's.
    pub fn share_vcis_of(&self, other: &Comm) {
        if let Some(map) = other.map.get() {
            self.use_vcis(map.clone());
        } else if let Some(vci) = self.automatic.hold_as(&other.automatic) {
            self.vci.store(vci, Ordering::Relaxed);
        }
    }

    /// The VCIs that were agreed on.
    pub fn agreed_vcis(&self) -> &[VciId] {
        self.map.get().map_or(&[], |map| map.vcis())
    }

    /// The VCIs of a window's messages.
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

    /// The VCI by whose lane the calling thread reaches into members' memory.
    pub(crate) fn copying_vci(&self) -> VciId {
        match self.map.get() {
            Some(_) => crate::process::threads::share_out(self.rma_vcis()),
            None => self.vci(),
        }
    }

    /// Whether its members have agreed on VCIs.
    pub fn has_vcis(&self) -> bool {
        self.map.get().is_some()
    }

    /// What the program promises about wildcards. A promise that its VCIs were chosen by stays.
    pub fn set_promises(&self, no_any_tag: bool, no_any_source: bool) {
        let needs = |need: fn(&VciMap) -> bool| self.map.get().is_some_and(|map| need(map));
        let no_any_tag = no_any_tag || needs(VciMap::needs_tag);
        let no_any_source = no_any_source || needs(VciMap::needs_source);
        let promises =
            (u8::from(no_any_tag) * NO_ANY_TAG) | (u8::from(no_any_source) * NO_ANY_SOURCE);
        self.promises.store(promises, Ordering::Relaxed);
        self.find_quick_ways();
    }

    /// The promises in force: no `MPI_ANY_TAG`, no `MPI_ANY_SOURCE`.
    pub fn promises(&self) -> (bool, bool) {
        let promises = self.promises.load(Ordering::Relaxed);
        (promises & NO_ANY_TAG != 0, promises & NO_ANY_SOURCE != 0)
    }

    /// Of hints about VCIs, those that are in force.
    pub fn vci_hints(&self, wishes: &Wishes) -> Vec<(&'static str, String)> {
        let map = self.map.get();
        map.map_or(Vec::new(), |map| map.in_force(wishes))
    }

    /// The VCIs, here and there, of a message of the program's.
    ///
    /// # Errors
    /// `MPIX_ERR_REVOKED`.
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

    /// The VCI of a rank where none were agreed on.
    #[inline]
    fn vci_of(&self, rank: u32) -> VciId {
        match &self.endpoint {
            None => self.vci(),
            Some(endpoint) => endpoint.points.get(rank).vci,
        }
    }

    /// The VCI where messages of the program's arrive that match a receive or probe.
    ///
    /// # Errors
    /// `MPI_ERR_TAG` or `MPI_ERR_RANK` for a wildcard that the program has promised not to use, `MPIX_ERR_REVOKED`.
    #[inline(always)]
    pub fn receive_vci(&self, rank: i32, tag: i32) -> Result<VciId> {
        match self.receives.load(Ordering::Relaxed) {
            // Taken apart, so that the other way keeps its number in a register.
            SLOW_PATH => Ok(self.receive_vci_slowly(rank, tag)?),
            vci => Ok(vci as VciId),
        }
    }

    #[inline(never)]
    fn receive_vci_slowly(&self, rank: i32, tag: i32) -> Result<VciId> {
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

    /// Sets what requests on it give back as their owner.
    pub fn set_owner(&self, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Its name (`MPI_Comm_get_name`).
    pub fn name(&self) -> String {
        self.with_name(str::to_string)
    }

    /// Reads its name.
    pub fn with_name<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        read(&self.name.lock())
    }

    /// Gives it a name.
    pub fn set_name(&self, new: &str) {
        new.clone_into(&mut self.name.lock());
    }

    /// A number for the next collective operation: the same on all members, since they begin them
    /// in the same order (section 5.12).
    pub fn next_collective(&self) -> u32 {
        self.collectives.fetch_add(1, Ordering::Relaxed) & i32::MAX as u32
    }

    /// A number for the first of `groups` groups of partitions that this process will send, 0 to `tags` less one; the
    /// others have those that follow, and after `tags` of them they come again. By these, groups of sends under way are
    /// told apart (MPI-4.1 chapter 4).
    pub fn next_groups(&self, groups: u32, tags: u32) -> u32 {
        self.groups.fetch_add(groups, Ordering::Relaxed) % tags
    }

    /// The VCIs of messages of the library's that any thread may carry on, such as groups of partitions: the same on all
    /// members, which must have begun to use the communicator ([`Comm::begin_use`]), after which they stay.
    pub fn partition_vcis(&self) -> Vec<VciId> {
        match self.map.get() {
            Some(map) if map.is_shared_freely() => map.vcis().to_vec(),
            _ => vec![self.vci()],
        }
    }

    /// A number for the next persistent collective, none of those that [`Comm::next_collective`] gives:
    /// the same on all members, since they make them in the same order (MPI-4.1 section 6.13).
    pub fn next_persistent(&self) -> u32 {
        const MOST: u32 = i32::MAX as u32; // more would be the wildcard
        (1 << 31) | (self.persistent.fetch_add(1, Ordering::Relaxed) % MOST)
    }

    /// What requests on it give back as their owner.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn to(&self, rank: u32, tag: i32, purpose: Purpose) -> Destination {
        if let Some(endpoint) = &self.endpoint {
            let point = endpoint.points.get(rank);
            let context = self.context().moved(endpoint.number, point.number);
            return Destination {
                peer: point.peer,
                vci: point.vci,
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

    /// Where windows' messages to a rank go from one of [`Comm::rma_vcis`].
    pub fn rma_address(&self, rank: u32, vci: VciId) -> Address {
        let to = self.to(rank, 0, Purpose::Rma);
        Address {
            peer: to.peer,
            vci: if vci == self.vci() { to.vci } else { vci },
        }
    }

    /// To member `number` of a collective: in an intercommunicator the ranks of the other group
    /// come after those of the local one, on either side, so that messages within a group and
    /// between groups are told apart.
    #[inline]
    pub fn to_member(&self, number: u32, tag: i32, purpose: Purpose) -> Destination {
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

    /// The VCI of messages past all queues, which for the program's is `own`; the number of none where there are none.
    #[inline(always)]
    fn plain_vci(&self, purpose: Purpose, own: &AtomicU32) -> u32 {
        match purpose {
            Purpose::PointToPoint => own.load(Ordering::Relaxed),
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

    /// The process that sends with this rank, [`NOBODY`] for any.
    #[inline]
    fn sender(&self, rank: i32, purpose: Purpose) -> Peer {
        let Ok(rank) = u32::try_from(rank) else {
            return NOBODY;
        };
        match (&self.remote, purpose) {
            (None, _) => self.local.peer(rank),
            (Some(remote), Purpose::PointToPoint) => remote.peer(rank),
            // Members of a collective, numbered as in `to_member`.
            (Some(remote), _) => match rank.checked_sub(self.local.size()) {
                None => self.local.peer(rank),
                Some(other) => remote.peer(other),
            },
        }
    }

    /// Whether a process is a member, of either group.
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
