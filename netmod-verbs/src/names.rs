//! Names of completions: the kind in bits 48 to 51; from bit 52 on, the engine's number where
//! several share a queue.

/// A work request of a connection: the connection's number, and the low 24 bits of the request's.
pub(crate) const SEND: u64 = 0;
/// A buffer of the shared receive queue.
pub(crate) const RECV: u64 = 1 << 48;
/// A received datagram.
pub(crate) const DATAGRAM: u64 = 2 << 48;
/// A sent datagram.
pub(crate) const DATAGRAM_SENT: u64 = 3 << 48;
/// All of the bits.
pub(crate) const MASK: u64 = 0xf << 48;
