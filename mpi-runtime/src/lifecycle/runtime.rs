//! The process between `MPI_Init` and `MPI_Finalize`: the one value that all MPI semantics hang off.
//! (What outlives it is in the [library](crate::lifecycle::library).)

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::thread::{JoinHandle, ThreadId};

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
use crate::handles::freed_comms::Departed;
use crate::handles::handler::Attached;
use crate::handles::predefined::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_Comm};
use crate::lifecycle::thread_level::ThreadLevel;
use crate::mpix::streams::Streams;
use crate::mpix::threadcomms::{self, Threadcomms};
use crate::requests::bsend::Buffered;
use crate::requests::object::Object;

/// What the library of an ABI has of its own, and wants to be told.
#[derive(Clone, Copy)]
pub struct Binding {
    /// What `MPI_Get_library_version` says.
    pub version: &'static str,
    /// `MPI_BSEND_OVERHEAD`.
    pub bsend_overhead: usize,
    /// Whether an address is `MPI_IN_PLACE`.
    pub is_in_place: fn(*const c_void) -> bool,
    /// Looks for what keeps MPI from coming up in this process.
    pub check: fn() -> Result<()>,
    /// Whether tools need a process into which several threads may look at once.
    pub wants_locks: fn() -> bool,
    /// MPI has come up.
    pub up: fn(&Runtime),
    /// It is about to go.
    pub down: fn(),
    /// A communicator has been made: its handle, this process's rank and the number of ranks in it.
    pub on_comm: fn([c_int; 3]),
}

/// Everything that exists while MPI is up.
pub struct Runtime {
    /// The process.
    pub process: Process,
    /// The launcher.
    pub pmi: Arc<Client>,
    /// `MPI_COMM_WORLD`, which the program may use while [`Runtime::has_world`].
    pub world: Arc<CommObject>,
    /// `MPI_COMM_SELF`, likewise.
    pub self_comm: Arc<CommObject>,
    /// `MPI_COMM_WORLD` if there is one, or [`NO_WORLD`]: one comparison finds out both.
    pub world_handle: AtomicI32,
    /// Whether the world model is open.
    pub world_model: AtomicBool,
    /// Whether the program has chosen an error handler for `MPI_COMM_SELF`.
    pub self_handler_chosen: AtomicBool,
    /// Communicators made at run time.
    pub comms: HandleTable<CommObject>,
    /// Those of them that are freed, and that requests still name.
    pub departed: Departed,
    /// Tells nodes apart: processes with the same number can share memory.
    pub node: u64,
    /// Finds the processes of this node.
    pub neighbours: Neighbours,
    /// The thread level that was provided by `MPI_Init`, or until that by the first session.
    pub thread_level: Mutex<ThreadLevel>,
    /// The thread that called `MPI_Init`.
    pub main_thread: Mutex<Option<ThreadId>>,
    /// Whether a thread of the library's makes progress.
    pub async_progress: bool,
    /// VCIs that a duplicate gets without hints; 0: those of all.
    pub dup_vcis: u32,
    /// VCIs beside VCI 0 that communicators get without hints, if threads call at once.
    pub spread: usize,
    /// Whether `MPI_Alloc_mem` gives memory that others of the node can map.
    pub shared_alloc: bool,
    /// For errors on files that are not open (section 13.7).
    pub file_errhandler: Mutex<Attached>,
    /// Messages that matched probes took out.
    pub messages: HandleTable<Mutex<Option<MatchedMessage>>>,
    /// Persistent and generalized requests.
    pub requests: HandleTable<Object>,
    /// The memory that the program attached for buffered sends.
    pub bsend: Buffered,
    /// Where pieces of `MPI_Alloc_mem` begin that are not shared, and how they were allocated.
    pub pieces: Mutex<HashMap<usize, Layout>>,
    /// Ports, and the parent's communicator.
    pub dynamic: Dynamic,
    /// The thread of asynchronous progress, if there is one.
    pub progress_thread: Mutex<Option<JoinHandle<()>>>,
    /// The library that brought it up.
    pub binding: Binding,
    /// Streams, and the threads that make progress on some.
    pub streams: Streams,
    /// Handles that mean a communicator of its own in each thread.
    pub threadcomms: Threadcomms,
}

