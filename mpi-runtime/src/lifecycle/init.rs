//! Bringing MPI up and taking it down (section 8.7; MPI-4.1 chapter 11): what stands above all else.
//!
//! There is one runtime for the world model and all sessions together: made by whoever comes first,
//! and out of use, though not gone, after the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::bootstrap;
use crate::settings::{self, Info, Settings};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::{Class, Error, Result, local};
use mpi_rma::Windows;
use parking_lot::Mutex;
use pmi::Client;

use crate::dynamic::{self, Dynamic};
use crate::handles::comms::CommObject;
use crate::handles::destructors;
use crate::handles::freed_comms::Departed;
use crate::handles::handler::RETURN;
use crate::handles::infos;
use crate::handles::predefined::{MPI_COMM_SELF, MPI_COMM_WORLD};
use crate::handles::types;
use crate::handles::wins;
use crate::handles::{HandleTable, Type};
use crate::lifecycle::failures;
use crate::lifecycle::fatal;
use crate::lifecycle::identity;
use crate::lifecycle::library::{LIBRARY, Users};
use crate::lifecycle::progress_thread;
use crate::lifecycle::runtime::Binding;
use crate::lifecycle::runtime::{self, NO_WORLD, Phase, Runtime};
use crate::lifecycle::thread_level::ThreadLevel;
use crate::lifecycle::wait_report;
use crate::mpix::polling::Polling;
use crate::mpix::streams::Streams;
use crate::mpix::threadcomms::Threadcomms;
use crate::requests::bsend::Buffered;

/// Opens the world model (MPI-4.1 section 11.2).
pub fn start(binding: &Binding, thread_level: ThreadLevel) -> Result<()> {
    let mut users = LIBRARY.users.lock();
    if runtime::phase() != Phase::Before {
        let why = "MPI_Init and MPI_Init_thread can be called once only, by one thread";
        return Err(Error::new(Class::Other, why));
    }
    let runtime = open(binding, thread_level == ThreadLevel::Multiple)?;
    *runtime.thread_level.lock() = thread_level;
    expect_threads(runtime, thread_level);
    *runtime.main_thread.lock() = Some(std::thread::current().id());
    infos::set_env(runtime.pmi.size(), thread_level);
    runtime.set_world(true);
    users.world = true;
    runtime::set_phase(Phase::Running);
    // Communicators are made here as anywhere.
    drop(users);
    dynamic::spawn::find_parents(runtime)
}

/// Opens a session that asks for a level of threads. Returns the level that it gets, which is at least
/// that of the world.
pub fn open_session(binding: &Binding, wanted: ThreadLevel) -> Result<ThreadLevel> {
    let mut users = LIBRARY.users.lock();
    // Other sessions, of other threads, may come.
    let runtime = open(binding, true)?;
    expect_threads(runtime, wanted);
    users.sessions += 1;
    let wanted = match users.world {
        true => wanted.max(*runtime.thread_level.lock()),
        false => wanted,
    };
    // The process itself may just be admitting threads, in a call of another thread.
    Ok(if !local::is_alone() {
        wanted
    } else {
        wanted.min(ThreadLevel::Serialized)
    })
}

/// Where a program says that its threads call at once, its communicators are spread over VCIs.
fn expect_threads(runtime: &Runtime, level: ThreadLevel) {
    if level == ThreadLevel::Multiple && !local::is_alone() && runtime.spread > 1 {
        runtime.process.spread_over(runtime.spread);
    }
}

/// Lets the program's threads call at the same time from now on, for good, whatever level was provided: that of the world, and
/// what `MPI_Query_thread` answers, stay as they are. Nothing is done where they may already.
///
/// # Safety
/// The calling thread is the only one in a call that the level is for, and is in no function that such a call has called.
pub unsafe fn admit_threads(runtime: &Runtime) {
    if !local::is_alone() {
        return;
    }
    // SAFETY: of both, this function's contract. Calls that any thread may make at any time use neither what asks this flag
    // nor the process: they read this flag where they need the answer.
    unsafe {
        runtime.process.admit_threads();
        local::set_alone(false);
    }
}

