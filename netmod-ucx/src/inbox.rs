//! Where UCX's callbacks put what they have to say.
//!
//! UCX calls back from within its own functions: from progress above all, but from a send or a close
//! too. So a callback never touches the lane, which is borrowed then; it notes what happened here,
//! and the lane looks when UCX has returned. Only messages go straight to the sink, without a copy,
//! if the core is polling.

use crate::ffi::*;
use crate::order::Order;
use crate::wire::{HEAD, Head, Kind};
use netmod::{Header, Peer, Sink, VciId};
use netmod_kit::PeerTable;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;

/// What a request was about; the numbers are the lane's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A send buffer.
    Send(u32),
    /// An operation on remote memory.
    Op(u32),
    /// A part of a flush to a peer.
    Flush(u32),
    /// The flush of everything, before the process ends.
    Drain,
    /// Nothing that anyone waits for.
    Close,
}

/// Something for the lane to see to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request has ended.
    Ended(Work, ucs_status_t),
    /// An endpoint, by its number, has broken.
    Broken(u32, ucs_status_t),
    /// Memory that was asked for, by a number, is to be received from UCX's descriptor: so many bytes.
    Pulled(u64, *mut c_void, usize),
    /// A message that is not the core's.
    Internal(Head, Vec<u8>),
}

struct State {
    /// Who is told of messages; only during a poll.
    sink: Option<*mut dyn Sink>,
    /// Messages that arrived when nobody polled.
    held: VecDeque<(Peer, Header, Vec<u8>)>,
    events: VecDeque<Event>,
    streams: PeerTable<Order>,
    /// Who has sent something, in order of first contact, and from where.
    senders: Vec<(Peer, VciId)>,
    /// Messages and events since the count was last taken.
    count: usize,
}

/// What callbacks write to. It is at a fixed place, since UCX knows its address.
pub(crate) struct Inbox {
    state: UnsafeCell<State>,
    request_free: unsafe extern "C" fn(*mut c_void),
}

/// Argument of a request's callback, at a fixed place as long as the request.
pub(crate) struct Note {
    pub(crate) inbox: *const Inbox,
    pub(crate) work: Work,
}

impl Note {
    /// As callbacks get it.
    pub(crate) fn arg(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}

impl Inbox {
    pub(crate) fn new(request_free: unsafe extern "C" fn(*mut c_void), own: VciId) -> Box<Inbox> {
        Box::new(Inbox {
            state: UnsafeCell::new(State {
                sink: None,
                held: VecDeque::new(),
                events: VecDeque::new(),
                streams: PeerTable::new(own),
                senders: Vec::new(),
                count: 0,
            }),
            request_free,
        })
    }

    /// # Safety
    /// No other reference to the state is alive. All methods and callbacks hold theirs for a few
    /// lines in which nobody else is called, and the inbox is used by one thread at a time: by who
    /// holds the lane.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    unsafe fn state(&self) -> &mut State {
        // SAFETY: by the contract.
        unsafe { &mut *self.state.get() }
    }

    pub(crate) fn push(&self, event: Event) {
        // SAFETY: see `state`.
        let state = unsafe { self.state() };
        state.count += 1;
        state.events.push_back(event);
    }

    pub(crate) fn pop(&self) -> Option<Event> {
        // SAFETY: see `state`.
        unsafe { self.state() }.events.pop_front()
    }

