//! A lane: an engine of its own, or a part in one.

use crate::engine::Engine;
use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, Peer, RemoteAddr, Sink, Token, VciId, WakeUp,
};
use std::sync::{Arc, Mutex, PoisonError};

/// An engine that several lanes share.
pub(crate) struct Together(Mutex<Engine>);

impl Together {
    pub(crate) fn new(engine: Engine) -> Together {
        Together(Mutex::new(engine))
    }

    fn with<T>(&self, vci: VciId, use_it: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        engine.turn = vci;
        use_it(&mut engine)
    }
}

/// One VCI's connection to its peers.
pub(crate) enum VerbsLane {
    Alone(Box<Engine>),
    Together { all: Arc<Together>, vci: VciId },
}

impl VerbsLane {
    pub(crate) fn alone(engine: Engine) -> VerbsLane {
        VerbsLane::Alone(Box::new(engine))
    }

    pub(crate) fn together(all: Arc<Together>, vci: VciId) -> VerbsLane {
        all.with(vci, |engine| {
            engine.inboxes.entry(vci).or_default();
        });
        VerbsLane::Together { all, vci }
    }

    #[inline]
    fn with<T>(&mut self, use_it: impl FnOnce(&mut Engine) -> T) -> T {
        match self {
            VerbsLane::Alone(engine) => use_it(engine),
            VerbsLane::Together { all, vci } => all.with(*vci, use_it),
        }
    }
}

impl Drop for VerbsLane {
    fn drop(&mut self) {
        if let VerbsLane::Together { all, vci } = self {
            all.with(*vci, |engine| engine.inboxes.remove(vci));
        }
    }
}

impl Lane for VerbsLane {
    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        self.with(|engine| {
            engine.send_message(to, vci, header, payload.len(), |room| {
                room.copy_from_slice(payload);
            })
        })
    }

    fn check_peers(&mut self, _awaited: &[Peer], _sink: &mut dyn Sink) {
        // All that are connected are looked after, and what is found is told by the next poll.
        self.with(Engine::watch);
    }

    fn send_with(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LaneError> {
        self.with(|engine| engine.send_message(to, vci, header, len, fill))
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        self.with(|engine| engine.progress(sink, budget))
    }

    unsafe fn get(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        // SAFETY: passed on.
        self.with(|engine| unsafe { engine.issue_get(peer, vci, local, len, remote, token) })
    }

    unsafe fn put(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        // SAFETY: passed on.
        self.with(|engine| unsafe { engine.issue_put(peer, vci, local, len, remote, token) })
    }

    fn signal(
        &mut self,
        peer: Peer,
        vci: VciId,
        data: &[u8],
        remote: RemoteAddr,
        words: &[u64],
        at: RemoteAddr,
    ) -> Result<(), LaneError> {
        self.with(|engine| engine.issue_signal(peer, vci, data, remote, words, at))
    }

    unsafe fn atomic(
        &mut self,
        peer: Peer,
        vci: VciId,
        op: AtomicOp,
        operand: u64,
        compare: u64,
        result: *mut u64,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        // SAFETY: passed on.
        self.with(|engine| unsafe {
            engine.issue_atomic(peer, vci, op, operand, compare, result, remote, token)
        })
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        self.with(|engine| {
            Ok(match engine.begin_flush(peer, token)? {
                true => Issued::Done,
                false => Issued::Pending,
            })
        })
    }

    fn drained(&mut self) -> bool {
        self.with(Engine::is_drained)
    }

    fn wake_up(&self) -> WakeUp {
        match self {
            VerbsLane::Alone(engine) => engine.queue.wake_up().map_or(WakeUp::None, WakeUp::Fd),
            // Who sleeps would be woken for others' messages, and others for his.
            VerbsLane::Together { .. } => WakeUp::None,
        }
    }

    fn arm(&mut self) -> bool {
        self.with(|engine| {
            engine.watch();
            engine.is_quiet() && !engine.one_for_all && engine.queue.arm()
        })
    }

    fn disarm(&mut self) {
        self.with(|engine| engine.queue.disarm());
    }
}