/// Closes one. With the last there is no MPI any more, unless the world is there.
pub fn close_session() -> Result<()> {
    let runtime = runtime::runtime()?;
    let is_last = |users: &Users| users.sessions <= 1 && !users.world;
    if is_last(&LIBRARY.users.lock()) {
        runtime
            .process
            .source::<Polling>()
            .finish(&runtime.process)?;
    }
    let mut users = LIBRARY.users.lock();
    users.sessions = users.sessions.saturating_sub(1);
    if users.sessions > 0 || users.world {
        return Ok(());
    }
    runtime.process.end_lockless();
    runtime.dynamic.ports.lock().clear();
    mpi_comm::dynamic::part::finish_all(&runtime.process)?;
    let left = runtime.process.drain_within(PATIENCE).map(drop);
    // Nobody else waits for this process before it ends.
    let left = left.and_then(|()| runtime.process.wait_for_receivers());
    rest(runtime);
    // With a process lost not everything can leave.
    match left {
        Err(error) if runtime.process.first_loss().is_none() => Err(error),
        _ if runtime::phase() == Phase::After => leave(runtime),
        _ => Ok(()),
    }
}

/// How long what is still to be sent may find no room when the last session is closed: its receiver may
/// have closed its own.
const PATIENCE: Duration = Duration::from_secs(2);

/// The runtime, which is made or woken if it is not there. Who calls has the lock of its users.
fn open(binding: &Binding, threaded: bool) -> Result<&'static Runtime> {
    if let Some(runtime) = runtime::running() {
        return Ok(runtime);
    }
    (binding.check)()?;
    if !runtime::wake() {
        types::prepare();
        if runtime::phase() == Phase::After {
            let why = "a process was lost before MPI_Finalize, so nothing can be opened after it";
            return Err(Error::new(Class::Other, why));
        }
        let made = make(binding, threaded)?;
        failures::register(&made);
        made.process.source::<Windows>().on_end(wins::forget);
        runtime::install(made);
        at_exit();
        destructors::when_any(|| {
            if let Some(runtime) = runtime::running() {
                let process = &runtime.process;
                process.source::<Polling>().update(process);
            }
        });
    }
    let runtime = runtime::runtime()?;
    // SAFETY: a process that is not threaded has provided no level at which calls overlap, but for those of the kind that
    // has locks of its own, and has no threads of the library's; none of the others is made before MPI is up.
    unsafe { local::set_alone(!runtime.process.is_threaded()) };
    (runtime.binding.up)(runtime);
    if runtime.async_progress {
        *runtime.progress_thread.lock() = Some(progress_thread::start(&runtime.process)?);
    }
    wait_report::install();
    Ok(runtime)
}

