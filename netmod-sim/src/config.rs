//! What a simulated network is like.

/// How long a message of some length is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// For every message, in nanoseconds.
    pub base: u64,
    /// For every byte, in picoseconds.
    pub per_byte: u64,
    /// At most this is added at random, in nanoseconds.
    pub jitter: u64,
}

/// Whether peers' memory can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Get {
    /// The transport says that it can't.
    Unsupported,
    /// It is done when the call returns.
    Immediate,
    /// It completes later.
    Delayed,
    /// For each get, chance decides between the two ways above.
    Mixed,
}

/// What a simulated network is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// Time under way.
    pub latency: Latency,
    /// The largest payload of a message, in bytes; at least 1,024.
    pub max_payload: usize,
    /// Messages under way to one VCI and not yet polled there; with more, senders are told to come
    /// again.
    pub depth: usize,
    /// Percentage of sends, reads and writes that are told to come again for no reason.
    pub again: u8,
    /// Messages that a lane takes between two polls before it wants the others in a row
    /// (`Lane::coalesce`). 0: it takes all.
    pub burst: u32,
    /// Reading peers' memory.
    pub get: Get,
    /// Percentage of pairs of processes between which reading and writing is refused, although the
    /// transport says that it can in general.
    pub get_refused: u8,
    /// Percentage of reads of [`Get::Delayed`] that are accepted and then reported as unsupported
    /// or out of room.
    pub get_fails: u8,
    /// Whether puts that have completed leave only when the peer is flushed, which is all that the
    /// contract promises. Not with [`SimConfig::ordered_put`].
    pub put_held: bool,
    /// Percentage of puts that take their data when they land, and complete then.
    pub put_delayed: u8,
    /// Percentage of these that are accepted and then reported as unsupported or out of room.
    pub put_fails: u8,
    /// Whether messages to different VCIs of a peer may overtake each other.
    pub reorder: bool,
    /// Whether puts keep their place among the messages of their stream.
    pub ordered_put: bool,
    /// Up to so many bytes, puts and gets keep their place among the atomics of their stream, and with each other; those
    /// gets complete later. With [`SimConfig::ordered_put`] only.
    pub ordered_access: usize,
    /// Whether polling a lane that has nothing moves the clock to the next event. For tests that
    /// make blocking calls.
    pub poll_steps: bool,
    /// How many events the log remembers.
    pub log: usize,
}

impl Default for SimConfig {
    /// A network of a microsecond and 10 GB/s, with room and without malice.
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
