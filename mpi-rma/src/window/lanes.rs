//! Which VCI an operation of a window takes, where its messages are to be served.
//!
//! A window has one VCI, or several that threads share out among themselves: each thread keeps to one
//! of them for what need not be in order with what other threads do. All that must be in order
//! (synchronisation, and accumulates unless the program says that it doesn't care) goes by the first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crossbeam_utils::CachePadded;
use netmod::VciId;
use parking_lot::Mutex;

use crate::messages::pending::Origin;
use mpi_core::comm::Comm;
use mpi_core::process::threads;
use mpi_core::pt2pt::operations::Flight;

/// Which targets are to confirm what was sent to them.
#[derive(Default)]
struct Confirmation {
    /// Those that nobody has asked yet. (Most of the first lane's are noted in [`crate::epochs::Epochs`].)
    dirty: HashSet<u32>,
    /// Those that threads have asked and that have not answered, and by how many threads. Until then others that
    /// flush them can't rely on what was noted before, and ask, too.
    asked: HashMap<u32, u32>,
}

/// What a process has under way on one VCI of a window.
pub(crate) struct Lane {
    pub vci: VciId,
    pub origin: Mutex<Origin>,
    /// Set by whoever puts something under way, after that.
    pub active: AtomicBool,
    confirmation: Mutex<Confirmation>,
    next_tag: AtomicI32,
    /// What is under way by the network's remote memory.
    pub flight: Arc<Flight>,
}

impl Lane {
    /// A tag for an answer.
    pub fn tag(&self) -> i32 {
        1 + (self.next_tag.fetch_add(1, Ordering::Relaxed) & 0x3fff_ffff)
    }

    /// Takes note that a target must be flushed.
    pub fn mark_dirty(&self, target: u32) {
        self.confirmation.lock().dirty.insert(target);
    }

    /// Whether a target has not confirmed all that was sent to it by this lane, as far as it is noted here.
    pub fn is_unconfirmed(&self, target: u32) -> bool {
        let notes = self.confirmation.lock();
        notes.dirty.contains(&target) || notes.asked.contains_key(&target)
    }

    /// Whether a target must be asked for a confirmation: since it was noted, which `take` takes away, or since
    /// another thread is waiting for one. If so, [`Lane::end_flush`] is to follow.
    pub fn begin_flush(&self, target: u32, take: impl FnOnce() -> bool) -> bool {
        let mut notes = self.confirmation.lock();
        let wanted = take() || notes.asked.contains_key(&target);
        if wanted {
            *notes.asked.entry(target).or_default() += 1;
        }
        wanted
    }

    /// [`Lane::begin_flush`] of one target or all, by what is noted here. Gives those that must be asked.
    pub fn begin_flushes(&self, target: Option<u32>) -> Vec<u32> {
        let notes = &mut *self.confirmation.lock();
        if notes.dirty.is_empty() && notes.asked.is_empty() {
            return Vec::new();
        }
        let targets = match target {
            Some(target) => {
                let wanted = notes.dirty.remove(&target) || notes.asked.contains_key(&target);
                wanted.then_some(target).into_iter().collect()
            }
            None => {
                let mut all = std::mem::take(&mut notes.dirty);
                all.extend(notes.asked.keys());
                Vec::from_iter(all)
            }
        };
        for target in &targets {
            *notes.asked.entry(*target).or_default() += 1;
        }
        targets
    }

    /// The targets that threads have asked and that have not answered.
    pub fn asked(&self) -> Vec<u32> {
        self.confirmation.lock().asked.keys().copied().collect()
    }

    /// A target has confirmed, or is lost.
    pub fn end_flush(&self, target: u32) {
        let mut notes = self.confirmation.lock();
        if let Some(count) = notes.asked.get_mut(&target) {
            *count -= 1;
            if *count == 0 {
                notes.asked.remove(&target);
            }
        }
    }
}

/// The VCIs of a window, the first of which is for what must be in order.
pub(crate) struct Lanes {
    list: Box<[CachePadded<Lane>]>,
    /// Accumulates may go by any of them.
    unordered: bool,
}

impl Lanes {
    /// Those that the members of a window's communicator have agreed on.
    pub fn new(comm: &Comm, unordered: bool) -> Lanes {
        let lane = |vci: &VciId| {
            CachePadded::new(Lane {
                vci: *vci,
                origin: Mutex::default(),
                active: AtomicBool::new(false),
                confirmation: Mutex::default(),
                next_tag: AtomicI32::new(0),
                flight: Arc::default(),
            })
        };
        Lanes {
            list: comm.rma_vcis().iter().map(lane).collect(),
            unordered,
        }
    }

    pub fn get(&self, number: usize) -> &Lane {
        &self.list[number]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.list.iter().map(|lane| &**lane)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// For what need not be in order with what other threads do.
    #[inline]
    pub fn any(&self) -> usize {
        match self.list.len() {
            1 => 0,
            several => threads::number() % several,
        }
    }

    /// Whether accumulates need be in no order.
    pub fn are_unordered(&self) -> bool {
        self.unordered
    }

    /// For accumulates.
    #[inline]
    pub fn accumulate(&self) -> usize {
        if self.unordered { self.any() } else { 0 }
    }
}