    /// Whether something waits for a poll.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: see `state`.
        let state = unsafe { self.state() };
        state.events.is_empty() && state.held.is_empty()
    }

    /// The count of messages and events since it was last asked for.
    pub(crate) fn take_count(&self) -> usize {
        // SAFETY: see `state`.
        std::mem::take(&mut unsafe { self.state() }.count)
    }

    /// All who have sent something to this lane.
    pub(crate) fn senders(&self) -> Vec<(Peer, VciId)> {
        // SAFETY: see `state`.
        unsafe { self.state() }.senders.clone()
    }

    /// Runs `body`, in which UCX may call back, with `sink` told of messages, first of those that
    /// arrived earlier.
    pub(crate) fn with_sink(&self, sink: &mut dyn Sink, body: impl FnOnce()) {
        loop {
            // SAFETY: see `state`.
            let held = unsafe { self.state() }.held.pop_front();
            let Some((from, header, payload)) = held else {
                break;
            };
            sink.message(from, &header, &payload);
        }
        // SAFETY: the lifetime is forgotten, but the pointer is taken back before this returns:
        // nothing unwinds through UCX (callbacks abort instead).
        let sink: *mut dyn Sink =
            unsafe { std::mem::transmute::<*mut (dyn Sink + '_), *mut dyn Sink>(sink) };
        // SAFETY: see `state`.
        unsafe { self.state() }.sink = Some(sink);
        body();
        // SAFETY: see `state`.
        unsafe { self.state() }.sink = None;
    }

    fn deliver(&self, head: &Head, payload: &[u8]) {
        match head.kind {
            Kind::Message => self.message(head.peer, &head.header, payload),
            Kind::Bundle => {
                for (header, payload) in netmod_kit::bundle::messages(payload) {
                    self.message(head.peer, &header, payload);
                }
            }
            _ => self.push(Event::Internal(*head, payload.to_vec())),
        }
    }

    #[inline]
    fn message(&self, from: Peer, header: &Header, payload: &[u8]) {
        // SAFETY: see `state`.
        let state = unsafe { self.state() };
        state.count += 1;
        match state.sink {
            // SAFETY: the sink is borrowed by the poll that is under way, and is nobody else's. The
            // reference to the state is not used any longer.
            Some(sink) => unsafe { (*sink).message(from, header, payload) },
            None => state.held.push_back((from, *header, payload.to_vec())),
        }
    }

    fn arrived(&self, head: &Head, payload: &[u8]) {
        // SAFETY: see `state`.
        let state = unsafe { self.state() };
        let stream = state.streams.get(head.peer, head.vci);
        let turn = stream.arrived(head, payload);
        if head.seq == 0 {
            state.senders.push((head.peer, head.vci));
        }
        if !turn {
            return;
        }
        self.deliver(head, payload);
        loop {
            // SAFETY: see `state`.
            let stream = unsafe { self.state() }.streams.get(head.peer, head.vci);
            let Some((head, payload)) = stream.next() else {
                break;
            };
            self.deliver(&head, &payload);
        }
    }
}

/// A message has arrived.
///
/// # Safety
/// UCX calls it with what was registered: `arg` is an [`Inbox`].
pub(crate) unsafe extern "C" fn on_message(
    arg: *mut c_void,
    header: *const c_void,
    header_len: usize,
    data: *mut c_void,
    len: usize,
    param: *const ucp_am_recv_param,
) -> ucs_status_t {
    // SAFETY: the worker, which calls this, is destroyed before the inbox.
    let inbox = unsafe { &*arg.cast::<Inbox>() };
    // SAFETY: UCX passes a valid structure.
    let attr = unsafe { (*param).recv_attr };
    let bytes = |place: *const c_void, len: usize| -> &[u8] {
        if place.is_null() {
            return &[];
        }
        // SAFETY: UCX gives both places with so many bytes, which stay during the call.
        unsafe { std::slice::from_raw_parts(place.cast(), len) }
    };
    let (header, descriptor) = (bytes(header, header_len), data);
    // By UCX's rendezvous comes only what was asked for; what is not one of ours is dropped.
    if attr & UCP_AM_RECV_ATTR_FLAG_RNDV != 0 {
        let head = header.first_chunk::<HEAD>().and_then(Head::parse);
        return match head {
            Some(head) if head.kind == Kind::Pulled => {
                inbox.push(Event::Pulled(head.header.0[0], descriptor, len));
                UCS_INPROGRESS
            }
            _ => UCS_OK,
        };
    }
    let data = bytes(data, len);
    // The head stands before the payload, or by itself if that was sent from where it lay.
    let split = match header.first_chunk::<HEAD>() {
        Some(head) => Some((head, data)),
        None => data.split_first_chunk::<HEAD>(),
    };
    let Some((head, payload)) = split else {
        return UCS_OK;
    };
    if let Some(head) = Head::parse(head) {
        inbox.arrived(&head, payload);
    }
    UCS_OK
}

/// A request has ended.
///
/// # Safety
/// UCX calls it with what was given to the request: `arg` is a [`Note`].
pub(crate) unsafe extern "C" fn on_end(
    request: *mut c_void,
    status: ucs_status_t,
    arg: *mut c_void,
) {
    // SAFETY: notes live as long as the lane, which destroys the worker first.
    let note = unsafe { &*arg.cast::<Note>() };
    // SAFETY: as above.
    let inbox = unsafe { &*note.inbox };
    // SAFETY: the request has ended, and nobody else frees it.
    unsafe { (inbox.request_free)(request) };
    inbox.push(Event::Ended(note.work, status));
}

/// The data of a message has been received.
///
/// # Safety
/// As for [`on_end`].
pub(crate) unsafe extern "C" fn on_received(
    request: *mut c_void,
    status: ucs_status_t,
    _len: usize,
    arg: *mut c_void,
) {
    // SAFETY: passed on.
    unsafe { on_end(request, status, arg) };
}

/// Argument of [`on_break`].
pub(crate) struct Tie {
    pub(crate) inbox: *const Inbox,
    pub(crate) endpoint: u32,
}

/// An endpoint has broken.
///
/// # Safety
/// UCX calls it with what was given to the endpoint: `arg` is a [`Tie`].
pub(crate) unsafe extern "C" fn on_break(arg: *mut c_void, _ep: *mut ucp_ep, status: ucs_status_t) {
    // SAFETY: ties live as long as the lane, which destroys the worker first.
    let tie = unsafe { &*arg.cast::<Tie>() };
    // SAFETY: as above.
    unsafe { (*tie.inbox).push(Event::Broken(tie.endpoint, status)) };
}
