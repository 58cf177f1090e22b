//! Functions of the program's that progress calls until they say that they are done: those of `MPIX_Async_start`, and
//! the poll functions of generalized requests.
//!
//! They are called when a look for what is waited for or tested has been in vain, without a lock, each by one thread at
//! a time. While one runs, its thread calls no others from tests and polls that it makes (with many functions that
//! test something, each would call all others in turn); only if it waits for long are they called before it sleeps.
//! Those that belong to a stream are called only by who waits or polls on that stream, as the stream's other work is.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_comm::creation::streams::Stream;
use mpi_core::process::source::{POLLED, ProgressSource, Source, Work};
use mpi_core::{Process, Result, VciId};
use parking_lot::Mutex;

use crate::handles::destructors;

/// What a function of the program's says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing has happened.
    Nothing,
    /// Something has; it is to be called again.
    Moved,
    /// It is not to be called any more.
    Done,
}

/// A function of the program's (`MPIX_Async_start`).
pub trait Function: Send + Sync {
    /// Calls it.
    fn call(&self) -> Outcome;
}

/// A function that is to be called until it is done.
pub struct Task {
    function: Box<dyn Function>,
    vci: Option<VciId>,
    /// Kept until it is done, and no longer: the program may free the stream then, though others still go through a list
    /// that has this.
    stream: Mutex<Option<Arc<Stream>>>,
    /// A thread is in it, or it is done.
    taken: AtomicBool,
    done: AtomicBool,
}

impl Task {
    /// One that belongs to a stream, or to none.
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

/// What progress calls.
pub trait Polled: Send + Sync {
    /// The VCI of the stream that it belongs to.
    fn vci(&self) -> Option<VciId> {
        None
    }

    /// Calls it, unless a thread is at that or it is done. Returns whether anything happened.
    fn poll(&self) -> bool;

    /// Whether it is not to be called any more.
    fn is_over(&self) -> bool;

    /// Whether MPI must not end before it is over: nobody else waits for it.
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
    /// How many functions of these this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is in a function that progress has called.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Calls a function of the program's as progress does.
pub(crate) fn inside<T>(call: impl FnOnce() -> T) -> T {
    DEPTH.set(DEPTH.get() + 1);
    let result = call();
    DEPTH.set(DEPTH.get() - 1);
    result
}

/// A list that changes while others go through it.
type List = Vec<Arc<dyn Polled>>;

/// All such functions of a process.
#[derive(Default)]
pub struct Polling {
    all: Mutex<Arc<List>>,
    /// Some belong to streams.
    has_streams: AtomicBool,
}

impl Polling {
    /// Has a function called until it is over.
    pub fn add(&self, process: &Process, polled: Arc<dyn Polled>) {
        if polled.vci().is_some() {
            self.has_streams.store(true, Ordering::Release);
        }
        let mut all = self.all.lock();
        Arc::make_mut(&mut all).push(polled);
        self.tell(process, &all);
        drop(all);
        // One that sleeps would do so for long.
        process.notify();
    }

    /// Says whether there is something to do. Who calls has the lock.
    fn tell(&self, process: &Process, all: &List) {
        let any = !all.is_empty() || destructors::any();
        // Nobody wakes up who waits for what these functions bring about.
        process.set_work::<Polling>(Work { any, stores: any });
    }

    /// Takes note that there may be destructors to be called.
    pub(crate) fn update(&self, process: &Process) {
        self.tell(process, &self.all.lock());
    }

    /// Calls all those that are `wanted`. Returns whether anything happened.
    fn round(&self, process: &Process, wanted: impl Fn(&dyn Polled) -> bool) -> bool {
        let all = self.all.lock().clone();
        if all.is_empty() {
            // There were destructors to be called.
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

    /// Forgets those that are over.
    #[cold]
    fn sweep(&self, process: &Process) {
        let mut all = self.all.lock();
        let (over, left): (List, List) = all.iter().cloned().partition(|entry| entry.is_over());
        let before = std::mem::replace(&mut *all, Arc::new(left));
        self.tell(process, &all);
        drop(all);
        // What they keep is let go of without the lock.
        drop((over, before));
    }

    /// Calls them until all are done that nobody else waits for.
    ///
    /// # Errors
    /// Those of progress. With a process lost they are left: what they wait for may not come.
    pub(crate) fn finish(&self, process: &Process) -> Result<()> {
        let is_empty = || !self.all.lock().iter().any(|entry| entry.holds_up());
        if is_empty() || is_inside() {
            return Ok(());
        }
        process.wait_despite_loss(0, || {
            self.round(process, |_| true);
            let lost = process.first_loss().is_some();
            Ok((lost || is_empty()).then_some(()))
        })
    }

    /// Forgets all.
    pub(crate) fn forget(&self, process: &Process) {
        let mut all = self.all.lock();
        let before = std::mem::take(&mut *all);
        self.tell(process, &all);
        drop(all);
        drop(before);
    }
}

impl Source for Polling {
    const PLACE: usize = POLLED;

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
                "  {count} functions of the program's that progress calls (MPIX_Async_start, \
                 MPIX_Grequest_start)\n"
            ));
        }
    }
}
