//! State shared by all lanes of a process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use netmod::{OpenError, Resolver};
use netmod_kit::Exposures;
use netmod_kit::admission::Secret;

use crate::config::{Config, PORTS};
use crate::congestion::Congestion;
use crate::interfaces::Interface;

/// Most connections that wait until this process polls: it may compute while all others connect.
/// (The kernel's own bound is 4096 by default; beyond it connection attempts time out.)
const BACKLOG: i32 = 1 << 15;

/// State shared by lanes. No field is written on a message's path.
pub(crate) struct Shared {
    pub config: Config,
    pub secret: Secret,
    pub resolver: Arc<dyn Resolver>,
    /// Interfaces in use.
    pub interfaces: Vec<Interface>,
    pub congestion: Congestion,
    pub exposures: Exposures<()>,
}

impl Shared {
    /// Opens a socket that accepts connections.
    pub fn listen(&self) -> Result<TcpListener, OpenError> {
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
            // Ranks of a node start at different ports, so that they do not all try the same ones.
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
            // Fallback for a kernel without IPv6.
            listener = listen(Ipv4Addr::UNSPECIFIED.into());
        }
        let listener = listener.and_then(|it| {
            it.set_nonblocking(true)?;
            rustix::net::listen(&it, BACKLOG)?;
            Ok(it)
        });
        if let Ok(listener) = &listener {
            self.congestion.listen(listener);
        }
        listener.map_err(|error| {
            let hint = match (error.raw_os_error(), self.config.ports) {
                (Some(libc::EMFILE | libc::ENFILE), _) => {
                    "; raise the limit on open files (ulimit -n)".to_string()
                }
                (Some(libc::EADDRINUSE), Some((first, last))) => format!(
                    "; all ports from {first} to {last} are taken: widen the range of {}",
                    PORTS.name
                ),
                _ => String::new(),
            };
            OpenError(format!(
                "tcp: cannot open a listening socket at {any}: {error}{hint}"
            ))
        })
    }
}
