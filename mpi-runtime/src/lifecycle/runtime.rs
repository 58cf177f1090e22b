//! The runtime: all MPI state of a process between `MPI_Init` and `MPI_Finalize`.
//!
//! State that outlives it is in the [library](crate::lifecycle::library).

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::thread::{JoinHandle, ThreadId};
use std::{iter, ptr};

use crate::bootstrap::Neighbours;
use mpi_coll::Holder;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::{Class, Error, MatchedMessage, Process, Result};
use parking_lot::Mutex;
use pmi::Client;

use crate::dynamic::Dynamic;
use crate::handles::HandleTable;
use crate::handles::comms::CommObject;
use crate::handles::freed_comms::FreedComms;
use crate::handles::handler::Attached;
use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_Comm};
use crate::lifecycle::thread_level::ThreadLevel;
use crate::mpix::streams::Streams;
use crate::mpix::threadcomms::{self, Threadcomms};
use crate::requests::bsend::Buffered;
use crate::requests::object::Object;

/// What the library of an ABI provides to the runtime.
#[derive(Clone, Copy)]
pub struct Binding {
    /// The text of `MPI_Get_library_version`.
    pub version: &'static str,
    /// `MPI_BSEND_OVERHEAD`.
    pub bsend_overhead: usize,
    /// Whether an address is `MPI_IN_PLACE`.
    pub is_in_place: fn(*const c_void) -> bool,
    /// Fails if something keeps MPI from being initialized in this process.
    pub check: fn() -> Result<()>,
    /// Returns whether tools need a process that several threads may inspect at once.
    pub wants_locks: fn() -> bool,
    /// Called when MPI has been initialized.
    pub up: fn(&Runtime),
    /// Called before MPI is finalized.
    pub down: fn(),
    /// Called with the handle, rank and size of each new communicator.
    pub on_comm: fn([c_int; 3]),
}

/// All state that exists while MPI is initialized.
pub struct Runtime {
    /// The process.
    pub process: Process,
    /// The launcher.
    pub pmi: Arc<Client>,
    /// `MPI_COMM_WORLD`, which the program may use while [`Runtime::has_world`].
    pub world: Arc<CommObject>,
    /// `MPI_COMM_SELF`, which the program may use while [`Runtime::has_world`].
    pub self_comm: Arc<CommObject>,
    /// The handle of `MPI_COMM_WORLD`, or [`NO_WORLD`]: one comparison tests both validity and
    /// identity.
    pub world_handle: AtomicI32,
    /// Whether the world model is open.
    pub world_model: AtomicBool,
    /// Whether the program has chosen an error handler for `MPI_COMM_SELF`.
    pub self_handler_chosen: AtomicBool,
    /// Communicators made at run time.
    pub comms: HandleTable<CommObject>,
    /// Freed communicators that requests still name.
    pub freed_comms: FreedComms,
    /// Identifies the node within the job: processes with the same number share memory.
    pub node: u64,
    /// Identifies the node to other jobs.
    pub public_node: u64,
    /// Finds the processes of this node.
    pub neighbours: Neighbours,
    /// The thread level provided by `MPI_Init`, or by the first session until then.
    pub thread_level: Mutex<ThreadLevel>,
    /// The thread that called `MPI_Init`.
    pub main_thread: Mutex<Option<ThreadId>>,
    /// Whether a progress thread of the library runs.
    pub async_progress: bool,
    /// VCIs that a duplicate gets without hints; 0: those shared by all communicators.
    pub dup_vcis: u32,
    /// VCIs beside VCI 0 that communicators without hints are spread over if threads call
    /// concurrently.
    pub spread: usize,
    /// Whether `MPI_Alloc_mem` returns memory that other processes of the node can map.
    pub shared_alloc: bool,
    /// The error handler for files that are not open (section 13.7).
    pub file_errhandler: Mutex<Attached>,
    /// Messages that matched probes removed from the unexpected queue.
    pub messages: HandleTable<Mutex<Option<MatchedMessage>>>,
    /// Persistent and generalized requests.
    pub requests: HandleTable<Object>,
    /// The memory that the program attached for buffered sends.
    pub bsend: Buffered,
    /// Address and layout of each allocation of `MPI_Alloc_mem` that is not shared.
    pub pieces: Mutex<HashMap<usize, Layout>>,
    /// Ports, and the parent's communicator.
    pub dynamic: Dynamic,
    /// The thread of asynchronous progress, if one runs.
    pub progress_thread: Mutex<Option<JoinHandle<()>>>,
    /// What the ABI's library provides.
    pub binding: Binding,
    /// Streams, and the threads that make progress on them.
    pub streams: Streams,
    /// Handles of thread communicators, which name a different communicator in each thread.
    pub threadcomms: Threadcomms,
}

