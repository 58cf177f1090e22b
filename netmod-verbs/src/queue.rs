//! Completion queues: of one engine, or shared by all engines of a process.

use crate::calls::{errno, errno_text, poll_cq, req_notify_cq};
use crate::device::Context;
use crate::ffi::*;
use netmod::OpenError;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most completions taken at a time.
pub(crate) const BATCH: usize = 16;

/// Most engines that can share a queue, bounded by the bits for them in a work request's name.
pub(crate) const SLOTS: usize = 1 << 12;

/// Returns the engine that a completion belongs to.
pub(crate) fn slot_of(wr_id: u64) -> usize {
    (wr_id >> 52) as usize
}

/// A completion queue with its channel.
struct Cq {
    raw: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    entries: AtomicU32,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for Cq {}
// SAFETY: libibverbs' queues may be used by several threads at the same time.
unsafe impl Sync for Cq {}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: both are open and closed only here, the queue before its channel; all events are
        // acknowledged.
        unsafe {
            if !self.raw.is_null() {
                (self.context.lib.destroy_cq)(self.raw);
            }
            if !self.channel.is_null() {
                (self.context.lib.destroy_comp_channel)(self.channel);
            }
        }
    }
}

impl Cq {
    fn open(context: Arc<Context>, entries: u32, wake_up: bool) -> Result<Cq, OpenError> {
        let mut cq = Cq {
            raw: null_mut(),
            channel: null_mut(),
            entries: AtomicU32::new(entries),
            context,
        };
        let lib = cq.context.lib;
        if wake_up {
            // SAFETY: the context is open.
            cq.channel = unsafe { (lib.create_comp_channel)(cq.context.raw) };
            if !cq.channel.is_null() {
                // SAFETY: the channel's descriptor is open.
                unsafe {
                    let fd = (*cq.channel).fd;
                    let flags = libc::fcntl(fd, libc::F_GETFL);
                    libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
                }
            }
        }
        // SAFETY: context and channel are open.
        cq.raw =
            unsafe { (lib.create_cq)(cq.context.raw, entries as i32, null_mut(), cq.channel, 0) };
        if cq.raw.is_null() {
            let number = errno();
            let hint = match number {
                libc::ENOMEM => "; raise the limit on locked memory (ulimit -l)",
                libc::EMFILE | libc::ENFILE => "; raise the limit on open files (ulimit -n)",
                _ => "",
            };
            return Err(OpenError(format!(
                "cannot make a completion queue of {entries} entries: {}{hint}",
                errno_text(number)
            )));
        }
        Ok(cq)
    }

    /// Grows the queue to `entries`. Must be called by one thread at a time.
    fn grow(&self, entries: u32, most: u32) -> Result<(), String> {
        let now = self.entries.load(Ordering::Relaxed);
        if entries <= now {
            return Ok(());
        }
        if entries > most {
            return Err(format!(
                "its completions need a queue of {entries} entries; the adapter's limit is {most}"
            ));
        }
        let new = entries.max(2 * now).min(most);
        // SAFETY: the queue is open.
        let rc = unsafe { (self.context.lib.resize_cq)(self.raw, new as i32) };
        if rc != 0 {
            return Err(format!(
                "cannot grow a completion queue to {new} entries: {}",
                errno_text(rc)
            ));
        }
        self.entries.store(new, Ordering::Relaxed);
        Ok(())
    }

    fn poll(&self, into: &mut [MaybeUninit<ibv_wc>]) -> usize {
        // SAFETY: the queue is open, and `into` has space for its length in entries.
        let got = unsafe { poll_cq(self.raw, into.len() as i32, into.as_mut_ptr().cast()) };
        got.max(0) as usize
    }
}

/// Completions of engines that share a queue, sorted by engine.
struct Inboxes {
    boxes: Vec<Option<VecDeque<ibv_wc>>>,
    needed: u32,
}

/// A queue that several engines share.
pub(crate) struct SharedQueue {
    cq: Cq,
    inboxes: Mutex<Inboxes>,
}

impl SharedQueue {
    pub(crate) fn open(context: Arc<Context>, entries: u32) -> Result<SharedQueue, OpenError> {
        Ok(SharedQueue {
            // A sleeper would be woken by other engines' completions, so there is no wake-up.
            cq: Cq::open(context, entries, false)?,
            inboxes: Mutex::new(Inboxes {
                boxes: Vec::new(),
                needed: 0,
            }),
        })
    }
}

/// An engine's access to its completions.
pub(crate) enum Queue {
    Own {
        cq: OwnQueue,
    },
    Shared {
        queue: Arc<SharedQueue>,
        slot: usize,
    },
}

/// A queue of one engine.
pub(crate) struct OwnQueue {
    cq: Cq,
    needed: u32,
    /// A completion taken when the engine was about to sleep.
    stash: Option<ibv_wc>,
    armed: bool,
}

impl Queue {
    pub(crate) fn own(
        context: Arc<Context>,
        entries: u32,
        wake_up: bool,
    ) -> Result<Queue, OpenError> {
        Ok(Queue::Own {
            cq: OwnQueue {
                cq: Cq::open(context, entries, wake_up)?,
                needed: 0,
                stash: None,
                armed: false,
            },
        })
    }

