//! Creation of windows: what members exchange, and how each reaches the others' memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::copied::hit_rate::HitRate;
use crate::copied::inbox::Inbox;
use crate::copied::outbox::Outbox;
use crate::epochs::Epochs;
use crate::locks::control::Control;
use crate::mapped::fast_targets::FastTargets;
use crate::messages::serve;
use crate::messages::service::Service;
use crate::network::service;
use crate::window::Hints;
use crate::window::heap::Heap;
use crate::window::members::{Copied, Mapped, Member, Members, Messages, Route};
use crate::window::registry::{self, Windows};
use crate::window::segment;
use crate::window::shared_memory::PieceLocation;
use crate::window::{AccessMode, Flavor, Memory, Window};
use mpi_coll::slots::arenas::key_words;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_types::error::{Class, Error, Result};
use netmod::SharedMemory;
use netmod_kit::usable::page_size;

/// Offsets of the members' parts in a window's segment, behind the control blocks.
struct Parts {
    at: Vec<usize>,
    total: usize,
}

impl Parts {
    fn new(flavor: Flavor, sizes: impl Iterator<Item = u64> + Clone) -> Result<Parts> {
        Parts::lay(flavor, sizes, page_size()).ok_or_else(|| {
            Error::new(
                Class::Size,
                "the sizes of the members' memory add up to more than can be addressed; ask for less",
            )
        })
    }

    /// Lays out the parts, whose pages of `page` bytes belong to one member each.
    fn lay(flavor: Flavor, sizes: impl Iterator<Item = u64> + Clone, page: usize) -> Option<Parts> {
        let members = sizes.clone().count();
        let control = match flavor {
            Flavor::Created(_) | Flavor::Dynamic => Control::len_with_rings(members),
            _ => Control::len(members),
        };
        let mut next = control.checked_next_multiple_of(page)?;
        let mut at = Vec::with_capacity(members);
        for size in sizes {
            at.push(next);
            let size = match flavor {
                Flavor::Created(_) | Flavor::Dynamic => 0,
                Flavor::Shared { contiguous: true } => usize::try_from(size).ok()?,
                _ => usize::try_from(size).ok()?.checked_next_multiple_of(page)?,
            };
            next = next
                .checked_add(size)
                .filter(|next| *next <= isize::MAX as usize)?;
        }
        Some(Parts { at, total: next })
    }
}

/// Arguments and agreed properties of a window under creation.
struct Plan<'a> {
    process: &'a Process,
    comm: &'a Comm,
    flavor: Flavor,
    size: usize,
    unit: i64,
    /// Whether all members have the same size and unit.
    alike: bool,
    /// The largest size of a member, in bytes.
    most: u64,
    /// Segment that contains a created window's memory, if every member's lies in one.
    piece: Option<PieceLocation>,
    /// Whether memory is committed at creation rather than at first touch.
    commits_now: bool,
    probe: &'a AtomicU64,
}

/// The parts of a window that depend on where its members are.
struct Placement {
    mode: AccessMode,
    members: Members,
    memory: Memory,
    control: Option<Control>,
    base: *mut u8,
    /// Operating system pids by rank; empty if the members are on several nodes.
    processes: Vec<u32>,
}

