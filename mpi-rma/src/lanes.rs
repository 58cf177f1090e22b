//! Which VCI an operation of a window takes, where its messages are to be served.
//!
//! A window has one VCI, or several that threads share out among themselves: each thread keeps to one
//! of them for what need not be in order with what other threads do. All that must be in order
//! (synchronisation, and accumulates unless the program says that it doesn't care) goes by the first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crossbeam_utils::CachePadded;
use netmod::VciId;
use parking_lot::Mutex;

use crate::pending::Origin;
use mpi_core::comm::Comm;
use mpi_core::process::threads;
use mpi_core::pt2pt::operations::Flight;

/// What a process has under way on one VCI of a window.
pub(crate) struct Lane {
    pub vci: VciId,
    pub origin: Mutex<Origin>,
    /// Set by whoever puts something under way, after that.
    pub active: AtomicBool,
    /// To which targets something was sent that no answer has confirmed. (Most of the first lane's
    /// are noted in [`crate::epochs::Epochs`].)
    dirty: Mutex<HashSet<u32>>,
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
        self.dirty.lock().insert(target);
    }

    /// Whether a target must be flushed.
    pub fn is_dirty(&self, target: u32) -> bool {
        self.dirty.lock().contains(&target)
    }

    /// Takes the targets to be flushed, or one of them.
    pub fn take_dirty(&self, target: Option<u32>) -> Vec<u32> {
        let mut dirty = self.dirty.lock();
        if dirty.is_empty() {
            return Vec::new();
        }
        match target {
            Some(target) => dirty.take(&target).into_iter().collect(),
            None => dirty.drain().collect(),
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
                dirty: Mutex::default(),
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
