//! Bringing MPI up and taking it down (section 8.7): what stands above all else.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;
use pmi::Client;

use crate::abi::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
};
use crate::bsend::Buffered;
use crate::comms::CommObject;
use crate::errhandler::RETURN;
use crate::handles::{HandleTable, Type};
use crate::runtime::{self, Phase, Runtime};
use crate::settings::{Info, Settings};
use crate::{apart, bootstrap, fatal, helper, identity, infos, report, settings, tool, wins};

/// Brings MPI up.
pub fn start(thread_level: c_int, threaded: bool) -> Result<()> {
    if runtime::phase() != Phase::Before {
        let why = "MPI_Init and MPI_Init_thread can be called once only, by one thread";
        return Err(Error::new(Class::Other, why));
    }
    apart::check()?;
    let failed = |why: String| Error::new(Class::Other, why);
    let settings = Settings::from_env().map_err(failed)?;
    let variable = |name: &str| match settings::raw(name) {
        Some(value) => Some(value.into()),
        None => std::env::var_os(name),
    };
    let pmi = Arc::new(Client::connect(variable).map_err(|error| failed(error.to_string()))?);
    let (rank, size) = (pmi.rank(), pmi.size());
    identity::set(rank as usize, size as usize);
    fatal::set_launcher(pmi.clone());
    let threaded = threaded || tool::wants_locks() || settings.async_progress;
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
    let runtime = Runtime {
        process: started.process,
        pmi,
        world: Arc::new(CommObject::new(world, MPI_COMM_WORLD)),
        self_comm: Arc::new(CommObject::new(self_comm, MPI_COMM_SELF)),
        self_handler_chosen: AtomicBool::new(false),
        comms: HandleTable::new(Type::Comm),
        node: started.node,
        thread_level,
        main_thread: std::thread::current().id(),
        dup_vcis: settings.dup_vcis,
        shared_alloc: settings.alloc_shared && size > 1,
        file_errhandler: Mutex::new(RETURN),
        messages: HandleTable::new(Type::Message),
        requests: HandleTable::new(Type::Request),
        bsend: Buffered::default(),
        pieces: Mutex::default(),
        progress_thread: Mutex::new(None),
    };
    infos::set_env(size, level_name(thread_level));
    runtime::install(runtime);
    if settings.async_progress {
        helper::start(runtime::runtime()?)?;
    }
    runtime::set_phase(Phase::Running);
    report::install();
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
    let runtime = runtime::runtime()?;
    if !runtime::advance(Phase::Running, Phase::Finalizing) {
        let why = "MPI_Finalize is at work already; it can be called once only, by one thread, and not \
                   by the delete callback of an attribute that it deletes";
        return Err(Error::new(Class::Other, why));
    }
    let ended = take_down(runtime);
    if ended.is_err() {
        runtime::set_phase(Phase::Running);
        return ended;
    }
    runtime::set_phase(Phase::After);
    report::uninstall();
    // SAFETY: the thread of asynchronous progress has ended, and no call may overlap with
    // MPI_Finalize.
    unsafe { runtime::uninstall() };
    Ok(())
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
    wins::forget();
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