impl Window {
    /// Creates a window over the members of an intracommunicator; collective. `size` is in bytes.
    ///
    /// The window uses the VCIs of `hints` if all members ask for the same ones and these are free.
    ///
    /// Members agree by one reduction, whose length doesn't grow with their number. They exchange
    /// more only if all are on one node, or if their sizes or units differ.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` if members of a shared window can't share memory, `MPI_ERR_NO_MEM` if
    /// memory is short.
    ///
    /// # Safety
    /// The memory of a window that is [`Flavor::Created`] is valid until the window is dropped.
    pub unsafe fn new(
        process: &Process,
        comm: &Comm,
        flavor: Flavor,
        size: usize,
        unit: i64,
        hints: &Hints,
    ) -> Result<Window> {
        let comm = Arc::new(mpi_comm::creation::dup_comm(process, comm)?);
        mpi_comm::creation::vcis::agree_on_vcis(process, &comm, &hints.vcis.for_window())?;
        let probe = Box::new(AtomicU64::new(0));
        let peers = (0..comm.size()).map(|rank| comm.local().peer(rank));
        let local = peers
            .into_iter()
            .all(|peer| peer == process.me() || process.is_local(peer));
        let shared = matches!(flavor, Flavor::Shared { .. });
        // The minimum of `x` is the complement of the maximum of `!x`.
        let (bytes, step) = (size as u64, unit as u64);
        let near = u64::from(local || shared);
        let piece = match flavor {
            Flavor::Created(base) => process.source::<Windows>().shared_pieces.locate(base, size),
            _ => None,
        };
        let lacks = u64::from(piece.is_none());
        let promise = hints.accumulates.map_or(0, |promise| promise.word());
        let native = serve::uses_remote_memory(process, &comm);
        let needed = u64::from(!service::is_possible(process, &comm, native));
        let mut agreed = [
            bytes, !bytes, step, !step, !near, lacks, promise, !promise, needed,
        ];
        mpi_coll::greatest_u64(process, &comm, &mut agreed)?;
        let plan = Plan {
            process,
            comm: &comm,
            flavor,
            size,
            unit,
            alike: agreed[0] == !agreed[1] && agreed[2] == !agreed[3],
            most: agreed[0],
            piece: piece.filter(|_| agreed[5] == 0),
            commits_now: hints.commits_memory,
            probe: &probe,
        };
        let made = match !agreed[4] {
            0 => plan.over_nodes()?,
            _ => plan.on_node(local)?,
        };
        let Placement {
            mode,
            mut members,
            memory,
            control,
            base,
            processes,
        } = made;
        let service = (mode == AccessMode::Messages).then(|| {
            let memory = (flavor != Flavor::Dynamic).then_some((base, size));
            Arc::new(Service::new(
                comm.clone(),
                memory,
                hints.vcis.unordered,
                native,
            ))
        });
        if let Some(service) = &service {
            service.exchange_keys(process)?;
            // Different promises count as none.
            if let (Some(promise), true) = (hints.accumulates, agreed[6] == !agreed[7]) {
                service.agree_on_atomics(process, promise)?;
            }
            serve::serve(process, service);
            // Last: members begin to access each other as part of this.
            if agreed[8] == 0 {
                service.agree_on_passive(process)?;
            }
            // The network reaches memory that was attached later by its table, which only passive
            // windows have.
            if native && (flavor != Flavor::Dynamic || service.passive().is_some()) {
                members.use_network();
            }
        }
        let is_passive = service
            .as_ref()
            .is_some_and(|service| service.passive().is_some());
        let mode = if is_passive {
            AccessMode::Network
        } else {
            mode
        };
        let fast = match (mode, flavor) {
            (
                AccessMode::Mapped,
                Flavor::Created(_) | Flavor::Allocated | Flavor::Shared { .. },
            ) => FastTargets::new(&members, control.as_ref(), comm.rank(), comm.size()),
            _ => FastTargets::default(),
        };
        let watching = (!fast.targets.is_empty()).then(|| {
            let others = processes
                .iter()
                .enumerate()
                .map(|(rank, process)| (comm.local().peer(rank as u32), *process));
            let others = others.filter(|(peer, _)| *peer != process.me());
            process
                .source::<Windows>()
                .watch
                .members(process.suspects(), others)
        });
        let with_rings = control
            .as_ref()
            .filter(|control| mode == AccessMode::Copied && control.has_rings());
        let outbox = with_rings.map(|control| Outbox::new(control.members()));
        let inbox = with_rings.cloned();
        let window = Window {
            flavor,
            base: match flavor {
                // In contiguous memory even an empty part has an address: the end of the part
                // before.
                Flavor::Shared { contiguous } if size == 0 && (!contiguous || agreed[0] == 0) => {
                    std::ptr::null_mut()
                }
                _ => base,
            },
            members,
            fast,
            mode,
            control,
            service,
            epochs: Epochs::new(comm.size() as usize),
            hit_rate: HitRate::default(),
            outbox,
            raised_losses: AtomicU32::new(0),
            attached: Arc::default(),
            counters: Arc::default(),
            name: parking_lot::Mutex::default(),
            _probe: probe,
            watching,
            memory,
            comm,
        };
        if let Some(control) = inbox {
            let attached = (flavor == Flavor::Dynamic).then(|| window.attached.clone());
            let inbox = Inbox::new(control, (window.base, size), attached);
            registry::add_inbox(process, inbox);
        }
        // No member may be asked before it serves, or free its probe while others read it. In the
        // other modes the last exchange, about what members are able to, has synchronized them.
        if window.service.is_some() {
            mpi_coll::barrier(process, &window.comm)?;
        }
        Ok(window)
    }
}

