//! What stands in a VCI's list of routes where a transport is no longer, or not on this VCI: so the others keep
//! their places.

use std::sync::Arc;

use netmod::*;

use super::{Route, VciState};
use crate::pt2pt::engine::Address;
use netmod_kit::event;

/// No transport at all.
struct Absent;

impl Transport for Absent {
    fn name(&self) -> &'static str {
        "none"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: 1024,
            eager: 0,
            get: false,
            native_rma: false,
            passive_target: false,
            zcopy_min: usize::MAX,
            ordered_put: false,
            signals: None,
            atomics: None,
            coalesces: false,
            max_vcis: 0,
        }
    }

    fn open_lane(&self, _vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(Absent))
    }

    fn address(&self, _vci: VciId) -> Vec<u8> {
        Vec::new()
    }

    unsafe fn expose(&self, _ptr: *mut u8, _len: usize) -> Result<RemoteKey, OpenError> {
        Err(OpenError("the connection has ended".to_string()))
    }

    fn withdraw(&self, _key: &RemoteKey) {}
}

fn gone(peer: Peer) -> LaneError {
    LaneError::lost(peer, "the connection with its job has ended")
}

impl Lane for Absent {
    fn send(
        &mut self,
        to: Peer,
        _: VciId,
        _: &Header,
        _: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        Err(gone(to))
    }

    fn poll(&mut self, _: &mut dyn Sink, _: usize) -> bool {
        false
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        _: VciId,
        _: RemoteAccess,
        _: Token,
    ) -> Result<Issued, LaneError> {
        Err(gone(peer))
    }

    fn flush(&mut self, peer: Peer, _: Token) -> Result<Issued, LaneError> {
        Err(gone(peer))
    }

    fn drained(&mut self) -> bool {
        true
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::None
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}
}

impl Route {
    /// Whether there is no transport here.
    pub(super) fn is_absent(&self) -> bool {
        self.limits.max_vcis == 0
    }
}

impl VciState {
    /// Puts a transport at a place of the list of routes.
    pub fn add_route(
        &mut self,
        index: usize,
        transport: &Arc<dyn Transport>,
        eager_limit: Option<usize>,
    ) -> Result<(), OpenError> {
        let route = Route::open(self.engine.vci, transport, eager_limit)?;
        while self.routes.len() <= index {
            let absent: Arc<dyn Transport> = Arc::new(Absent);
            self.routes.push(Route::open(0, &absent, None)?);
        }
        event!(
            Route,
            Info,
            "VCI {}: transport {index} is {}",
            self.engine.vci,
            transport.name()
        );
        self.routes[index] = route;
        Ok(())
    }

    /// Takes a transport off the list, and closes its lane.
    pub fn remove_route(&mut self, index: usize) {
        event!(
            Route,
            Info,
            "VCI {}: transport {index} is closed",
            self.engine.vci
        );
        // Those that were there from the start stay: what points into their lanes would not survive them.
        debug_assert!(self.rx_ring.as_ref().is_none_or(|(_, own)| *own != index));
        let absent: Arc<dyn Transport> = Arc::new(Absent);
        if let (Some(place), Ok(route)) =
            (self.routes.get_mut(index), Route::open(0, &absent, None))
        {
            *place = route;
        }
        while self.routes.last().is_some_and(Route::is_absent) {
            self.routes.pop();
        }
    }

    /// Whether what was given to one transport has left.
    pub fn has_drained(&mut self, index: usize) -> bool {
        let route = self.routes.get_mut(index);
        route.is_none_or(|route| route.lane.drained())
    }

    /// Forgets all about a peer whose number another may get.
    pub fn forget_peer(&mut self, peer: Peer) {
        self.engine.streams.forget(peer);
        self.waiting.retain(|to: &Address| to.peer != peer);
        self.engine.lost.retain(|(lost, _)| *lost != peer);
        self.engine.lost_members.retain(|(lost, _)| *lost != peer);
        self.engine
            .notices
            .retain(|notice| notice.with.peer != peer);
        self.losses_are_known();
    }
}
