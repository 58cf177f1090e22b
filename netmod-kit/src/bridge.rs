//! Translates the peer numbers of a transport.
//!
//! Transports number their processes from 0, as a launcher does. Two jobs that connect at run time
//! open transports for their connection alone, in which the members of both have the connection's
//! numbers; a bridge translates these to the numbers by which the process knows them. So no
//! transport needs to know that there is more than one job, and closing a connection frees all that
//! it used.

use std::sync::Arc;

use netmod::{
    DirectCopy, Header, IoVec, Issued, Lane, LaneError, Limits, NodeLane, OpenError, Payload, Peer,
    RemoteAccess, RemoteKey, SharedMemory, Signal, Sink, Token, Transport, VciId, WakeUp,
};

/// Translates a contiguous block of numbers between the process and a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// First number in the process.
    pub outer: Peer,
    /// First number in the connection.
    pub inner: Peer,
    /// Length of the block.
    pub count: u32,
}

impl Numbers {
    /// Returns the connection's number of a peer of the process.
    #[inline]
    pub fn inside(&self, peer: Peer) -> Peer {
        peer.wrapping_sub(self.outer).wrapping_add(self.inner)
    }

    /// Returns the process's number of a peer of the connection, or `None` if it is outside of the
    /// block.
    #[inline]
    pub fn outside(&self, peer: Peer) -> Option<Peer> {
        let place = peer.wrapping_sub(self.inner);
        (place < self.count).then(|| self.outer + place)
    }

    fn error(&self, error: LaneError) -> LaneError {
        match error {
            LaneError::PeerLost(mut lost) => {
                lost.peer = self.outside(lost.peer).unwrap_or(lost.peer);
                LaneError::PeerLost(lost)
            }
            other => other,
        }
    }
}

/// A transport of a connection, under the process's numbers.
pub struct Bridge {
    inner: Arc<dyn Transport>,
    numbers: Numbers,
}

impl Bridge {
    /// Wraps a transport so that it takes and reports the process's numbers.
    pub fn new(inner: Arc<dyn Transport>, numbers: Numbers) -> Bridge {
        Bridge { inner, numbers }
    }
}

impl Transport for Bridge {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn considered(&self) -> Vec<String> {
        self.inner.considered()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(BridgedLane {
            inner: self.inner.open_lane(vci)?,
            numbers: self.numbers,
        }))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.inner.address(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        // SAFETY: the memory stays valid until it is withdrawn (`Transport::expose`).
        unsafe { self.inner.expose(ptr, len) }
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.inner.withdraw(key);
    }

    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        self.inner.shared_memory()
    }
}

struct BridgedLane {
    inner: Box<dyn Lane>,
    numbers: Numbers,
}

/// A sink that translates to the process's numbers.
struct NumberedSink<'a> {
    sink: &'a mut dyn Sink,
    numbers: Numbers,
}

impl Sink for NumberedSink<'_> {
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        if let Some(from) = self.numbers.outside(from) {
            self.sink.message(from, header, payload);
        }
    }

    fn destination(&mut self, from: Peer, header: &Header, len: usize) -> Option<(*mut u8, Token)> {
        let from = self.numbers.outside(from)?;
        self.sink.destination(from, header, len)
    }

    fn complete(&mut self, token: Token, result: Result<(), LaneError>) {
        let result = result.map_err(|error| self.numbers.error(error));
        self.sink.complete(token, result);
    }

    fn peer_lost(&mut self, peer: Peer, why: String) {
        if let Some(peer) = self.numbers.outside(peer) {
            self.sink.peer_lost(peer, why);
        }
    }
}

impl BridgedLane {
    fn inside(&self, peer: Peer) -> Peer {
        self.numbers.inside(peer)
    }

    fn translated<T>(&self, result: Result<T, LaneError>) -> Result<T, LaneError> {
        result.map_err(|error| self.numbers.error(error))
    }
}

