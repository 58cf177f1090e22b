//! Functions of the program that progress calls until they are done: those of `MPIX_Async_start`,
//! and poll functions of generalized requests.
//!
//! Progress calls them after a fruitless poll, without a lock, each by one thread at a time. While
//! a function runs, the tests and polls that it makes call no others (otherwise, with many
//! functions that test something, each would call all others in turn); they are called only before
//! its thread sleeps. Functions that belong to a stream are called only by threads that wait or
//! poll on that stream.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_comm::creation::streams::Stream;
use mpi_core::process::source::{POLLED, ProgressSource, Source, Work};
use mpi_core::{Process, Result, VciId};
use parking_lot::Mutex;

use crate::handles::destructors;

/// The result of a function of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// No progress was made.
    Nothing,
    /// Progress was made; it is to be called again.
    Moved,
    /// It is done, and not called any more.
    Done,
}

/// A function of the program (`MPIX_Async_start`).
pub trait Function: Send + Sync {
    /// Calls it.
    fn call(&self) -> Outcome;
}

/// A function that is called until it is done.
pub struct Task {
    function: Box<dyn Function>,
    vci: Option<VciId>,
    /// Dropped when the function is done: the program may free the stream then, even if other
    /// threads still hold a list with this task.
    stream: Mutex<Option<Arc<Stream>>>,
    /// Set while a thread runs the function, and when it is done.
    taken: AtomicBool,
    done: AtomicBool,
}

impl Task {
    /// Creates a task that belongs to a stream, or to none.
    pub fn new(function: Box<dyn Function>, stream: Option<Arc<Stream>>) -> Task {
        Task {
            function,
            vci: stream.as_ref().map(|stream| stream.vci()),
            stream: Mutex::new(stream),
            taken: AtomicBool::new(false),
            done: AtomicBool::new(false),
        }
    }
}

/// An entry that progress calls.
pub trait Polled: Send + Sync {
    /// Returns the VCI of the stream that it belongs to.
    fn vci(&self) -> Option<VciId> {
        None
    }

    /// Calls it, unless a thread runs it or it is done. Returns whether it made progress.
    fn poll(&self) -> bool;

    /// Returns whether it is not to be called any more.
    fn is_over(&self) -> bool;

    /// Returns whether MPI must not end before it is over, because no other call waits for it.
    fn holds_up(&self) -> bool;
}

impl Polled for Task {
    fn vci(&self) -> Option<VciId> {
        self.vci
    }

    fn poll(&self) -> bool {
        if self.taken.swap(true, Ordering::Acquire) {
            return false;
        }
        let outcome = inside(|| self.function.call());
        match outcome {
            Outcome::Done => {
                drop(self.stream.lock().take());
                self.done.store(true, Ordering::Release);
            }
            Outcome::Nothing | Outcome::Moved => self.taken.store(false, Ordering::Release),
        }
        outcome != Outcome::Nothing
    }

