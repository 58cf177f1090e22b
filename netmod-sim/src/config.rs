//! Properties of a simulated network.

/// Latency of messages by length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// Nanoseconds for every message.
    pub base: u64,
    /// Picoseconds for every byte.
    pub per_byte: u64,
    /// Largest random addition, in nanoseconds.
    pub jitter: u64,
}

/// Support for reading peers' memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Get {
    /// The transport does not support it.
    Unsupported,
    /// It completes immediately.
    Immediate,
    /// It completes later.
    Delayed,
    /// Each get completes immediately or later, at random.
    Mixed,
}

/// Properties of a simulated network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// Latency of messages.
    pub latency: Latency,
    /// Largest payload of a message, in bytes; at least 1,024.
    pub max_payload: usize,
    /// Most messages in flight to one VCI or not yet polled there; beyond it senders get `Again`.
    pub depth: usize,
    /// Percentage of sends, reads and writes that get `Again` without a reason.
    pub again: u8,
    /// Messages that a lane accepts between two polls before it wants the others in a batch
    /// (`Lane::coalesce`). 0: unlimited.
    pub burst: u32,
    /// Reading peers' memory.
    pub get: Get,
    /// Percentage of pairs of processes between which reading and writing is refused, although the
    /// transport supports it in general.
    pub get_refused: u8,
    /// Percentage of reads of [`Get::Delayed`] that are accepted and then fail as unsupported or
    /// for lack of resources.
    pub get_fails: u8,
    /// Whether completed puts leave only when the peer is flushed, which is all that the contract
    /// promises. Not with [`SimConfig::ordered_put`].
    pub put_held: bool,
    /// Percentage of puts that read their data when they land, and complete then.
    pub put_delayed: u8,
    /// Percentage of these that are accepted and then fail as unsupported or for lack of resources.
    pub put_fails: u8,
    /// Whether messages to different VCIs of a peer may overtake each other.
    pub reorder: bool,
    /// Whether puts are ordered with the messages of their stream.
    pub ordered_put: bool,
    /// Largest puts and gets, in bytes, that are ordered with the atomics of their stream, and with
    /// each other; those gets complete later. With [`SimConfig::ordered_put`] only.
    pub ordered_access: usize,
    /// Whether polling an idle lane moves the clock to the next event. For tests that make blocking
    /// calls.
    pub poll_steps: bool,
    /// Number of events in the log.
    pub log: usize,
}

impl Default for SimConfig {
    /// A network of a microsecond and 10 GB/s, without bounds and failures.
    fn default() -> Self {
        SimConfig {
            latency: Latency {
                base: 1_000,
                per_byte: 100,
                jitter: 0,
            },
            max_payload: 8192,
            depth: usize::MAX,
            again: 0,
            burst: 0,
            get: Get::Immediate,
            get_refused: 0,
            get_fails: 0,
            put_held: false,
            put_delayed: 0,
            put_fails: 0,
            reorder: false,
            ordered_put: true,
            ordered_access: 0,
            poll_steps: false,
            log: 64,
        }
    }
}