impl Lane for BridgedLane {
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        let result = self.inner.send(self.inside(to), vci, header, payload);
        self.translated(result)
    }

    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        let numbers = self.numbers;
        let awaited: Vec<Peer> = awaited.iter().map(|peer| numbers.inside(*peer)).collect();
        self.inner
            .check_peers(&awaited, &mut NumberedSink { sink, numbers });
    }

    fn coalesce(&mut self, on: bool) {
        self.inner.coalesce(on);
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        let numbers = self.numbers;
        self.inner.poll(&mut NumberedSink { sink, numbers }, budget)
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let peer = self.inside(peer);
        // SAFETY: the caller's contract is the same.
        let issued = unsafe { self.inner.access(peer, vci, access, token) };
        self.translated(issued)
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        let peer = self.inside(peer);
        let result = self.inner.signal(peer, vci, signal);
        self.translated(result)
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        let result = self.inner.flush(self.inside(peer), token);
        self.translated(result)
    }

    fn drained(&mut self) -> bool {
        self.inner.drained()
    }

    fn wake_up(&self) -> WakeUp {
        self.inner.wake_up()
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn node(&mut self) -> Option<&mut dyn NodeLane> {
        match self.inner.node() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

/// Of what the node offers only direct copies: rings and pipelines name peers by the inner numbers.
impl NodeLane for BridgedLane {
    fn direct_copy(&mut self) -> Option<&mut dyn DirectCopy> {
        match self.inner.node()?.direct_copy() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl BridgedLane {
    fn inner_copy(&mut self) -> Result<&mut dyn DirectCopy, LaneError> {
        let node = self.inner.node().ok_or(LaneError::Unsupported)?;
        node.direct_copy().ok_or(LaneError::Unsupported)
    }
}

impl DirectCopy for BridgedLane {
    unsafe fn read(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError> {
        let (peer, numbers) = (self.inside(peer), self.numbers);
        let copy = self.inner_copy()?;
        // SAFETY: `local` is valid for writes of `len` bytes, and the peer has lent the bytes at
        // `address` (`DirectCopy`).
        let result = unsafe { copy.read(peer, vci, local, len, address) };
        result.map_err(|error| numbers.error(error))
    }

    unsafe fn write(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        address: u64,
    ) -> Result<(), LaneError> {
        let (peer, numbers) = (self.inside(peer), self.numbers);
        let copy = self.inner_copy()?;
        // SAFETY: `local` is valid for reads of `len` bytes, and the peer has lent the bytes at
        // `address` (`DirectCopy`).
        let result = unsafe { copy.write(peer, vci, local, len, address) };
        result.map_err(|error| numbers.error(error))
    }

    unsafe fn readv(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError> {
        let (peer, numbers) = (self.inside(peer), self.numbers);
        let copy = self.inner_copy()?;
        // SAFETY: the blocks are valid for writes, and the peer has lent the bytes at `address`
        // (`DirectCopy`).
        let result = unsafe { copy.readv(peer, vci, local, address) };
        result.map_err(|error| numbers.error(error))
    }

    unsafe fn writev(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: &[IoVec],
        address: u64,
    ) -> Result<(), LaneError> {
        let (peer, numbers) = (self.inside(peer), self.numbers);
        let copy = self.inner_copy()?;
        // SAFETY: the blocks are valid for reads, and the peer has lent the bytes at `address`
        // (`DirectCopy`).
        let result = unsafe { copy.writev(peer, vci, local, address) };
        result.map_err(|error| numbers.error(error))
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn numbers_are_translated_both_ways_and_strangers_have_none() {
        let numbers = Numbers {
            outer: 300,
            inner: 2,
            count: 3,
        };
        for peer in 300..303 {
            assert_eq!(numbers.outside(numbers.inside(peer)), Some(peer));
        }
        assert_eq!(numbers.inside(301), 3);
        for stranger in [0, 1, 5, u32::MAX] {
            assert_eq!(numbers.outside(stranger), None);
        }
    }
}
