//! The process between `MPI_Init` and `MPI_Finalize`: the one static that all MPI semantics hang off.
//! (Handle tables and error codes, which outlive it, are statics of their own modules.)

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::{Class, Error, Process, Result};
use parking_lot::Mutex;
use pmi::Client;

use crate::abi::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_Comm, MPI_THREAD_FUNNELED,
    MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
};
use crate::comms::CommObject;
use crate::errhandler::{Attached, RETURN};
use crate::handles::{HandleTable, Type};
use crate::settings::{Info, Settings};
use crate::{bootstrap, fatal, helper, identity};

/// Everything that exists while MPI is up.
pub struct Runtime {
    /// The process.
    pub process: Process,
    /// The launcher.
    pub pmi: Arc<Client>,
    /// `MPI_COMM_WORLD`.
    pub world: Arc<CommObject>,
    /// `MPI_COMM_SELF`.
    pub self_comm: Arc<CommObject>,
    /// Communicators made at run time.
    pub comms: HandleTable<CommObject>,
    /// Tells nodes apart: processes with the same number can share memory.
    pub node: u64,
    /// The thread level that was provided.
    pub thread_level: c_int,
    /// The thread that called `MPI_Init`.
    pub main_thread: ThreadId,
    /// VCIs that a duplicate gets without hints; 0: those of all.
    pub dup_vcis: u32,
    /// Whether `MPI_Alloc_mem` gives memory that others of the node can map.
    pub shared_alloc: bool,
    /// For errors on files that are not open (section 13.7).
    pub file_errhandler: Mutex<Attached>,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(0);

/// How far the process has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Phase {
    /// `MPI_Init` has not been called.
    Before,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// `MPI_Finalize` is at work: attributes' callbacks may still call MPI.
    Finalizing,
    /// `MPI_Finalize` has been called.
    After,
}

/// How far the process has come.
pub fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        0 => Phase::Before,
        1 => Phase::Running,
        2 => Phase::Finalizing,
        _ => Phase::After,
    }
}

/// The runtime, if MPI is up.
#[inline(always)]
pub fn running() -> Option<&'static Runtime> {
    // SAFETY: non-null only between `start` and `stop`; a call that overlaps with MPI_Finalize is
    // an error of the program.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// The runtime; an error before `MPI_Init` and after `MPI_Finalize` (section 8.7).
#[inline(always)]
pub fn runtime() -> Result<&'static Runtime> {
    running().ok_or_else(not_running)
}

#[cold]
fn not_running() -> Error {
    let when = match phase() {
        Phase::Before => "before MPI_Init or MPI_Init_thread; call one of them first",
        _ => "after MPI_Finalize, which must be the last call of MPI",
    };
    Error::new(Class::Other, format!("it was called {when}"))
}

/// Brings MPI up.
pub fn start(thread_level: c_int, threaded: bool) -> Result<()> {
    if phase() != Phase::Before {
        let why = "MPI_Init and MPI_Init_thread can be called once only, by one thread";
        return Err(Error::new(Class::Other, why));
    }
    let failed = |why: String| Error::new(Class::Other, why);
    let settings = Settings::from_env().map_err(failed)?;
    let variable = |name: &str| match crate::settings::raw(name) {
        Some(value) => Some(value.into()),
        None => std::env::var_os(name),
    };
    let pmi = Arc::new(Client::connect(variable).map_err(|error| failed(error.to_string()))?);
    let (rank, size) = (pmi.rank(), pmi.size());
    identity::set(rank as usize, size as usize);
    fatal::set_launcher(pmi.clone());
    let threaded = threaded || crate::tool::wants_locks() || settings.async_progress;
    let started = bootstrap::start(&pmi, &settings, threaded).map_err(|error| failed(error.0))?;
    if settings.info != Info::None && rank == 0 {
        for note in &started.notes {
            eprintln!("Weft: {note}");
        }
    }

    let world = Comm::new(ContextId::new(0, 0), Group::identity(size), rank);
    world.set_name("MPI_COMM_WORLD");
    let self_comm = Comm::new(ContextId::new(rank, 1), Group::single(rank), 0);
    self_comm.set_name("MPI_COMM_SELF");
    let runtime = Box::new(Runtime {
        process: started.process,
        pmi,
        world: Arc::new(CommObject::new(world, MPI_COMM_WORLD)),
        self_comm: Arc::new(CommObject::new(self_comm, MPI_COMM_SELF)),
        comms: HandleTable::new(Type::Comm),
        node: started.node,
        thread_level,
        main_thread: std::thread::current().id(),
        dup_vcis: settings.dup_vcis,
        shared_alloc: settings.alloc_shared && size > 1,
        file_errhandler: Mutex::new(RETURN),
    });
    crate::infos::set_env(size, level_name(thread_level));
    RUNTIME.store(Box::into_raw(runtime), Ordering::Release);
    if settings.async_progress {
        helper::start()?;
    }
    PHASE.store(1, Ordering::Release);
    crate::report::install();
    Ok(())
}

/// The name of a thread level.
fn level_name(level: c_int) -> &'static str {
    match level {
        MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        MPI_THREAD_MULTIPLE => "MPI_THREAD_MULTIPLE",
        _ => "MPI_THREAD_SINGLE",
    }
}

