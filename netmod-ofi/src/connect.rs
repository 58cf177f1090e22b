//! First contact: checks a peer's address and passes it to the provider.

use crate::address::untagged_address;
use crate::ffi::{FI_ADDR_UNSPEC, fi_av_insert};
use crate::lane::OfiLane;
use crate::peers::EndpointState;
use crate::select::{self, ip_address};
use netmod::{LaneError, Peer, VciId};
use netmod_kit::bundle::Outgoing;

impl OfiLane {
    /// Returns the index of a peer's VCI, resolving its address at first contact.
    #[inline]
    pub(crate) fn endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let endpoint = match self.peers.find(peer, vci) {
            Some(endpoint) => endpoint,
            None => self.connect(peer, vci)?,
        };
        if self.peers.endpoint(endpoint).lost {
            Err(self.peers.process_of(endpoint).error())
        } else {
            Ok(endpoint)
        }
    }

    #[cold]
    fn connect(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let fail = |why: String| LaneError::lost(peer, why);
        let address = self
            .shared
            .resolver
            .resolve(peer, vci)
            .map_err(|error| fail(error.to_string()))?;
        let Some((provider, name)) = untagged_address(&address) else {
            return Err(fail(format!(
                "the address of its VCI {vci} ({} bytes) is not one of libfabric; make sure that all \
                 processes use the same build and the same transport",
                address.len()
            )));
        };
        if provider != self.shared.provider {
            return Err(fail(format!(
                "it uses the libfabric provider {provider:?}, this process {:?}; set \
                 WEFT_OFI_PROVIDER to one that all hosts have",
                self.shared.provider
            )));
        }
        let format = self.shared.info.addr_format();
        let theirs = ip_address(format, name).map(|ip| ip.is_loopback());
        let ours = self.shared.info.ip().map(|ip| ip.is_loopback());
        if theirs.is_some() && ours.is_some() && theirs != ours {
            let [inside, outside] = match theirs {
                Some(true) => ["it", "this process"],
                _ => ["this process", "it"],
            };
            return Err(fail(format!(
                "{inside} listens on its host's loopback interface, {outside} on a real one (this \
                 process uses {}); set WEFT_OFI_INTERFACE to an interface that connects all hosts",
                select::place(&self.shared.info)
            )));
        }
        let mut addr = FI_ADDR_UNSPEC;
        // A padded copy: providers read a whole address of their format.
        let mut padded = [0_u64; 40];
        if name.len() > size_of_val(&padded) {
            return Err(fail(format!("the address of its VCI {vci} is too long")));
        }
        // SAFETY: `padded` is at least as long as `name`, as checked above; the address vector is
        // open, `addr` is written.
        let rc = unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), padded.as_mut_ptr().cast(), name.len());
            fi_av_insert(self.objects.av, padded.as_ptr().cast(), &mut addr)
        };
        if rc != 1 {
            let why = if rc < 0 {
                self.shared.lib.error_text(-rc)
            } else {
                "refused".to_string()
            };
            return Err(fail(format!(
                "{}: cannot use its address: {why}",
                self.shared.provider
            )));
        }
        let process = self.peers.process(peer);
        let endpoint = EndpointState {
            addr,
            vci,
            process,
            lost: self.peers.processes[process as usize].lost.is_some(),
            dirty: false,
            stalled: 0,
            outgoing: Outgoing::default(),
            stuck: None,
            address: name.into(),
        };
        Ok(self.peers.add(peer, vci, endpoint))
    }
}