    pub(crate) fn share(queue: Arc<SharedQueue>) -> Result<Queue, OpenError> {
        let slot = {
            let mut inboxes = queue.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
            let free = inboxes.boxes.iter().position(Option::is_none);
            let slot = free.unwrap_or(inboxes.boxes.len());
            if slot >= SLOTS {
                return Err(OpenError(format!(
                    "more than {SLOTS} VCIs cannot share a completion queue"
                )));
            }
            if free.is_none() {
                inboxes.boxes.push(None);
            }
            inboxes.boxes[slot] = Some(VecDeque::new());
            slot
        };
        Ok(Queue::Shared { queue, slot })
    }

    /// Returns the engine's number for the names of work requests.
    pub(crate) fn slot(&self) -> usize {
        match self {
            Queue::Own { .. } => 0,
            Queue::Shared { slot, .. } => *slot,
        }
    }

    pub(crate) fn raw(&self) -> *mut ibv_cq {
        self.cq().raw
    }

    fn cq(&self) -> &Cq {
        match self {
            Queue::Own { cq } => &cq.cq,
            Queue::Shared { queue, .. } => &queue.cq,
        }
    }

    /// Reserves space for `more` completions beyond those reserved before.
    pub(crate) fn reserve(&mut self, more: u32, most: u32) -> Result<(), String> {
        match self {
            Queue::Own { cq } => {
                cq.cq.grow(cq.needed + more, most)?;
                cq.needed += more;
            }
            Queue::Shared { queue, .. } => {
                let mut inboxes = queue.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
                queue.cq.grow(inboxes.needed + more, most)?;
                inboxes.needed += more;
            }
        }
        Ok(())
    }

    /// Takes completions of this engine. Returns their number.
    #[inline]
    pub(crate) fn poll(&mut self, into: &mut [MaybeUninit<ibv_wc>; BATCH], want: usize) -> usize {
        match self {
            Queue::Own { cq } => {
                if let Some(first) = cq.stash.take() {
                    into[0].write(first);
                    return 1;
                }
                cq.cq.poll(&mut into[..want])
            }
            Queue::Shared { queue, slot } => shared_poll(queue, *slot, into, want),
        }
    }

    /// Returns the descriptor that a sleeper waits on.
    pub(crate) fn wake_up(&self) -> Option<RawFd> {
        let Queue::Own { cq } = self else {
            return None;
        };
        // SAFETY: a non-null channel is open as long as the queue.
        (!cq.cq.channel.is_null()).then(|| unsafe { (*cq.cq.channel).fd })
    }

    /// Requests an event on the next completion. Returns `false` if there is a completion already,
    /// or no channel.
    pub(crate) fn arm(&mut self) -> bool {
        let Queue::Own { cq } = self else {
            return false;
        };
        if cq.stash.is_some() || cq.cq.channel.is_null() {
            return false;
        }
        // SAFETY: the queue is open and has a channel.
        if unsafe { req_notify_cq(cq.cq.raw) } != 0 {
            return false;
        }
        cq.armed = true;
        // A completion from before the request causes no event.
        let mut one = [MaybeUninit::uninit(); 1];
        if cq.cq.poll(&mut one) == 0 {
            return true;
        }
        // SAFETY: one entry was written.
        cq.stash = Some(unsafe { one[0].assume_init() });
        false
    }

    /// Takes and acknowledges the events that have occurred.
    pub(crate) fn disarm(&mut self) {
        let Queue::Own { cq } = self else { return };
        if !std::mem::take(&mut cq.armed) {
            return;
        }
        let lib = cq.cq.context.lib;
        let mut count = 0;
        loop {
            let (mut which, mut data) = (null_mut(), null_mut());
            // SAFETY: the channel is open and does not block.
            if unsafe { (lib.get_cq_event)(cq.cq.channel, &mut which, &mut data) } != 0 {
                break;
            }
            count += 1;
        }
        if count > 0 {
            // SAFETY: `count` events of this queue, the channel's only one, were taken.
            unsafe { (lib.ack_cq_events)(cq.cq.raw, count) };
        }
    }
}

/// Takes completions from the engine's inbox. Fills all inboxes first if it is empty.
fn shared_poll(
    queue: &SharedQueue,
    slot: usize,
    into: &mut [MaybeUninit<ibv_wc>; BATCH],
    want: usize,
) -> usize {
    let mut inboxes = queue.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
    let is_empty = |inboxes: &Inboxes| inboxes.boxes[slot].as_ref().is_none_or(VecDeque::is_empty);
    if is_empty(&inboxes) {
        let got = queue.cq.poll(into);
        for entry in &into[..got] {
            // SAFETY: the first `got` entries were written.
            let wc = unsafe { entry.assume_init() };
            // Completions of a closed engine are dropped.
            if let Some(Some(inbox)) = inboxes.boxes.get_mut(slot_of(wc.wr_id)) {
                inbox.push_back(wc);
            }
        }
    }
    let Some(inbox) = &mut inboxes.boxes[slot] else {
        return 0;
    };
    let count = want.min(inbox.len());
    for (place, wc) in into.iter_mut().zip(inbox.drain(..count)) {
        place.write(wc);
    }
    count
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.disarm();
        if let Queue::Shared { queue, slot } = self {
            let mut inboxes = queue.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
            inboxes.boxes[*slot] = None;
        }
    }
}
