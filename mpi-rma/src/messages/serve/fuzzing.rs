//! A window that serves requests, for the fuzz targets alone.

use std::sync::Arc;

use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_types::error::Result;

use crate::messages::message::{Kind, Request};
use crate::messages::service::Service;

/// Bytes of the window.
pub const WINDOW: usize = 64;
/// Bytes before it, and behind it.
const MARGIN: usize = 64;
/// Content of the margins.
const POISON: u8 = 0xa5;
/// Bytes of an answer at most. Longer ones are legitimate, but take long to copy.
const LONGEST_ANSWER: usize = 1 << 20;

/// A window of rank 0 of two, between margins.
pub struct Served {
    service: Service,
    memory: Box<[u8]>,
}

impl Served {
    /// Makes a window of [`WINDOW`] bytes, or a dynamic one with as many bytes attached.
    pub fn new(is_dynamic: bool) -> Served {
        let comm = Arc::new(Comm::new(ContextId::new(0, 5), Group::identity(2), 0));
        let mut memory = vec![POISON; WINDOW + 2 * MARGIN].into_boxed_slice();
        let base = memory[MARGIN..].as_mut_ptr();
        let fixed = (!is_dynamic).then_some((base, WINDOW));
        let service = Service::new(comm, fixed, false, false);
        if is_dynamic {
            service.attach(base.expose_provenance(), WINDOW);
        }
        Served { service, memory }
    }

    /// Returns the place of the window as requests name it.
    pub fn origin(&self) -> u64 {
        match self.service.memory {
            Some(_) => 0,
            None => self.memory[MARGIN..].as_ptr().addr() as u64,
        }
    }

    /// Returns the context of requests.
    pub fn context(&self) -> u64 {
        self.service.comm.context().of(Purpose::Rma)
    }

    /// Carries out the requests that have arrived.
    ///
    /// # Errors
    /// The process can't go on. No request may cause this.
    pub fn advance(&self, process: &Process) -> Result<bool> {
        self.service.advance(process, 0, true)
    }

    /// Returns whether the margins are unchanged.
    pub fn is_sound(&self) -> bool {
        let (low, rest) = self.memory.split_at(MARGIN);
        let (_, high) = rest.split_at(WINDOW);
        low.iter().chain(high).all(|byte| *byte == POISON)
    }
}

/// Returns whether a request's answer would be longer than [`LONGEST_ANSWER`].
pub fn is_too_long(bytes: &[u8]) -> bool {
    let Some(request) = Request::parse(bytes) else {
        return false;
    };
    let asks = matches!(request.kind, Kind::Get | Kind::Accumulate);
    // Impossible lengths are refused at once, so they are tried.
    let too_long = |length: usize| (LONGEST_ANSWER..1 << 48).contains(&length);
    asks && request.length().is_some_and(too_long)
}
