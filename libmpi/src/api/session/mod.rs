//! Sessions (MPI-4.1 section 11.3).

pub mod comm;
pub mod world;

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::destructors;
use mpi_runtime::handles::groups;
use mpi_runtime::handles::handler::Attached;
use mpi_runtime::handles::session_object::SessionObject;
use mpi_runtime::handles::sessions;
use mpi_runtime::lifecycle::init;
use mpi_runtime::lifecycle::psets;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::lifecycle::thread_level::ThreadLevel;
use mpi_runtime::requests::bsend::Buffered;
use mpi_runtime::settings::hints::MEMORY_KINDS;
use parking_lot::Mutex;

use super::errhandler::{call, demand_made_by};
use super::info::{give, write};
use super::null;
use crate::abi::{MPI_Errhandler, MPI_Group, MPI_Info, MPI_SESSION_NULL, MPI_Session};
use crate::args::{Late, Out};
use crate::binding::BINDING;
use crate::raise::On;

/// `MPI_Session_init` (MPI-4.1 section 11.3.1).
pub fn session_init(
    info: Option<&Info>,
    errhandler: Attached,
    session: Out<MPI_Session>,
) -> Result<()> {
    demand_made_by("MPI_Session_create_errhandler", &errhandler)?;
    let errhandler = Mutex::new(errhandler);
    let given = match info {
        Some(info) => info.get("thread_level")?,
        None => None,
    };
    let wanted = match given {
        None => ThreadLevel::Single,
        Some(name) => {
            let name = String::from_utf8_lossy(&name);
            ThreadLevel::named(name.trim()).ok_or_else(|| no_level(&name))?
        }
    };
    let thread_level = init::open_session(&BINDING, wanted)?;
    let made = sessions::insert(SessionObject {
        errhandler,
        bsend: Arc::new(Buffered::new(BINDING.bsend_overhead)),
        thread_level,
    });
    match made {
        Ok(handle) => {
            session.set(handle);
            Ok(())
        }
        Err(error) => init::close_session().and(Err(error)),
    }
}

#[cold]
fn no_level(name: &str) -> Error {
    let all = ThreadLevel::ALL.map(ThreadLevel::name).join(", ");
    let why = format!("the value of key \"thread_level\" is \"{name}\"; it can be {all}");
    Error::new(Class::InfoValue, why)
}

/// `MPI_Session_finalize` (MPI-4.1 section 11.3.1).
pub fn session_finalize(session: &mut MPI_Session) -> Result<()> {
    sessions::remove(*session)?;
    *session = MPI_SESSION_NULL;
    let closed = init::close_session();
    destructors::run();
    closed
}

/// `MPI_Session_get_info` (MPI-4.1 section 11.3.4).
pub fn session_get_info(session: &SessionObject, info_used: Out<MPI_Info>) -> Result<()> {
    let info = Info::new();
    info.set("thread_level", session.thread_level.name())?;
    info.set("mpi_memory_alloc_kinds", MEMORY_KINDS)?;
    give(info, info_used)
}

/// `MPI_Session_get_num_psets` (MPI-4.1 section 11.3.2).
pub fn session_get_num_psets(
    _: &SessionObject,
    _: Option<&Info>,
    npset_names: Out<c_int>,
) -> Result<()> {
    npset_names.set(psets::psets(runtime()?)?.len() as c_int);
    Ok(())
}

/// `MPI_Session_get_nth_pset` (MPI-4.1 section 11.3.2): as much of the name as fits in `pset_len`
/// characters, with a NUL; `pset_len` becomes the length of the whole.
pub unsafe fn session_get_nth_pset(
    _: &SessionObject,
    _: Option<&Info>,
    n: c_int,
    pset_len: &mut c_int,
    pset_name: *mut c_char,
) -> Result<()> {
    let all = psets::psets(runtime()?)?;
    let found = usize::try_from(n).ok().and_then(|n| all.get(n));
    let Some((name, _)) = found else {
        let why = format!(
            "n is {n}; it must be from 0 to {}, below the number of MPI_Session_get_num_psets",
            all.len() - 1
        );
        return Err(Error::new(Class::Arg, why));
    };
    let room = usize::try_from(*pset_len).map_err(|_| {
        let why = format!("*pset_len is {pset_len}; it must be 0 or more");
        Error::new(Class::Arg, why)
    })?;
    if room > 0 {
        if pset_name.is_null() {
            return Err(null("pset_name"));
        }
        // SAFETY: `pset_name` is not NULL and has room for `*pset_len` characters (strings, chapter of
        // the module `api`).
        unsafe { write(pset_name, &name.as_bytes()[..name.len().min(room - 1)]) };
    }
    *pset_len = name.len() as c_int + 1;
    Ok(())
}

/// `MPI_Session_get_pset_info` (MPI-4.1 section 11.3.4).
pub fn session_get_pset_info(
    _: &SessionObject,
    pset_name: &CStr,
    info: Out<MPI_Info>,
) -> Result<()> {
    let pset = psets::pset(runtime()?, pset_name.to_bytes())?;
    let size = pset.group(runtime()?)?.size();
    let told = Info::new();
    told.set("mpi_size", size.to_string())?;
    give(told, info)
}

/// `MPI_Group_from_session_pset` (MPI-4.1 section 7.3.2).
pub fn group_from_session_pset(
    Late(session, call): Late<MPI_Session>,
    pset_name: &CStr,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    let pset = psets::pset(runtime()?, pset_name.to_bytes())?;
    sessions::get(session, call)?;
    let group = pset.group(runtime()?)?;
    newgroup.set(groups::insert_of(group, session)?);
    Ok(())
}

/// `MPI_Session_set_errhandler` (MPI-4.1 section 9.3.4).
pub fn session_set_errhandler(session: &SessionObject, errhandler: Attached) -> Result<()> {
    demand_made_by("MPI_Session_create_errhandler", &errhandler)?;
    let before = std::mem::replace(&mut *session.errhandler.lock(), errhandler);
    drop(before);
    destructors::run();
    Ok(())
}

/// `MPI_Session_get_errhandler` (MPI-4.1 section 9.3.4).
pub fn session_get_errhandler(
    session: &SessionObject,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    let attached = session.errhandler.lock().clone();
    errhandler.set(attached.handle());
    Ok(())
}

/// `MPI_Session_call_errhandler` (MPI-4.1 section 9.5).
pub fn session_call_errhandler(
    Late(session, in_call): Late<MPI_Session>,
    errorcode: c_int,
) -> Result<()> {
    sessions::get(session, in_call)?;
    call(
        "MPI_Session_call_errhandler",
        On::Session(session),
        errorcode,
    )
}