impl Plan<'_> {
    fn own_base(&self) -> *mut u8 {
        match self.flavor {
            Flavor::Created(base) => base,
            _ => std::ptr::null_mut(),
        }
    }

    fn has_own_memory(&self) -> bool {
        matches!(self.flavor, Flavor::Allocated | Flavor::Shared { .. })
    }

    /// Returns the bytes of a segment whose length needs no exchange of sizes.
    ///
    /// That is: control blocks alone, or control blocks and `members` times the largest size.
    /// `None` if the sizes may waste too much.
    fn early_len(&self, members: usize) -> Option<usize> {
        /// Pages. In a larger segment each member commits its own part, near its core.
        const MAX_EARLY: usize = 8;
        let page = page_size();
        if !self.has_own_memory() {
            return Some(Control::len_with_rings(members).next_multiple_of(page));
        }
        let control = Control::len(members).next_multiple_of(page);
        let each = usize::try_from(self.most).ok()?;
        let each = each.checked_next_multiple_of(page)?;
        let all = each.checked_mul(members)?.checked_add(control)?;
        (all <= MAX_EARLY * page).then_some(all)
    }

    fn probe_address(&self) -> u64 {
        (&raw const *self.probe).expose_provenance() as u64
    }

    /// Creates a window whose members are all on one node, or that must be shared.
    fn on_node(&self, local: bool) -> Result<Placement> {
        let Plan { process, comm, .. } = *self;
        let (me, count) = (comm.rank() as usize, comm.size() as usize);
        // A segment whose length is known before the sizes are exchanged is created first; its key
        // travels with the sizes.
        let early = self.early_len(count).filter(|_| count > 1);
        let arenas = mpi_coll::arenas(process);
        let made = match early {
            Some(room) if me == 0 => Some(arenas.make(process, room, room)),
            _ => None,
        };
        let key = key_words(made.as_ref());
        let gathered = mpi_coll::gather_all_u64(
            process,
            comm,
            [
                self.own_base().expose_provenance() as u64,
                self.size as u64,
                self.unit as u64,
                self.probe_address(),
                key[0],
                key[1],
                key[2],
                key[3],
                netmod_kit::process_number::own_number().into(),
            ],
        )?;
        let parts = Parts::new(self.flavor, gathered.iter().map(|member| member[1]))?;
        let mut memory = Memory::default();
        let mapped = self.map_shared_pieces(&mut memory)?;
        let mode;
        if count == 1 {
            let heap = Heap::new(parts.total)?;
            if self.commits_now {
                heap.touch();
            }
            memory.heap.push(heap);
            mode = AccessMode::Mapped;
        } else {
            let shared = match early {
                Some(room) => {
                    let [_, _, _, _, key @ .., _] = gathered[0];
                    arenas.open(process, made, key, room)
                }
                None => {
                    let is_lazy = self.commits_lazily(comm, &parts)?;
                    segment::share(process, comm, (&parts.at, parts.total), is_lazy)?
                }
            };
            let (piece, why) = match shared {
                Ok(piece) => (Some(piece), None),
                Err(error) => (None, Some(error.0)),
            };
            let single_copy = local
                && !self.has_own_memory()
                && mapped.is_none()
                && (0..count)
                    .all(|rank| arenas.can_copy(process, comm, rank as u32, gathered[rank][3]));
            let able = [u64::from(piece.is_some()), u64::from(single_copy)];
            let able = mpi_coll::gather_all_u64(process, comm, able)?;
            let all = |what: usize| able.iter().all(|member| member[what] != 0);
            // All have opened the segment: its name can go, so that nothing remains when the
            // processes end.
            if let Some(piece) = &piece {
                piece.seal();
            }
            mode = match self.flavor {
                _ if !all(0) => AccessMode::Messages,
                Flavor::Allocated | Flavor::Shared { .. } => AccessMode::Mapped,
                _ if mapped.is_some() => AccessMode::Mapped,
                _ if all(1) => AccessMode::Copied,
                _ => AccessMode::Messages,
            };
            if matches!(self.flavor, Flavor::Shared { .. }) && mode != AccessMode::Mapped {
                let why = why.unwrap_or_else(|| "another member could not map it".to_string());
                return Err(Error::new(
                    Class::RmaShared,
                    format!(
                        "the members of the communicator can't share memory: {why}. Make a \
                         communicator of those that can by MPI_Comm_split_type with \
                         MPI_COMM_TYPE_SHARED"
                    ),
                ));
            }
            if mode != AccessMode::Messages {
                memory.piece = piece;
            }
        }
        let start = match (&memory.piece, memory.heap.first()) {
            (Some(piece), _) => Some(piece.as_ptr()),
            (None, heap) => heap.map(|heap| heap.0),
        };
        let peers: Arc<[_]> = (0..comm.size())
            .map(|rank| comm.local().peer(rank))
            .collect();
        // SAFETY: `start` is a page-aligned zeroed segment or heap that begins with `Control`'s
        // blocks, and with rings only if it holds no window memory (`Parts::lay`); `Window` drops
        // `memory` last.
        let control = start.map(|start| unsafe {
            let control = Control::at(start, me, peers);
            match self.has_own_memory() {
                true => control,
                false => control.with_rings(),
            }
        });
        let base = match (self.has_own_memory(), start) {
            (false, _) => self.own_base(),
            (true, Some(start)) => start.wrapping_add(parts.at[me]),
            (true, None) => self.own_heap(&mut memory)?,
        };
        let member = |rank: usize| Member {
            size: gathered[rank][1],
            unit: gathered[rank][2] as i64,
            route: match (mode, start) {
                (AccessMode::Mapped, Some(start)) if self.has_own_memory() => {
                    Route::Mapped(Mapped(start.wrapping_add(parts.at[rank])))
                }
                (AccessMode::Mapped | AccessMode::Copied, _) if rank == me => {
                    Route::Mapped(Mapped(base))
                }
                (AccessMode::Mapped, _) => {
                    mapped.as_ref().map_or(Route::Messages(Messages), |mapped| {
                        Route::Mapped(Mapped(mapped[rank]))
                    })
                }
                (AccessMode::Copied, _) => Route::Copied(Copied(gathered[rank][0])),
                _ if rank == me && self.flavor != Flavor::Dynamic => Route::Mapped(Mapped(base)),
                _ => Route::Messages(Messages),
            },
        };
        let members = match mode {
            AccessMode::Messages if self.alike => self.far(self.own_route(base)),
            _ => Members::Each((0..count).map(member).collect()),
        };
        Ok(Placement {
            mode,
            members,
            memory,
            control,
            base,
            processes: gathered.iter().map(|member| member[8] as u32).collect(),
        })
    }

    /// Maps the memory of all members of a created window, if each lies in a shared segment.
    ///
    /// Returns the addresses by rank, or `None` on all members if one of them could not map all.
    fn map_shared_pieces(&self, memory: &mut Memory) -> Result<Option<Vec<*mut u8>>> {
        let Plan { process, comm, .. } = *self;
        let (Some(own), Some(shared)) = (self.piece, process.shared_memory()) else {
            return Ok(None);
        };
        let gathered = mpi_coll::gather_all_u64(process, comm, own.words())?;
        let mut mapped = Vec::with_capacity(gathered.len());
        for (rank, words) in gathered.into_iter().enumerate() {
            let PieceLocation { key, len, offset } = PieceLocation::of(words);
            if rank == comm.rank() as usize {
                mapped.push(self.own_base());
            } else if let Ok(piece) = shared.open(&key, len as usize) {
                mapped.push(piece.as_ptr().wrapping_add(offset as usize));
                memory.mapped.push(piece);
            }
        }
        let lacks = u64::from(mapped.len() < comm.size() as usize);
        let mut lacking = [lacks];
        mpi_coll::greatest_u64(process, comm, &mut lacking)?;
        Ok((lacking[0] == 0).then_some(mapped))
    }

    /// Creates a window over several nodes: messages, but direct access within the node.
    fn over_nodes(&self) -> Result<Placement> {
        let Plan { process, comm, .. } = *self;
        let gathered = match self.alike {
            true => None,
            false => {
                let own = [self.size as u64, self.unit as u64];
                Some(mpi_coll::gather_all_u64(process, comm, own)?)
            }
        };
        let mut memory = Memory::default();
        let near = match self.node()? {
            Some(node) => match self.reach_node(&node, &mut memory) {
                Err(error) if error.class() == Class::NoMem => {
                    // Tells the members on other nodes, which wait in `agree`.
                    self.agree(false).err();
                    return Err(error);
                }
                reached => reached?,
            },
            None => Box::default(),
        };
        let mine = near.iter().find(|one| one.0 == comm.rank());
        let base = match (self.has_own_memory(), mine) {
            (false, _) => self.own_base(),
            (true, Some((_, Route::Mapped(Mapped(here))))) => *here,
            (true, _) => std::ptr::null_mut(),
        };
        // Members that have memory already take part too: `agree` is collective.
        let base = match self.has_own_memory() {
            true if base.is_null() => self.own_heap(&mut memory)?,
            true => self.agree(true).map(|()| base)?,
            false => base,
        };
        let near = match near.is_empty() {
            true => self.own_route(base),
            false => near,
        };
        let members = match gathered {
            None => self.far(near),
            Some(gathered) => {
                let mut members: Box<[Member]> = gathered
                    .iter()
                    .map(|member| Member {
                        size: member[0],
                        unit: member[1] as i64,
                        route: Route::Messages(Messages),
                    })
                    .collect();
                for (rank, route) in near {
                    members[rank as usize].route = route;
                }
                Members::Each(members)
            }
        };
        Ok(Placement {
            mode: AccessMode::Messages,
            members,
            memory,
            control: None,
            base,
            processes: Vec::new(),
        })
    }

    /// Returns the route to this process's own memory in a window in message mode.
    fn own_route(&self, base: *mut u8) -> Box<[(u32, Route)]> {
        match self.flavor {
            Flavor::Dynamic => Box::default(),
            _ => Box::new([(self.comm.rank(), Route::Mapped(Mapped(base)))]),
        }
    }

    fn far(&self, near: Box<[(u32, Route)]>) -> Members {
        Members::Alike {
            size: self.size as u64,
            unit: self.unit,
            near,
            far: Route::Messages(Messages),
        }
    }

    /// Makes a communicator of the members on this node, if there are others and the node is known.
    fn node(&self) -> Result<Option<Comm>> {
        let Plan { process, comm, .. } = *self;
        /// Members. Up to this number each is asked whether it is local, if the launcher names no
        /// nodes.
        const MAX_PROBED: u32 = 1024;
        let node = process.node_of(process.me());
        // (A communicator with endpoints can't be split.)
        let unknown = node.is_none() && comm.size() > MAX_PROBED;
        if self.flavor == Flavor::Dynamic || unknown || comm.check_groups().is_err() {
            return Ok(None);
        }
        let is_near = |rank: &u32| {
            let peer = comm.local().peer(*rank);
            match node {
                Some(_) => process.node_of(peer) == node,
                None => peer == process.me() || process.is_local(peer),
            }
        };
        let ranks: Vec<u32> = (0..comm.size()).filter(is_near).collect();
        if ranks.len() < 2 {
            return Ok(None);
        }
        mpi_comm::creation::create_comm_group(process, comm, &comm.local().of_ranks(&ranks), 0)
    }

    /// Returns how to reach the members on this node: all of them directly, or none.
    fn reach_node(&self, node: &Comm, memory: &mut Memory) -> Result<Box<[(u32, Route)]>> {
        let Plan { process, comm, .. } = *self;
        let gathered = mpi_coll::gather_all_u64(
            process,
            node,
            [
                self.own_base().expose_provenance() as u64,
                self.size as u64,
                self.probe_address(),
            ],
        )?;
        let count = node.size();
        let parts = Parts::new(self.flavor, gathered.iter().map(|member| member[1]))?;
        let peers = (0..count).map(|rank| node.local().peer(rank));
        let mut able = peers
            .into_iter()
            .all(|peer| peer == process.me() || process.is_local(peer));
        let mut piece = None;
        if self.has_own_memory() {
            let is_lazy = self.commits_lazily(node, &parts)?;
            piece = segment::share(process, node, (&parts.at, parts.total), is_lazy)?.ok();
            able &= piece.is_some();
        } else {
            let arenas = mpi_coll::arenas(process);
            able &= (0..gathered.len())
                .all(|rank| arenas.can_copy(process, node, rank as u32, gathered[rank][2]));
        }
        let able = mpi_coll::gather_all_u64(process, node, [u64::from(able)])?;
        if let Some(piece) = &piece {
            piece.seal();
        }
        if able.iter().any(|member| member[0] == 0) {
            return Ok(Box::default());
        }
        let start = piece.as_ref().map(|piece| piece.as_ptr());
        memory.piece = piece;
        let route = |place: u32| {
            let at = place as usize;
            let route = match start {
                Some(start) => Route::Mapped(Mapped(start.wrapping_add(parts.at[at]))),
                None if place == node.rank() => Route::Mapped(Mapped(self.own_base())),
                None => Route::Copied(Copied(gathered[at][0])),
            };
            Some((comm.local().rank_of(node.local().peer(place))?, route))
        };
        let mut near: Vec<(u32, Route)> = (0..count).filter_map(route).collect();
        near.sort_unstable_by_key(|one| one.0);
        Ok(near.into())
    }

    /// Returns whether this member's part can be committed at first touch. Collective over the
    /// node; the first member checks the free memory for all.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` on all of them if there is not enough for all parts.
    fn commits_lazily(&self, comm: &Comm, parts: &Parts) -> Result<bool> {
        if !self.has_own_memory() {
            return Ok(false);
        }
        let shared = self.process.shared_memory();
        let look = |shared: &Arc<dyn SharedMemory>| match shared.commits_lazily(parts.total) {
            Ok(is_lazy) => (u64::from(is_lazy), None),
            Err(error) => (OUT_OF_MEMORY, Some(error)),
        };
        let (found, lack) = match shared.filter(|_| comm.rank() == 0) {
            Some(shared) => look(shared),
            None => (0, None),
        };
        let mut lazily = [found];
        mpi_coll::broadcast_u64(self.process, comm, &mut lazily)?;
        if lazily[0] == OUT_OF_MEMORY {
            let why = lack.map(|error| error.0);
            let why = why.unwrap_or_else(|| "there is not enough for all members".to_string());
            return Err(Error::new(
                Class::NoMem,
                format!("memory for the window is short: {why}"),
            ));
        }
        Ok(lazily[0] != 0 && !self.commits_now)
    }

    /// Allocates this member's part in private memory. Collective.
    fn own_heap(&self, memory: &mut Memory) -> Result<*mut u8> {
        let heap = Heap::new(self.size);
        if let (Ok(heap), true) = (&heap, self.commits_now) {
            heap.touch();
        }
        let agreed = self.agree(heap.is_ok());
        let heap = heap?;
        agreed?;
        let base = heap.0;
        memory.heap.push(heap);
        Ok(base)
    }

    /// Fails on all members if one of them lacks memory. Collective.
    fn agree(&self, fine: bool) -> Result<()> {
        let mut lacking = [u64::from(!fine)];
        mpi_coll::greatest_u64(self.process, self.comm, &mut lacking)?;
        if lacking[0] == 0 {
            return Ok(());
        }
        Err(Error::new(
            Class::NoMem,
            "another member lacks memory for its part of the window; ask for a smaller one",
        ))
    }
}

/// Broadcast by the first member of a node when memory is short.
const OUT_OF_MEMORY: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// On kernels with pages of 64 KiB, too, no page holds the memory of two members, or of a member
    /// and control blocks.
    #[test]
    fn members_have_pages_of_their_own() {
        let sizes = [1, 0, 70_000, 3];
        for page in [4096, 16 << 10, 64 << 10] {
            for flavor in [Flavor::Allocated, Flavor::Shared { contiguous: false }] {
                let parts = Parts::lay(flavor, sizes.into_iter(), page).unwrap();
                assert!(parts.at.iter().all(|at| at.is_multiple_of(page)));
                assert!(parts.at[0] >= Control::len(sizes.len()));
                let ends = parts.at[1..].iter().chain([&parts.total]);
                for ((at, size), end) in parts.at.iter().zip(sizes).zip(ends) {
                    assert!(at + size as usize <= *end);
                }
            }
            let flavor = Flavor::Shared { contiguous: true };
            let parts = Parts::lay(flavor, sizes.into_iter(), page).unwrap();
            assert!(parts.at[0].is_multiple_of(page));
            assert_eq!(parts.total - parts.at[0], 70_004);
        }
    }
}
