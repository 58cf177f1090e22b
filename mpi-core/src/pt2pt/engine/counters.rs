//! What a VCI counts.

#![deny(unsafe_code)]

/// Counts kept per VCI, for performance variables and tests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent eagerly. (The transports' ways count them; see [`crate::Process::eager_sent`].)
    pub eager_sent: u64,
    /// Bytes of eager messages that were received, or kept as unexpected.
    pub eager_bytes_received: u64,
    /// Messages sent by rendezvous.
    pub rendezvous_sent: u64,
    /// Their bytes.
    pub rendezvous_bytes_sent: u64,
    /// Rendezvous messages received by reading the sender's memory.
    pub fetched: u64,
    /// Their bytes.
    pub fetched_bytes: u64,
    /// Rendezvous messages received through pipes, copied by both sides.
    pub piped: u64,
    /// Their bytes.
    pub piped_bytes: u64,
    /// Rendezvous messages sent in pieces.
    pub streamed: u64,
    /// Their bytes.
    pub streamed_bytes: u64,
    /// Rendezvous messages written to the receiver's memory by gather lists.
    pub gathered: u64,
    /// Their bytes.
    pub gathered_bytes: u64,
    /// Bytes with gaps that a transport wrote to their places itself.
    pub scattered_bytes: u64,
    /// Receives that are posted and have not matched, now.
    pub posted: u64,
    /// Messages that are unexpected, now.
    pub unexpected: u64,
    /// Messages that were unexpected when they came.
    pub unexpected_arrived: u64,
    /// Bytes of unexpected eager messages, now.
    pub unexpected_bytes: u64,
    /// The most that these have been since the start or [`crate::Process::take_peak`].
    pub unexpected_bytes_peak: u64,
    /// Puts of windows that went by the network's remote memory.
    pub native_puts: u64,
    /// Gets of windows that did.
    pub native_gets: u64,
    /// Accumulates of windows that went by the network's atomics.
    pub native_atomics: u64,
    /// Writes to peers' memory by collectives ([`netmod::Lane::signal`]).
    pub signals: u64,
    /// How often the VCI's lock was taken, but for sends that left at once.
    pub locked: u64,
    /// How often the lock was held by another thread when it was wanted.
    pub contended: u64,
}

impl Counters {
    /// A long message of so many bytes has gone through a pipe as a whole.
    pub(crate) fn count_piped_send(&mut self, bytes: u64) {
        self.rendezvous_sent += 1;
        self.rendezvous_bytes_sent += bytes;
        self.streamed += 1;
        self.streamed_bytes += bytes;
    }

    /// The counts of two VCIs together; of peaks, the greater.
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
            scattered_bytes: self.scattered_bytes + other.scattered_bytes,
            posted: self.posted + other.posted,
            unexpected: self.unexpected + other.unexpected,
            unexpected_arrived: self.unexpected_arrived + other.unexpected_arrived,
            unexpected_bytes: self.unexpected_bytes + other.unexpected_bytes,
            unexpected_bytes_peak: self.unexpected_bytes_peak.max(other.unexpected_bytes_peak),
            native_puts: self.native_puts + other.native_puts,
            native_gets: self.native_gets + other.native_gets,
            native_atomics: self.native_atomics + other.native_atomics,
            locked: self.locked + other.locked,
            signals: self.signals + other.signals,
            contended: self.contended + other.contended,
        }
    }
}