/// The value of [`Runtime::world_handle`] without a world model. No object has this handle.
pub const NO_WORLD: MPI_Comm = 0x44ff_ffff;

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
/// The suspended runtime, between the last user's end and the next session.
static SUSPENDED: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(0);

/// The phase of the world model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Phase {
    /// `MPI_Init` has not been called.
    Before,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// `MPI_Finalize` is running: delete callbacks of attributes may still call MPI.
    Finalizing,
    /// `MPI_Finalize` has been called.
    After,
}

/// Returns the phase of the world model.
#[inline]
pub fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        0 => Phase::Before,
        1 => Phase::Running,
        2 => Phase::Finalizing,
        _ => Phase::After,
    }
}

/// Returns the runtime, if MPI is initialized.
///
/// It exists until the process ends or calls [`discard`], which is unsafe: its caller ensures that no
/// reference is left.
#[inline(always)]
pub fn running() -> Option<&'static Runtime> {
    // SAFETY: the pointer is null or was installed by `install`; `discard` alone frees it, after
    // `suspend` has taken it out of `RUNTIME` and while no call is under way.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// Returns the runtime.
///
/// # Errors
/// MPI is not initialized: before `MPI_Init` or after `MPI_Finalize` (section 8.7).
#[inline(always)]
pub fn runtime() -> Result<&'static Runtime> {
    running().ok_or_else(not_running)
}

#[cold]
fn not_running() -> Error {
    let when = match phase() {
        Phase::Before => {
            "before MPI_Init, MPI_Init_thread or MPI_Session_init; call one of them first"
        }
        _ => "after MPI_Finalize, and no session is open",
    };
    Error::new(Class::Other, format!("it was called {when}"))
}

/// Refuses `MPI_IN_PLACE` as the address of a buffer. Accepts it before `MPI_Init`.
///
/// # Errors
/// An error of class `class`, for the parameter `name`.
#[cold]
pub fn demand_memory(name: &str, address: *const c_void, class: Class) -> Result<()> {
    if running().is_some_and(|runtime| (runtime.binding.is_in_place)(address)) {
        let why = "is MPI_IN_PLACE, which is not allowed here; give the address of the data";
        return Err(Error::new(class, format!("{name} {why}")));
    }
    Ok(())
}

impl Runtime {
    /// Returns the number of this process's node, equal for members of a communicator that share memory.
    pub fn node_within(&self, comm: &Comm) -> u64 {
        let foreign = self.process.foreign();
        let mut groups = iter::once(comm.local()).chain(comm.remote());
        let spans_jobs =
            foreign.any() && groups.any(|group| group.peers().any(|peer| foreign.is_foreign(peer)));
        if spans_jobs {
            self.public_node
        } else {
            self.node
        }
    }
}

/// Installs the runtime: MPI's state is available from here on, while `MPI_Init` is still running.
pub fn install(runtime: Runtime) {
    RUNTIME.store(Box::into_raw(Box::new(runtime)), Ordering::Release);
}

/// Suspends the runtime until [`resume`].
///
/// The runtime and its transports stay, because peers know this process's addresses: opening a
/// session is local, so there is no call in which peers could learn new ones.
pub fn suspend() {
    SUSPENDED.store(
        RUNTIME.swap(ptr::null_mut(), Ordering::AcqRel),
        Ordering::Release,
    );
}

