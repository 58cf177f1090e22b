//! What the user may choose.

use netmod::{OpenError, Peer};
use netmod_kit::variables::Reader;

/// Whether an ability of the provider is used, or replaced by messages that the target's poll
/// answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Offload {
    /// The provider's where it pays.
    #[default]
    Auto,
    /// The provider's wherever it is offered.
    Native,
    /// Always by messages.
    Emulated,
}

/// How to open an [`OfiTransport`](crate::OfiTransport).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// Use only this provider, in libfabric's words ("tcp", "tcp;ofi_rxm", "verbs;ofi_rxm").
    pub provider: Option<String>,
    /// Use only this interface: a domain ("eth0", "mlx5_0"), a fabric ("192.0.2.0/24") or an IP
    /// address of this host.
    pub interface: Option<String>,
    /// Size of an eager buffer, in bytes, our headers included; 2,048 to 1 MiB. `None`: 16 KiB, but
    /// over TCP 64 KiB and headers.
    pub buffer_size: Option<usize>,
    /// Eager buffers for sending, per lane; 4 to 16,384.
    pub send_buffers: usize,
    /// Eager buffers posted for receiving, per lane; 4 to 16,384.
    pub recv_buffers: usize,
    /// Operations on remote memory that one lane can have under way; 4 to 16,384.
    pub operations: usize,
    /// The largest piece that get and put hand to the provider at once, in bytes.
    pub max_part: usize,
    /// Registers local memory with the provider even where the provider does not want that (where
    /// it does, this is done anyway).
    pub register_local: bool,
    /// Get and put: by the provider or by messages.
    pub rma: Offload,
    /// Atomics: by the provider or by messages.
    pub atomics: Offload,
    /// Whether lanes offer a file descriptor to wake up by (where the provider can). `None`: they do.
    pub wake_up: Option<bool>,
}

impl Config {
    /// The defaults for process `peer`.
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
            wake_up: None,
        }
    }

    /// As the control variables say.
    ///
    /// # Errors
    /// A value can't be understood.
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
        let size = variables.number("WEFT_OFI_BUFFER_SIZE", 2048..=1 << 20)?;
        config.buffer_size = size.map(|size| size as usize);
        if let Some(buffers) = variables.number("WEFT_OFI_BUFFERS", 4..=16384)? {
            config.send_buffers = buffers as usize;
            config.recv_buffers = buffers as usize;
        }
        config.wake_up = match variables.text("WEFT_OFI_WAKE_UP").as_deref() {
            None | Some("auto") => None,
            Some("1") => Some(true),
            Some("0") => Some(false),
            Some(other) => {
                return Err(format!(
                    "WEFT_OFI_WAKE_UP is {other:?}; it must be auto, 0 or 1"
                ));
            }
        };
        config.check().map_err(|error| error.0)?;
        Ok(config)
    }

    /// Whether the numbers are within their bounds.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bounds = [
            (
                "the eager buffer size (WEFT_OFI_BUFFER_SIZE)",
                self.buffer_size.unwrap_or(2048),
                2048,
                1 << 20,
            ),
            (
                "the number of send buffers (WEFT_OFI_BUFFERS)",
                self.send_buffers,
                4,
                16384,
            ),
            (
                "the number of receive buffers (WEFT_OFI_BUFFERS)",
                self.recv_buffers,
                4,
                16384,
            ),
            ("the number of operations", self.operations, 4, 16384),
            ("the largest part", self.max_part, 1, usize::MAX),
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