fn make(binding: &Binding, threaded: bool) -> Result<Runtime> {
    let failed = |why: String| Error::new(Class::Other, why);
    let settings = Settings::from_env().map_err(failed)?;
    let connected = Client::connect(settings::environment);
    let pmi = Arc::new(connected.map_err(|error| failed(error.to_string()))?);
    let (rank, size) = (pmi.rank(), pmi.size());
    identity::set(rank as usize, size as usize);
    fatal::set_launcher(pmi.clone());
    let threaded = threaded || (binding.wants_locks)() || settings.async_progress;
    let started = bootstrap::start(&pmi, &settings, threaded, binding.version)
        .map_err(|error| failed(error.0))?;
    if settings.info != Info::None && rank == 0 {
        for note in &started.notes {
            eprintln!("Weft: {note}");
        }
    }

    let world = Comm::new(ContextId::new(0, 0), Group::identity(size), rank);
    world.set_name("MPI_COMM_WORLD");
    started
        .process
        .name_context(world.context(), "MPI_COMM_WORLD");
    let self_comm = Comm::new(ContextId::new(rank, 1), Group::single(rank), 0);
    self_comm.set_name("MPI_COMM_SELF");
    dynamic::introduce(&started.process, &pmi);
    Ok(Runtime {
        process: started.process,
        pmi,
        world: Arc::new(CommObject::new(world, MPI_COMM_WORLD)),
        self_comm: Arc::new(CommObject::new(self_comm, MPI_COMM_SELF)),
        world_handle: AtomicI32::new(NO_WORLD),
        world_model: AtomicBool::new(false),
        self_handler_chosen: AtomicBool::new(false),
        comms: HandleTable::new(Type::Comm),
        departed: Departed::default(),
        node: started.node,
        neighbours: started.neighbours,
        thread_level: Mutex::new(ThreadLevel::Multiple),
        main_thread: Mutex::new(None),
        async_progress: settings.async_progress,
        dup_vcis: settings.dup_vcis.unwrap_or(0),
        spread: match settings.dup_vcis {
            None => started.own_cores,
            Some(_) => 0,
        },
        shared_alloc: settings.alloc_shared && size > 1,
        file_errhandler: Mutex::new(RETURN),
        messages: HandleTable::new(Type::Message),
        requests: HandleTable::new(Type::Request),
        bsend: Buffered::new(binding.bsend_overhead),
        pieces: Mutex::default(),
        dynamic: Dynamic::default(),
        progress_thread: Mutex::new(None),
        binding: *binding,
        streams: Streams::default(),
        threadcomms: Threadcomms::default(),
    })
}

/// Ends what runs by itself, and takes the runtime out of use.
fn rest(runtime: &Runtime) {
    runtime.set_world(false);
    // SAFETY: calls may overlap.
    unsafe { local::set_alone(false) };
    if let Some(thread) = runtime.progress_thread.lock().take() {
        progress_thread::end(&runtime.process, thread);
    }
    runtime.streams.forget();
    runtime.process.source::<Polling>().forget(&runtime.process);
    wins::forget();
    wait_report::uninstall();
    (runtime.binding.down)();
    runtime::put_to_sleep();
}

/// Tells the launcher that this process is going to end well.
fn leave(runtime: &Runtime) -> Result<()> {
    let failed = |error: pmi::PmiError| Error::new(Class::Other, error.to_string());
    runtime.pmi.finalize().map_err(failed)
}

/// A program can open a session until it ends: so the launcher is told as late as that, if it has sessions
/// only, and the transports are closed as late as that. (They were opened before this was called, so what
/// their libraries do at the end comes after it.) A child process by `fork` has nothing to tell.
fn at_exit() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn tell() {
        let own = PROCESS.load(Ordering::Relaxed) == std::process::id();
        if !own || runtime::running().is_some() {
            return;
        }
        if let Some(launcher) = LIBRARY.launcher.get()
            && !launcher.has_left()
            && (launcher.size() == 1 || ended_together(launcher))
        {
            // Nobody is left to be told of an error.
            let _ = launcher.finalize();
        }
        // What a network keeps by a name of this process is not to stay.
        // SAFETY: no call is under way, since nothing is open that could be used.
        unsafe { runtime::discard() };
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: the function takes no arguments and stays: this library is not unloaded before its own
    // handlers have run.
    unsafe { libc::atexit(tell) };
}

/// Waits a while for the other processes to end, too: who is still in a collective operation that this
/// process has done its part of would take it for lost. False if they don't: perhaps they have never
/// opened a session.
fn ended_together(launcher: &Arc<Client>) -> bool {
    let (tell, told) = std::sync::mpsc::channel();
    let launcher = launcher.clone();
    let waiter = std::thread::Builder::new().spawn(move || {
        let _ = launcher.fence();
        let _ = tell.send(());
    });
    let Ok(waiter) = waiter else { return false };
    if told.recv_timeout(PATIENCE).is_err() {
        return false;
    }
    // It has nothing left to do: the process doesn't end in the midst of it.
    waiter.join().is_ok()
}