/// In place of the handle of `MPI_COMM_WORLD`, where there is none. No object has this handle.
pub const NO_WORLD: MPI_Comm = 0x44ff_ffff;

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
/// The runtime while neither the world nor a session is open, from the first time that one was.
static ASLEEP: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
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
#[inline]
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
    // SAFETY: what was installed is freed by `discard` alone, when it is installed no more and no call is
    // under way.
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
        Phase::Before => {
            "before MPI_Init, MPI_Init_thread or MPI_Session_init; call one of them first"
        }
        _ => "after MPI_Finalize, and no session is open",
    };
    Error::new(Class::Other, format!("it was called {when}"))
}

/// Refuses `MPI_IN_PLACE` where memory is asked for; it is no error before `MPI_Init`.
///
/// # Errors
/// Of that class, for the parameter `name`.
#[cold]
pub fn demand_memory(name: &str, address: *const c_void, class: Class) -> Result<()> {
    if running().is_some_and(|runtime| (runtime.binding.is_in_place)(address)) {
        let why = "is MPI_IN_PLACE, which is not allowed here; give the address of the data";
        return Err(Error::new(class, format!("{name} {why}")));
    }
    Ok(())
}

/// Takes the runtime over: MPI's state is there from now on, though `MPI_Init` is still at work.
pub fn install(runtime: Runtime) {
    RUNTIME.store(Box::into_raw(Box::new(runtime)), Ordering::Release);
}

/// Takes the runtime out of use until [`wake`]. It stays, because this process's addresses, which others
/// have learned, must not change: nobody could be told of new ones when a session is opened, which is
/// local.
pub fn put_to_sleep() {
    ASLEEP.store(
        RUNTIME.swap(ptr::null_mut(), Ordering::AcqRel),
        Ordering::Release,
    );
}

/// Frees the runtime that is asleep: its transports take their leave, and it can't be woken any more.
///
/// # Safety
/// Nobody has a reference to it any more, nor calls MPI at the same time.
pub unsafe fn discard() {
    let runtime = ASLEEP.swap(ptr::null_mut(), Ordering::AcqRel);
    if !runtime.is_null() {
        // SAFETY: it came from `Box::into_raw` in `install`, and nobody else has it now.
        drop(unsafe { Box::from_raw(runtime) });
    }
}

/// Takes it into use again, if there is one asleep.
pub fn wake() -> bool {
    let runtime = ASLEEP.swap(ptr::null_mut(), Ordering::AcqRel);
    if !runtime.is_null() {
        RUNTIME.store(runtime, Ordering::Release);
    }
    !runtime.is_null()
}

/// Takes note of how far the process has come.
pub fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

