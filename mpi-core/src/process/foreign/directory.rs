//! Addresses of the members of a connection, for its transports' resolvers.

use std::collections::HashMap;
use std::sync::Arc;

use netmod::{OpenError, Peer, Resolver, VciId};
use parking_lot::Mutex;

/// Addresses by member number, VCI and transport.
#[derive(Default)]
pub struct Directory(Mutex<HashMap<(Peer, VciId, String), Vec<u8>>>);

impl Directory {
    /// Records an address.
    pub fn note(&self, member: Peer, vci: VciId, transport: &str, address: &[u8]) {
        let key = (member, vci, transport.to_string());
        self.0.lock().insert(key, address.to_vec());
    }

    /// Returns the resolver of one transport.
    pub fn of_transport(self: &Arc<Self>, name: &'static str) -> Arc<dyn Resolver> {
        Arc::new(OfTransport {
            directory: self.clone(),
            name,
        })
    }
}

struct OfTransport {
    directory: Arc<Directory>,
    name: &'static str,
}

impl Resolver for OfTransport {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let known = self.directory.0.lock();
        let address = known.get(&(peer, vci, self.name.to_string()));
        address.cloned().ok_or_else(|| {
            OpenError(format!(
                "its {} address of VCI {vci} was not exchanged when the jobs connected",
                self.name
            ))
        })
    }
}
