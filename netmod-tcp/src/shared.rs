//! What all lanes of a process have in common.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use netmod::{OpenError, Resolver};
use netmod_kit::admission::Secret;

use crate::config::{Config, PORTS};
use crate::congestion::Congestion;
use crate::exposure::Exposures;
use crate::interfaces::Interface;

/// Calls that wait until this process polls, at most: it may compute while all others call. (The kernel has a bound of its
/// own, 4096 by default; beyond it calls are not answered, and who calls gives up after a while.)
const BACKLOG: i32 = 1 << 15;

/// What lanes share. Nothing in it is written on the way of a message.
pub(crate) struct Shared {
    pub config: Config,
    pub secret: Secret,
    pub resolver: Arc<dyn Resolver>,
    /// The interfaces that are used.
    pub interfaces: Vec<Interface>,
    pub congestion: Congestion,
    pub exposures: Exposures,
}

impl Shared {
    /// A socket that accepts connections.
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