/// Goes from one phase to another; false if it is not in the first.
pub fn advance(from: Phase, to: Phase) -> bool {
    let changed = PHASE.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed);
    changed.is_ok()
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
    /// Whether `MPI_COMM_WORLD` and `MPI_COMM_SELF` exist: between `MPI_Init` and `MPI_Finalize`.
    pub fn has_world(&self) -> bool {
        self.world_model.load(Ordering::Acquire)
    }

    /// Lets the program use them, or not any more.
    pub fn set_world(&self, there: bool) {
        let handle = if there { MPI_COMM_WORLD } else { NO_WORLD };
        self.world_handle.store(handle, Ordering::Release);
        self.world_model.store(there, Ordering::Release);
    }

    /// Lets a program with sessions only use `MPI_COMM_WORLD`, once it has made a communicator of all
    /// processes. The standard has no such communicator there (MPI-4.1 section 11.3), but MPICH lets it
    /// pass, and programs ask it for their rank.
    pub fn lend_world(&self) {
        self.world_handle.store(MPI_COMM_WORLD, Ordering::Release);
    }

    /// The communicator behind a handle, if there is one.
    #[inline(always)]
    pub fn find_comm(&self, handle: MPI_Comm) -> Option<&CommObject> {
        match self.early_comm(handle) {
            None => self.find_late_comm(handle),
            found => found,
        }
    }

    #[inline(never)]
    fn find_late_comm(&self, handle: MPI_Comm) -> Option<&CommObject> {
        match self.comms.get(handle) {
            None if handle == MPI_COMM_SELF && self.has_world() => Some(&self.self_comm),
            None => self.comms.get(threadcomms::own_point(handle)?),
            found => found,
        }
    }

    /// As [`Runtime::find_comm`] for those that most programs use; the others are found on the long ways.
    #[inline(always)]
    pub fn early_comm(&self, handle: MPI_Comm) -> Option<&CommObject> {
        if handle == self.world_handle.load(Ordering::Relaxed) {
            return Some(&self.world);
        }
        self.comms.get_early(handle)
    }

    /// The communicator behind a handle.
    #[inline(always)]
    pub fn comm(&self, handle: MPI_Comm) -> Result<&CommObject> {
        self.find_comm(handle).ok_or_else(|| invalid_comm(handle))
    }

    /// As [`Runtime::comm`], to be kept.
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

    /// Gives a communicator a handle. It inherits the error handler of its parent.
    pub fn add_comm(&self, comm: Comm, parent: Option<&CommObject>) -> Result<MPI_Comm> {
        let object = CommObject::new(comm, MPI_COMM_NULL);
        if let Some(parent) = parent {
            object.inherit(parent);
        }
        self.add_object(Arc::new(object))
    }

    /// A handle for a communicator that is still to be made of another. It may not be used before.
    pub fn reserve_comm(&self) -> Result<MPI_Comm> {
        let none = Comm::new(ContextId::UNKNOWN, Group::empty(), 0);
        let object = Arc::new(CommObject::new(none, MPI_COMM_NULL));
        self.comms.insert(object).ok_or_else(all_in_use)
    }

    /// Puts the communicator behind its handle. It inherits the error handler of its parent.
    pub fn fill_comm(&self, handle: MPI_Comm, comm: Comm, parent: &CommObject) -> Result<()> {
        let object = Arc::new(CommObject::new(comm, handle));
        object.inherit(parent);
        self.comms.replace(handle, object.clone());
        self.present(object)
    }

    /// A handle that no communicator has until [`HandleTable::give_back`].
    pub fn vacant_comm(&self) -> Result<MPI_Comm> {
        let handle = self.reserve_comm()?;
        self.comms.take(handle);
        Ok(handle)
    }

    /// Gives a communicator a handle.
    pub fn add_object(&self, object: Arc<CommObject>) -> Result<MPI_Comm> {
        let handle = self.comms.insert(object.clone()).ok_or_else(all_in_use)?;
        object.set_handle(handle);
        self.present(object)?;
        Ok(handle)
    }

    /// Makes a communicator with its handle known to those who want to know.
    fn present(&self, object: Arc<CommObject>) -> Result<()> {
        let (rank, size) = (object.comm.rank(), object.comm.size());
        (self.binding.on_comm)([object.handle(), rank as c_int, size as c_int]);
        object.keep_connected(&self.process);
        let holder: Holder = object;
        mpi_comm::failure::look_at_new(&self.process, &holder)
    }
}

#[cold]
fn all_in_use() -> Error {
    let why = "all 67,108,864 communicator handles are in use; free some";
    Error::new(Class::NoMem, why)
}

/// The error for a handle that is no communicator.
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

/// The same for the parameter `name`.
#[cold]
pub fn invalid_argument(handle: MPI_Comm, name: &str) -> Error {
    match handle {
        MPI_COMM_WORLD | MPI_COMM_SELF => invalid_comm(handle),
        _ if name == "comm" => invalid_comm(handle),
        _ => invalid_named(handle, name),
    }
}

/// The same for an argument with a name of its own.
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
