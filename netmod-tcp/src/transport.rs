//! The transport: what all lanes of a process have in common.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use netmod::{Atomics, Lane, Limits, OpenError, RemoteKey, Resolver, Signals, Transport, VciId};

use crate::config::{Config, PORTS};
use crate::exposure::Exposures;
use crate::interfaces::{self, Interface};
use crate::lane::TcpLane;
use crate::proof::{self, Secret};
use crate::record::Record;
use crate::wire::{MAX_PAYLOAD, MAX_SIGNAL};

/// Messages up to this size are sent before the receiver asks for them.
const EAGER: usize = 64 << 10;

/// Messages from this size on are sent from where they lie, until the kernel has taken them.
const BORROW: usize = 16 << 10;

/// What lanes share. Nothing in it is written on the way of a message.
pub(crate) struct Shared {
    pub config: Config,
    pub secret: Secret,
    pub resolver: Arc<dyn Resolver>,
    /// The interfaces that are used.
    pub interfaces: Vec<Interface>,
    pub exposures: Exposures,
}

impl Shared {
    /// A socket that accepts connections.
    fn listen(&self) -> Result<TcpListener, OpenError> {
        let any = match self.interfaces.as_slice() {
            [one] => one.address,
            several if several.iter().any(|it| it.address.is_ipv6()) => {
                Ipv6Addr::UNSPECIFIED.into()
            }
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let listen = |address: IpAddr| {
            let Some((first, last)) = self.config.ports else {
                return TcpListener::bind(SocketAddr::new(address, 0));
            };
            // Ranks of a node begin at different places, so as not to try the same all the time.
            let count = u32::from(last - first) + 1;
            let start = self.config.peer.wrapping_mul(7) % count;
            let mut result = Err(std::io::ErrorKind::AddrInUse.into());
            for step in 0..count {
                let port = u32::from(first) + (start + step) % count;
                result = TcpListener::bind(SocketAddr::new(address, port as u16));
                match &result {
                    Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                    _ => break,
                }
            }
            result
        };
        let mut listener = listen(any);
        if listener.is_err() && any == IpAddr::from(Ipv6Addr::UNSPECIFIED) {
            // A kernel without IPv6.
            listener = listen(Ipv4Addr::UNSPECIFIED.into());
        }
        let listener = listener.and_then(|it| it.set_nonblocking(true).map(|()| it));
        listener.map_err(|error| {
            let hint = match (error.raw_os_error(), self.config.ports) {
                (Some(libc::EMFILE | libc::ENFILE), _) => {
                    "; raise the limit on open files (ulimit -n)".to_string()
                }
                (Some(libc::EADDRINUSE), Some((first, last))) => format!(
                    "; all ports from {first} to {last} are taken: give {} more",
                    PORTS.name
                ),
                _ => String::new(),
            };
            OpenError(format!(
                "tcp: no socket to accept connections at {any}: {error}{hint}"
            ))
        })
    }
}

/// TCP between processes; see the crate.
pub struct TcpTransport {
    shared: Arc<Shared>,
    left_out: Vec<String>,
    addresses: Mutex<HashMap<VciId, Vec<u8>>>,
}

impl TcpTransport {
    /// Finds out which interfaces to use.
    ///
    /// # Errors
    /// There is no interface, or none that was asked for.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        let failed = |what: &str, error: std::io::Error| OpenError(format!("tcp: {what}: {error}"));
        let all =
            interfaces::all().map_err(|error| failed("the interfaces can't be listed", error))?;
        let (interfaces, left_out) = interfaces::choose(&all, &config.interfaces)
            .map_err(|error| OpenError(format!("tcp: {error}")))?;
        let secret = proof::random().map_err(|error| failed("no random numbers", error))?;
        let shared = Shared {
            config,
            secret,
            resolver,
            interfaces,
            exposures: Exposures::default(),
        };
        // That lanes can be opened at all shows now.
        shared.listen()?;
        Ok(TcpTransport {
            shared: Arc::new(shared),
            left_out,
            addresses: Mutex::default(),
        })
    }
}

/// Takes as many descriptors as the administrator allows, when there are no more: each peer that is
/// talked to needs one. (Not before: programs that use select(2) can't hold large ones.) Returns
/// whether there are more now.
pub(crate) fn allow_descriptors() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    limit.current != limit.maximum && setrlimit(Resource::Nofile, most).is_ok()
}

impl Transport for TcpTransport {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn describe(&self) -> String {
        let names: Vec<String> = self
            .shared
            .interfaces
            .iter()
            .map(ToString::to_string)
            .collect();
        format!("tcp: sockets on {}", names.join(", "))
    }

    fn considered(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: MAX_PAYLOAD,
            eager: EAGER,
            get: true,
            // Frames of our own: they need fewer steps than messages of the core's.
            native_rma: true,
            passive_target: false,
            zcopy_min: BORROW,
            ordered_put: true,
            signals: Some(Signals {
                max_data: MAX_SIGNAL,
                faster_up_to: Some(8 << 10),
                passive_target: false,
            }),
            atomics: Some(Atomics {
                passive_target: false,
                coherent: true,
                ordered: true,
            }),
            max_vcis: 1024,
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let listener = self.shared.listen()?;
        let fail = |error: std::io::Error| OpenError(format!("tcp: VCI {vci}: {error}"));
        let port = listener.local_addr().map_err(fail)?.port();
        let record = Record {
            secret: self.shared.secret,
            port,
            addresses: self.shared.interfaces.iter().map(|it| it.address).collect(),
        };
        let lane = TcpLane::open(self.shared.clone(), vci, listener).map_err(fail)?;
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.insert(vci, record.to_bytes());
        Ok(Box::new(lane))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        let addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.get(&vci).cloned().unwrap_or_default()
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        Ok(self.shared.exposures.add(ptr, len))
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key);
    }
}
