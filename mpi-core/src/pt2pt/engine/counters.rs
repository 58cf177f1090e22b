//! Counters of a VCI.

#![deny(unsafe_code)]

/// Counters kept per VCI, for performance variables and tests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent eagerly. Inline messages are counted by the transports; see
    /// [`crate::Process::eager_sent`].
    pub eager_sent: u64,
    /// Bytes of eager messages received, including unexpected ones.
    pub eager_bytes_received: u64,
    /// Messages sent by rendezvous.
    pub rendezvous_sent: u64,
    /// Bytes of `rendezvous_sent`.
    pub rendezvous_bytes_sent: u64,
    /// Rendezvous messages received by reading the sender's memory.
    pub fetched: u64,
    /// Bytes of `fetched`.
    pub fetched_bytes: u64,
    /// Rendezvous messages received through pipelines, copied by both sides.
    pub piped: u64,
    /// Bytes of `piped`.
    pub piped_bytes: u64,
    /// Rendezvous messages sent in chunks.
    pub streamed: u64,
    /// Bytes of `streamed`.
    pub streamed_bytes: u64,
    /// Rendezvous messages written to the receiver's memory by gather lists.
    pub gathered: u64,
    /// Bytes of `gathered`.
    pub gathered_bytes: u64,
    /// Receives in the posted queue now.
    pub posted: u64,
    /// Messages in the unexpected queue now.
    pub unexpected: u64,
    /// Messages that were unexpected on arrival.
    pub unexpected_arrived: u64,
    /// Bytes of unexpected eager messages now.
    pub unexpected_bytes: u64,
    /// Maximum of `unexpected_bytes` since the start or [`crate::Process::take_peak`].
    pub unexpected_bytes_peak: u64,
    /// Puts of windows by the network's RDMA.
    pub native_puts: u64,
    /// Gets of windows by the network's RDMA.
    pub native_gets: u64,
    /// Accumulates of windows by the network's atomics.
    pub native_atomics: u64,
    /// Writes to peers' memory by collectives ([`netmod::Lane::signal`]).
    pub signals: u64,
    /// Acquisitions of the VCI's lock; turns of its owner are added when it is read.
    pub locked: u64,
    /// Owners' turns in `locked`, modulo 2^31.
    pub owner_turns: u32,
    /// Acquisitions that found the lock held by another thread.
    pub contended: u64,
}

impl Counters {
    /// Counts a rendezvous message of `bytes` bytes that went through a pipeline.
    pub(crate) fn count_piped_send(&mut self, bytes: u64) {
        self.rendezvous_sent += 1;
        self.rendezvous_bytes_sent += bytes;
        self.streamed += 1;
        self.streamed_bytes += bytes;
    }

    /// Adds the counters of two VCIs; takes the maximum of peaks.
    pub fn merge(self, other: Counters) -> Counters {
        Counters {
            eager_sent: self.eager_sent + other.eager_sent,
            eager_bytes_received: self.eager_bytes_received + other.eager_bytes_received,
            rendezvous_sent: self.rendezvous_sent + other.rendezvous_sent,
            rendezvous_bytes_sent: self.rendezvous_bytes_sent + other.rendezvous_bytes_sent,
            fetched: self.fetched + other.fetched,
            fetched_bytes: self.fetched_bytes + other.fetched_bytes,
            piped: self.piped + other.piped,
            piped_bytes: self.piped_bytes + other.piped_bytes,
            streamed: self.streamed + other.streamed,
            streamed_bytes: self.streamed_bytes + other.streamed_bytes,
            gathered: self.gathered + other.gathered,
            gathered_bytes: self.gathered_bytes + other.gathered_bytes,
            posted: self.posted + other.posted,
            unexpected: self.unexpected + other.unexpected,
            unexpected_arrived: self.unexpected_arrived + other.unexpected_arrived,
            unexpected_bytes: self.unexpected_bytes + other.unexpected_bytes,
            unexpected_bytes_peak: self.unexpected_bytes_peak.max(other.unexpected_bytes_peak),
            native_puts: self.native_puts + other.native_puts,
            native_gets: self.native_gets + other.native_gets,
            native_atomics: self.native_atomics + other.native_atomics,
            locked: self.locked + other.locked,
            owner_turns: self.owner_turns.wrapping_add(other.owner_turns),
            signals: self.signals + other.signals,
            contended: self.contended + other.contended,
        }
    }
}
