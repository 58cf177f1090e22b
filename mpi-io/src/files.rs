//! The nonblocking accesses of a process, as a source of its progress: those that threads carry
//! out, and operations of several steps, which are polled.

#![allow(unsafe_code, reason = "operations go from thread to thread")]

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use mpi_core::process::Process;
use mpi_core::process::source::{FILES, ProgressSource, Source, Work};
use mpi_core::{RequestId, Status};
use mpi_types::{Class, Error, Result};
use netmod::VciId;
use parking_lot::Mutex;

use crate::file::File;
use crate::lent::Lent;
use crate::pool::Pool;

/// The active accesses of a process.
#[derive(Default)]
pub struct Files {
    done: Arc<Done>,
    /// Number of active accesses.
    pending: Mutex<usize>,
    operations: Mutex<Vec<Operation>>,
    /// Started operations not yet in `operations`, so that starting one does not wait for a thread
    /// that polls.
    begun: Mutex<Vec<Operation>>,
    /// Number of polls while threads had work.
    looks: AtomicU32,
    /// Dropped last: its threads end before the other fields are freed.
    pool: Pool,
}

/// Largest access in bytes that a thread waiting for it may carry out itself.
const SHORT: usize = 256 << 10;

/// While threads have work, one poll in this number helps them: some microseconds after they were
/// woken.
const LOOKS: u32 = 64;

/// A collective access that was started. Those of a file are carried out one after the other, in
/// the order in which they were started, which is the same on all its members.
///
/// The future owns memory that its messages read and write, and ends only when all of them are
/// over ([`Messages::finish`](crate::messages::Messages::finish)). It is therefore dropped only
/// after it has ended: `Files` leaks the others.
struct Operation {
    /// The address of the file, which its future keeps alive.
    file: usize,
    lent: Arc<Lent>,
    work: Pin<Box<dyn Future<Output = Result<u64>>>>,
    /// `None` if the call that started it has returned an error.
    request: Option<RequestId>,
}

// SAFETY: an operation holds addresses of the program's memory, which is lent to the library until
// it is over, and of its future's own, which is pinned; nothing in it belongs to a thread. The lock
// of `operations` admits one thread at a time.
unsafe impl Send for Operation {}

/// Completed accesses, whose requests a thread that makes progress completes.
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

