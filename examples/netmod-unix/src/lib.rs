//! An example of a transport: Weft over Unix datagram sockets, between processes of one host.
//!
//! Each lane has a socket; a message is a datagram. The kernel keeps their order, refuses datagrams
//! without space (`EAGAIN`, [`LaneError::Again`](netmod::LaneError)), and reports dead peers
//! (`ECONNREFUSED`). Get, put and atomics are messages; [`netmod_kit::emulation`] does everything
//! but sending them.
//!
//! One thing is left out on purpose: every user of the host can send to a socket with an abstract
//! name, and datagrams are trusted without a proof. A transport for production admits its peers by
//! [`netmod_kit::admission`].
//!
//! To use it in libmpi, add `netmod-unix` to the dependencies of libmpi and `netmod_unix::NETMOD`
//! to `mpi-runtime/src/bootstrap/netmods.rs`. Then `WEFT_NETMOD=unix` selects it, and its control
//! variable is listed with the others.

mod lane;

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netmod::{Atomics, Lane, Limits, OpenError, Peer, RemoteKey, Resolver, Transport, VciId};
use netmod_kit::variables::{Reader, Variable};
use netmod_kit::{Addresses, Exposures, LostPeers, Netmod, Start};

use lane::UnixLane;

/// The transport over Unix sockets.
pub const NETMOD: Netmod = Netmod {
    name: "unix",
    title: "Unix sockets on one host",
    variables: &[Variable {
        name: "WEFT_UNIX_MESSAGE",
        kind: "bytes",
        default: "16384",
        help: "The longest message, the same on all ranks.",
    }],
    check: |variables| longest(variables).map(drop),
    open_rdma: None,
    open: Some(open),
};

fn longest(variables: &Reader) -> Result<usize, String> {
    let found = variables.number("WEFT_UNIX_MESSAGE", 1024..=65536)?;
    Ok(found.unwrap_or(16 << 10) as usize)
}

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    let longest = longest(&start.variables).map_err(OpenError)?;
    let transport = UnixTransport::open(start.me, longest, start.resolver.clone());
    Ok(Arc::new(transport))
}

/// State shared by lanes.
struct Shared {
    me: Peer,
    /// Longest payload, in bytes.
    longest: usize,
    resolver: Arc<dyn Resolver>,
    exposures: Exposures<()>,
    lost: LostPeers,
}

/// The transport of a process.
pub struct UnixTransport {
    shared: Arc<Shared>,
    addresses: Addresses,
}

/// Prefix of all names of sockets.
const PREFIX: &[u8] = b"weft-unix-";

/// Returns the address of a socket by its name, or `None` if the name lacks the prefix.
fn address(name: &[u8]) -> Option<SocketAddr> {
    name.strip_prefix(PREFIX)?;
    SocketAddr::from_abstract_name(name).ok()
}

impl UnixTransport {
    /// Opens the transport of process `me`, for payloads of at most `longest` bytes.
    pub fn open(me: Peer, longest: usize, resolver: Arc<dyn Resolver>) -> Self {
        UnixTransport {
            shared: Arc::new(Shared {
                me,
                longest,
                resolver,
                exposures: Exposures::default(),
                lost: LostPeers::default(),
            }),
            addresses: Addresses::default(),
        }
    }

    /// Opens a socket with a unique abstract name, which disappears with it.
    fn bind() -> io::Result<(UnixDatagram, Vec<u8>)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let id = format!("{}-{count}-{}", std::process::id(), since.as_nanos());
        let name = [PREFIX, id.as_bytes()].concat();
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok((socket, name))
    }
}

impl Transport for UnixTransport {
    fn name(&self) -> &'static str {
        NETMOD.name
    }

    fn describe(&self) -> String {
        format!("Unix sockets, messages of {} bytes", self.shared.longest)
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: self.shared.longest,
            eager: netmod::EAGER,
            get: true,
            native_rma: false,
            passive_target: false,
            zcopy_min: usize::MAX,
            ordered_put: false,
            signals: None,
            // The target's processor carries atomics out, in the order of messages.
            atomics: Some(Atomics {
                passive_target: false,
                coherent: true,
                ordered: true,
                ordered_access: 0,
            }),
            coalesces: false,
            max_vcis: 256,
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let failed = |error| OpenError(format!("a Unix socket for VCI {vci}: {error}"));
        let socket = self.addresses.open(vci, || Self::bind().map_err(failed))?;
        Ok(Box::new(UnixLane::new(self.shared.clone(), vci, socket)))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.addresses.get(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        let number = self.shared.exposures.insert(ptr, len, ());
        Ok(RemoteKey {
            address: 0,
            words: [0, number],
        })
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key.words[1]);
    }
}
