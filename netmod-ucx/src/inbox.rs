//! The inbox, to which UCX's callbacks write.
//!
//! UCX calls back from within its own functions: mostly from progress, but also from a send or a
//! close. So a callback never touches the lane, which is borrowed then; it records the event here,
//! and the lane handles it when UCX has returned. Only messages go to the sink directly, without a
//! copy, if the core is polling.

use crate::ffi::*;
use crate::order::Order;
use crate::wire::{HEAD, Head, MessageKind};
use netmod::{Header, Peer, Sink, VciId};
use netmod_kit::PeerTable;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;

/// The purpose of a request; the numbers are the lane's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A send buffer.
    Send(u32),
    /// An operation on remote memory.
    Op(u32),
    /// A part of a flush to a peer.
    Flush(u32),
    /// The flush of all endpoints, before the process ends.
    Drain,
    /// The close of an endpoint.
    Close,
}

/// An event for the lane.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request has ended.
    Ended(Work, ucs_status_t),
    /// An endpoint, by its number, has broken.
    Broken(u32, ucs_status_t),
    /// A message of the transport itself.
    Internal(Head, Vec<u8>),
}

struct State {
    /// The receiver of messages; set only during a poll.
    sink: Option<*mut dyn Sink>,
    /// Messages that arrived outside of a poll.
    held: VecDeque<(Peer, Header, Vec<u8>)>,
    events: VecDeque<Event>,
    streams: PeerTable<Order>,
    /// Senders of messages, in order of first contact.
    senders: Vec<(Peer, VciId)>,
    /// Messages and events since the last [`Inbox::take_count`].
    count: usize,
}

/// The events of a lane, at a fixed address, which UCX knows.
pub(crate) struct Inbox {
    state: UnsafeCell<State>,
    request_free: unsafe extern "C" fn(*mut c_void),
}

/// Argument of a request's callback, at a fixed address as long as the request.
pub(crate) struct Note {
    pub(crate) inbox: *const Inbox,
    pub(crate) work: Work,
}

impl Note {
    /// Returns the pointer that callbacks get.
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

    /// Returns the state.
    ///
    /// # Safety
    /// No other reference to the state is alive. All methods and callbacks hold theirs for a few
    /// lines in which no other code is called, and the inbox is used by one thread at a time: the
    /// one that holds the lane.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    unsafe fn state(&self) -> &mut State {
        // SAFETY: no other reference to the state is alive, by the caller's contract.
        unsafe { &mut *self.state.get() }
    }

    pub(crate) fn push(&self, event: Event) {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        let state = unsafe { self.state() };
        state.count += 1;
        state.events.push_back(event);
    }

    pub(crate) fn pop(&self) -> Option<Event> {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        unsafe { self.state() }.events.pop_front()
    }

    /// Returns whether no event or message waits for a poll.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        let state = unsafe { self.state() };
        state.events.is_empty() && state.held.is_empty()
    }

    /// Returns and resets the count of messages and events.
    pub(crate) fn take_count(&self) -> usize {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        std::mem::take(&mut unsafe { self.state() }.count)
    }

    /// Lists all senders of messages to this lane.
    pub(crate) fn senders(&self) -> Vec<(Peer, VciId)> {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        unsafe { self.state() }.senders.clone()
    }

    /// Runs `body`, in which UCX may call back, with `sink` receiving messages, after those that
    /// arrived earlier.
    pub(crate) fn with_sink(&self, sink: &mut dyn Sink, body: impl FnOnce()) {
        loop {
            // SAFETY: the reference ends before any other code is called; one thread at a time uses
            // the lane.
            let held = unsafe { self.state() }.held.pop_front();
            let Some((from, header, payload)) = held else {
                break;
            };
            sink.message(from, &header, &payload);
        }
        // SAFETY: the pointer is removed before this returns, so it does not outlive the borrow: no
        // unwinding passes UCX (callbacks abort instead).
        let sink: *mut dyn Sink =
            unsafe { std::mem::transmute::<*mut (dyn Sink + '_), *mut dyn Sink>(sink) };
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        unsafe { self.state() }.sink = Some(sink);
        body();
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        unsafe { self.state() }.sink = None;
    }

    fn deliver(&self, head: &Head, payload: &[u8]) {
        match head.kind {
            MessageKind::Message => self.message(head.peer, &head.header, payload),
            MessageKind::Bundle => {
                for (header, payload) in netmod_kit::bundle::messages(payload) {
                    self.message(head.peer, &header, payload);
                }
            }
            _ => self.push(Event::Internal(*head, payload.to_vec())),
        }
    }

    #[inline]
    fn message(&self, from: Peer, header: &Header, payload: &[u8]) {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
        let state = unsafe { self.state() };
        state.count += 1;
        match state.sink {
            // SAFETY: the current poll borrows the sink exclusively (see `with_sink`), and the
            // reference to the state is no longer used.
            Some(sink) => unsafe { (*sink).message(from, header, payload) },
            None => state.held.push_back((from, *header, payload.to_vec())),
        }
    }

    fn arrived(&self, head: &Head, payload: &[u8]) {
        // SAFETY: the reference ends before any other code is called; one thread at a time uses the
        // lane.
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
            // SAFETY: the reference ends before any other code is called; one thread at a time uses
            // the lane.
            let stream = unsafe { self.state() }.streams.get(head.peer, head.vci);
            let Some((head, payload)) = stream.next() else {
                break;
            };
            self.deliver(&head, &payload);
        }
    }
}