/// Frees the suspended runtime and closes its transports; it cannot be resumed any more.
///
/// # Safety
/// No reference to the runtime is left, which [`running`] has handed out for `'static`: no thread
/// calls MPI, and the library's own threads have ended.
pub unsafe fn discard() {
    let runtime = SUSPENDED.swap(ptr::null_mut(), Ordering::AcqRel);
    if !runtime.is_null() {
        // SAFETY: the pointer came from `Box::into_raw` in `install`, and the swap made this its
        // only owner.
        drop(unsafe { Box::from_raw(runtime) });
    }
}

/// Resumes the suspended runtime. Returns false if there is none.
pub fn resume() -> bool {
    let runtime = SUSPENDED.swap(ptr::null_mut(), Ordering::AcqRel);
    if !runtime.is_null() {
        RUNTIME.store(runtime, Ordering::Release);
    }
    !runtime.is_null()
}

/// Sets the phase of the world model.
pub fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

/// Changes the phase from `from` to `to`. Returns false if it is not `from`.
pub fn advance(from: Phase, to: Phase) -> bool {
    let changed = PHASE.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed);
    changed.is_ok()
}

/// Requests a report of pending operations, if MPI is initialized. Async-signal-safe.
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
    /// Returns whether `MPI_COMM_WORLD` and `MPI_COMM_SELF` exist: between `MPI_Init` and
    /// `MPI_Finalize`.
    pub fn has_world(&self) -> bool {
        self.world_model.load(Ordering::Acquire)
    }

    /// Makes `MPI_COMM_WORLD` and `MPI_COMM_SELF` available to the program, or unavailable.
    pub fn set_world(&self, there: bool) {
        let handle = if there { MPI_COMM_WORLD } else { NO_WORLD };
        self.world_handle.store(handle, Ordering::Release);
        self.world_model.store(there, Ordering::Release);
    }

    /// Lets a program that only uses sessions call functions on `MPI_COMM_WORLD` once it has made a
    /// communicator of all processes. The standard has no such communicator there (MPI-4.1 section
    /// 11.3), but MPICH accepts the handle, and programs ask it for their rank.
    pub fn lend_world(&self) {
        self.world_handle.store(MPI_COMM_WORLD, Ordering::Release);
    }

    /// Returns the communicator behind a handle, if there is one.
    #[inline(always)]
    pub fn find_comm<'c>(&'c self, handle: MPI_Comm, call: InCall<'c>) -> Option<&'c CommObject> {
        match self.early_comm(handle, call) {
            None => self.find_late_comm(handle, call),
            found => found,
        }
    }

    #[inline(never)]
    fn find_late_comm<'c>(&'c self, handle: MPI_Comm, call: InCall<'c>) -> Option<&'c CommObject> {
        match self.comms.get(handle, call) {
            None if handle == MPI_COMM_SELF && self.has_world() => Some(&self.self_comm),
            None => self.comms.get(threadcomms::own_point(handle)?, call),
            found => found,
        }
    }

    /// Returns the communicator behind a handle if it is the world or in the table's first segment.
    /// The slow paths find the others.
    #[inline(always)]
    pub fn early_comm<'c>(&'c self, handle: MPI_Comm, call: InCall<'c>) -> Option<&'c CommObject> {
        if handle == self.world_handle.load(Ordering::Relaxed) {
            return Some(&self.world);
        }
        self.comms.get_early(handle, call)
    }

    /// Returns the communicator behind a handle.
    #[inline(always)]
    pub fn comm<'c>(&'c self, handle: MPI_Comm, call: InCall<'c>) -> Result<&'c CommObject> {
        self.find_comm(handle, call)
            .ok_or_else(|| invalid_comm(handle))
    }

    /// Returns a reference to keep the communicator behind a handle.
    pub fn comm_arc(&self, handle: MPI_Comm) -> Result<Arc<CommObject>> {
        match handle {
            _ if handle == self.world_handle.load(Ordering::Relaxed) => Ok(self.world.clone()),
            MPI_COMM_SELF if self.has_world() => Ok(self.self_comm.clone()),
            _ => {
                let own_point = || self.comms.get_arc(threadcomms::own_point(handle)?);
                let found = self.comms.get_arc(handle).or_else(own_point);
                found.ok_or_else(|| invalid_comm(handle))
            }
        }
    }

    /// Inserts a communicator, which inherits the error handler of its parent. Returns its handle.
    pub fn add_comm(&self, comm: Comm, parent: Option<&CommObject>) -> Result<MPI_Comm> {
        let object = CommObject::new(comm, MPI_COMM_NULL);
        if let Some(parent) = parent {
            object.inherit(parent);
        }
        self.add_object(Arc::new(object))
    }

    /// Reserves a handle for a communicator that is being made. It may not be used before
    /// [`Runtime::fill_comm`].
    pub fn reserve_comm(&self) -> Result<MPI_Comm> {
        let none = Comm::new(ContextId::UNKNOWN, Group::empty(), 0);
        let object = Arc::new(CommObject::new(none, MPI_COMM_NULL));
        self.comms.insert(object).ok_or_else(all_in_use)
    }

    /// Installs the communicator behind a reserved handle. It inherits the error handler of its
    /// parent.
    pub fn fill_comm(&self, handle: MPI_Comm, comm: Comm, parent: &CommObject) -> Result<()> {
        let object = Arc::new(CommObject::new(comm, handle));
        object.inherit(parent);
        self.comms.replace(handle, object.clone());
        self.announce(object)
    }

    /// Reserves a handle without a communicator, until [`HandleTable::give_back`].
    pub fn vacant_comm(&self) -> Result<MPI_Comm> {
        let handle = self.reserve_comm()?;
        self.comms.take(handle);
        Ok(handle)
    }

    /// Inserts a communicator. Returns its handle.
    pub fn add_object(&self, object: Arc<CommObject>) -> Result<MPI_Comm> {
        let handle = self.comms.insert(object.clone()).ok_or_else(all_in_use)?;
        object.set_handle(handle);
        self.announce(object)?;
        Ok(handle)
    }

    /// Announces a communicator to the binding and to failure handling, and keeps its foreign
    /// members connected.
    fn announce(&self, object: Arc<CommObject>) -> Result<()> {
        let (rank, size) = (object.comm.rank(), object.comm.size());
        (self.binding.on_comm)([object.handle(), rank as c_int, size as c_int]);
        object.keep_connected(&self.process);
        let holder: Holder = object;
        mpi_comm::failure::register_new(&self.process, &holder)
    }
}

