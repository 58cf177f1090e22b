//! Settings of the transport.

use netmod::{OpenError, Peer};
use netmod_kit::variables::{Reader, check_bounds};

/// How much of the adapter the VCIs of a process share, from nothing to everything. More sharing
/// uses fewer resources and costs speed when several threads communicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// A device context per VCI, as if each were a process.
    Context,
    /// One device context; each VCI has a thread domain and thus its own hardware doorbell page
    /// without a lock. Devices without thread domains fall back to [`Sharing::Uar`].
    #[default]
    Domain,
    /// One device context with its few hardware doorbell pages, which queue pairs share as the
    /// driver decides.
    Uar,
    /// One completion queue for all VCIs.
    Cq,
    /// One queue pair per peer process and one completion queue for all VCIs.
    Qp,
}

impl Sharing {
    /// All levels, in order of increasing sharing.
    pub const ALL: [Sharing; 5] = [
        Sharing::Context,
        Sharing::Domain,
        Sharing::Uar,
        Sharing::Cq,
        Sharing::Qp,
    ];

    /// Returns the name in `WEFT_VERBS_SHARING`.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Context => "context",
            Sharing::Domain => "domain",
            Sharing::Uar => "uar",
            Sharing::Cq => "cq",
            Sharing::Qp => "qp",
        }
    }

    /// Returns the level of a name.
    pub fn named(name: &str) -> Option<Sharing> {
        Sharing::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Whether atomics are the adapter's, or emulated by messages that the target's poll answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atomics {
    /// The adapter's where available. They are atomic among themselves; the adapter decides whether
    /// they are so with respect to the target's processor.
    #[default]
    Auto,
    /// Always emulated by messages.
    Emulated,
}

/// How to open a [`VerbsTransport`](crate::VerbsTransport).
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// The only device ("mlx5_0") or port ("mlx5_0:2") to use.
    pub device: Option<String>,
    /// Entry of the port's address table to use; `None`: the best one.
    pub gid_index: Option<u32>,
    /// Level of sharing among VCIs.
    pub sharing: Sharing,
    /// Atomics: native or emulated.
    pub atomics: Atomics,
    /// Size of an eager buffer, in bytes, headers included; 2,048 to 1 MiB.
    pub buffer_size: usize,
    /// Eager buffers for sending, per VCI; 8 to 16,384.
    pub send_buffers: usize,
    /// Messages that one VCI of a peer may have in the local receive queue; 4 to 1,024. As many
    /// buffers are posted per connection.
    pub window: usize,
    /// Most receive buffers per VCI; 16 to 32,768. The adapters hold further connections back
    /// ("receiver not ready").
    pub recv_buffers: usize,
    /// Work requests that a queue pair holds; 16 to 4,096.
    pub send_queue: usize,
    /// Work requests per signalled one, from 1; up to half of the send queue count.
    pub signal_every: u32,
    /// Whether short data travels within work requests, if the device takes it.
    pub inline: bool,
    /// Most pending operations on remote memory of one VCI; 4 to 16,384.
    pub operations: usize,
    /// Bytes. Gets and puts up to this size are copied through eager buffers; for longer ones the
    /// memory is registered.
    pub copy_most: usize,
    /// Largest part of a get or put that is issued to the adapter, in bytes.
    pub max_part: usize,
    /// Time that an adapter waits for another's answer, as the power of two of 4.096 µs.
    pub timeout: u8,
    /// Retries before a peer is lost; up to 7, which Soft-RoCE takes as unlimited.
    pub retries: u8,
    /// Whether lanes offer a file descriptor as wake-up.
    pub wake_up: bool,
}

impl Config {
    /// Returns the defaults for process `peer`.
    pub fn new(peer: Peer) -> Self {
        Config {
            peer,
            library: "libibverbs.so.1".to_string(),
            device: None,
            gid_index: None,
            sharing: Sharing::default(),
            atomics: Atomics::default(),
            buffer_size: 8320,
            send_buffers: 64,
            window: 32,
            recv_buffers: 4096,
            send_queue: 128,
            signal_every: 64,
            inline: true,
            operations: 256,
            copy_most: 32 << 10,
            max_part: 1 << 30,
            timeout: 16,
            retries: 6,
            wake_up: true,
        }
    }

    /// Reads the control variables.
    ///
    /// # Errors
    /// A value is malformed.
    pub fn read(peer: Peer, variables: &Reader) -> Result<Self, String> {
        let mut config = Config::new(peer);
        if let Some(library) = variables.text("WEFT_VERBS_LIBRARY") {
            config.library = library;
        }
        config.device = variables.text("WEFT_VERBS_DEVICE");
        config.gid_index = variables
            .number("WEFT_VERBS_GID_INDEX", 0..=255)?
            .map(|index| index as u32);
        if let Some(text) = variables.text("WEFT_VERBS_SHARING") {
            config.sharing = Sharing::named(&text).ok_or_else(|| {
                format!("WEFT_VERBS_SHARING is {text:?}; it can be context, domain, uar, cq or qp")
            })?;
        }
        Ok(config)
    }

    /// Checks that the numbers are within their bounds.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        check_bounds(&[
            ("the eager buffer size", self.buffer_size, 2048, 1 << 20),
            ("the number of send buffers", self.send_buffers, 8, 16384),
            ("the window of messages", self.window, 4, 1024),
            (
                "the number of receive buffers",
                self.recv_buffers,
                16,
                32768,
            ),
            ("the send queue's length", self.send_queue, 16, 4096),
            (
                "the number of requests per signalled one",
                self.signal_every as usize,
                1,
                4096,
            ),
            ("the number of operations", self.operations, 4, 16384),
            ("the largest copied access", self.copy_most, 0, 1 << 20),
            ("the largest part", self.max_part, 1, 1 << 30),
            ("the time-out", self.timeout.into(), 1, 31),
            ("the number of retries", self.retries.into(), 0, 7),
        ])
    }
}
