//! A window: its parts, its attributes, and the end of its life.
//!
//! `creation` makes windows, `access` checks epochs and targets, `transfer` is put and get,
//! `accumulate` reductions; `lanes` chooses the VCI, `keys` and `key_exchange` the network's keys
//! of members' memory.
//!
//! The program's memory never moves into shared memory: shared pages are not copied on fork, and
//! memory registered with other libraries would no longer match. A window over several nodes whose
//! members have equal sizes and units keeps nothing per member.

pub(crate) mod access;
pub(crate) mod accumulate;
pub(crate) mod apply;
pub(crate) mod attached;
pub(crate) mod buffers;
pub(crate) mod counters;
pub(crate) mod creation;
pub(crate) mod directory;
pub(crate) mod heap;
pub(crate) mod key_exchange;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod members;
pub(crate) mod notify;
pub(crate) mod peer_watch;
pub(crate) mod promise;
pub(crate) mod regions;
pub(crate) mod registry;
pub(crate) mod runs;
pub(crate) mod segment;
pub(crate) mod shared_alloc;
pub(crate) mod shared_memory;
pub(crate) mod targets;
pub(crate) mod transfer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use netmod::SharedSegment;
use parking_lot::{Mutex, RwLock};

use crate::copied::hit_rate::HitRate;
use crate::copied::outbox::Outbox;
use crate::epochs::Epochs;
use crate::locks::control::Control;
use crate::mapped::fast_targets::FastTargets;
use crate::messages::serve;
use crate::messages::service::Service;
use crate::network::Word;
use crate::window::attached::Attached;
use crate::window::counters::Counters;
use crate::window::heap::Heap;
use crate::window::members::{Mapped, Members, Route};
use crate::window::peer_watch::Watching;
use crate::window::promise::Promise;
use mpi_coll::slots::arenas::Piece;
use mpi_core::comm::Comm;
use mpi_core::comm::vci_map::VciHints;
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_types::error::{Class, Error, Result};

/// The origin of a window's memory (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// Memory of the program at this address (`MPI_Win_create`).
    Created(*mut u8),
    /// Memory of the library (`MPI_Win_allocate`).
    Allocated,
    /// Memory of the library that all members access directly (`MPI_Win_allocate_shared`).
    Shared {
        /// Whether the members' parts follow each other without gaps, rather than on own pages.
        contiguous: bool,
    },
    /// Memory that the program attaches later (`MPI_Win_create_dynamic`).
    Dynamic,
}

/// The info hints of a window.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hints {
    /// VCIs that the window should use.
    pub vcis: VciHints,
    /// Whether allocated memory is committed at creation rather than at first touch.
    pub commits_memory: bool,
    /// What the program promises about accumulates, so that the network can carry them out.
    pub accumulates: Option<Promise>,
}

/// How a window synchronizes and accumulates (see the crate's documentation); the same on all
/// members, and fixed when the window is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessMode {
    Mapped,
    Copied,
    Network,
    Messages,
}

/// A window.
pub struct Window {
    pub(crate) comm: Arc<Comm>,
    pub(crate) flavor: Flavor,
    pub(crate) base: *mut u8,
    pub(crate) members: Members,
    pub(crate) fast: FastTargets,
    pub(crate) mode: AccessMode,
    pub(crate) control: Option<Control>,
    pub(crate) service: Option<Arc<Service>>,
    pub(crate) epochs: Epochs,
    pub(crate) hit_rate: HitRate,
    /// The deferred accesses, if the window has rings.
    pub(crate) outbox: Option<Outbox>,
    /// Number of known failures when this window last raised one, or last locked all targets.
    pub(crate) raised_losses: AtomicU32,
    pub(crate) attached: Arc<Mutex<Attached>>,
    /// Counters of notified accesses, if the program has asked for them.
    pub(crate) counters: Arc<RwLock<Option<Counters>>>,
    pub(crate) name: Mutex<String>,
    /// Other members read it at creation to learn whether CMA works.
    pub(crate) _probe: Box<AtomicU64>,
    /// Watches the members' processes if accesses are loads and stores.
    pub(crate) watching: Option<Watching>,
    /// Last: the fields above point into it.
    pub(crate) memory: Memory,
}

// SAFETY: the pointers are to the window's memory, which the program has lent for the window's life
// (section 11.2.1) or which the window owns; the program orders accesses to it by epochs.
unsafe impl Send for Window {}

// SAFETY: the pointers are never written through but under the program's epochs; all other state is
// atomics and locks.
unsafe impl Sync for Window {}

impl Drop for Window {
    fn drop(&mut self) {
        // A window that was not freed in order is still registered for progress.
        if let Some(service) = &self.service {
            service.withdraw();
        }
    }
}

/// Memory that a window owns.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) piece: Option<Piece>,
    /// Other members' memory in segments of their programs.
    pub(crate) mapped: Vec<Box<dyn SharedSegment>>,
    pub(crate) heap: Vec<Heap>,
}

