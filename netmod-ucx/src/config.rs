//! Settings of the transport.

use netmod::{OpenError, Peer};
use netmod_kit::variables::{Reader, check_bounds};

/// How to open a [`UcxTransport`](crate::UcxTransport).
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this process.
    pub peer: Peer,
    /// File name or path of the library.
    pub library: String,
    /// UCX's own transports to use, by UCX's names ("tcp", "rc,ud_verbs:aux"). `None`: those of
    /// `UCX_TLS`, or all that reach other hosts.
    pub tls: Option<String>,
    /// Network devices to use, by UCX's names ("eth0", "mlx5_0:1"). `None`: those of
    /// `UCX_NET_DEVICES`, or all but bridges to containers and virtual machines of this host.
    pub devices: Option<String>,
    /// Largest active message, in bytes, headers included; 2,048 to 1 MiB. `None`: 16 KiB, but over
    /// TCP 64 KiB and headers.
    pub buffer_size: Option<usize>,
    /// Most active messages of a lane in flight, each in a buffer; 4 to 16,384.
    pub send_buffers: usize,
    /// Most pending operations on remote memory of one lane; 4 to 16,384.
    pub operations: usize,
    /// Whether lanes offer a file descriptor as wake-up.
    pub wake_up: bool,
    /// Whether all memory keys are requested by message, as if none were short enough to travel
    /// inline. For tests.
    pub long_keys: bool,
}

impl Config {
    /// Returns the defaults for process `peer`.
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

    /// Reads the control variables.
    ///
    /// # Errors
    /// A value is malformed.
    pub fn read(peer: Peer, variables: &Reader) -> Result<Self, String> {
        let mut config = Config::new(peer);
        if let Some(library) = variables.text("WEFT_UCX_LIBRARY") {
            config.library = library;
        }
        config.tls = variables.text("WEFT_UCX_TLS");
        config.devices = variables.text("WEFT_UCX_DEVICES");
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
            ("the number of operations", self.operations, 4, 16384),
        ])
    }
}
