//! The lane: an engine of its own, or a share of one.

use crate::engine::Engine;
use netmod::{
    Header, Issued, Lane, LaneError, Payload, Peer, RemoteAccess, Signal, Sink, Token, VciId,
    WakeUp,
};
use netmod_kit::remote;
use std::sync::{Arc, Mutex, PoisonError};

/// An engine that several lanes share.
pub(crate) struct SharedEngine(Mutex<Engine>);

impl SharedEngine {
    pub(crate) fn new(engine: Engine) -> SharedEngine {
        SharedEngine(Mutex::new(engine))
    }

    fn with<T>(&self, vci: VciId, use_it: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        engine.turn = vci;
        use_it(&mut engine)
    }
}

/// The lane of one VCI.
pub(crate) enum VerbsLane {
    Alone(Box<Engine>),
    Shared { all: Arc<SharedEngine>, vci: VciId },
}

impl VerbsLane {
    pub(crate) fn alone(engine: Engine) -> VerbsLane {
        VerbsLane::Alone(Box::new(engine))
    }

    pub(crate) fn together(all: Arc<SharedEngine>, vci: VciId) -> VerbsLane {
        all.with(vci, |engine| {
            engine.inboxes.entry(vci).or_default();
        });
        VerbsLane::Shared { all, vci }
    }

    #[inline]
    fn with<T>(&mut self, use_it: impl FnOnce(&mut Engine) -> T) -> T {
        match self {
            VerbsLane::Alone(engine) => use_it(engine),
            VerbsLane::Shared { all, vci } => all.with(*vci, use_it),
        }
    }
}

impl Drop for VerbsLane {
    fn drop(&mut self) {
        if let VerbsLane::Shared { all, vci } = self {
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
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        self.with(|engine| match payload {
            Payload::Bytes(bytes) => engine.send_message(to, vci, header, bytes.len(), |room| {
                room.copy_from_slice(bytes);
            }),
            Payload::Fill(len, fill) => engine.send_message(to, vci, header, len, fill),
            Payload::Vectored(_) => Err(LaneError::Unsupported),
        })?;
        Ok(Issued::Complete)
    }

    fn check_peers(&mut self, _awaited: &[Peer], _sink: &mut dyn Sink) {
        // All connections are probed; losses are reported by the next poll.
        self.with(Engine::watch);
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        self.with(|engine| engine.progress(sink, budget))
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        // SAFETY: the caller's contract is the same.
        self.with(|engine| unsafe {
            remote::access(engine, peer, vci, access, (engine.turn, token))
        })
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        self.with(|engine| engine.issue_signal(peer, vci, signal))
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        self.with(|engine| engine.issue_flush(peer, token))
    }

    fn drained(&mut self) -> bool {
        self.with(Engine::is_drained)
    }

    fn wake_up(&self) -> WakeUp {
        match self {
            VerbsLane::Alone(engine) => engine.queue.wake_up().map_or(WakeUp::None, WakeUp::Fd),
            // A sleeper would be woken by other VCIs' messages.
            VerbsLane::Shared { .. } => WakeUp::None,
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
