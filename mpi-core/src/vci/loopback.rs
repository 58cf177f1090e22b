//! The transport from a process to itself: queues in its own memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use netmod::*;
use parking_lot::{Mutex, RwLock};

use crate::wait::LocalWakeup;

/// Payloads are copied once into the queue and once out of it.
const MAX_PAYLOAD: usize = 16 * 1024;
/// A lane accepts this many messages that have not been polled.
const DEPTH: usize = 1024;
/// Buffers that a lane keeps for the next payloads.
const SPARE: usize = 16;

struct Message {
    header: Header,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Inbox {
    /// Looked at without the lock by the poller.
    filled: AtomicBool,
    queue: Mutex<VecDeque<Message>>,
}

/// The transport; `me` is the only peer it reaches.
pub struct Loopback {
    me: Peer,
    inboxes: Arc<RwLock<Vec<Arc<Inbox>>>>,
    wakeup: Arc<CachePadded<LocalWakeup>>,
}

impl Loopback {
    /// For process `me`, whose sleeping thread `wakeup` wakes.
    pub(crate) fn new(me: Peer, wakeup: Arc<CachePadded<LocalWakeup>>) -> Self {
        Loopback {
            me,
            inboxes: Arc::default(),
            wakeup,
        }
    }
}

fn inbox(inboxes: &RwLock<Vec<Arc<Inbox>>>, vci: VciId) -> Arc<Inbox> {
    if let Some(inbox) = inboxes.read().get(usize::from(vci)) {
        return inbox.clone();
    }
    let mut inboxes = inboxes.write();
    while inboxes.len() <= usize::from(vci) {
        inboxes.push(Arc::default());
    }
    inboxes[usize::from(vci)].clone()
}

impl Transport for Loopback {
    fn name(&self) -> &'static str {
        "self"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: MAX_PAYLOAD,
            eager: netmod::EAGER,
            get: true,
            native_rma: true,
            passive_target: true,
            zcopy_min: usize::MAX,
            ordered_put: true,
            signals: None,
            atomics: Some(netmod::Atomics {
                passive_target: true,
                coherent: true,
                ordered: true,
                ordered_access: 0,
            }),
            coalesces: false,
            max_vcis: usize::from(VciId::MAX),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(LoopbackLane {
            me: self.me,
            vci,
            own: VecDeque::new(),
            spare: Vec::new(),
            inbox: inbox(&self.inboxes, vci),
            inboxes: self.inboxes.clone(),
            wakeup: self.wakeup.clone(),
        }))
    }

    fn address(&self, _vci: VciId) -> Vec<u8> {
        Vec::new()
    }

    unsafe fn expose(&self, ptr: *mut u8, _len: usize) -> Result<RemoteKey, OpenError> {
        Ok(RemoteKey {
            address: ptr as u64,
            words: [0; 2],
        })
    }

    fn withdraw(&self, _key: &RemoteKey) {}
}

struct LoopbackLane {
    me: Peer,
    vci: VciId,
    /// What this lane sends to itself, which no other thread looks at.
    own: VecDeque<Message>,
    spare: Vec<Vec<u8>>,
    /// What other VCIs send to this one.
    inbox: Arc<Inbox>,
    inboxes: Arc<RwLock<Vec<Arc<Inbox>>>>,
    wakeup: Arc<CachePadded<LocalWakeup>>,
}

impl LoopbackLane {
    fn message(&mut self, header: &Header, payload: Payload<'_>) -> Result<Message, LaneError> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        match payload {
            Payload::Bytes(from) => bytes.extend_from_slice(from),
            Payload::Fill(len, fill) => {
                bytes.resize(len, 0);
                fill(&mut bytes);
            }
            Payload::Vectored(_) => return Err(LaneError::Unsupported),
        }
        Ok(Message {
            header: *header,
            payload: bytes,
        })
    }

    /// The next message: those of a sender come in the order in which they were sent.
    #[inline]
    fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.own.pop_front() {
            return Some(message);
        }
        if !self.inbox.filled.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.inbox.queue.lock();
        let message = queue.pop_front();
        if queue.is_empty() {
            self.inbox.filled.store(false, Ordering::Release);
        }
        message
    }
}

fn place(remote: RemoteAddr) -> *mut u8 {
    (remote.key.address + remote.offset) as *mut u8
}

impl Lane for LoopbackLane {
    fn send(
        &mut self,
        _to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        if vci == self.vci {
            if self.own.len() >= DEPTH {
                return Err(LaneError::Again);
            }
            let message = self.message(header, payload)?;
            self.own.push_back(message);
        } else {
            let inbox = inbox(&self.inboxes, vci);
            let mut queue = inbox.queue.lock();
            if queue.len() >= DEPTH {
                return Err(LaneError::Again);
            }
            queue.push_back(self.message(header, payload)?);
            inbox.filled.store(true, Ordering::Release);
        }
        self.wakeup.notify_after_store();
        Ok(Issued::Complete)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        // All that the VCI has sent to itself: a program that has sent much and tests once finds it done.
        let budget = budget.max(self.own.len());
        for done in 0..budget {
            let Some(Message { header, payload }) = self.next() else {
                return done > 0;
            };
            sink.message(self.me, &header, &payload);
            if self.spare.len() < SPARE {
                self.spare.push(payload);
            }
        }
        true
    }

    unsafe fn access(
        &mut self,
        _peer: Peer,
        _vci: VciId,
        access: RemoteAccess,
        _token: Token,
    ) -> Result<Issued, LaneError> {
        let RemoteAccess { local, len, .. } = access;
        let place = place(access.remote);
        // SAFETY: `local` is valid as the action needs it (`Lane::access`), and whoever exposed the
        // remote memory keeps it valid (`Transport::expose`). They may overlap. That of an atomic is
        // aligned to 8 bytes, and every access to it through the library is atomic.
        unsafe {
            match access.action {
                Action::Get => netmod_kit::copy_overlapping(place, local, len),
                Action::Put => netmod_kit::copy_overlapping(local, place, len),
                Action::Atomic {
                    op,
                    operand,
                    compare,
                } => {
                    let word = AtomicU64::from_ptr(place.cast());
                    let found = op.carry_out(word, operand, compare);
                    local.cast::<u64>().write(found);
                }
            }
        }
        Ok(Issued::Complete)
    }

    fn drained(&mut self) -> bool {
        true
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::None
    }

    fn arm(&mut self) -> bool {
        self.own.is_empty() && !self.inbox.filled.load(Ordering::Acquire)
    }

    fn disarm(&mut self) {}
}
