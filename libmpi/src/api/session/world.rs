//! Start and end of MPI, and inquiry (sections 8.1, 8.7, 12.4.3).

use std::ffi::{c_char, c_int};

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::destructors;
use mpi_runtime::lifecycle::fatal;
use mpi_runtime::lifecycle::identity;
use mpi_runtime::lifecycle::init;
use mpi_runtime::lifecycle::runtime::{Phase, Runtime, phase, runtime};
use mpi_runtime::lifecycle::thread_level::ThreadLevel;
use mpi_runtime::settings::text;

use crate::abi::{MPI_Comm, MPI_MAX_PROCESSOR_NAME};
use crate::args::{Late, Out, OutText};
use crate::binding::BINDING;
use crate::thread_levels;

/// `MPI_Init` (section 8.7).
pub unsafe fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    init::start(&BINDING, ThreadLevel::Single)
}

/// `MPI_Init_thread` (section 12.4.3). Provides the requested level.
pub fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Out<c_int>,
) -> Result<()> {
    let level = thread_levels::granting(required).ok_or_else(|| {
        Error::new(
            Class::Arg,
            format!(
                "required is {required}; it must be MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, \
                 MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE"
            ),
        )
    })?;
    init::start(&BINDING, level)?;
    provided.set(thread_levels::number(level));
    Ok(())
}

/// `MPI_Finalize` (section 8.7).
pub fn finalize() -> Result<()> {
    init::stop()?;
    destructors::run();
    Ok(())
}

/// `MPI_Initialized` (section 8.7).
pub fn initialized(flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(phase() != Phase::Before));
    Ok(())
}

/// `MPI_Finalized` (section 8.7).
pub fn finalized(flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(phase() == Phase::After));
    Ok(())
}

/// `MPI_Abort` (MPI-5.0 section 11.4.2): ends all processes of the job or, if the launcher lets
/// others survive, those of the communicator.
pub fn abort(Late(comm, call): Late<MPI_Comm>, errorcode: c_int) -> Result<()> {
    let runtime = runtime()?;
    let name = runtime
        .comm(comm, call)
        .map(|comm| comm.comm.name())
        .unwrap_or_default();
    fatal::complain(&format!(
        "Weft: MPI_Abort was called with error code {errorcode} on {} by {}\n",
        if name.is_empty() {
            "a communicator"
        } else {
            &name
        },
        identity::Identity
    ));
    match runtime.comm(comm, call) {
        Ok(comm) => fatal::abort_on(&comm.comm, errorcode),
        Err(_) => fatal::abort(errorcode),
    }
}

/// Returns the runtime, if `MPI_Init` has been called.
fn world_runtime() -> Result<&'static Runtime> {
    let runtime = runtime()?;
    if runtime.has_world() {
        return Ok(runtime);
    }
    let why = "it was called outside of MPI_Init and MPI_Finalize; MPI_Session_get_info tells the \
               thread level of a session";
    Err(Error::new(Class::Other, why))
}

/// `MPI_Query_thread` (section 12.4.3).
pub fn query_thread(provided: Out<c_int>) -> Result<()> {
    let level = *world_runtime()?.thread_level.lock();
    provided.set(thread_levels::number(level));
    Ok(())
}

/// `MPI_Is_thread_main` (section 12.4.3).
pub fn is_thread_main(flag: Out<c_int>) -> Result<()> {
    let main = *world_runtime()?.main_thread.lock() == Some(std::thread::current().id());
    flag.set(c_int::from(main));
    Ok(())
}

/// `MPI_Get_processor_name` (section 8.1): the name of the node.
pub fn get_processor_name(
    name: OutText<MPI_MAX_PROCESSOR_NAME>,
    resultlen: Out<c_int>,
) -> Result<()> {
    runtime()?;
    let host = text::bytes(&identity::host());
    let host = text::beginning(&host, MPI_MAX_PROCESSOR_NAME as usize - 1);
    name.set(&host, &resultlen)
}