impl Window {
    /// Ends the window; collective (`MPI_Win_free`). Drop it afterwards.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` within an epoch.
    pub fn free(&self, process: &Process) -> Result<()> {
        self.check_free()?;
        if self.has_counters() {
            self.free_counters(process)?;
        }
        if let Some(service) = &self.service {
            // All accesses of this process must be complete at their targets.
            self.flush_dirty(process)?;
            mpi_coll::barrier(process, &self.comm)?;
            service.wait_for(process, self.comm.vci(), None, || {
                for lane in service.lanes.iter().skip(1) {
                    process.poll(lane.vci)?;
                }
                Ok(service.is_idle(process).then_some(()))
            })?;
            serve::end_service(process, service);
        }
        // Requests in the rings are not served from here on; their origins copy by CMA. (After the
        // barrier the rings may become another window's.)
        if let (Some(_), Some(control)) = (&self.outbox, &self.control) {
            registry::remove_inbox(process, self.base, control);
        }
        // Invariant: no memory goes before all members are done with it.
        mpi_coll::barrier(process, &self.comm)?;
        if let Some(service) = &self.service {
            service.withdraw();
        }
        if let Some(piece) = &self.memory.piece {
            let control = self.control.as_ref().filter(|control| control.has_rings());
            let used = control.map_or(usize::MAX, Control::used);
            mpi_coll::arenas(process).give_back(piece, used);
        }
        Ok(())
    }

    /// Checks that no epoch is open.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` within an epoch.
    pub fn check_free(&self) -> Result<()> {
        self.epochs.check_free()
    }

    /// The processes of the window (`MPI_Win_get_group`).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` if the communicator has endpoints.
    pub fn group(&self) -> Result<&Group> {
        self.comm.check_groups()?;
        Ok(self.comm.local())
    }

    /// Returns those of `hints` that are in force.
    pub fn vci_hints(&self, hints: &VciHints) -> Vec<(&'static str, String)> {
        self.comm.vci_hints(hints)
    }

    /// Whether locks, accumulates and transfers need no target's processor, by the network alone.
    pub fn is_passive(&self) -> bool {
        self.passive().is_some()
    }

    /// The origin of the window's memory.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Address of this process's memory. NULL for a dynamic window, and for no memory in a shared
    /// one.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The owner that requests of this window's messages carry.
    pub fn owner(&self) -> u32 {
        self.comm.owner()
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// Whether no member is known to have ended whose memory is mapped. To be asked after calls can
    /// find the window by the fast path.
    pub fn has_all_members(&self) -> bool {
        self.watching.as_ref().is_none_or(Watching::is_complete)
    }

    /// The number of members.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// A member's size in bytes and its displacement unit.
    pub fn extent_of(&self, rank: u32) -> (u64, i64) {
        let member = self.members.get(rank);
        (member.size, member.unit)
    }

    /// Returns a member's address in this process, size and unit (`MPI_Win_shared_query`, MPI-5.0
    /// section 12.2.3).
    ///
    /// Without a rank, of the lowest rank that has memory. Memory that is not mapped here has no
    /// address and size 0. `None` for dynamic windows.
    pub fn shared_query(&self, rank: Option<u32>) -> Option<(*mut u8, u64, i64)> {
        if matches!(self.flavor, Flavor::Dynamic) {
            return None;
        }
        let has_memory = |rank: &u32| self.members.get(*rank).size > 0;
        let rank = match rank {
            Some(rank) if rank >= self.size() => return None,
            Some(rank) => rank,
            None => (0..self.size()).find(has_memory).unwrap_or(0),
        };
        let member = self.members.get(rank);
        let contiguous = self.flavor == Flavor::Shared { contiguous: true } && !self.base.is_null();
        Some(match member.route {
            Route::Mapped(Mapped(here)) if member.size > 0 || contiguous => {
                (here, member.size, member.unit)
            }
            _ => (std::ptr::null_mut(), 0, member.unit),
        })
    }

    /// Adds memory to a dynamic window (`MPI_Win_attach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic, `MPI_ERR_RMA_ATTACH` for memory that
    /// overlaps with attached memory.
    ///
    /// # Safety
    /// The memory stays valid until it is detached or the window is freed.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        self.check_dynamic("MPI_Win_attach")?;
        let start = base.expose_provenance();
        let mut attached = self.attached.lock();
        if let Err((other, len)) = attached.add(start, size) {
            return Err(Error::new(
                Class::RmaAttach,
                format!(
                    "{size} bytes at {base:p} overlap with {len} bytes at {other:#x}, which are \
                     attached already; detach them first"
                ),
            ));
        }
        if let Some(passive) = self.passive() {
            // SAFETY: the memory stays valid until it is detached, by this function's contract.
            let exposed = unsafe { self.attach_for_all(passive, (start, size)) };
            if let Err(error) = exposed {
                attached.remove(start);
                return Err(error);
            }
        }
        if let Some(service) = &self.service {
            service.attach(start, size);
        }
        Ok(())
    }