/// Returns the status of an access.
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
            // A thread of the pool wakes no other when it is finished.
            stores: pending > 0,
        });
    }

    /// Makes a thread carry out an access of `len` bytes, whose request completes with its result.
    pub(crate) fn start(
        process: &Process,
        vci: VciId,
        owner: u32,
        len: usize,
        access: impl FnOnce() -> Result<u64> + Send + 'static,
    ) -> Result<RequestId> {
        let files = process.source::<Files>();
        let request = process.start_external(vci, owner)?;
        let done = files.done.clone();
        files.count(process, 1);
        Files::apart(process, len, move || done.add(request, access()));
        Ok(request)
    }

    /// Makes a thread do work on `len` bytes, or does it here if there is no thread.
    pub(crate) fn apart(process: &Process, len: usize, work: impl FnOnce() + Send + 'static) {
        let files = process.source::<Files>();
        if let Err(work) = files.pool.push(Box::new(work), len <= SHORT) {
            work();
        }
    }

    /// Lets the pool's threads use this core from time to time, in case they have no other, and
    /// does short work that none has begun. Returns whether it did some.
    fn help_threads(&self, process: &Process) -> bool {
        if !self.pool.is_busy() {
            return false;
        }
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if !looks.wrapping_add(1).is_multiple_of(LOOKS) {
            return false;
        }
        match self.pool.take_short() {
            Some(work) => {
                work();
                true
            }
            None => {
                process.yield_or_nap();
                false
            }
        }
    }

    /// Starts an operation, which continues whenever its process makes progress. An operation whose
    /// error is `known` continues without a request, for the other members.
    pub(crate) fn begin<F>(
        process: &Process,
        file: &Arc<File>,
        owner: u32,
        known: Option<Error>,
        make: impl FnOnce(Arc<Lent>) -> F,
    ) -> Result<RequestId>
    where
        F: Future<Output = Result<u64>> + 'static,
    {
        let files = process.source::<Files>();
        let lent = Arc::new(Lent::default());
        let request = match &known {
            None => Some(process.start_external(file.comm().vci(), owner)?),
            Some(_) => None,
        };
        // Counted first: another thread that makes progress may complete it at once.
        files.count(process, 1);
        files.begun.lock().push(Operation {
            file: Arc::as_ptr(file).addr(),
            work: Box::pin(make(lent.clone())),
            lent,
            request,
        });
        files.go_on(process)?;
        match (known, request) {
            (None, Some(request)) => Ok(request),
            (known, _) => Err(known.unwrap_or_else(|| Error::new(Class::Intern, "no request"))),
        }
    }

    /// Waits until no operation on a file is active.
    pub(crate) fn settle(process: &Process, file: &File) -> Result<()> {
        let files = process.source::<Files>();
        let address = std::ptr::from_ref(file).addr();
        let is_through = || {
            let has = |list: &Vec<Operation>| list.iter().any(|one| one.file == address);
            !has(&files.begun.lock()) && !has(&files.operations.lock())
        };
        if *files.pending.lock() == 0 || is_through() {
            return Ok(());
        }
        process.wait_ignoring_loss(file.comm().vci(), || Ok(is_through().then_some(())))
    }

    /// Adds `more` to the number of active accesses.
    fn count(&self, process: &Process, more: isize) {
        let mut pending = self.pending.lock();
        *pending = pending.saturating_add_signed(more);
        Files::tell(process, *pending);
    }

    /// Polls the first operation of each file. Returns whether one has ended.
    fn go_on(&self, process: &Process) -> Result<bool> {
        // Steps of an operation may make progress themselves, and call this function again.
        let Some(mut operations) = self.operations.try_lock() else {
            return Ok(false);
        };
        operations.append(&mut self.begun.lock());
        let mut context = Context::from_waker(Waker::noop());
        let (mut any, mut result) = (false, Ok(()));
        let mut index = 0;
        while let Some(operation) = operations.get(index) {
            let file = operation.file;
            if operations[..index].iter().any(|one| one.file == file) {
                index += 1;
                continue;
            }
            let Operation { work, lent, .. } = &mut operations[index];
            match lent.lend(process, || work.as_mut().poll(&mut context)) {
                Poll::Pending => index += 1,
                Poll::Ready(outcome) => {
                    any = true;
                    // The index now is that of the file's next operation.
                    let operation = operations.remove(index);
                    self.count(process, -1);
                    if let Some(request) = operation.request {
                        result = result.and(complete(process, request, outcome));
                    }
                }
            }
        }
        result.map(|()| any)
    }

    /// Creates a request of an access that is complete already.
    pub(crate) fn ended(
        process: &Process,
        vci: VciId,
        owner: u32,
        result: Result<u64>,
    ) -> Result<RequestId> {
        let request = process.start_external(vci, owner)?;
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
    const ID: usize = FILES;

    fn new(_process: &Process) -> Self {
        Files::default()
    }
}

impl ProgressSource for Files {
    fn advance(&self, process: &Process) -> Result<bool> {
        let helped = self.help_threads(process);
        Ok(helped | self.go_on(process)? | self.complete_done(process)?)
    }

    fn report(&self, text: &mut String) {
        let pending = *self.pending.lock();
        if pending > 0 {
            text.push_str(&format!("  {pending} accesses to files are active\n"));
        }
    }
}

impl Files {
    /// Completes the requests of accesses that threads have carried out.
    fn complete_done(&self, process: &Process) -> Result<bool> {
        if self.done.count.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let ended = {
            let mut list = self.done.list.lock();
            self.done.count.store(0, Ordering::Release);
            mem::take(&mut *list)
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
        self.count(process, -(count as isize));
        result
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Their messages may still write to memory of their futures ([`Operation`]).
        mem::forget(mem::take(&mut *self.operations.lock()));
        mem::forget(mem::take(&mut *self.begun.lock()));
    }
}
