//! Start and end of MPI (section 8.7; MPI-4.1 chapter 11).
//!
//! The world model and all sessions share one runtime: the first of them makes it, and the last one
//! suspends it. A suspended runtime is resumed by the next session.

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
use crate::handles::freed_comms::FreedComms;
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
use crate::lifecycle::{crash_report, wait_report};
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
    spread_comms(runtime, thread_level);
    *runtime.main_thread.lock() = Some(std::thread::current().id());
    infos::set_env(runtime.pmi.size(), thread_level);
    runtime.set_world(true);
    users.world = true;
    runtime::set_phase(Phase::Running);
    // Communicators to the parents are made like any other, without the lock of the users.
    drop(users);
    dynamic::spawn::find_parents(runtime)
}

/// Opens a session with the thread level `wanted`. Returns the provided level, which is at least
/// the world model's.
pub fn open_session(binding: &Binding, wanted: ThreadLevel) -> Result<ThreadLevel> {
    let mut users = LIBRARY.users.lock();
    // Other threads may open sessions, so the process must be threaded.
    let runtime = open(binding, true)?;
    spread_comms(runtime, wanted);
    users.sessions += 1;
    let wanted = match users.world {
        true => wanted.max(*runtime.thread_level.lock()),
        false => wanted,
    };
    // The process itself may just be admitting threads, in a call of another thread.
    Ok(if !local::calls_never_overlap() {
        wanted
    } else {
        wanted.min(ThreadLevel::Serialized)
    })
}

/// Spreads the program's communicators over VCIs if its threads call MPI concurrently.
fn spread_comms(runtime: &Runtime, level: ThreadLevel) {
    if level == ThreadLevel::Multiple && !local::calls_never_overlap() && runtime.spread > 1 {
        runtime.process.enable_automatic_vcis(runtime.spread);
    }
}

/// Lets the program's threads call concurrently from now on, for good, whatever thread level was
/// provided. The level of the world, which `MPI_Query_thread` returns, does not change.
///
/// # Safety
/// The calling thread is the only one in a call that is subject to the level, and is in no function
/// that such a call has called.
pub unsafe fn admit_threads(runtime: &Runtime) {
    if !local::calls_never_overlap() {
        return;
    }
    // SAFETY: no other call subject to the level is under way (# Safety). Calls that any thread may
    // make at any time use neither the process nor code that depends on this flag: they read the
    // flag where they need the answer.
    unsafe {
        runtime.process.admit_threads();
        local::set_no_overlap(false);
    }
}

/// Closes a session. The last one ends MPI, unless the world model is open.
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
    let left = runtime.process.drain_within(EXIT_LIMIT).map(drop);
    // No other process waits for this one before it ends.
    let left = left.and_then(|()| runtime.process.wait_for_receivers());
    shut_down(runtime);
    // After a loss, messages to the lost process cannot be sent.
    match left {
        Err(error) if runtime.process.first_loss().is_none() => Err(error),
        _ if runtime::phase() == Phase::After => leave(runtime),
        _ => Ok(()),
    }
}

/// Limit on the final sends and waits of a process that leaves. A receiver may have left before.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Returns the runtime; makes or resumes it if needed. The caller holds the lock of
/// `LIBRARY.users`.
fn open(binding: &Binding, threaded: bool) -> Result<&'static Runtime> {
    if let Some(runtime) = runtime::running() {
        return Ok(runtime);
    }
    (binding.check)()?;
    if !runtime::resume() {
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
    // SAFETY: a process that is not threaded provides no level at which calls overlap; objects that
    // may be used concurrently at any level have a `Local::overlapping`. The library starts threads
    // only in a threaded process, and none before MPI is initialized.
    unsafe { local::set_no_overlap(!runtime.process.is_threaded()) };
    (runtime.binding.up)(runtime);
    if runtime.async_progress {
        *runtime.progress_thread.lock() = Some(progress_thread::start(&runtime.process)?);
    }
    wait_report::install();
    crash_report::install();
    Ok(runtime)
}

/// Returns the path of the file that this library was loaded from.
fn library() -> Option<String> {
    let own = library as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (first, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_own = (number(first)?..number(end)?).contains(&own);
        is_own.then(|| rest.find('/').map(|at| rest[at..].to_owned()))?
    })
}

