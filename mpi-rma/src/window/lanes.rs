//! Lanes of a window: on which VCI an operation goes.
//!
//! A window has one VCI, or several, and each thread keeps to one of them for operations that need
//! no order with those of other threads. Operations that need order (synchronization, and
//! accumulates unless the program allows them unordered) take the first.

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

/// The targets of a lane whose confirmation is outstanding.
#[derive(Default)]
struct Confirmation {
    /// Targets with unconfirmed operations that no thread has asked yet. (Most of the first lane's
    /// are noted in [`crate::epochs::Epochs`].)
    dirty: HashSet<u32>,
    /// Targets that were asked and have not answered, with the number of threads that wait. Another
    /// thread that flushes such a target must ask too: the pending answer doesn't cover later
    /// operations.
    asked: HashMap<u32, u32>,
}

/// The pending operations of a process on one VCI of a window.
pub(crate) struct Lane {
    pub vci: VciId,
    pub origin: Mutex<Origin>,
    /// Whether operations may be pending; set after an operation has begun.
    pub active: AtomicBool,
    confirmation: Mutex<Confirmation>,
    next_tag: AtomicI32,
    /// Pending operations on the network's remote memory.
    pub flight: Arc<Flight>,
}

impl Lane {
    /// Returns a tag for an answer.
    pub fn tag(&self) -> i32 {
        1 + (self.next_tag.fetch_add(1, Ordering::Relaxed) & 0x3fff_ffff)
    }

    /// Notes that a target must be flushed.
    pub fn mark_dirty(&self, target: u32) {
        self.confirmation.lock().dirty.insert(target);
    }

    /// Whether a target has not confirmed all operations of this lane, as far as it is noted here.
    pub fn is_unconfirmed(&self, target: u32) -> bool {
        let notes = self.confirmation.lock();
        notes.dirty.contains(&target) || notes.asked.contains_key(&target)
    }

    /// Returns whether a target must be asked for a confirmation.
    ///
    /// That is if it was noted, which `take` finds and clears, or if another thread waits for its
    /// confirmation. If so, the caller must call [`Lane::end_flush`] later.
    pub fn begin_flush(&self, target: u32, take: impl FnOnce() -> bool) -> bool {
        let mut notes = self.confirmation.lock();
        let wanted = take() || notes.asked.contains_key(&target);
        if wanted {
            *notes.asked.entry(target).or_default() += 1;
        }
        wanted
    }

    /// Returns which of one target or all must be asked for a confirmation, as
    /// [`Lane::begin_flush`] does.
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

    /// Targets that were asked and have not answered.
    pub fn asked(&self) -> Vec<u32> {
        self.confirmation.lock().asked.keys().copied().collect()
    }

    /// Notes that a target has confirmed, or has failed.
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

/// The lanes of a window; the first is for operations that need order.
pub(crate) struct Lanes {
    list: Box<[CachePadded<Lane>]>,
    /// Whether accumulates may take any lane.
    unordered: bool,
}

impl Lanes {
    /// Makes a lane on each VCI that the members of a window's communicator have agreed on.
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

    /// Returns this thread's lane, for operations that need no order with other threads'.
    #[inline]
    pub fn any(&self) -> usize {
        match self.list.len() {
            1 => 0,
            several => threads::number() % several,
        }
    }

    /// Whether accumulates need no order.
    pub fn are_unordered(&self) -> bool {
        self.unordered
    }

    /// Returns the lane for accumulates.
    #[inline]
    pub fn accumulate(&self) -> usize {
        if self.unordered { self.any() } else { 0 }
    }
}