/// Handles a received message.
///
/// # Safety
/// UCX calls it with the registered argument: `arg` is an [`Inbox`].
pub(crate) unsafe extern "C" fn on_message(
    arg: *mut c_void,
    header: *const c_void,
    header_len: usize,
    data: *mut c_void,
    len: usize,
    param: *const ucp_am_recv_param,
) -> ucs_status_t {
    // SAFETY: `arg` is the lane's inbox, which outlives the worker that calls this.
    let inbox = unsafe { &*arg.cast::<Inbox>() };
    // SAFETY: UCX passes a valid structure.
    let attr = unsafe { (*param).recv_attr };
    let bytes = |place: *const c_void, len: usize| -> &[u8] {
        if place.is_null() {
            return &[];
        }
        // SAFETY: UCX passes valid memory of this length for the duration of the call.
        unsafe { std::slice::from_raw_parts(place.cast(), len) }
    };
    // No message is sent by UCX's rendezvous, whose `data` would not be the payload.
    if attr & UCP_AM_RECV_ATTR_FLAG_RNDV != 0 {
        return UCS_OK;
    }
    let (header, data) = (bytes(header, header_len), bytes(data, len));
    // The head is before the payload, or in UCX's header if the payload was sent without a copy.
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

/// Handles the end of a request.
///
/// # Safety
/// UCX calls it with the request's argument: `arg` is a [`Note`].
pub(crate) unsafe extern "C" fn on_end(
    request: *mut c_void,
    status: ucs_status_t,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is a note, which lives as long as the lane; the lane destroys the worker first.
    let note = unsafe { &*arg.cast::<Note>() };
    // SAFETY: the inbox lives as long as the lane, which destroys the worker first.
    let inbox = unsafe { &*note.inbox };
    // SAFETY: the request has ended, and only this callback frees it.
    unsafe { (inbox.request_free)(request) };
    inbox.push(Event::Ended(note.work, status));
}

/// Argument of [`on_break`].
pub(crate) struct Tie {
    pub(crate) inbox: *const Inbox,
    pub(crate) endpoint: u32,
}

/// Handles a broken endpoint.
///
/// # Safety
/// UCX calls it with the endpoint's argument: `arg` is a [`Tie`].
pub(crate) unsafe extern "C" fn on_break(arg: *mut c_void, _ep: *mut ucp_ep, status: ucs_status_t) {
    // SAFETY: `arg` is a tie, which lives as long as the lane; the lane destroys the worker first.
    let tie = unsafe { &*arg.cast::<Tie>() };
    // SAFETY: the inbox lives as long as the lane, which destroys the worker first.
    unsafe { (*tie.inbox).push(Event::Broken(tie.endpoint, status)) };
}