#[cold]
fn all_in_use() -> Error {
    let why = "all 67,108,864 communicator handles are in use; free some";
    Error::new(Class::NoMem, why)
}

/// Returns the error for an invalid handle of the parameter `comm`.
#[cold]
pub fn invalid_comm(handle: MPI_Comm) -> Error {
    match handle {
        MPI_COMM_NULL => Error::new(Class::Comm, "comm is MPI_COMM_NULL"),
        MPI_COMM_WORLD | MPI_COMM_SELF => {
            let why = "comm exists only between MPI_Init and MPI_Finalize; with sessions, make one by \
                       MPI_Group_from_session_pset and MPI_Comm_create_from_group";
            Error::new(Class::Comm, why)
        }
        _ => invalid_named(handle, "communicator"),
    }
}

/// Returns the error for an invalid handle of the parameter `name`, or of `comm`.
#[cold]
pub fn invalid_argument(handle: MPI_Comm, name: &str) -> Error {
    match handle {
        MPI_COMM_WORLD | MPI_COMM_SELF => invalid_comm(handle),
        _ if name == "comm" => invalid_comm(handle),
        _ => invalid_named(handle, name),
    }
}

/// Returns the error for an invalid handle, naming it by `name`.
#[cold]
pub fn invalid_named(handle: MPI_Comm, name: &str) -> Error {
    let what = if handle == MPI_COMM_NULL {
        format!("{name} is MPI_COMM_NULL")
    } else if running().is_some_and(|runtime| runtime.threadcomms.has(handle)) {
        format!(
            "{name} {handle:#x} is a thread communicator that this thread has not started; call \
             MPIX_Threadcomm_start first"
        )
    } else {
        format!("{name} {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Comm, what)
}