/// Takes MPI down, after all that has been sent has left.
pub fn stop() -> Result<()> {
    let runtime = runtime()?;
    if PHASE
        .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        let why = "MPI_Finalize is at work already; it can be called once only, by one thread, and not \
                   by the delete callback of an attribute that it deletes";
        return Err(Error::new(Class::Other, why));
    }
    let ended = take_down(runtime);
    PHASE.store(if ended.is_ok() { 3 } else { 1 }, Ordering::Release);
    if ended.is_ok() {
        let runtime = RUNTIME.swap(ptr::null_mut(), Ordering::AcqRel);
        crate::report::uninstall();
        // SAFETY: made by `Box::into_raw` in `start`; the swap makes this its only owner, and no call
        // may overlap with MPI_Finalize.
        drop(unsafe { Box::from_raw(runtime) });
    }
    ended
}

/// Ends what others have a part in.
fn take_down(runtime: &Runtime) -> Result<()> {
    // First of all, so that libraries can clean up while MPI is still there (section 8.7.1).
    runtime.self_comm.attributes.delete_all(&MPI_COMM_SELF)?;
    runtime.world.attributes.delete_all(&MPI_COMM_WORLD)?;
    runtime.process.end_lockless();
    let together = mpi_core::collective::barrier(&runtime.process, &runtime.world.comm)
        .and_then(|()| runtime.process.drain())
        .and_then(|()| leave_together(runtime));
    // With a process lost there is no leaving together: what can be cleaned up is.
    if let Err(error) = together
        && runtime.process.first_loss().is_none()
    {
        return Err(error);
    }
    helper::end(runtime);
    runtime
        .pmi
        .finalize()
        .map_err(|error| Error::new(Class::Other, error.to_string()))?;
    crate::wins::forget();
    Ok(())
}

/// Waits until all processes have drained. Who is through the barrier has heard from all others, but
/// they may still have something to send to it (returned credit, the barrier's own messages to
/// others by way of a shared connection), for which its connections must stay.
fn leave_together(runtime: &Runtime) -> Result<()> {
    let failed = |error: pmi::PmiError| Error::new(Class::Other, error.to_string());
    if runtime.pmi.size() == 1 {
        return Ok(());
    }
    let transports = runtime.process.transports();
    if transports
        .iter()
        .skip(1)
        .all(|way| way.shared_memory().is_some())
    {
        // What was sent lies in the receivers' memory: nobody needs us for it any more.
        return runtime.pmi.fence().map_err(failed);
    }
    let me = std::thread::current();
    std::thread::scope(|scope| {
        let fence = || {
            let result = runtime.pmi.fence();
            me.unpark();
            result
        };
        let Ok(fence) = std::thread::Builder::new().spawn_scoped(scope, fence) else {
            return runtime.pmi.fence().map_err(failed);
        };
        // The launcher is asked by another thread, because a peer's last messages may need us to
        // take them in before they count as sent.
        let mut nap = Duration::from_micros(50);
        while !fence.is_finished() {
            // A peer that is lost now has left.
            if let Ok(true) = runtime.process.poll_all() {
                nap = Duration::from_micros(50);
            }
            std::thread::park_timeout(nap);
            nap = (2 * nap).min(Duration::from_millis(1));
        }
        match fence.join() {
            Ok(result) => result.map_err(failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Asks for a report of pending operations, if MPI is up. Safe in a signal handler.
pub fn want_report() -> bool {
    match running() {
        Some(runtime) => {
            runtime.process.want_report();
            true
        }
        None => false,
    }
}

impl Runtime {
    /// The communicator behind a handle, if there is one.
    #[inline(always)]
    pub fn find_comm(&self, handle: MPI_Comm) -> Option<&CommObject> {
        if handle == MPI_COMM_WORLD {
            return Some(&self.world);
        }
        match self.comms.get(handle) {
            None if handle == MPI_COMM_SELF => Some(&self.self_comm),
            found => found,
        }
    }

    /// The communicator behind a handle.
    #[inline(always)]
    pub fn comm(&self, handle: MPI_Comm) -> Result<&CommObject> {
        self.find_comm(handle).ok_or_else(|| invalid_comm(handle))
    }

    /// As [`Runtime::comm`], to be kept.
    pub fn comm_arc(&self, handle: MPI_Comm) -> Result<Arc<CommObject>> {
        match handle {
            MPI_COMM_WORLD => Ok(self.world.clone()),
            MPI_COMM_SELF => Ok(self.self_comm.clone()),
            _ => self
                .comms
                .get_arc(handle)
                .ok_or_else(|| invalid_comm(handle)),
        }
    }

    /// Gives a communicator a handle. It inherits the error handler of its parent.
    pub fn add_comm(&self, comm: Comm, parent: Option<&CommObject>) -> Result<MPI_Comm> {
        let object = CommObject::new(comm, MPI_COMM_NULL);
        if let Some(parent) = parent {
            object.inherit(parent);
        }
        self.add_object(Arc::new(object))
    }

    /// Gives a communicator a handle.
    pub fn add_object(&self, object: Arc<CommObject>) -> Result<MPI_Comm> {
        let handle = self.comms.insert(object.clone()).ok_or_else(|| {
            let why = "all 67,108,864 communicator handles are in use; free some";
            Error::new(Class::NoMem, why)
        })?;
        object.comm.set_owner(handle as u32);
        Ok(handle)
    }
}

/// The error for a handle that is no communicator.
#[cold]
pub fn invalid_comm(handle: MPI_Comm) -> Error {
    match handle {
        MPI_COMM_NULL => Error::new(Class::Comm, "comm is MPI_COMM_NULL"),
        _ => invalid_named(handle, "communicator"),
    }
}

/// The same for an argument with a name of its own.
#[cold]
pub fn invalid_named(handle: MPI_Comm, name: &str) -> Error {
    let what = if handle == MPI_COMM_NULL {
        format!("{name} is MPI_COMM_NULL")
    } else {
        format!("{name} {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Comm, what)
}