    /// Removes attached memory (`MPI_Win_detach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic, `MPI_ERR_RMA_ATTACH` for an address
    /// at which nothing was attached.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.check_dynamic("MPI_Win_detach")?;
        let start = base.addr();
        if !self.attached.lock().remove(start) {
            return Err(Error::new(
                Class::RmaAttach,
                format!("nothing is attached at {base:p}; give the address that was attached"),
            ));
        }
        if let Some(service) = &self.service {
            service.detach(start);
        }
        match self.passive() {
            Some(passive) => passive.directory.detach(passive.word(Word::VERSION), start),
            None => Ok(()),
        }
    }

    /// Returns whether every byte from `low` to `high` is attached here.
    pub(crate) fn has_attached(&self, low: i64, high: i64) -> bool {
        let (low, high) = (low as usize, high as usize);
        low <= high && self.attached.lock().covers(low, high - low)
    }

    fn check_dynamic(&self, function: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        Err(Error::new(
            Class::RmaFlavor,
            format!("{function} is for windows made by MPI_Win_create_dynamic only"),
        ))
    }

    /// Its name (`MPI_Win_get_name`).
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Sets its name (`MPI_Win_set_name`).
    pub fn set_name(&self, new: &str) {
        new.clone_into(&mut self.name.lock());
    }

    /// The message service; an error if the window's mode is not messages.
    pub(crate) fn service(&self) -> Result<&Arc<Service>> {
        let lacks = || {
            Error::new(
                Class::Intern,
                "internal error: the window has no message service",
            )
        };
        self.service.as_ref().ok_or_else(lacks)
    }

    /// Returns the bytes that the window takes in this process.
    ///
    /// Without the exposed memory, the communicator and pending operations; with `noted` targets in
    /// epochs and `known` targets reached by the network.
    #[cfg(test)]
    pub fn footprint(&self, noted: usize, known: usize) -> usize {
        size_of::<Window>()
            + self.members.bytes()
            + self.fast.bytes()
            + self.epochs.bytes(noted)
            + self.service.as_ref().map_or(0, |service| {
                let passive = service.passive();
                size_of::<Service>()
                    + crate::window::keys::Keys::bytes(known)
                    + passive.map_or(0, |passive| passive.bytes(known))
            })
    }

    pub(crate) fn control(&self) -> Result<&Control> {
        let lacks = || {
            Error::new(
                Class::Intern,
                "internal error: the window has no control blocks",
            )
        };
        self.control.as_ref().ok_or_else(lacks)
    }
}

#[cold]
pub(crate) fn not_on_node(rank: u32) -> Error {
    Error::new(
        Class::Intern,
        format!("internal error: the memory of rank {rank} is not on this node"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::heap::PAGE;
    use mpi_core::comm::ContextId;

    /// A window of `size` members in message mode, 64 of them on this node. `passive`: over a
    /// network that needs no target's processor.
    fn window(size: u32, flavor: Flavor, passive: bool) -> Window {
        let comm = Arc::new(Comm::new(ContextId::new(0, 0), Group::identity(size), 0));
        let service = Arc::new(Service::new(comm.clone(), None, false, true));
        if passive {
            service.pretend_passive();
        }
        let near = (0..64).map(|rank| (rank, Route::Mapped(Mapped(std::ptr::null_mut()))));
        Window {
            flavor,
            base: std::ptr::null_mut(),
            members: Members::Alike {
                size: 1 << 20,
                unit: 8,
                near: near.collect(),
                far: Route::Messages(crate::window::members::Messages),
            },
            fast: FastTargets::default(),
            mode: match passive {
                true => AccessMode::Network,
                false => AccessMode::Messages,
            },
            control: None,
            service: Some(service),
            epochs: Epochs::new(size as usize),
            hit_rate: HitRate::default(),
            outbox: None,
            attached: Arc::default(),
            counters: Arc::default(),
            name: Mutex::default(),
            raised_losses: AtomicU32::new(0),
            watching: None,
            _probe: Box::default(),
            memory: Memory::default(),
            comm,
        }
    }

    #[test]
    fn a_window_of_a_million_takes_as_much_memory_as_one_of_thousands() {
        let flavors = [
            ("allocated", Flavor::Allocated),
            ("created", Flavor::Created(std::ptr::null_mut())),
            ("dynamic", Flavor::Dynamic),
        ];
        for ((name, flavor), passive) in flavors
            .into_iter()
            .flat_map(|one| [(one, false), (one, true)])
        {
            let few = window(1 << 12, flavor, passive).footprint(0, 0);
            let many = window(1 << 20, flavor, passive);
            let way = match passive {
                true => ", over a network that needs no target's processor",
                false => "",
            };
            for noted in [0, 20, 1000] {
                println!(
                    "{name} window, 2^20 members alike, 64 of a node, {noted} targets in epochs{way}: \
                     {} bytes per process, {} if they were reached by the network",
                    many.footprint(noted, 0),
                    many.footprint(noted, noted)
                );
            }
            assert_eq!(many.footprint(0, 0), few);
            // (A member has one page of control words.)
            let most = if passive { 2 * PAGE } else { PAGE };
            assert!(few < most, "{few}");
            // Locking all targets notes nothing per target.
            assert!(many.footprint(1000, 0) < few + 32 * 1024);
            let each = if passive { 256 } else { 128 };
            assert!(many.footprint(0, 1000) < few + each * 1024);
        }
    }
}
