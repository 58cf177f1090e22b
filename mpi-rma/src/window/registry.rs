//! The windows of a process that others reach through messages or rings, as a source of its
//! progress.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use mpi_core::lock::Guarded;
use netmod::{Peer, VciId};
use parking_lot::Mutex;

use crate::copied::inbox::Inbox;
use crate::locks::control::Control;
use crate::messages::service::Service;
use crate::messages::service_signal::ServiceSignal;
use crate::network::PassiveTargets;
use crate::network::capabilities::NetworkAtomics;
use crate::window::peer_watch::Watch;
use crate::window::shared_memory::SharedSegments;
use mpi_core::process::Process;
use mpi_core::process::source::{Source, WINDOWS, Work};

/// Idle polls per look at all windows.
const IDLE_POLLS_PER_LOOK: usize = 4;

/// The windows of a process that are served by messages, and the memory of windows.
pub struct Windows {
    /// By VCI: a thread that polls a VCI serves its windows. Allocated with the first such window.
    served: OnceLock<Box<[CachePadded<Served>]>>,
    inboxes: Mutex<Vec<Inbox>>,
    /// Length of `inboxes`, read without its lock.
    inbox_count: AtomicUsize,
    /// Polls that found no work.
    idle: AtomicUsize,
    /// Windows and inboxes that need progress.
    count: Mutex<usize>,
    /// Where the progress thread of windows sleeps.
    pub(crate) signal: ServiceSignal,
    /// Whether windows use messages even if the network has remote memory.
    pub(crate) only_messages: bool,
    /// When accumulates use the network's atomics.
    atomics: NetworkAtomics,
    /// When windows do without the targets' processors.
    passive: PassiveTargets,
    /// Shared segments that the program allocated.
    pub(crate) shared_pieces: SharedSegments,
    kernel_copies: AtomicU64,
    pub(crate) watch: Watch,
}

/// Windows with a lane on one VCI, each with the number of that lane.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) count: AtomicUsize,
    pub(crate) list: Guarded<Vec<(Arc<Service>, usize)>>,
}

impl Served {
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<(Arc<Service>, usize)>)) {
        let mut list = self.list.lock();
        change(&mut list);
        self.count.store(list.len(), Ordering::Release);
    }
}

impl Windows {
    /// Creates the registry of a process.
    ///
    /// `only_messages`: whether remote memory stays unused; `atomics`: when accumulates use the
    /// network's atomics; `passive`: when windows do without the targets' processors.
    pub fn new(only_messages: bool, atomics: NetworkAtomics, passive: PassiveTargets) -> Windows {
        Windows {
            served: OnceLock::new(),
            inboxes: Mutex::default(),
            inbox_count: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            count: Mutex::default(),
            signal: ServiceSignal::default(),
            only_messages,
            atomics,
            passive,
            shared_pieces: SharedSegments::default(),
            kernel_copies: AtomicU64::new(0),
            watch: Watch::default(),
        }
    }

    /// Sets the function that disables the fast path of accesses.
    ///
    /// It is called when a process has ended whose memory a window has mapped, before any call can
    /// know of the end.
    pub fn on_end(&self, forget: fn()) {
        self.watch.on_end(forget);
    }

    /// Number of CMA copies to and from other processes' windows.
    pub(crate) fn kernel_copies(&self) -> u64 {
        self.kernel_copies.load(Ordering::Relaxed)
    }

    /// Counts a CMA copy.
    pub(crate) fn count_kernel_copy(&self) {
        self.kernel_copies.fetch_add(1, Ordering::Relaxed);
    }

    /// When accumulates use the network's atomics.
    pub(crate) fn atomics(&self) -> NetworkAtomics {
        self.atomics
    }

    /// When windows do without the targets' processors.
    pub(crate) fn passive(&self) -> PassiveTargets {
        self.passive
    }

    /// Adds `more` (or removes, if negative) windows or inboxes that need progress.
    pub(crate) fn count(&self, process: &Process, more: isize) {
        let mut count = self.count.lock();
        *count = count.saturating_add_signed(more);
        process.set_work::<Windows>(Work {
            any: *count > 0,
            stores: false,
        });
    }

    /// Returns the processes that hold a lock here which others wait for.
    #[cold]
    pub(crate) fn holders_on(&self, vci: VciId) -> Vec<Peer> {
        let Some(list) = self
            .served_on(vci)
            .and_then(|served| served.list.try_lock())
        else {
            return Vec::new();
        };
        list.iter()
            .flat_map(|(service, _)| service.holders_awaited())
            .collect()
    }

    /// Returns whether an idle poll should look at all windows.
    #[inline(always)]
    pub(crate) fn is_due(&self, process: &Process) -> bool {
        if process.is_threaded() || self.inbox_count.load(Ordering::Relaxed) != 0 {
            return true;
        }
        let idle = self.idle.load(Ordering::Relaxed).wrapping_add(1);
        self.idle.store(idle, Ordering::Relaxed);
        idle.is_multiple_of(IDLE_POLLS_PER_LOOK)
    }

    /// Serves all rings once. Returns whether there was a request.
    #[inline(always)]
    pub(crate) fn serve_rings(&self) -> bool {
        if self.inbox_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        match self.inboxes.try_lock() {
            Some(mut inboxes) => inboxes.iter_mut().fold(false, |any, one| any | one.serve()),
            None => false,
        }
    }

    /// Returns the windows with a lane on a VCI; `None` if there are none.
    #[inline]
    pub(crate) fn served_on(&self, vci: VciId) -> Option<&Served> {
        let served = &self.served.get()?[usize::from(vci)];
        (served.count.load(Ordering::Acquire) != 0).then_some(served)
    }

    /// The VCIs on which windows have lanes.
    pub(crate) fn vcis(&self) -> impl Iterator<Item = VciId> {
        let pool = self.served.get().map_or(0, |served| served.len());
        (0..pool as VciId).filter(|vci| self.served_on(*vci).is_some())
    }

    pub(crate) fn of_vci(&self, process: &Process, vci: VciId) -> &Served {
        let make = || {
            (0..process.pool())
                .map(|_| CachePadded::default())
                .collect()
        };
        &self.served.get_or_init(make)[usize::from(vci)]
    }
}

impl Source for Windows {
    const ID: usize = WINDOWS;

    fn new(_process: &Process) -> Self {
        Windows::new(false, NetworkAtomics::default(), PassiveTargets::default())
    }
}

/// Begins to serve a member's rings.
pub(crate) fn add_inbox(process: &Process, inbox: Inbox) {
    let windows = process.source::<Windows>();
    windows.inboxes.lock().push(inbox);
    windows.inbox_count.fetch_add(1, Ordering::Release);
    windows.count(process, 1);
}

/// Stops serving a member's rings. Other members must have stopped publishing requests there.
pub(crate) fn remove_inbox(process: &Process, base: *mut u8, control: &Control) {
    let mut inboxes = process.source::<Windows>().inboxes.lock();
    let before = inboxes.len();
    inboxes.retain(|other| other.base != base || !other.control.is_same(control));
    let closed = before - inboxes.len();
    let windows = process.source::<Windows>();
    windows.inbox_count.fetch_sub(closed, Ordering::Release);
    windows.count(process, -(closed as isize));
}