/// Closes the world model, after all that has been sent has left. If no session is open, there is no MPI
/// any more.
pub fn stop() -> Result<()> {
    let runtime = runtime::runtime()?;
    if !runtime::advance(Phase::Running, Phase::Finalizing) {
        let why = match runtime::phase() {
            Phase::Finalizing => {
                "MPI_Finalize is at work already; it can be called once only, by one thread, and not \
                 by the delete callback of an attribute that it deletes"
            }
            Phase::Before => {
                "MPI_Init has not been called; a session is closed by MPI_Session_finalize"
            }
            _ => "MPI_Finalize has been called already",
        };
        return Err(Error::new(Class::Other, why));
    }
    let ended = take_down(runtime);
    if ended.is_err() {
        runtime::set_phase(Phase::Running);
    }
    ended
}

/// Ends what others have a part in.
fn take_down(runtime: &Runtime) -> Result<()> {
    // First of all, so that libraries can clean up while MPI is still there (section 8.7.1).
    runtime.self_comm.attributes.delete_all(&MPI_COMM_SELF)?;
    runtime.world.attributes.delete_all(&MPI_COMM_WORLD)?;
    runtime
        .process
        .source::<Polling>()
        .finish(&runtime.process)?;
    {
        // With the lock: what another thread opens in a session of its own stays.
        let users = LIBRARY.users.lock();
        if users.sessions == 0 {
            runtime.process.end_lockless();
            runtime.dynamic.ports.lock().clear();
        }
    }
    // MPI_Finalize is collective over all connected processes (section 10.5.4).
    mpi_comm::dynamic::part::finish_all(&runtime.process)?;
    // What a session has still to send may wait for its receiver, which is not to be waited for here. Another thread may
    // open one at any time.
    let has_sessions = || LIBRARY.users.lock().sessions > 0;
    let drain = || runtime.process.drain_unless(has_sessions);
    // All processes together, whoever has sessions open.
    let together = mpi_coll::barrier(&runtime.process, &runtime.world.comm)
        .and_then(|()| drain())
        .and_then(|()| leave_together(runtime));
    // With a process lost, or the world revoked, there is no leaving together: what can be cleaned up is.
    let alone = runtime.process.first_loss().is_some() || runtime.world.comm.is_revoked();
    if let Err(error) = together
        && !alone
    {
        return Err(error);
    }
    if alone {
        await_survivors(runtime);
    }
    // Not before: other threads may open sessions, which others may wait for before they come here.
    let mut users = LIBRARY.users.lock();
    if users.sessions == 0 {
        leave(runtime)?;
    }
    users.world = false;
    runtime.set_world(false);
    runtime::set_phase(Phase::After);
    if users.sessions == 0 {
        let alone = runtime.process.first_loss().is_some() || runtime.world.comm.is_revoked();
        rest(runtime);
        if alone {
            // Not all may have been waited for: who is still at work must not take this process for lost, too.
            // SAFETY: the program has no calls under way (MPI-4.1 section 11.2.2), and `runtime` is not used
            // from here on.
            unsafe { runtime::discard() };
        }
    }
    Ok(())
}

/// Waits for those who are left where there is no leaving together, for a while: who is still in a call that this
/// process has done its part of would take it for lost. One that waits for this process itself, having heard nothing of
/// the loss, finds it gone then.
fn await_survivors(runtime: &Runtime) {
    const LAST_WORDS: Duration = Duration::from_millis(100);
    let process = &runtime.process;
    let until = process.clock().now() + PATIENCE;
    let begun = mpi_comm::failure::start_agree(process, runtime.world.clone(), u32::MAX, |_| {});
    let Ok(request) = begun else { return };
    let is_over = || {
        let done = process.request(request).is_none_or(|one| one.is_done());
        Ok((done || process.clock().now() > until).then_some(()))
    };
    // Whatever goes wrong, this process leaves.
    let _ = process.wait_despite_loss(0, is_over);
    let _ = process.drain_within(LAST_WORDS);
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
        // What was sent lies in the receivers' memory, or has been received: nobody needs us for it any more.
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
            // Longer from time to time: where many ranks share a core, those that wait would keep it from the
            // one that they wait for.
            nap = (2 * nap).min(Duration::from_millis(10));
        }
        match fence.join() {
            Ok(result) => result.map_err(failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
