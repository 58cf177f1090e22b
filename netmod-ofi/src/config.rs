//! Settings of the transport.

use netmod::{OpenError, Peer};
use netmod_kit::variables::{Reader, check_bounds};

/// Whether a feature of the provider is used, or emulated by messages that the target's poll
/// answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Offload {
    /// The provider's where that pays off.
    #[default]
    Auto,
    /// The provider's wherever available.
    Native,
    /// Always emulated by messages.
    Emulated,
}

/// How to open an [`OfiTransport`](crate::OfiTransport).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// The only provider to use, by libfabric's name ("tcp", "tcp;ofi_rxm", "verbs;ofi_rxm").
    pub provider: Option<String>,
    /// The only interface to use: a domain ("eth0", "mlx5_0"), a fabric ("192.0.2.0/24") or an IP
    /// address of this host.
    pub interface: Option<String>,
    /// Size of an eager buffer, in bytes, headers included; 2,048 to 1 MiB. `None`: 16 KiB, but
    /// over TCP 64 KiB and headers.
    pub buffer_size: Option<usize>,
    /// Eager buffers for sending, per lane; 4 to 16,384.
    pub send_buffers: usize,
    /// Eager buffers posted for receiving, per lane; 4 to 16,384.
    pub recv_buffers: usize,
    /// Most pending operations on remote memory of one lane; 4 to 16,384.
    pub operations: usize,
    /// Largest part of a get or put, in bytes.
    pub max_part: usize,
    /// Whether to register local memory even if the provider does not need it.
    pub register_local: bool,
    /// Get and put: native or emulated.
    pub rma: Offload,
    /// Atomics: native or emulated.
    pub atomics: Offload,
    /// Whether lanes offer a file descriptor as wake-up, if the provider has one.
    pub wake_up: bool,
}

impl Config {
    /// Returns the defaults for process `peer`.
    pub fn new(peer: Peer) -> Self {
        Config {
            peer,
            library: "libfabric.so.1".to_string(),
            provider: None,
            interface: None,
            buffer_size: None,
            send_buffers: 64,
            recv_buffers: 64,
            operations: 256,
            max_part: 1 << 30,
            register_local: false,
            rma: Offload::Auto,
            atomics: Offload::Auto,
            wake_up: true,
        }
    }

    /// Reads the control variables.
    ///
    /// # Errors
    /// A value is malformed.
    pub fn read(peer: Peer, variables: &Reader) -> Result<Self, String> {
        let mut config = Config::new(peer);
        if let Some(library) = variables.text("WEFT_OFI_LIBRARY") {
            config.library = library;
        }
        config.provider = variables.text("WEFT_OFI_PROVIDER");
        config.interface = variables.text("WEFT_OFI_INTERFACE");
        let offload = |name: &str| match variables.text(name).as_deref() {
            None | Some("auto") => Ok(Offload::Auto),
            Some("native") => Ok(Offload::Native),
            Some("emulated") => Ok(Offload::Emulated),
            Some(other) => Err(format!(
                "{name} is {other:?}; it must be auto, native or emulated"
            )),
        };
        config.rma = offload("WEFT_OFI_RMA")?;
        config.atomics = offload("WEFT_OFI_ATOMICS")?;
        Ok(config)
    }

    /// Checks that the numbers are within their bounds.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        check_bounds(&[
            (
                "the eager buffer size",
                self.buffer_size.unwrap_or(2048),
                2048,
                1 << 20,
            ),
            ("the number of send buffers", self.send_buffers, 4, 16384),
            ("the number of receive buffers", self.recv_buffers, 4, 16384),
            ("the number of operations", self.operations, 4, 16384),
            ("the largest part", self.max_part, 1, usize::MAX),
        ])
    }
}
