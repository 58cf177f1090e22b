//! Info objects by handle.

use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use crate::settings;
use crate::settings::hints::MEMORY_KINDS;
use crate::settings::text;
use mpi_core::info::{Environment, Info};
use mpi_core::{Class, Error, Result};
use pmi::Launch;

use crate::handles::handler;
use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_INFO_ENV, MPI_INFO_NULL, MPI_Info};
use crate::lifecycle::identity;
use crate::lifecycle::library::LIBRARY;
use crate::lifecycle::thread_level::ThreadLevel;

/// Fills `MPI_INFO_ENV` (MPI-5.0 11.2.1); the first call counts.
pub fn set_env(size: u32, thread_level: ThreadLevel) {
    LIBRARY
        .env_info
        .get_or_init(|| Info::environment(&start(Vec::new(), Some(size), thread_level)));
}

/// Creates an info object with the values of `MPI_INFO_ENV`, before `MPI_Init` with the values that
/// it would set (MPI-5.0 chapter 10). `words` are the program and its arguments, if the program
/// passes them.
pub fn environment(words: Vec<Vec<u8>>) -> Info {
    let known = LIBRARY.env_info.get();
    let size = LIBRARY.rank_and_size.get().map(|(_, size)| *size as u32);
    let level = known.and_then(|known| ThreadLevel::named(&known.hint("thread_level")?));
    Info::environment(&start(
        words,
        size.or_else(launched_size),
        level.unwrap_or(ThreadLevel::Single),
    ))
}

/// Returns the number of processes from the launcher's variables, before the first message to the
/// launcher.
fn launched_size() -> Option<u32> {
    match pmi::detect(settings::environment).ok()? {
        Launch::Socket { size, .. } => Some(size),
        Launch::Alone => Some(1),
        Launch::Port { .. } | Launch::Pmix => {
            let count = settings::raw("WEFT_APP_SIZE")?.parse().ok();
            count.filter(|count| *count >= 1)
        }
    }
}

fn start(words: Vec<Vec<u8>>, size: Option<u32>, thread_level: ThreadLevel) -> Environment {
    let words = if words.is_empty() {
        std::env::args_os().map(OsStringExt::into_vec).collect()
    } else {
        words
    };
    let mut words = words.into_iter();
    let wdir = std::env::current_dir().ok();
    Environment {
        command: words.next(),
        argv: words.collect(),
        maxprocs: size.map(command_size),
        soft: spawn_key("WEFT_APP_SOFT"),
        file: spawn_key("WEFT_APP_FILE"),
        host: Some(text::bytes(&identity::host())),
        arch: Some(std::env::consts::ARCH.into()),
        wdir: wdir.map(|wdir| wdir.into_os_string().into_vec()),
        mpi_initial_errhandler: Some(handler::initial_name()),
        mpi_memory_alloc_kinds: Some(MEMORY_KINDS),
        thread_level: Some(thread_level.name()),
    }
}

/// Returns the value of a key of the `MPI_Comm_spawn` that started this process, which the launcher
/// sets in this variable.
fn spawn_key(variable: &str) -> Option<Vec<u8>> {
    std::env::var_os(variable).map(OsStringExt::into_vec)
}

/// Returns the number of the job's processes that run this one's command.
///
/// Weft's launcher reports it; jobs of other launchers are assumed to have one command. With
/// several commands the values are those "that affect the local MPI process" (MPI-3.1 section 8.7).
fn command_size(size: u32) -> u32 {
    let reported = settings::raw("WEFT_APP_SIZE").and_then(|text| text.parse().ok());
    reported
        .filter(|count| (1..=size).contains(count))
        .unwrap_or(size)
}

/// Returns the info object behind a handle.
pub fn get<'c>(handle: MPI_Info, call: InCall<'c>) -> Result<&'c Info> {
    match LIBRARY.infos.get(handle, call) {
        Some(info) => Ok(info),
        None if handle == MPI_INFO_ENV => LIBRARY
            .env_info
            .get()
            .ok_or_else(|| Error::new(Class::Info, "MPI_INFO_ENV exists only after MPI_Init")),
        None => Err(invalid(handle)),
    }
}

/// Returns the info object behind a handle, for a change.
pub fn get_mut<'c>(handle: MPI_Info, call: InCall<'c>) -> Result<&'c Info> {
    if handle == MPI_INFO_ENV {
        return Err(constant());
    }
    get(handle, call)
}

/// Returns the hints of the program: `None` for `MPI_INFO_NULL`.
pub fn hints<'c>(handle: MPI_Info, call: InCall<'c>) -> Result<Option<&'c Info>> {
    if handle == MPI_INFO_NULL {
        Ok(None)
    } else {
        get(handle, call).map(Some)
    }
}

/// Inserts an info object, to be freed by the program. Returns its handle.
pub fn insert(info: Info) -> Result<MPI_Info> {
    LIBRARY.infos.insert(Arc::new(info)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 info handles are in use; free some",
        )
    })
}

/// Frees a handle.
pub fn remove(handle: MPI_Info) -> Result<()> {
    if handle == MPI_INFO_ENV {
        return Err(constant());
    }
    LIBRARY
        .infos
        .remove(handle)
        .map(drop)
        .ok_or_else(|| invalid(handle))
}

#[cold]
fn constant() -> Error {
    Error::new(
        Class::Info,
        "MPI_INFO_ENV can only be read; MPI_Info_dup makes a copy to change",
    )
}

#[cold]
fn invalid(handle: MPI_Info) -> Error {
    let what = if handle == MPI_INFO_NULL {
        "info is MPI_INFO_NULL".to_string()
    } else {
        format!("info object {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Info, what)
}
