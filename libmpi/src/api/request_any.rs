//! Looking for one complete request among many in one pass, without memory of one's own: what `MPI_Waitany` and
//! `MPI_Testany` do as long as all are operations of the process.

use mpi_core::process::Vcis;
use mpi_core::{RequestId, Result};
use mpi_objects::handles::{Type, made_index};
use mpi_objects::requests::{Named, READY};
use mpi_objects::runtime::Runtime;

use crate::abi::{MPI_REQUEST_NULL, MPI_Request};

/// What a look has found.
pub(super) enum Look {
    /// The first complete request. Those behind it were not looked at.
    Complete(usize, Named),
    /// None is complete; they are of these VCIs.
    Pending(Vcis),
    /// None is there but null ones.
    Idle,
    /// Among them is a request of the ABI's own kinds, or none at all: each is to be named.
    Other,
}

/// Looks at the requests up to the first complete one.
pub(super) fn look(runtime: &Runtime, requests: &[MPI_Request]) -> Look {
    let (mut vcis, mut pending) = (Vcis::default(), false);
    for (index, &handle) in requests.iter().enumerate() {
        if handle == MPI_REQUEST_NULL {
            continue;
        }
        if handle == READY {
            return Look::Complete(index, Named::Ready);
        }
        let Some(id) = operation(handle) else {
            return Look::Other;
        };
        match runtime.process.request(id) {
            Some(request) if request.is_done() => {
                return Look::Complete(index, Named::Operation(id));
            }
            Some(request) if request.is_live() => {
                vcis.add(request.vci());
                pending = true;
            }
            _ => return Look::Other,
        }
    }
    match pending {
        true => Look::Pending(vcis),
        false => Look::Idle,
    }
}

/// The first complete request of some that were pending when [`look`] went through them.
pub(super) fn complete_now(runtime: &Runtime, requests: &[MPI_Request]) -> Option<(usize, Named)> {
    requests.iter().enumerate().find_map(|(index, &handle)| {
        let id = operation(handle)?;
        let done = runtime.process.request(id)?.is_done();
        done.then_some((index, Named::Operation(id)))
    })
}

/// Waits for one of some that are pending.
pub(super) fn wait(
    runtime: &Runtime,
    requests: &[MPI_Request],
    vcis: &Vcis,
) -> Result<(usize, Named)> {
    let done = || match complete_now(runtime, requests) {
        None if runtime.has_losses() => {
            let all = super::request::name_all(runtime, requests)?;
            super::interrupted::check(runtime, &all).map(|()| None)
        }
        found => Ok(found),
    };
    runtime.process.wait_for_any(vcis, done)
}

#[inline(always)]
fn operation(handle: MPI_Request) -> Option<RequestId> {
    made_index(handle, Type::Request).and_then(RequestId::from_index)
}
