//! Looking for one complete request among many in one pass, without memory of one's own: what `MPI_Waitany` and
//! `MPI_Testany` do as long as all are operations of the process; and for one that is not complete, for `MPI_Testall`.

use mpi_core::process::Vcis;
use mpi_core::{Request, RequestId, Result};

use crate::handles::predefined::{MPI_REQUEST_NULL, MPI_Request};
use crate::handles::{Type, made, made_index};
use crate::lifecycle::runtime::Runtime;
use crate::requests::interrupted;
use crate::requests::lists::name_all;
use crate::requests::{Named, READY, is_own};

/// What a look has found.
pub enum Look {
    /// The first complete request. Those behind it were not looked at.
    Complete(usize, Named),
    /// None is complete; they are of these VCIs.
    Pending(Vcis),
    /// None is there but null ones.
    Idle,
    /// Among them is a request of the ABI's own kinds, or none at all: each is to be named.
    Other,
}

/// Operations of the process that lie together, by their handles.
#[derive(Clone, Copy)]
struct Around<'a> {
    first: MPI_Request,
    requests: &'a [Request],
}

impl<'a> Around<'a> {
    const NONE: Around<'static> = Around {
        first: 0,
        requests: &[],
    };

    fn new(runtime: &'a Runtime, id: RequestId) -> Option<Around<'a>> {
        let (first, requests) = runtime.process.requests_around(id)?;
        let first = made(Type::Request, first);
        Some(Around { first, requests })
    }

    /// The one with this handle.
    #[inline(always)]
    fn get(self, handle: MPI_Request) -> Option<&'a Request> {
        self.requests
            .get((handle as u32).wrapping_sub(self.first as u32) as usize)
    }
}

/// Looks at the requests up to the first complete one.
pub fn look(runtime: &Runtime, requests: &[MPI_Request]) -> Look {
    let (mut around, mut last) = (Around::NONE, u32::MAX);
    let mut vcis = Vcis::default();
    for (index, &handle) in requests.iter().enumerate() {
        // Most are like the one before.
        if let Some(request) = around.get(handle)
            && request.is_under_way()
            && u32::from(request.vci()) == last
        {
            continue;
        }
        let Some(id) = operation(handle) else {
            match handle {
                MPI_REQUEST_NULL => continue,
                READY => return Look::Complete(index, Named::Ready),
                _ => return Look::Other,
            }
        };
        around = match Around::new(runtime, id) {
            Some(around) => around,
            None => return Look::Other,
        };
        match around.get(handle) {
            Some(request) if request.is_under_way() => {
                vcis.add(request.vci());
                last = request.vci().into();
            }
            Some(request) if request.is_done() => {
                return Look::Complete(index, Named::Operation(id));
            }
            _ => return Look::Other,
        }
    }
    match last {
        u32::MAX => Look::Idle,
        _ => Look::Pending(vcis),
    }
}

/// What a look for one that is not complete has found.
pub enum LookAtAll {
    /// All are complete operations of the process, or null.
    Complete,
    /// The first that is not, and the VCIs of such.
    Pending(usize, Vcis),
    /// One is of the ABI's own kinds, or none at all: each is to be named.
    Other,
}

/// Looks at the requests up to the first that is not complete; further only for VCIs on which others are. (Whether those
/// behind it are requests is looked at when it is complete, as in `MPI_Waitall`.)
pub fn look_at_all(runtime: &Runtime, requests: &[MPI_Request]) -> LookAtAll {
    let (mut vcis, mut pending) = (Vcis::default(), None);
    for (index, &handle) in requests.iter().enumerate() {
        let Some(id) = operation(handle) else {
            match handle {
                MPI_REQUEST_NULL | READY => continue,
                _ => return LookAtAll::Other,
            }
        };
        match runtime.process.request(id) {
            Some(request) if request.is_under_way() => {
                vcis.add(request.vci());
                pending = pending.or(Some(index));
                if runtime.process.has_one_vci() {
                    // Those of the ABI's own kinds may have functions to be called. (All are looked at, several at a time.)
                    let own = requests[index..].iter();
                    match own.fold(false, |any, request| any | is_own(*request)) {
                        true => return LookAtAll::Other,
                        false => break,
                    }
                }
            }
            Some(request) if request.is_done() => {}
            _ => return LookAtAll::Other,
        }
    }
    match pending {
        Some(first) => LookAtAll::Pending(first, vcis),
        None => LookAtAll::Complete,
    }
}

/// The first complete request of some that were pending when [`look`] went through them.
pub fn complete_now(runtime: &Runtime, requests: &[MPI_Request]) -> Option<(usize, Named)> {
    requests.iter().enumerate().find_map(|(index, &handle)| {
        let id = operation(handle)?;
        let done = runtime.process.request(id)?.is_done();
        done.then_some((index, Named::Operation(id)))
    })
}

/// Waits for one of some that are pending.
///
/// # Errors
/// Those of making progress, and [`ProcFailedPending`](mpi_core::Class::ProcFailedPending) if one is a receive that waits on.
pub fn wait(runtime: &Runtime, requests: &[MPI_Request], vcis: &Vcis) -> Result<(usize, Named)> {
    let done = || match complete_now(runtime, requests) {
        None if runtime.has_losses() => {
            let all = name_all(runtime, requests)?;
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