fn make(binding: &Binding, threaded: bool) -> Result<Runtime> {
    let failed = |why: String| Error::new(Class::Other, why);
    let settings = Settings::from_env().map_err(failed)?;
    let connected = Client::connect(settings::environment);
    let pmi = Arc::new(connected.map_err(|error| failed(error.to_string()))?);
    let (rank, size) = (pmi.rank(), pmi.size());
    identity::set(rank as usize, size as usize);
    netmod_kit::events::set_rank(rank);
    fatal::set_launcher(pmi.clone());
    let threaded = threaded || (binding.wants_locks)() || settings.async_progress;
    let started = bootstrap::start(&pmi, &settings, threaded, binding.version)
        .map_err(|error| failed(error.0))?;
    if settings.info != Info::None && rank == 0 {
        for note in &started.notes {
            eprintln!("Weft: {note}");
        }
        for note in settings::in_force() {
            eprintln!("Weft: {note}");
        }
        eprintln!(
            "Weft: library: {}",
            library().as_deref().unwrap_or("unknown")
        );
    }
    if settings.warn && rank == 0 && !pmi.spawned() {
        let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        let names = names.filter_map(|(name, _)| name.into_string().ok());
        for line in settings::unread::lines(&names.collect::<Vec<_>>()) {
            eprintln!(
                "Weft: {line} ({}=0 leaves such lines out)",
                settings::unread::SWITCH
            );
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
        freed_comms: FreedComms::default(),
        node: started.node,
        public_node: started.public_node,
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

/// Stops the library's own threads and suspends the runtime.
fn shut_down(runtime: &Runtime) {
    runtime.set_world(false);
    // SAFETY: `false` claims nothing: every `Local` takes its lock.
    unsafe { local::set_no_overlap(false) };
    if let Some(thread) = runtime.progress_thread.lock().take() {
        progress_thread::end(&runtime.process, thread);
    }
    runtime.streams.forget();
    runtime.process.source::<Polling>().forget(&runtime.process);
    wins::forget();
    wait_report::uninstall();
    crash_report::uninstall();
    (runtime.binding.down)();
    runtime::suspend();
}

/// Notifies the launcher that this process ends normally.
fn leave(runtime: &Runtime) -> Result<()> {
    let failed = |error: pmi::PmiError| Error::new(Class::Other, error.to_string());
    runtime.pmi.finalize().map_err(failed)
}

/// Registers the exit handler that finalizes the launcher and closes the transports.
///
/// A program with sessions may open another one until it ends, so neither can happen earlier. The
/// transports were opened before this registration, so exit handlers of their libraries run
/// afterwards. The handler does nothing in a forked child.
fn at_exit() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn finalize() {
        let own = PROCESS.load(Ordering::Relaxed) == std::process::id();
        if !own || runtime::running().is_some() {
            return;
        }
        if let Some(launcher) = LIBRARY.launcher.get()
            && !launcher.has_left()
            && (launcher.size() == 1 || ended_together(launcher))
        {
            // An error cannot be reported any more.
            let _ = launcher.finalize();
        }
        // Closing the transports also removes what a network keeps under this process's name.
        // SAFETY: no session and no world model is open, so no call of the program uses the
        // runtime, and `shut_down` has ended the library's threads.
        unsafe { runtime::discard() };
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: `finalize` takes no arguments, and this library is not unloaded before its exit
    // handlers have run.
    unsafe { libc::atexit(finalize) };
}

/// Waits for the other processes to end, too. Returns false at [`EXIT_LIMIT`]: they may never have
/// opened a session.
///
/// A process in a collective in which this one has done its part would take it for lost if it left
/// earlier.
fn ended_together(launcher: &Arc<Client>) -> bool {
    let (done, finished) = std::sync::mpsc::channel();
    let launcher = launcher.clone();
    let waiter = std::thread::Builder::new().spawn(move || {
        let _ = launcher.fence();
        let _ = done.send(());
    });
    let Ok(waiter) = waiter else { return false };
    if finished.recv_timeout(EXIT_LIMIT).is_err() {
        return false;
    }
    // Joins the thread, so that the process does not end while it runs.
    waiter.join().is_ok()
}

/// Closes the world model after all messages have left. MPI ends if no session is open.
pub fn stop() -> Result<()> {
    let runtime = runtime::runtime()?;
    if !runtime::advance(Phase::Running, Phase::Finalizing) {
        let why = match runtime::phase() {
            Phase::Finalizing => {
                "MPI_Finalize is already running; it can be called once only, by one thread, and not \
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

/// Ends the world model together with the other processes.
fn take_down(runtime: &Runtime) -> Result<()> {
    // Attributes go first, so that libraries can clean up while MPI works (section 8.7.1).
    runtime.self_comm.attributes.delete_all(&MPI_COMM_SELF)?;
    runtime.world.attributes.delete_all(&MPI_COMM_WORLD)?;
    runtime
        .process
        .source::<Polling>()
        .finish(&runtime.process)?;
    {
        // With the lock, since another thread may open a session, whose state stays.
        let users = LIBRARY.users.lock();
        if users.sessions == 0 {
            runtime.process.end_lockless();
            runtime.dynamic.ports.lock().clear();
        }
    }
    // MPI_Finalize is collective over all connected processes (section 10.5.4).
    mpi_comm::dynamic::part::finish_all(&runtime.process)?;
    // Messages of a session may be waiting for a receiver that `MPI_Finalize` must not wait for.
    // Another thread may open a session at any time.
    let has_sessions = || LIBRARY.users.lock().sessions > 0;
    let drain = || runtime.process.drain_unless(has_sessions);
    // All processes take part, whether they have sessions open or not.
    let together = mpi_coll::barrier(&runtime.process, &runtime.world.comm)
        .and_then(|()| drain())
        .and_then(|()| finalize_together(runtime));
    // After a loss, or if the world is revoked, processes leave separately and clean up what they
    // can.
    let alone = runtime.process.first_loss().is_some() || runtime.world.comm.is_revoked();
    if let Err(error) = together
        && !alone
    {
        return Err(error);
    }
    if alone {
        await_survivors(runtime);
    }
    // Taken only here: other threads may open sessions, on which other processes may wait before
    // they get here.
    let mut users = LIBRARY.users.lock();
    if users.sessions == 0 {
        leave(runtime)?;
    }
    users.world = false;
    runtime.set_world(false);
    runtime::set_phase(Phase::After);
    if users.sessions == 0 {
        let alone = runtime.process.first_loss().is_some() || runtime.world.comm.is_revoked();
        shut_down(runtime);
        if alone {
            // Survivors may still be at work and must not take this process for lost, so the
            // transports say goodbye.
            // SAFETY: the program has no calls under way (MPI-4.1 section 11.2.2), `shut_down` has
            // ended the library's threads, and `runtime` is not used from here on.
            unsafe { runtime::discard() };
        }
    }
    Ok(())
}

/// Waits for the surviving processes, up to [`EXIT_LIMIT`], when not all can leave together.
///
/// A process in a call in which this one has done its part would take it for lost if it left
/// earlier. A process that waits for this one, unaware of the loss, finds it gone afterwards.
fn await_survivors(runtime: &Runtime) {
    const FINAL_DRAIN: Duration = Duration::from_millis(100);
    let process = &runtime.process;
    let until = process.clock().now() + EXIT_LIMIT;
    let begun = mpi_comm::failure::start_agree(process, runtime.world.clone(), u32::MAX, |_| {});
    let Ok(request) = begun else { return };
    let is_over = || {
        let done = process.request(request).is_none_or(|one| one.is_done());
        Ok((done || process.clock().now() > until).then_some(()))
    };
    // This process leaves whether or not the wait succeeds.
    let _ = process.wait_ignoring_loss(0, is_over);
    let _ = process.drain_within(FINAL_DRAIN);
}

/// Waits until all processes have drained.
///
/// A process that passed the barrier has heard from all others, but these may still send to it
/// (returned credit, or the barrier's messages forwarded on a shared connection), for which its
/// connections must stay.
fn finalize_together(runtime: &Runtime) -> Result<()> {
    let failed = |error: pmi::PmiError| Error::new(Class::Other, error.to_string());
    if runtime.pmi.size() == 1 {
        return Ok(());
    }
    let transports = runtime.process.transports();
    if transports
        .iter()
        .skip(1)
        .all(|transport| transport.shared_memory().is_some())
    {
        // Messages are already in the receivers' memory: no process needs this one any more.
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
        // Another thread asks the launcher, because this one must keep receiving: a peer's last
        // messages count as sent only when received.
        let mut nap = Duration::from_micros(50);
        while !fence.is_finished() {
            // A peer lost at this point has left.
            if let Ok(true) = runtime.process.poll_all() {
                nap = Duration::from_micros(50);
            }
            std::thread::park_timeout(nap);
            // The nap grows, because ranks that share a core would keep it from the one that they
            // wait for.
            nap = (2 * nap).min(Duration::from_millis(10));
        }
        match fence.join() {
            Ok(result) => result.map_err(failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
