//! Scans arrays of handles for a complete or an incomplete request, in one pass without allocation.
//!
//! The fast paths of `MPI_Waitany`, `MPI_Testany` and `MPI_Testall` for arrays of the process's own
//! operations.

use mpi_core::process::Vcis;
use mpi_core::{Request, RequestId, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_REQUEST_NULL, MPI_Request};
use crate::handles::{Type, made, made_index};
use crate::lifecycle::runtime::Runtime;
use crate::requests::interrupted;
use crate::requests::lists::resolve_all;
use crate::requests::{READY, ResolvedRequest, is_object};

/// The result of a scan for a complete request.
pub enum Scan<'c> {
    /// The first complete request. Later ones were not examined.
    Complete(usize, ResolvedRequest<'c>),
    /// No request is complete; all of them are on these VCIs.
    Pending(Vcis),
    /// All handles are null.
    Idle,
    /// A handle is invalid or of an object of this crate: the caller must resolve each handle.
    Other,
}

/// A block of adjacent operations of the process, found by handle.
#[derive(Clone, Copy)]
struct Block<'a> {
    first: MPI_Request,
    requests: &'a [Request],
}

impl<'a> Block<'a> {
    const NONE: Block<'static> = Block {
        first: 0,
        requests: &[],
    };

    fn new(runtime: &'a Runtime, id: RequestId) -> Option<Block<'a>> {
        let (first, requests) = runtime.process.request_segment(id)?;
        let first = made(Type::Request, first);
        Some(Block { first, requests })
    }

    /// Returns the operation with this handle.
    #[inline(always)]
    fn get(self, handle: MPI_Request) -> Option<&'a Request> {
        self.requests
            .get((handle as u32).wrapping_sub(self.first as u32) as usize)
    }
}

/// Scans the requests up to the first complete one.
pub fn scan<'c>(runtime: &Runtime, requests: &[MPI_Request]) -> Scan<'c> {
    let (mut block, mut last) = (Block::NONE, u32::MAX);
    let mut vcis = Vcis::default();
    for (index, &handle) in requests.iter().enumerate() {
        // Usually on the same VCI as the previous one.
        if let Some(request) = block.get(handle)
            && request.is_pending()
            && u32::from(request.vci()) == last
        {
            continue;
        }
        let Some(id) = operation(handle) else {
            match handle {
                MPI_REQUEST_NULL => continue,
                READY => return Scan::Complete(index, ResolvedRequest::Ready),
                _ => return Scan::Other,
            }
        };
        block = match Block::new(runtime, id) {
            Some(block) => block,
            None => return Scan::Other,
        };
        match block.get(handle) {
            Some(request) if request.is_pending() => {
                vcis.add(request.vci());
                last = request.vci().into();
            }
            Some(request) if request.is_done() => {
                return Scan::Complete(index, ResolvedRequest::Operation(id));
            }
            _ => return Scan::Other,
        }
    }
    match last {
        u32::MAX => Scan::Idle,
        _ => Scan::Pending(vcis),
    }
}

/// The result of a scan for an incomplete request.
pub enum ScanAll {
    /// All requests are complete operations of the process, or null.
    Complete,
    /// The index of the first incomplete request, and the VCIs of the incomplete ones.
    Pending(usize, Vcis),
    /// A handle is invalid or of an object of this crate: the caller must resolve each handle.
    Other,
}

/// Scans the requests for the first incomplete one, and behind it only for further VCIs.
///
/// Whether the handles behind it are valid is checked when it is complete, as in `MPI_Waitall`.
pub fn scan_all(runtime: &Runtime, requests: &[MPI_Request]) -> ScanAll {
    let (mut vcis, mut pending) = (Vcis::default(), None);
    for (index, &handle) in requests.iter().enumerate() {
        let Some(id) = operation(handle) else {
            match handle {
                MPI_REQUEST_NULL | READY => continue,
                _ => return ScanAll::Other,
            }
        };
        match runtime.process.request(id) {
            Some(request) if request.is_pending() => {
                vcis.add(request.vci());
                pending = pending.or(Some(index));
                if runtime.process.has_one_vci() {
                    // Generalized requests may have poll functions to be called. The fold has no
                    // early exit, so that the compiler can vectorize it.
                    let own = requests[index..].iter();
                    match own.fold(false, |any, request| any | is_object(*request)) {
                        true => return ScanAll::Other,
                        false => break,
                    }
                }
            }
            Some(request) if request.is_done() => {}
            _ => return ScanAll::Other,
        }
    }
    match pending {
        Some(first) => ScanAll::Pending(first, vcis),
        None => ScanAll::Complete,
    }
}

/// Returns the first complete request of an array that [`scan`] found pending.
pub fn find_complete<'c>(
    runtime: &Runtime,
    requests: &[MPI_Request],
) -> Option<(usize, ResolvedRequest<'c>)> {
    requests.iter().enumerate().find_map(|(index, &handle)| {
        let id = operation(handle)?;
        let done = runtime.process.request(id)?.is_done();
        done.then_some((index, ResolvedRequest::Operation(id)))
    })
}

/// Waits until one of an array of pending requests is complete.
///
/// # Errors
/// Errors of progress, and [`ProcFailedPending`](mpi_core::Class::ProcFailedPending) if a receive
/// is interrupted by a loss.
pub fn wait<'c>(
    runtime: &Runtime,
    requests: &[MPI_Request],
    vcis: &Vcis,
    call: InCall<'c>,
) -> Result<(usize, ResolvedRequest<'c>)> {
    let done = || match find_complete(runtime, requests) {
        None if runtime.has_losses() => {
            let all = resolve_all(runtime, requests, call)?;
            interrupted::check(runtime, &all).map(|()| None)
        }
        found => Ok(found),
    };
    runtime.process.wait_for_any(vcis, done)
}

#[inline(always)]
fn operation(handle: MPI_Request) -> Option<RequestId> {
    made_index(handle, Type::Request).and_then(RequestId::from_index)
}
