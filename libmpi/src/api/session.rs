//! Sessions (MPI-4.1 section 11.3).

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use super::info::{give, text, write};
use super::{null, put};
use crate::abi::{
    MPI_Errhandler, MPI_Group, MPI_Info, MPI_SESSION_NULL, MPI_Session,
    MPI_Session_errhandler_function, MPI_THREAD_SINGLE,
};
use crate::errhandler::{self, Attached, Handler};
use crate::hints::MEMORY_KINDS;
use crate::raise::{self, On};
use crate::runtime::runtime;
use crate::sessions::{self, LEVELS, PSETS, SessionObject};
use crate::{groups, infos, init};

/// An error handler that fits a session.
fn fitting(errhandler: MPI_Errhandler) -> Result<Attached> {
    let attached = errhandler::attach(errhandler)?;
    match attached.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Session(_) => Ok(attached),
        Handler::Comm(_) | Handler::Win(_) | Handler::File(_) => Err(Error::new(
            Class::Errhandler,
            "the error handler was made for another kind of object; make one by \
             MPI_Session_create_errhandler",
        )),
    }
}

/// `MPI_Session_init` (MPI-4.1 section 11.3.1).
pub unsafe fn session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> Result<()> {
    let hints = infos::hints(info)?;
    let errhandler = Mutex::new(fitting(errhandler)?);
    if session.is_null() {
        return Err(null("session"));
    }
    let wanted = hints.and_then(|hints: &Info| hints.hint("thread_level"));
    let wanted = LEVELS
        .iter()
        .find(|(name, _)| wanted.as_deref() == Some(*name));
    let wanted = wanted.map_or(MPI_THREAD_SINGLE, |(_, level)| *level);
    let thread_level = init::open_session(wanted)?;
    let made = sessions::insert(SessionObject {
        errhandler,
        bsend: Arc::default(),
        thread_level,
    });
    match made {
        // SAFETY: the caller's contract.
        Ok(handle) => unsafe { put(session, "session", handle) },
        Err(error) => init::close_session().and(Err(error)),
    }
}

/// `MPI_Session_finalize` (MPI-4.1 section 11.3.1).
pub unsafe fn session_finalize(session: *mut MPI_Session) -> Result<()> {
    // SAFETY: the caller's contract.
    let Some(handle) = (unsafe { session.as_mut() }) else {
        return Err(null("session"));
    };
    sessions::remove(*handle)?;
    *handle = MPI_SESSION_NULL;
    init::close_session()
}

/// `MPI_Session_get_info` (MPI-4.1 section 11.3.4).
pub unsafe fn session_get_info(session: MPI_Session, info_used: *mut MPI_Info) -> Result<()> {
    let level = sessions::get(session)?.thread_level;
    let info = Info::new();
    if let Some((name, _)) = LEVELS.iter().find(|(_, known)| *known == level) {
        info.set("thread_level", name)?;
    }
    info.set("mpi_memory_alloc_kinds", MEMORY_KINDS)?;
    // SAFETY: the caller's contract.
    unsafe { give(info, info_used, "info_used") }
}

/// `MPI_Session_get_num_psets` (MPI-4.1 section 11.3.2).
pub unsafe fn session_get_num_psets(
    session: MPI_Session,
    info: MPI_Info,
    npset_names: *mut c_int,
) -> Result<()> {
    sessions::get(session)?;
    infos::hints(info)?;
    // SAFETY: the caller's contract.
    unsafe { put(npset_names, "npset_names", PSETS.len() as c_int) }
}

/// `MPI_Session_get_nth_pset` (MPI-4.1 section 11.3.2): as much of the name as fits in `pset_len`
/// characters, with the NUL behind it; `pset_len` becomes what the whole would take.
///
/// # Safety
/// `pset_name` has room for `pset_len` characters, or is NULL, as may be `pset_len`.
pub unsafe fn session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> Result<()> {
    sessions::get(session)?;
    infos::hints(info)?;
    let found = usize::try_from(n).ok().and_then(|n| PSETS.get(n));
    let Some((name, _)) = found else {
        let why = format!(
            "n is {n}; it must be from 0 to {}, less than MPI_Session_get_num_psets tells",
            PSETS.len() - 1
        );
        return Err(Error::new(Class::Arg, why));
    };
    // SAFETY: the caller's contract.
    let Some(pset_len) = (unsafe { pset_len.as_mut() }) else {
        return Err(null("pset_len"));
    };
    let room = usize::try_from(*pset_len).map_err(|_| {
        let why = format!("*pset_len is {pset_len}; it must be 0 or more");
        Error::new(Class::Arg, why)
    })?;
    if room > 0 {
        if pset_name.is_null() {
            return Err(null("pset_name"));
        }
        // SAFETY: the caller's contract.
        unsafe { write(pset_name, &name.as_bytes()[..name.len().min(room - 1)]) };
    }
    *pset_len = name.len() as c_int + 1;
    Ok(())
}

/// `MPI_Session_get_pset_info` (MPI-4.1 section 11.3.4).
///
/// # Safety
/// `pset_name` is a string or NULL.
pub unsafe fn session_get_pset_info(
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    sessions::get(session)?;
    // SAFETY: the caller's contract.
    let pset = sessions::pset(unsafe { text(pset_name, "pset_name", Class::Arg)? })?;
    let size = pset.group(runtime()?)?.size();
    let told = Info::new();
    told.set("mpi_size", size.to_string())?;
    // SAFETY: the caller's contract.
    unsafe { give(told, info, "info") }
}

/// `MPI_Group_from_session_pset` (MPI-4.1 section 7.3.2).
///
/// # Safety
/// `pset_name` is a string or NULL.
pub unsafe fn group_from_session_pset(
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    sessions::get(session)?;
    if newgroup.is_null() {
        return Err(null("newgroup"));
    }
    // SAFETY: the caller's contract.
    let pset = sessions::pset(unsafe { text(pset_name, "pset_name", Class::Arg)? })?;
    let group = pset.group(runtime()?)?;
    // SAFETY: the caller's contract.
    unsafe { put(newgroup, "newgroup", groups::insert_of(group, session)?) }
}

/// `MPI_Session_create_errhandler` (MPI-4.1 section 9.3.4).
///
/// # Safety
/// The function is one as the standard says; `errhandler` is valid or NULL.
pub unsafe fn session_create_errhandler(
    function: Option<MPI_Session_errhandler_function>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let function = function.ok_or_else(|| null("session_errhandler_fn"))?;
    if errhandler.is_null() {
        return Err(null("errhandler"));
    }
    let handle = errhandler::make(Handler::Session(function))?;
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", handle) }
}

/// `MPI_Session_set_errhandler` (MPI-4.1 section 9.3.4).
pub fn session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> Result<()> {
    let object = sessions::get(session)?;
    *object.errhandler.lock() = fitting(errhandler)?;
    Ok(())
}

/// `MPI_Session_get_errhandler` (MPI-4.1 section 9.3.4).
pub unsafe fn session_get_errhandler(
    session: MPI_Session,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let attached = sessions::get(session)?.errhandler.lock().clone();
    if errhandler.is_null() {
        return Err(null("errhandler"));
    }
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", attached.handle()) }
}

/// `MPI_Session_call_errhandler` (MPI-4.1 section 9.5).
pub fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<()> {
    sessions::get(session)?;
    let detail = "the program called the error handler with this code";
    raise::raise(
        Error::new(Class::User(errorcode), detail),
        "MPI_Session_call_errhandler",
        On::Session(session),
        &[],
    );
    Ok(())
}
