//! First contact with peers, and broken connections.

use crate::address::unmarked;
use crate::ffi::*;
use crate::inbox::{Tie, on_break, on_end};
use crate::lane::UcxLane;
use crate::peers::Endpoint;
use netmod::{LaneError, Peer, VciId};
use netmod_kit::Notice;
use netmod_kit::bundle::{self, Outgoing};
use std::collections::HashMap;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// Time in which a broken connection may be explained by a farewell that is still in flight on
/// another connection, or by the launcher, which knows how a process has ended and ends the job.
const GRACE: Duration = Duration::from_secs(1);

fn no_address() -> ucs_sock_addr {
    ucs_sock_addr {
        addr: null(),
        addrlen: 0,
    }
}

impl UcxLane {
    /// Returns the number of the endpoint of a peer's VCI, resolving its address at first contact.
    #[inline]
    pub(crate) fn endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let endpoint = match self.peers.find(peer, vci) {
            Some(endpoint) => endpoint,
            None => self.connect(peer, vci)?,
        };
        if self.peers.endpoint(endpoint).broken {
            return Err(self.unusable(endpoint));
        }
        Ok(endpoint)
    }

    /// Returns the error of a broken endpoint: `Again` while it is unknown whether its process is
    /// lost.
    #[cold]
    pub(crate) fn unusable(&mut self, endpoint: u32) -> LaneError {
        let process = self.peers.process_of(endpoint);
        match process.lost {
            Some(_) => process.error(),
            None => LaneError::Again,
        }
    }

    #[cold]
    fn connect(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let fail = |why: String| LaneError::lost(peer, why);
        if let Some(why) = self.shared.lost.reason(peer) {
            return Err(fail(why));
        }
        let address = self.shared.resolver.resolve(peer, vci);
        let address = address.map_err(|error| fail(error.to_string()))?;
        let Some(address) = unmarked(&address) else {
            return Err(fail(format!(
                "the address of its VCI {vci} ({} bytes) is not one of UCX; make sure that all processes \
                 use the same build and the same transport",
                address.len()
            )));
        };
        let process = self.peers.process(peer);
        if self.peers.processes[process as usize].state.is_some() {
            return Err(LaneError::Again);
        }
        let tie = Box::new(Tie {
            inbox: &raw const *self.inbox,
            endpoint: self.peers.endpoints.len() as u32,
        });
        let params = ucp_ep_params {
            field_mask: UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
                | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                | UCP_EP_PARAM_FIELD_ERR_HANDLER,
            address: address.as_ptr().cast(),
            err_mode: UCP_ERR_HANDLING_MODE_PEER,
            err_handler: Some(on_break),
            err_handler_arg: (&raw const *tie).cast_mut().cast(),
            user_data: null_mut(),
            flags: 0,
            sockaddr: no_address(),
            conn_request: null_mut(),
            name: null(),
            local_sockaddr: no_address(),
        };
        let mut ep = null_mut();
        // SAFETY: the worker is open, `params` is valid for its mask, `ep` is written on success.
        let status = unsafe { (self.shared.lib.ep_create)(self.worker, &params, &mut ep) };
        if status != UCS_OK {
            // The process may have ended, which the launcher would explain better.
            let why = format!(
                "UCX cannot reach it ({}) with {}; the process has ended, or the two have no transport and \
                 network in common: set WEFT_UCX_TLS or WEFT_UCX_DEVICES (see ucx_info -d)",
                self.shared.lib.text(status),
                self.shared.resources.join(", ")
            );
            self.peers.processes[process as usize].state = Some((Instant::now(), why));
            self.doubts += 1;
            return Err(LaneError::Again);
        }
        let endpoint = Endpoint {
            ep,
            process,
            vci,
            seq: 0,
            outgoing: Outgoing::default(),
            broken: self.peers.processes[process as usize].lost.is_some(),
            written: false,
            flushes: 0,
            has_farewell: false,
            ops: 0,
            keys: HashMap::new(),
            _tie: tie,
        };
        Ok(self.peers.add(peer, vci, endpoint))
    }

    /// Handles a broken endpoint. [`UcxLane::settle_doubts`] decides whether its process is lost or
    /// has finalized.
    #[cold]
    pub(crate) fn broke(&mut self, endpoint: u32, status: ucs_status_t) {
        if self.peers.endpoint(endpoint).broken {
            return;
        }
        self.close(endpoint);
        let vci = self.peers.endpoint(endpoint).vci;
        let text = self.shared.lib.text(status);
        let process = self.peers.process_of(endpoint);
        if process.lost.is_none() && process.state.is_none() {
            let why = format!(
                "UCX: the connection to process {}, VCI {vci}, broke: {text}; the process has ended or the \
                 network to it is down: look for its own message first, then check the network \
                 device (WEFT_UCX_DEVICES)",
                process.number
            );
            process.state = Some((Instant::now(), why));
            self.doubts += 1;
        }
    }

    /// Closes an endpoint without its peer's consent, which ends all of its operations.
    pub(crate) fn close(&mut self, endpoint: u32) {
        bundle::drop_bundle(self, endpoint);
        let state = self.peers.endpoint(endpoint);
        state.broken = true;
        let ep = std::mem::replace(&mut state.ep, null_mut());
        if ep.is_null() {
            return;
        }
        let param =
            ucp_request_param_t::new(on_end, self.close_note.arg()).flags(UCP_EP_CLOSE_FLAG_FORCE);
        // SAFETY: the endpoint is open and not used afterwards; the note lives as long as the
        // worker.
        let request = unsafe { (self.shared.lib.ep_close_nbx)(ep, &param) };
        if !request.is_null() && error_of(request).is_none() {
            self.closing += 1;
        }
    }

    /// Decides whether processes with broken connections are lost.
    #[cold]
    pub(crate) fn settle_doubts(&mut self) {
        for index in 0..self.peers.processes.len() {
            let process = &mut self.peers.processes[index];
            let Some((since, _)) = &process.state else {
                continue;
            };
            let finalized = self.shared.has_finalized(process.number);
            if !finalized && since.elapsed() < GRACE {
                continue;
            }
            self.doubts -= 1;
            let number = process.number;
            let (_, why) = process
                .state
                .take()
                .unwrap_or((Instant::now(), String::new()));
            let why = if finalized {
                format!("process {number} has left MPI (MPI_Finalize)")
            } else {
                self.notices.push_back(Notice::Lost(number, why.clone()));
                why
            };
            process.lost = Some(why.clone());
            self.shared.lost.add(number, &why);
            for endpoint in self.peers.endpoints_of(index as u32) {
                self.close(endpoint);
            }
            self.abandon(index as u32);
        }
    }
}
