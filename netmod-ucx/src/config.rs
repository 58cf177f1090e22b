//! What the user may choose.

use netmod::{OpenError, Peer};
use netmod_kit::variables::Reader;

/// How to open a [`UcxTransport`](crate::UcxTransport).
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// UCX's own transports to use, in UCX's words ("tcp", "rc,ud_verbs:aux"). `None`: what
    /// `UCX_TLS` says, or all that reach other hosts.
    pub tls: Option<String>,
    /// Network devices to use, in UCX's words ("eth0", "mlx5_0:1"). `None`: what `UCX_NET_DEVICES`
    /// says, or all but bridges to containers and virtual machines of this host.
    pub devices: Option<String>,
    /// The largest active message, in bytes, our headers included; 2,048 to 1 MiB. `None`: 16 KiB, but
    /// over TCP 64 KiB and headers.
    pub buffer_size: Option<usize>,
    /// Active messages that a lane can have on their way, each in a buffer; 4 to 16,384.
    pub send_buffers: usize,
    /// Operations on remote memory that one lane can have under way; 4 to 16,384.
    pub operations: usize,
    /// Whether lanes offer a file descriptor to wake up by.
    pub wake_up: bool,
    /// Sends all memory keys by message, as if none were short enough to travel with the message
    /// that names the memory. For tests.
    pub long_keys: bool,
}

impl Config {
    /// The defaults for process `peer`.
    pub fn new(peer: Peer) -> Self {
        Config {
            peer,
            library: "libucp.so.0".to_string(),
            tls: None,
            devices: None,
            buffer_size: None,
            send_buffers: 64,
            operations: 256,
            wake_up: true,
            long_keys: false,
        }
    }

    /// As the control variables say.
    ///
    /// # Errors
    /// A value can't be understood.
    pub fn read(peer: Peer, variables: &Reader) -> Result<Self, String> {
        let mut config = Config::new(peer);
        if let Some(library) = variables.text("WEFT_UCX_LIBRARY") {
            config.library = library;
        }
        config.tls = variables.text("WEFT_UCX_TLS");
        config.devices = variables.text("WEFT_UCX_DEVICES");
        Ok(config)
    }

    /// Whether the numbers are within their bounds.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bounds = [
            (
                "the eager buffer size",
                self.buffer_size.unwrap_or(2048),
                2048,
                1 << 20,
            ),
            ("the number of send buffers", self.send_buffers, 4, 16384),
            ("the number of operations", self.operations, 4, 16384),
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