    fn is_over(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn holds_up(&self) -> bool {
        true
    }
}

thread_local! {
    /// Number of such functions on this thread's stack.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether this thread is in a function that progress has called.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Calls a function of the program with [`is_inside`] true.
pub(crate) fn inside<T>(call: impl FnOnce() -> T) -> T {
    DEPTH.set(DEPTH.get() + 1);
    let result = call();
    DEPTH.set(DEPTH.get() - 1);
    result
}

/// A list that may be replaced while other threads iterate over it.
type List = Vec<Arc<dyn Polled>>;

/// All polled entries of a process.
#[derive(Default)]
pub struct Polling {
    all: Mutex<Arc<List>>,
    /// Whether any entry ever belonged to a stream.
    has_streams: AtomicBool,
}

impl Polling {
    /// Adds an entry, which is called until it is over.
    pub fn add(&self, process: &Process, polled: Arc<dyn Polled>) {
        if polled.vci().is_some() {
            self.has_streams.store(true, Ordering::Release);
        }
        let mut all = self.all.lock();
        Arc::make_mut(&mut all).push(polled);
        self.publish_work(process, &all);
        drop(all);
        // A sleeping thread would call it late.
        process.notify();
    }

    /// Publishes whether there are entries or destructors to call. The caller holds the lock of
    /// `all`.
    fn publish_work(&self, process: &Process, all: &List) {
        let any = !all.is_empty() || destructors::any();
        // The functions may wait for stores, which wake no thread.
        process.set_work::<Polling>(Work { any, stores: any });
    }

    /// Publishes the work again, after a destructor was queued.
    pub(crate) fn update(&self, process: &Process) {
        self.publish_work(process, &self.all.lock());
    }

    /// Calls all entries that are `wanted`. Returns whether one made progress.
    fn round(&self, process: &Process, wanted: impl Fn(&dyn Polled) -> bool) -> bool {
        let all = self.all.lock().clone();
        if all.is_empty() {
            // Only destructors were to be called.
            self.update(process);
            return false;
        }
        let (mut moved, mut over) = (false, false);
        for entry in all.iter().filter(|entry| wanted(&***entry)) {
            moved |= entry.poll();
            over |= entry.is_over();
        }
        drop(all);
        if over {
            self.sweep(process);
        }
        if moved {
            process.notify();
        }
        moved
    }

    /// Removes the entries that are over.
    #[cold]
    fn sweep(&self, process: &Process) {
        let mut all = self.all.lock();
        let (over, left): (List, List) = all.iter().cloned().partition(|entry| entry.is_over());
        let before = std::mem::replace(&mut *all, Arc::new(left));
        self.publish_work(process, &all);
        drop(all);
        // Dropped without the lock, since entries own objects of the program.
        drop((over, before));
    }

    /// Calls the entries until none is left that holds up the end of MPI.
    ///
    /// # Errors
    /// Errors of progress. After a loss the entries are left: they may wait for a lost process.
    pub(crate) fn finish(&self, process: &Process) -> Result<()> {
        let is_empty = || !self.all.lock().iter().any(|entry| entry.holds_up());
        if is_empty() || is_inside() {
            return Ok(());
        }
        process.wait_ignoring_loss(0, || {
            self.round(process, |_| true);
            let lost = process.first_loss().is_some();
            Ok((lost || is_empty()).then_some(()))
        })
    }

    /// Removes all entries.
    pub(crate) fn forget(&self, process: &Process) {
        let mut all = self.all.lock();
        let before = std::mem::take(&mut *all);
        self.publish_work(process, &all);
        drop(all);
        drop(before);
    }
}

impl Source for Polling {
    const ID: usize = POLLED;

    fn new(_process: &Process) -> Self {
        Polling::default()
    }
}

impl ProgressSource for Polling {
    fn advance(&self, process: &Process) -> Result<bool> {
        if is_inside() {
            return Ok(false);
        }
        destructors::run();
        Ok(self.round(process, |entry| entry.vci().is_none()))
    }

    fn advance_on(&self, process: &Process, vci: VciId, _moved: bool) -> Result<bool> {
        if is_inside() || !self.has_streams.load(Ordering::Acquire) {
            return Ok(false);
        }
        Ok(self.round(process, |entry| entry.vci() == Some(vci)))
    }

    fn before_sleep(&self, process: &Process, vci: VciId) -> Result<bool> {
        if !is_inside() {
            return Ok(false);
        }
        let wanted = |entry: &dyn Polled| entry.vci().is_none_or(|own| own == vci);
        Ok(self.round(process, wanted))
    }

    fn report(&self, text: &mut String) {
        let count = self.all.lock().len();
        if count > 0 {
            text.push_str(&format!(
                "  {count} functions of the program that progress calls (MPIX_Async_start, \
                 MPIX_Grequest_start)\n"
            ));
        }
    }
}
