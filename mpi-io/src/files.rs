//! The nonblocking accesses of a process, as a source of its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mpi_core::process::Process;
use mpi_core::process::source::{FILES, ProgressSource, Source, Work};
use mpi_core::{RequestId, Status};
use mpi_types::{Error, Result};
use netmod::VciId;
use parking_lot::Mutex;

use crate::pool::Pool;

/// Accesses that threads carry out.
#[derive(Default)]
pub struct Files {
    done: Arc<Done>,
    /// How many are under way.
    pending: Mutex<usize>,
    /// Comes last: its threads end before the rest goes.
    pool: Pool,
}

/// Accesses that are over, and whose requests are to be completed by a thread that makes progress.
#[derive(Default)]
struct Done {
    count: AtomicUsize,
    list: Mutex<Vec<(RequestId, Result<u64>)>>,
}

impl Done {
    fn add(&self, request: RequestId, result: Result<u64>) {
        let mut list = self.list.lock();
        list.push((request, result));
        self.count.store(list.len(), Ordering::Release);
    }
}

/// The status of an access.
pub(crate) fn status(bytes: u64) -> Status {
    Status {
        bytes,
        ..Status::EMPTY
    }
}

impl Files {
    fn tell(process: &Process, pending: usize) {
        process.set_work::<Files>(Work {
            any: pending > 0,
            // A thread that is through wakes nobody up.
            stores: pending > 0,
        });
    }

    /// Has a thread make an access, whose request completes with what it returns.
    pub(crate) fn start(
        process: &Process,
        vci: VciId,
        owner: u32,
        access: impl FnOnce() -> Result<u64> + Send + 'static,
    ) -> Result<RequestId> {
        let files = process.source::<Files>();
        let request = process.start_outside(vci, owner)?;
        let done = files.done.clone();
        {
            let mut pending = files.pending.lock();
            *pending += 1;
            Files::tell(process, *pending);
        }
        let pushed = files
            .pool
            .push(Box::new(move || done.add(request, access())));
        if let Err(job) = pushed {
            job();
        }
        Ok(request)
    }

    /// A request of an access that is over already.
    pub(crate) fn ended(
        process: &Process,
        vci: VciId,
        owner: u32,
        result: Result<u64>,
    ) -> Result<RequestId> {
        let request = process.start_outside(vci, owner)?;
        complete(process, request, result)?;
        Ok(request)
    }
}

fn complete(process: &Process, request: RequestId, result: Result<u64>) -> Result<()> {
    let (status, error): (Status, Option<Error>) = match result {
        Ok(bytes) => (status(bytes), None),
        Err(error) => (Status::EMPTY, Some(error)),
    };
    process.complete(request, status, error)
}

impl Source for Files {
    const PLACE: usize = FILES;

    fn new(_process: &Process) -> Self {
        Files::default()
    }
}

impl ProgressSource for Files {
    fn advance(&self, process: &Process) -> Result<bool> {
        if self.done.count.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let ended = {
            let mut list = self.done.list.lock();
            self.done.count.store(0, Ordering::Release);
            std::mem::take(&mut *list)
        };
        if ended.is_empty() {
            return Ok(false);
        }
        let count = ended.len();
        let mut result = Ok(true);
        for (request, outcome) in ended {
            if let Err(error) = complete(process, request, outcome) {
                result = Err(error);
            }
        }
        let mut pending = self.pending.lock();
        *pending = pending.saturating_sub(count);
        Files::tell(process, *pending);
        result
    }

    fn report(&self, text: &mut String) {
        let pending = *self.pending.lock();
        if pending > 0 {
            text.push_str(&format!("  {pending} accesses to files are under way\n"));
        }
    }
}
