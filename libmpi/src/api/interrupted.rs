//! Receives from any source that wait on while a member is lost (`MPIX_ERR_PROC_FAILED_PENDING`): what completion calls
//! tell of them. All here is done only where something is lost.

use std::ffi::c_int;

use mpi_core::{Class, Error, Result, Status};
use mpi_objects::own_request::Ended;
use mpi_objects::requests::Named;
use mpi_objects::runtime::Runtime;

use super::request_some::some_complete;
use crate::abi::MPI_Request;
use crate::args::Out;

/// An error if one of some requests is such a receive.
#[cold]
pub(super) fn check(runtime: &Runtime, all: &[Named]) -> Result<()> {
    let found = all.iter().find_map(|named| runtime.interruption(*named));
    found.map_or(Ok(()), Err)
}

/// The error of a call on any of several requests, which says which one it is.
#[cold]
pub(super) fn any(
    runtime: &Runtime,
    requests: &[MPI_Request],
    index: &Out<c_int>,
    error: Error,
) -> Error {
    if error.class() == Class::ProcFailedPending {
        let is_it = |request: &MPI_Request| {
            let named = runtime.named(*request);
            named.is_ok_and(|named| runtime.interruption(named).is_some())
        };
        if let Some(found) = requests.iter().position(is_it) {
            index.set(found as c_int);
        }
    }
    error
}

/// Which requests a call on some of several tells of: those that are complete, or else such receives.
pub(super) fn some(runtime: &Runtime, all: &[Named], waited: Result<()>) -> Result<Vec<usize>> {
    match waited {
        Err(error) if error.class() == Class::ProcFailedPending => {
            let is_it = |index: &usize| {
                runtime.is_complete(all[*index]) && !all[*index].is_idle()
                    || runtime.interruption(all[*index]).is_some()
            };
            Ok((0..all.len()).filter(is_it).collect())
        }
        waited => waited.map(|()| some_complete(runtime, all)),
    }
}

/// What a status says of one.
pub(super) fn ended(error: Error) -> Ended {
    Ended {
        status: Status::EMPTY,
        error: Some(error),
    }
}
