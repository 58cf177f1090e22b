//! What the user may choose.

use netmod::{OpenError, Peer};
use netmod_kit::variables::Reader;

/// How much of the adapter the VCIs of a process share, from nothing to everything. More sharing
/// takes less of the adapter and costs speed when several threads communicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// A device context per VCI, as if each were a process.
    Context,
    /// One device context; each VCI has a thread domain, so its own hardware doorbell page without
    /// a lock. Where the device has no thread domains, as [`Sharing::Uar`].
    #[default]
    Domain,
    /// One device context with its few hardware doorbell pages; queue pairs share them as the
    /// driver has it.
    Uar,
    /// One completion queue for all VCIs.
    Cq,
    /// One queue pair per peer process and one completion queue for all VCIs.
    Qp,
}

impl Sharing {
    /// All levels, from the least sharing on.
    pub const ALL: [Sharing; 5] = [
        Sharing::Context,
        Sharing::Domain,
        Sharing::Uar,
        Sharing::Cq,
        Sharing::Qp,
    ];

    /// The name in `WEFT_VERBS_SHARING`.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Context => "context",
            Sharing::Domain => "domain",
            Sharing::Uar => "uar",
            Sharing::Cq => "cq",
            Sharing::Qp => "qp",
        }
    }

    /// The level of that name.
    pub fn named(name: &str) -> Option<Sharing> {
        Sharing::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Whether atomics are the adapter's, or messages that the target's poll answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atomics {
    /// The adapter's where it has them. They are atomic among each other; whether they are towards
    /// the target's processor is for the adapter to say.
    #[default]
    Auto,
    /// Always by messages.
    Emulated,
}

/// How to open a [`VerbsTransport`](crate::VerbsTransport).
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// Use only this device ("mlx5_0"), or this port of it ("mlx5_0:2").
    pub device: Option<String>,
    /// Use this entry of the port's table of addresses; otherwise the best one is chosen.
    pub gid_index: Option<u32>,
    /// What VCIs share.
    pub sharing: Sharing,
    /// Atomics: by the adapter or by messages.
    pub atomics: Atomics,
    /// Size of an eager buffer, in bytes, our headers included; 2,048 to 1 MiB.
    pub buffer_size: usize,
    /// Eager buffers for sending, per VCI; 8 to 16,384.
    pub send_buffers: usize,
    /// Messages that one VCI of a peer may have in our receive queue; 4 to 1,024. So many buffers
    /// are posted per connection.
    pub window: usize,
    /// The greatest number of receive buffers, per VCI; 16 to 32,768. Connections beyond are held
    /// back by the adapters themselves ("receiver not ready").
    pub recv_buffers: usize,
    /// Work requests that a queue pair holds; 16 to 4,096.
    pub send_queue: usize,
    /// Operations on remote memory that one VCI can have under way; 4 to 16,384.
    pub operations: usize,
    /// Gets and puts up to this size are copied through eager buffers; beyond that the memory is
    /// registered for the operation.
    pub copy_most: usize,
    /// The largest piece that get and put hand to the adapter at once, in bytes.
    pub max_part: usize,
    /// How long an adapter waits for a sign of another's, as the power of two of 4.096 µs.
    pub timeout: u8,
    /// How often it asks again before a peer is lost; up to 7, which Soft-RoCE takes for "for ever".
    pub retries: u8,
    /// Whether lanes offer a file descriptor to wake up by.
    pub wake_up: bool,
}

impl Config {
    /// The defaults for process `peer`.
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
            operations: 256,
            copy_most: 32 << 10,
            max_part: 1 << 30,
            timeout: 16,
            retries: 6,
            wake_up: true,
        }
    }

    /// As the control variables say.
    ///
    /// # Errors
    /// A value can't be understood.
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

    /// Whether the numbers are within their bounds.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bounds = [
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
            ("the number of operations", self.operations, 4, 16384),
            ("the largest copied access", self.copy_most, 0, 1 << 20),
            ("the largest part", self.max_part, 1, 1 << 30),
            ("the time-out", self.timeout.into(), 1, 31),
            ("the number of retries", self.retries.into(), 0, 7),
        ];
        for (what, value, least, most) in bounds {
            if value < least || value > most {
                return Err(OpenError(format!(
                    "{what} is {value}; it must be from {least} to {most}"
                )));
            }
        }
        Ok(())
    }
}
